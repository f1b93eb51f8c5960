//! A pod as the scheduler sees it: parsed once when it comes, then shared.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use k8s_openapi::{api::core::v1 as k8s, apimachinery::pkg::apis::meta::v1::OwnerReference};
use pilothouse_api::{Kind, Revision, Status};
use pilothouse_plugin::scheduler::types;

use crate::requests::{Requests, quantities};

/// The uid, which tells a pod from another of the same name.
pub type Uid = Arc<str>;

/// A pod. `record` and `assigned` are what plugins see of it before and after it has a node; both are whole, projections are
/// made for each component.
#[derive(Clone, Debug)]
pub struct PodInfo {
    pub uid: Uid,
    pub revision: Revision,
    pub scheduler_name: String,
    /// Empty without.
    pub node_name: String,
    /// Whether scheduling gates hold it back.
    pub gated: bool,
    pub deleting: bool,
    /// Succeeded or Failed: it uses nothing any more.
    pub terminal: bool,
    pub record: types::Pod,
    pub assigned: types::AssignedPod,
    pub json: Bytes,
    /// Reason and message of the condition `PodScheduled`, if it is False.
    pub unscheduled: Option<(String, String)>,
}

/// `namespace/name`, for messages.
impl fmt::Display for PodInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.record.namespace, self.record.name)
    }
}

impl PodInfo {
    /// From an object's JSON.
    pub fn parse(revision: Revision, json: Bytes) -> Result<Self, Status> {
        let pod = k8s::Pod::decode(&json)?;
        let requests = Requests::of(&pod);
        let meta = pod.metadata;
        let spec = pod.spec.unwrap_or_default();
        let status = pod.status.unwrap_or_default();

        let uid: Uid = meta.uid.unwrap_or_default().into();
        let namespace = meta.namespace.unwrap_or_default();
        let name = meta.name.unwrap_or_default();
        let labels: Vec<_> = meta.labels.unwrap_or_default().into_iter().collect();
        let host_ports = host_ports(&spec);
        let requested = quantities(&requests.all);
        let nonzero = quantities(&requests.nonzero);
        let node_name = spec.node_name.unwrap_or_default();
        let deleting = meta.deletion_timestamp.is_some();
        let affinity = spec
            .affinity
            .and_then(|a| a.node_affinity)
            .unwrap_or_default();
        let priority = spec.priority.unwrap_or_default();
        let unscheduled = status
            .conditions
            .unwrap_or_default()
            .into_iter()
            .find(|c| c.type_ == "PodScheduled" && c.status == "False")
            .map(|c| (c.reason.unwrap_or_default(), c.message.unwrap_or_default()));

        Ok(Self {
            assigned: types::AssignedPod {
                uid: uid.to_string(),
                namespace: namespace.clone(),
                name: name.clone(),
                labels: labels.clone(),
                priority,
                requests: requested.clone(),
                nonzero_requests: nonzero.clone(),
                host_ports: host_ports.clone(),
                deleting,
                json: None,
            },
            record: types::Pod {
                uid: uid.to_string(),
                namespace,
                name,
                labels,
                priority,
                node_name: node_name.clone(),
                nominated_node_name: status.nominated_node_name.unwrap_or_default(),
                owner: owner(meta.owner_references.unwrap_or_default()),
                requests: requested,
                nonzero_requests: nonzero,
                host_ports,
                node_selector: spec.node_selector.unwrap_or_default().into_iter().collect(),
                required_node_affinity: affinity
                    .required_during_scheduling_ignored_during_execution
                    .map(|required| required.node_selector_terms.into_iter().map(term).collect()),
                preferred_node_affinity: affinity
                    .preferred_during_scheduling_ignored_during_execution
                    .unwrap_or_default()
                    .into_iter()
                    .map(|preferred| types::PreferredSchedulingTerm {
                        weight: preferred.weight,
                        preference: term(preferred.preference),
                    })
                    .collect(),
                tolerations: spec
                    .tolerations
                    .unwrap_or_default()
                    .into_iter()
                    .filter_map(toleration)
                    .collect(),
                images: spec
                    .containers
                    .into_iter()
                    .filter_map(|c| c.image)
                    .collect(),
                json: None,
            },
            uid,
            revision,
            scheduler_name: spec
                .scheduler_name
                .unwrap_or_else(|| "default-scheduler".to_owned()),
            node_name,
            gated: spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()),
            deleting,
            terminal: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            json,
            unscheduled,
        })
    }

    /// Whether a change of the pod may let it be scheduled: not one of its status alone.
    pub(crate) fn asks_the_same(&self, other: &Self) -> bool {
        self.gated == other.gated && self.record == other.record
    }
}

/// The effect of a taint or toleration; one that the interface does not know is `None`.
pub(crate) fn effect(text: &str) -> Option<types::Effect> {
    match text {
        "NoSchedule" => Some(types::Effect::NoSchedule),
        "PreferNoSchedule" => Some(types::Effect::PreferNoSchedule),
        "NoExecute" => Some(types::Effect::NoExecute),
        _ => None,
    }
}

fn owner(references: Vec<OwnerReference>) -> Option<types::Owner> {
    let controller = references
        .into_iter()
        .find(|r| r.controller == Some(true))?;
    Some(types::Owner {
        kind: controller.kind,
        name: controller.name,
        uid: controller.uid,
    })
}

/// Of containers and of sidecars; init containers are gone before the pod serves.
fn host_ports(spec: &k8s::PodSpec) -> Vec<types::HostPort> {
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|c| c.restart_policy.as_deref() == Some("Always"));
    spec.containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            let number = u16::try_from(port.host_port?).ok().filter(|&n| n > 0)?;
            let ip = port.host_ip.as_deref().unwrap_or_default();
            Some(types::HostPort {
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                ip: if ip.is_empty() { "0.0.0.0" } else { ip }.to_owned(),
                port: number,
            })
        })
        .collect()
}

fn term(term: k8s::NodeSelectorTerm) -> types::NodeSelectorTerm {
    let requirements = |list: Option<Vec<k8s::NodeSelectorRequirement>>| {
        let list = list.unwrap_or_default();
        list.into_iter().map(requirement).collect()
    };
    types::NodeSelectorTerm {
        match_expressions: requirements(term.match_expressions),
        match_fields: requirements(term.match_fields),
    }
}

fn requirement(requirement: k8s::NodeSelectorRequirement) -> types::NodeSelectorRequirement {
    use types::NodeSelectorOperator as Operator;
    types::NodeSelectorRequirement {
        key: requirement.key,
        operator: match requirement.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::Gt,
            "Lt" => Operator::Lt,
            _ => Operator::Unknown,
        },
        values: requirement.values.unwrap_or_default(),
    }
}

/// `None` for one of an effect that the interface does not know: it tolerates nothing that there is.
fn toleration(toleration: k8s::Toleration) -> Option<types::Toleration> {
    let effect = match toleration.effect.as_deref() {
        None | Some("") => None,
        Some(text) => Some(effect(text)?),
    };
    Some(types::Toleration {
        key: toleration.key.unwrap_or_default(),
        operator: match toleration.operator.as_deref() {
            Some("Exists") => types::TolerationOperator::Exists,
            _ => types::TolerationOperator::Equal,
        },
        value: toleration.value.unwrap_or_default(),
        effect,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(pod: &Value) -> PodInfo {
        PodInfo::parse(Revision(5), pod.to_string().into()).unwrap()
    }

    #[test]
    fn reads_what_plugins_are_told() {
        let pod = parse(&json!({
            "metadata": {
                "name": "web-0", "namespace": "default", "uid": "u", "labels": { "b": "2", "a": "1" },
                "ownerReferences": [
                    { "apiVersion": "v1", "kind": "Other", "name": "x", "uid": "1" },
                    { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2", "controller": true },
                ],
            },
            "spec": {
                "priority": 7,
                "containers": [
                    { "name": "a", "image": "nginx", "ports": [
                        { "containerPort": 80 }, { "containerPort": 80, "hostPort": 8080 },
                    ] },
                ],
                "initContainers": [
                    { "name": "i", "ports": [{ "containerPort": 1, "hostPort": 1 }] },
                    { "name": "s", "restartPolicy": "Always", "ports": [
                        { "containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1" },
                    ] },
                ],
                "nodeSelector": { "disk": "ssd" },
                "tolerations": [{ "key": "k", "operator": "Exists", "effect": "NoExecute" }, { "key": "l", "value": "v" }],
                "affinity": { "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                        { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] },
                    ] },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        { "weight": 3, "preference": { "matchExpressions": [{ "key": "z", "operator": "Near" }] } },
                    ],
                } },
            },
            "status": { "phase": "Pending", "conditions": [
                { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1" },
            ] },
        }));
        assert_eq!(pod.to_string(), "default/web-0");
        assert_eq!(pod.scheduler_name, "default-scheduler");
        assert_eq!(
            pod.unscheduled,
            Some(("Unschedulable".into(), "0/1".into()))
        );
        assert!(!pod.gated && !pod.deleting && !pod.terminal);
        let record = &pod.record;
        assert_eq!(record.labels[0], ("a".into(), "1".into()));
        assert_eq!(record.priority, 7);
        assert_eq!(record.owner.as_ref().map(|o| o.uid.as_str()), Some("2"));
        let ports: Vec<_> = record
            .host_ports
            .iter()
            .map(|p| (p.protocol.as_str(), p.ip.as_str(), p.port))
            .collect();
        assert_eq!(ports, [("TCP", "0.0.0.0", 8080), ("UDP", "10.0.0.1", 53)]);
        assert_eq!(record.node_selector, [("disk".into(), "ssd".into())]);
        assert_eq!(record.tolerations[0].effect, Some(types::Effect::NoExecute));
        assert_eq!(
            record.tolerations[1].operator,
            types::TolerationOperator::Equal
        );
        let required = record.required_node_affinity.as_ref().unwrap();
        assert_eq!(required[0].match_fields[0].values, ["n"]);
        let preferred = &record.preferred_node_affinity[0];
        assert_eq!(
            preferred.preference.match_expressions[0].operator,
            types::NodeSelectorOperator::Unknown
        );
        assert_eq!(record.images, ["nginx"]);
    }

    #[test]
    fn a_change_of_status_asks_the_same() {
        let base = json!({ "metadata": { "name": "p" }, "spec": { "containers": [] } });
        let mut status = base.clone();
        status["status"] = json!({ "phase": "Pending", "message": "waiting" });
        let mut gated = base.clone();
        gated["spec"]["schedulingGates"] = json!([{ "name": "g" }]);
        let mut tolerant = base.clone();
        tolerant["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
        let base = parse(&base);
        for (other, same) in [(status, true), (gated, false), (tolerant, false)] {
            assert_eq!(base.asks_the_same(&parse(&other)), same, "{other}");
        }
    }

    #[test]
    fn what_is_no_pod_is_refused() {
        assert!(PodInfo::parse(Revision(1), Bytes::from_static(b"{\"spec\": 7}")).is_err());
    }
}
