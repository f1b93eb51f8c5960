//! Subresources behind which a kubelet or a pod answers: logs, shells, forwarded ports, proxies. This server knows no way to
//! either yet. It says so, after everything that it can judge by itself: the object, its node, the container.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/> (the `connect` operations)

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use pilothouse_api::Status;

use super::Request;
use crate::{discovery::Row, registry::Resource, state::State};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connect {
    /// The path element.
    pub(crate) name: &'static str,
    /// The kind of its options.
    kind: &'static str,
    verbs: &'static [&'static str],
}

const GET: &[&str] = &["get"];
const STREAM: &[&str] = &["create", "get"];
const ANY: &[&str] = &["create", "delete", "get", "patch", "update"];

const OF_PODS: [Connect; 5] = [
    connect("attach", "PodAttachOptions", STREAM),
    connect("exec", "PodExecOptions", STREAM),
    connect("log", "", GET),
    connect("portforward", "PodPortForwardOptions", STREAM),
    connect("proxy", "PodProxyOptions", ANY),
];
const OF_NODES: [Connect; 1] = [connect("proxy", "NodeProxyOptions", ANY)];
const OF_SERVICES: [Connect; 1] = [connect("proxy", "ServiceProxyOptions", ANY)];

const fn connect(
    name: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
) -> Connect {
    Connect { name, kind, verbs }
}

impl Connect {
    /// Those of a resource.
    fn of(resource: &Resource) -> &'static [Self] {
        let gvr = &resource.info.gvr;
        match (&*gvr.group, &*gvr.resource) {
            ("", "pods") => &OF_PODS,
            ("", "nodes") => &OF_NODES,
            ("", "services") => &OF_SERVICES,
            _ => &[],
        }
    }

    pub(crate) fn find(resource: &Resource, name: &str) -> Option<Self> {
        Self::of(resource).iter().find(|c| c.name == name).copied()
    }

    pub(crate) fn allows(self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// How discovery lists those of a resource.
    pub(crate) fn rows(resource: &Resource) -> impl Iterator<Item = Row> {
        Self::of(resource).iter().map(|connect| Row {
            name: connect.name.to_owned(),
            kind: connect.kind,
            group_version: None,
            verbs: connect.verbs,
        })
    }
}

/// Why nobody answers.
pub(crate) async fn refusal(
    state: &State,
    resource: &Arc<Resource>,
    request: &Request<'_>,
    connect: Connect,
) -> Status {
    let (namespace, name) = request.key(resource);
    let found = state.registry.get(resource, namespace, name, "").await;
    let object = match found.and_then(|object| resource.strategy.decode(&object.bytes)) {
        Ok(object) => object,
        Err(status) => return status,
    };
    let unreachable = |what: &str| {
        Status::new(
            501,
            "NotImplemented",
            format!(
                "this server has no connection to {what}: logs, exec, attach, port-forward and proxy need a real kubelet, \
                 which simulated nodes do not have"
            ),
        )
    };
    let Some(pod) = object.downcast_ref::<Pod>() else {
        return match &*resource.info.gvr.resource {
            "nodes" => unreachable(&format!("the kubelet of node {name:?}")),
            _ => unreachable(&format!("the endpoints of service {name:?}")),
        };
    };
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    if matches!(connect.name, "attach" | "exec" | "log")
        && let Err(status) = container(name, spec, request.query.get("container"))
    {
        return status;
    }
    match spec.node_name.as_deref().unwrap_or_default() {
        "" => Status::bad_request(format!("pod {name} does not have a host assigned")),
        node => unreachable(&format!(
            "the kubelet of node {node:?}, on which pod {name:?} is"
        )),
    }
}

/// Which container is meant: the one that is named, or the only one.
fn container(pod: &str, spec: &PodSpec, asked: Option<&str>) -> Result<(), Status> {
    let names = |containers: &mut dyn Iterator<Item = &String>| -> Vec<String> {
        containers.cloned().collect()
    };
    let main = names(&mut spec.containers.iter().map(|c| &c.name));
    let init = names(&mut spec.init_containers.iter().flatten().map(|c| &c.name));
    let ephemeral = names(&mut spec.ephemeral_containers.iter().flatten().map(|c| &c.name));
    match asked.filter(|name| !name.is_empty()) {
        Some(asked) => {
            let mut all = main.iter().chain(&init).chain(&ephemeral);
            match all.any(|name| name == asked) {
                true => Ok(()),
                false => Err(Status::bad_request(format!(
                    "container {asked} is not valid for pod {pod}"
                ))),
            }
        }
        None if main.len() == 1 => Ok(()),
        None => {
            let mut message = format!(
                "a container name must be specified for pod {pod}, choose one of: [{}]",
                main.join(" ")
            );
            if !init.is_empty() {
                message.push_str(&format!(
                    " or one of the init containers: [{}]",
                    init.join(" ")
                ));
            }
            Err(Status::bad_request(message))
        }
    }
}
