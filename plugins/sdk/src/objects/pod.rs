//! What workload controllers read of a Pod.

use serde::{Deserialize, Serialize};

use super::{Condition, ObjectMeta, Time, find_condition};

/// A Pod without its containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::null_as_default"
    )]
    pub conditions: Vec<Condition>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::null_as_default"
    )]
    pub container_statuses: Vec<ContainerStatus>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        rename = "podIPs",
        deserialize_with = "super::null_as_default"
    )]
    pub pod_ips: Vec<PodIp>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub restart_count: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodIp {
    pub ip: String,
}

impl Pod {
    /// Neither finished nor being deleted.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && !self.metadata.is_deleting()
    }

    /// Being deleted and not yet finished.
    pub fn is_terminating(&self) -> bool {
        !self.is_finished() && self.metadata.is_deleting()
    }

    /// `Succeeded` or `Failed`.
    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    pub fn is_ready(&self) -> bool {
        self.ready_condition().is_some()
    }

    /// Since when the pod has been ready; none if it is not.
    pub fn ready_since(&self) -> Option<Time> {
        self.ready_condition()?.last_transition_time
    }

    /// When a ready pod will have been ready for `min_ready_seconds`; none if it is not ready or does not say since when.
    pub fn available_from(&self, min_ready_seconds: i32) -> Option<Time> {
        let ready = self.ready_condition()?;
        if min_ready_seconds == 0 {
            return Some(ready.last_transition_time.unwrap_or_default());
        }
        Some(
            ready
                .last_transition_time?
                .plus_seconds(min_ready_seconds.into()),
        )
    }

    fn ready_condition(&self) -> Option<&Condition> {
        find_condition(&self.status.conditions, "Ready").filter(|condition| condition.is_true())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(status: &str) -> Pod {
        serde_json::from_str(&format!(
            r#"{{"metadata":{{"name":"p"}},"status":{status}}}"#
        ))
        .unwrap()
    }

    #[test]
    fn availability_counts_from_readiness() {
        let ready = pod(
            r#"{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"1970-01-01T00:00:10Z"}]}"#,
        );
        assert_eq!(ready.available_from(5), Some(Time::from_ms(15_000)));
        assert_eq!(ready.available_from(0), Some(Time::from_ms(10_000)));
        let undated = pod(r#"{"conditions":[{"type":"Ready","status":"True"}]}"#);
        assert_eq!(undated.available_from(5), None);
        assert_eq!(undated.available_from(0), Some(Time::default()));
        assert_eq!(
            pod(r#"{"conditions":[{"type":"Ready","status":"False"}]}"#).available_from(0),
            None
        );
    }

    #[test]
    fn activity() {
        let mut terminating = pod(r#"{"phase":"Running"}"#);
        assert!(terminating.is_active());
        terminating.metadata.deletion_timestamp = Some(Time::default());
        assert!(!terminating.is_active() && terminating.is_terminating());
        assert!(!pod(r#"{"phase":"Failed"}"#).is_active());
    }
}
