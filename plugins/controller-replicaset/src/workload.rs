//! What ReplicaSets and ReplicationControllers have in common, and where they differ.

use std::collections::BTreeMap;

use pilothouse_sdk::{
    cluster::{EventSubject, Resource, resources},
    controller::{Error, Selector},
    objects::{Condition, ObjectMeta, null_as_default},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// The kind that a controller manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ReplicaSet,
    ReplicationController,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReplicaSet => "ReplicaSet",
            Self::ReplicationController => "ReplicationController",
        }
    }

    pub(crate) fn controller_name(self) -> &'static str {
        match self {
            Self::ReplicaSet => "replicaset-controller",
            Self::ReplicationController => "replication-controller",
        }
    }

    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::ReplicaSet => "apps/v1",
            Self::ReplicationController => "v1",
        }
    }

    pub(crate) fn resource(self) -> &'static Resource {
        match self {
            Self::ReplicaSet => &resources::REPLICA_SETS,
            Self::ReplicationController => &resources::REPLICATION_CONTROLLERS,
        }
    }

    /// A ReplicationController's selector is a map of labels, a ReplicaSet's a full label selector.
    pub(crate) fn selector(self, selector: &Value) -> Result<Selector, Error> {
        match self {
            Self::ReplicaSet => Selector::from_label_selector(selector),
            Self::ReplicationController => Ok(Selector::from_map(selector)),
        }
    }

    /// Only a ReplicaSet's status counts terminating pods.
    pub(crate) fn counts_terminating(self) -> bool {
        self == Self::ReplicaSet
    }
}

/// A ReplicaSet or ReplicationController.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Workload {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    #[serde(default)]
    pub(crate) status: Status,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    #[serde(default = "one")]
    pub(crate) replicas: i32,
    #[serde(default)]
    pub(crate) min_ready_seconds: i32,
    #[serde(default)]
    pub(crate) selector: Value,
    pub(crate) template: Option<Template>,
}

/// The pod template; the pod's spec is handed on unread.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Template {
    #[serde(default)]
    pub(crate) metadata: TemplateMeta,
    pub(crate) spec: Box<RawValue>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TemplateMeta {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) finalizers: Vec<String>,
}

/// The status of either kind; `terminating_replicas` is a ReplicaSet's alone.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    pub(crate) replicas: i32,
    pub(crate) fully_labeled_replicas: i32,
    pub(crate) ready_replicas: i32,
    pub(crate) available_replicas: i32,
    pub(crate) terminating_replicas: Option<i32>,
    pub(crate) observed_generation: i64,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) conditions: Vec<Condition>,
}

/// A pod about to be created.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewPod<'a> {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: &'a RawValue,
}

impl Workload {
    pub(crate) fn subject(&self, kind: Kind) -> EventSubject {
        EventSubject {
            api_version: kind.api_version().to_owned(),
            kind: kind.name().to_owned(),
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
        }
    }
}

fn one() -> i32 {
    1
}
