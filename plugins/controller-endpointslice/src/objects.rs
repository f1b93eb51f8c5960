//! What both controllers read of Services and Pods, and the EndpointSlice they write.

use std::collections::BTreeMap;

use pilothouse_sdk::{
    controller::Selector,
    objects::{Condition, IntOrString, ObjectMeta, PodIp, Time, find_condition, null_as_default},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Service {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceSpec {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) selector: BTreeMap<String, String>,
    #[serde(rename = "clusterIP")]
    pub(crate) cluster_ip: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) ip_families: Vec<Family>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) ports: Vec<ServicePort>,
    pub(crate) publish_not_ready_addresses: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Family {
    #[serde(rename = "IPv4")]
    V4,
    #[serde(rename = "IPv6")]
    V6,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServicePort {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default = "tcp")]
    pub(crate) protocol: String,
    pub(crate) app_protocol: Option<String>,
    pub(crate) port: i32,
    pub(crate) target_port: Option<IntOrString>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: PodSpec,
    #[serde(default)]
    pub(crate) status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    pub(crate) node_name: String,
    pub(crate) hostname: String,
    pub(crate) subdomain: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) containers: Vec<Container>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) init_containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) restart_policy: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) ports: Vec<ContainerPort>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerPort {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) container_port: i32,
    #[serde(default = "tcp")]
    pub(crate) protocol: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodStatus {
    pub(crate) phase: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: String,
    #[serde(rename = "podIPs", deserialize_with = "null_as_default")]
    pub(crate) pod_ips: Vec<PodIp>,
}

/// An EndpointSlice as far as this controller writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Slice {
    pub(crate) metadata: ObjectMeta,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub(crate) address_type: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) endpoints: Vec<Endpoint>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) ports: Vec<Port>,
}

/// `discovery.k8s.io/v1` Endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Endpoint {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) addresses: Vec<String>,
    pub(crate) conditions: EndpointConditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target_ref: Option<TargetRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zone: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointConditions {
    pub(crate) ready: Option<bool>,
    pub(crate) serving: Option<bool>,
    pub(crate) terminating: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TargetRef {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// A port of a slice. Slices hold endpoints with the same ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) protocol: String,
    pub(crate) port: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) app_protocol: Option<String>,
}

impl Service {
    /// Whether endpoints are chosen by a selector, which is when they are this controller's business.
    pub(crate) fn is_selecting(&self) -> bool {
        self.spec.kind != "ExternalName" && !self.spec.selector.is_empty()
    }

    pub(crate) fn is_headless(&self) -> bool {
        matches!(self.spec.cluster_ip.as_str(), "" | "None")
    }

    pub(crate) fn selector(&self) -> Selector {
        Selector::from_map(&json!(self.spec.selector))
    }

    /// The families of its addresses; of a Service without any the cluster IP's, and both if it is headless.
    pub(crate) fn families(&self) -> Vec<Family> {
        match (&self.spec.ip_families[..], self.is_headless()) {
            ([], true) => vec![Family::V4, Family::V6],
            ([], false) if self.spec.cluster_ip.contains(':') => vec![Family::V6],
            ([], false) => vec![Family::V4],
            (families, _) => families.to_vec(),
        }
    }
}

impl Family {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    pub(crate) fn has(self, address: &str) -> bool {
        address.contains(':') == (self == Self::V6)
    }
}

impl Pod {
    pub(crate) fn is_ready(&self) -> bool {
        self.ready().is_some()
    }

    /// When it last became ready or unready.
    pub(crate) fn readiness_changed(&self) -> Option<Time> {
        find_condition(&self.status.conditions, "Ready")?.last_transition_time
    }

    fn ready(&self) -> Option<&Condition> {
        find_condition(&self.status.conditions, "Ready").filter(|condition| condition.is_true())
    }

    /// The pod's address of a family.
    pub(crate) fn address(&self, family: Family) -> Option<&str> {
        let addresses = self
            .status
            .pod_ips
            .iter()
            .map(|address| address.ip.as_str());
        let mut addresses = addresses.chain(Some(self.status.pod_ip.as_str()));
        addresses.find(|address| !address.is_empty() && family.has(address))
    }

    pub(crate) fn target_ref(&self) -> TargetRef {
        TargetRef {
            kind: "Pod".to_owned(),
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
        }
    }
}

/// A merge patch from one map of strings to another: new values, and null for what goes.
pub(crate) fn map_patch(from: &BTreeMap<String, String>, to: &BTreeMap<String, String>) -> Value {
    let gone = from
        .keys()
        .filter(|key| !to.contains_key(*key))
        .map(|key| (key.clone(), Value::Null));
    let set = to.iter().map(|(key, value)| (key.clone(), json!(value)));
    Value::Object(gone.chain(set).collect())
}

/// What a patch says by null a new object says by saying nothing.
pub(crate) fn without_nulls(mut map: Value) -> Value {
    if let Some(map) = map.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    map
}

fn tcp() -> String {
    "TCP".to_owned()
}
