//! Node objects: what is registered, what a heartbeat says, and the node's Lease.
//! Source: <https://kubernetes.io/docs/reference/node/node-status/>

use std::net::Ipv4Addr;

use pilothouse_sdk::objects::{
    Condition, MicroTime, ObjectMeta, Time, find_condition, null_as_default,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::Config;

pub(crate) const SIMULATED: &str = "pilothouse.dev/simulated";
const SILENT: &str = "pilothouse.dev/silent";
pub(crate) const LEASE_NAMESPACE: &str = "kube-node-lease";
pub(crate) const RENEW_MS: u64 = 10_000;
const LEASE_SECONDS: u32 = 40;
pub(crate) const STATUS_MS: u64 = 300_000;

/// The conditions of a healthy node: type, status, reason, message.
const CONDITIONS: [[&str; 4]; 4] = [
    [
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ],
    [
        "DiskPressure",
        "False",
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ],
    [
        "PIDPressure",
        "False",
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ],
    [
        "Ready",
        "True",
        "KubeletReady",
        "kubelet is posting ready status",
    ],
];

/// What the kubelet reads of a Node.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Node {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: NodeSpec,
    #[serde(default)]
    pub(crate) status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpec {
    #[serde(rename = "podCIDR")]
    pub(crate) pod_cidr: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeStatus {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) conditions: Vec<Condition>,
}

/// What the kubelet reads of its Lease.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Lease {
    #[serde(default)]
    pub(crate) spec: LeaseSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LeaseSpec {
    pub(crate) holder_identity: Option<String>,
    pub(crate) renew_time: Option<MicroTime>,
}

impl Node {
    pub(crate) fn is_simulated(&self) -> bool {
        self.metadata
            .labels
            .get(SIMULATED)
            .is_some_and(|value| value == "true")
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.metadata
            .annotations
            .get(SILENT)
            .is_some_and(|value| value == "true")
    }

    /// In how many milliseconds the status must be posted; 0 if it is due or says something else than that all is well.
    pub(crate) fn status_due_ms(&self, now: Time) -> u64 {
        let posted = |[kind, status, ..]: &[&str; 4]| {
            let condition = find_condition(&self.status.conditions, kind)?;
            condition
                .last_heartbeat_time
                .filter(|_| condition.status == *status)
        };
        let oldest = CONDITIONS.iter().map(posted).min().flatten();
        oldest.map_or(0, |oldest| STATUS_MS.saturating_sub(now.ms_since(oldest)))
    }

    /// The conditions of a healthy node as of now, with those that others set.
    fn conditions(&self, now: Time) -> Vec<Condition> {
        let now = now.whole_seconds();
        let own = CONDITIONS.iter().map(|[kind, status, reason, message]| {
            let before = find_condition(&self.status.conditions, kind)
                .filter(|before| before.status == *status);
            Condition {
                kind: (*kind).into(),
                status: (*status).into(),
                reason: (*reason).into(),
                message: (*message).into(),
                last_heartbeat_time: Some(now),
                last_transition_time: before
                    .and_then(|before| before.last_transition_time)
                    .or(Some(now)),
                ..Condition::default()
            }
        });
        let is_own =
            |condition: &&Condition| CONDITIONS.iter().any(|[kind, ..]| *kind == condition.kind);
        let others = self
            .status
            .conditions
            .iter()
            .filter(|condition| !is_own(condition))
            .cloned();
        own.chain(others).collect()
    }

    /// The patch of the status that a heartbeat posts.
    pub(crate) fn status_patch(&self, config: &Config, address: Ipv4Addr, now: Time) -> Value {
        let name = &self.metadata.name;
        json!({
            "metadata": {"uid": self.metadata.uid, "resourceVersion": self.metadata.resource_version},
            "status": {
                "capacity": config.capacity,
                "allocatable": config.capacity,
                "conditions": self.conditions(now),
                "addresses": [
                    {"type": "InternalIP", "address": address.to_string()},
                    {"type": "Hostname", "address": name},
                ],
                "nodeInfo": {
                    "architecture": "amd64",
                    "bootID": self.metadata.uid,
                    "containerRuntimeVersion": concat!("simulated://", env!("CARGO_PKG_VERSION")),
                    "kernelVersion": "simulated",
                    "kubeProxyVersion": "",
                    "kubeletVersion": concat!("v1.36.0-pilothouse-", env!("CARGO_PKG_VERSION")),
                    "machineID": self.metadata.uid,
                    "operatingSystem": "linux",
                    "osImage": "Simulated by Pilothouse",
                    "systemUUID": self.metadata.uid,
                },
            },
        })
    }

    /// The node's Lease, renewed now. The node owns it, so that it goes with the node.
    pub(crate) fn lease(&self, now: Time) -> Value {
        let meta = &self.metadata;
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": meta.name,
                "namespace": LEASE_NAMESPACE,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": meta.name, "uid": meta.uid}],
            },
            "spec": {
                "holderIdentity": meta.name,
                "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": MicroTime(now),
            },
        })
    }
}

impl Lease {
    /// In how many milliseconds this node must renew it.
    pub(crate) fn due_ms(&self, node: &str, now: Time) -> u64 {
        let ours = self.spec.holder_identity.as_deref() == Some(node);
        let renewed = self.spec.renew_time.filter(|_| ours);
        renewed.map_or(0, |MicroTime(renewed)| {
            RENEW_MS.saturating_sub(now.ms_since(renewed))
        })
    }
}

/// A Node to register.
pub(crate) fn registration(name: &str, pod_cidr: &str, config: &Config) -> Value {
    let mut labels = config.labels.clone();
    let own = [
        (SIMULATED, "true"),
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
    ];
    labels.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podCIDR": pod_cidr, "podCIDRs": [pod_cidr]},
    })
}
