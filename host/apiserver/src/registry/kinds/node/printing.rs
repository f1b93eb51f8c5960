//! What `kubectl get nodes` shows.

use k8s_openapi::api::core::v1::{Node, NodeStatus};
use serde_json::{Value, json};

use super::super::cells;
use crate::registry::printing::Column;

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";
const UNKNOWN: &str = "<unknown>";

pub(super) fn columns() -> Vec<Column> {
    vec![
        Column::NAME,
        Column::string("Status", "The status of the node"),
        Column::string("Roles", "The roles of the node"),
        Column::AGE,
        Column::string("Version", "Version of the kubelet."),
        Column::string("Internal-IP", "Address inside the cluster.").wide(),
        Column::string("External-IP", "Address outside the cluster.").wide(),
        Column::string("OS-Image", "Operating system of the node.").wide(),
        Column::string("Kernel-Version", "Version of the node's kernel.").wide(),
        Column::string(
            "Container-Runtime",
            "Name and version of the container runtime.",
        )
        .wide(),
    ]
}

pub(super) fn row(node: &Node, now: jiff::Timestamp) -> Vec<Value> {
    let info = node.status.as_ref().and_then(|s| s.node_info.as_ref());
    let or_unknown = |text: Option<&String>| match text.map(String::as_str) {
        None | Some("") => json!(UNKNOWN),
        Some(text) => json!(text),
    };
    vec![
        json!(node.metadata.name),
        json!(status(node)),
        json!(roles(node)),
        json!(cells::since(node.metadata.creation_timestamp.as_ref(), now)),
        json!(info.map_or("", |i| &i.kubelet_version)),
        json!(address(node.status.as_ref(), "InternalIP")),
        json!(address(node.status.as_ref(), "ExternalIP")),
        or_unknown(info.map(|i| &i.os_image)),
        or_unknown(info.map(|i| &i.kernel_version)),
        or_unknown(info.map(|i| &i.container_runtime_version)),
    ]
}

/// `Ready`, `NotReady` or `Unknown`, and whether new pods are kept off.
fn status(node: &Node) -> String {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_deref());
    let ready = conditions
        .unwrap_or_default()
        .iter()
        .find(|c| c.type_ == "Ready");
    let mut status = match ready {
        Some(condition) if condition.status == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(node: &Node) -> String {
    let mut roles: Vec<&str> = node
        .metadata
        .labels
        .iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some("") => None,
            Some(role) => Some(role),
            None if key == ROLE_LABEL && !value.is_empty() => Some(value.as_str()),
            None => None,
        })
        .collect();
    roles.sort_unstable();
    roles.dedup();
    cells::or_none(&roles.join(",")).to_owned()
}

fn address<'a>(status: Option<&'a NodeStatus>, kind: &str) -> &'a str {
    status
        .and_then(|s| s.addresses.as_deref())
        .unwrap_or_default()
        .iter()
        .find(|a| a.type_ == kind)
        .map_or(cells::NONE, |a| a.address.as_str())
}
