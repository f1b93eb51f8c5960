//! What a rollout reads of Deployments and ReplicaSets.

use pilothouse_sdk::{
    cluster::EventSubject,
    objects::{Condition, IntOrString, ObjectMeta, null_as_default},
};
use serde::Deserialize;
use serde_json::Value;

/// A limit or deadline of this value means that there is none.
const UNLIMITED: i32 = i32::MAX;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Deployment {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: DeploymentSpec,
    #[serde(default)]
    pub(crate) status: DeploymentStatus,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeploymentSpec {
    #[serde(default = "one")]
    pub(crate) replicas: i32,
    #[serde(default)]
    pub(crate) selector: Value,
    #[serde(default)]
    pub(crate) template: Value,
    #[serde(default)]
    pub(crate) strategy: Strategy,
    #[serde(default)]
    pub(crate) min_ready_seconds: i32,
    pub(crate) revision_history_limit: Option<i32>,
    #[serde(default)]
    pub(crate) paused: bool,
    pub(crate) progress_deadline_seconds: Option<i32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Strategy {
    /// `RollingUpdate`, also if empty, or `Recreate`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) rolling_update: Option<RollingUpdate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RollingUpdate {
    pub(crate) max_unavailable: Option<IntOrString>,
    pub(crate) max_surge: Option<IntOrString>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeploymentStatus {
    pub(crate) observed_generation: i64,
    pub(crate) replicas: i32,
    pub(crate) updated_replicas: i32,
    pub(crate) ready_replicas: i32,
    pub(crate) available_replicas: i32,
    pub(crate) unavailable_replicas: i32,
    pub(crate) terminating_replicas: Option<i32>,
    pub(crate) collision_count: Option<i32>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ReplicaSet {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: ReplicaSetSpec,
    #[serde(default)]
    pub(crate) status: ReplicaSetStatus,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplicaSetSpec {
    #[serde(default = "one")]
    pub(crate) replicas: i32,
    #[serde(default)]
    pub(crate) min_ready_seconds: i32,
    #[serde(default)]
    pub(crate) template: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplicaSetStatus {
    pub(crate) replicas: i32,
    pub(crate) ready_replicas: i32,
    pub(crate) available_replicas: i32,
    pub(crate) terminating_replicas: Option<i32>,
    pub(crate) observed_generation: i64,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) conditions: Vec<Condition>,
}

impl Deployment {
    pub(crate) fn subject(&self) -> EventSubject {
        EventSubject {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
        }
    }

    pub(crate) fn is_recreate(&self) -> bool {
        self.spec.strategy.kind == "Recreate"
    }

    /// Seconds in which a rollout must make progress; none if it need not.
    pub(crate) fn progress_deadline_seconds(&self) -> Option<i32> {
        self.spec
            .progress_deadline_seconds
            .filter(|seconds| *seconds != UNLIMITED)
    }

    /// How many old ReplicaSets are kept; none for all.
    pub(crate) fn revision_history_limit(&self) -> Option<usize> {
        let limit = self
            .spec
            .revision_history_limit
            .filter(|limit| *limit != UNLIMITED)?;
        usize::try_from(limit).ok()
    }

    /// Whether every replica is of the newest template and available, going by this status.
    pub(crate) fn is_complete(&self, status: &DeploymentStatus) -> bool {
        let wanted = self.spec.replicas;
        status.updated_replicas == wanted
            && status.replicas == wanted
            && status.available_replicas == wanted
            && status.observed_generation >= self.metadata.generation
    }
}

impl ReplicaSet {
    /// Whether it asks for pods.
    pub(crate) fn is_active(&self) -> bool {
        self.spec.replicas > 0
    }
}

fn one() -> i32 {
    1
}
