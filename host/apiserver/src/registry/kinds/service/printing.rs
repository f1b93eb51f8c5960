//! What `kubectl get services` shows.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use serde_json::{Value, json};

use super::{CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, kind_of};
use crate::registry::{kinds::cells, printing::Column};

pub(super) fn columns() -> Vec<Column> {
    vec![
        Column::NAME,
        Column::string("Type", "How the Service is reached."),
        Column::string("Cluster-IP", "Address inside the cluster."),
        Column::string("External-IP", "Addresses or name outside the cluster."),
        Column::string("Port(s)", "Ports, and those of the nodes behind colons."),
        Column::AGE,
        Column::string("Selector", "Label selector of the pods behind the Service.").wide(),
    ]
}

pub(super) fn row(service: &Service, now: jiff::Timestamp) -> Vec<Value> {
    let empty = ServiceSpec::default();
    let spec = service.spec.as_ref().unwrap_or(&empty);
    let ip = spec.cluster_ips.as_ref().and_then(|ips| ips.first());
    vec![
        json!(service.metadata.name),
        json!(kind_of(spec)),
        json!(cells::or_none(ip.map_or("", String::as_str))),
        json!(external(service, spec)),
        json!(ports(spec.ports.as_deref().unwrap_or_default())),
        json!(cells::since(
            service.metadata.creation_timestamp.as_ref(),
            now
        )),
        json!(cells::labels(spec.selector.as_ref())),
    ]
}

fn external(service: &Service, spec: &ServiceSpec) -> String {
    let own = spec.external_ips.as_deref().unwrap_or_default();
    match kind_of(spec) {
        CLUSTER_IP | NODE_PORT => cells::or_none(&own.join(",")).to_owned(),
        EXTERNAL_NAME => spec.external_name.clone().unwrap_or_default(),
        LOAD_BALANCER => {
            let mut all = balanced(service);
            all.extend_from_slice(own);
            match all.is_empty() {
                true => "<pending>".to_owned(),
                false => all.join(","),
            }
        }
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses and names of the load balancer, sorted.
fn balanced(service: &Service) -> Vec<String> {
    let balancer = service
        .status
        .as_ref()
        .and_then(|s| s.load_balancer.as_ref());
    let ingress = balancer
        .and_then(|b| b.ingress.as_deref())
        .unwrap_or_default();
    let mut all: Vec<String> = ingress
        .iter()
        .filter_map(|i| i.ip.clone().or_else(|| i.hostname.clone()))
        .filter(|text| !text.is_empty())
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn ports(ports: &[ServicePort]) -> String {
    let shown: Vec<String> = ports
        .iter()
        .map(|port| {
            let protocol = port.protocol.as_deref().unwrap_or_default();
            match port.node_port.unwrap_or_default() {
                0 => format!("{}/{protocol}", port.port),
                node_port => format!("{}:{node_port}/{protocol}", port.port),
            }
        })
        .collect();
    cells::or_none(&shown.join(",")).to_owned()
}
