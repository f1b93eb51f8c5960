//! The life of a simulated pod.
//!
//! ```text
//! Pending ──► Running ──run-seconds──► Succeeded
//!    │           │                         │
//!    └───────────┴──── being deleted ──────┴──termination-seconds──► gone
//! ```

use pilothouse_sdk::{
    cluster::EventSubject,
    objects::{Condition, ObjectMeta, PodIp, Time, null_as_default},
};
use serde::Deserialize;

use crate::config::Config;

const RUN_SECONDS: &str = "pilothouse.dev/run-seconds";
const TERMINATION_SECONDS: &str = "pilothouse.dev/termination-seconds";

/// What the kubelet reads of a Pod.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: PodSpec,
    #[serde(default)]
    pub(crate) status: PodStatus,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodSpec {
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) containers: Vec<Container>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) init_containers: Vec<Container>,
    #[serde(default)]
    pub(crate) restart_policy: String,
    #[serde(default)]
    pub(crate) host_network: bool,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) readiness_gates: Vec<ReadinessGate>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Container {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) image: String,
    /// `Always` makes an init container a sidecar.
    #[serde(default)]
    pub(crate) restart_policy: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReadinessGate {
    pub(crate) condition_type: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    pub(crate) phase: String,
    pub(crate) start_time: Option<Time>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(rename = "podIPs", deserialize_with = "null_as_default")]
    pub(crate) pod_ips: Vec<PodIp>,
}

/// What is to be done about a pod now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Give it an address and say that it runs.
    Start,
    /// Its readiness gates have changed.
    UpdateReadiness,
    /// Say that its containers have ended well.
    Succeed,
    /// Remove it for good.
    Remove,
    /// Nothing before so many milliseconds have passed.
    Wait(u64),
    /// Nothing until it changes.
    Rest,
}

impl Pod {
    pub(crate) fn step(&self, config: &Config, now: Time) -> Step {
        if let Some(deletion) = self.metadata.deletion_timestamp {
            return self.terminate(deletion, config, now);
        }
        match self.status.phase.as_str() {
            "Succeeded" | "Failed" => Step::Rest,
            "Running" => self.keep_running(now),
            _ => Step::Start,
        }
    }

    fn terminate(&self, deletion: Time, config: &Config, now: Time) -> Step {
        let grace = self.metadata.deletion_grace_period_seconds.unwrap_or(0);
        if grace == 0 && !self.metadata.finalizers.is_empty() {
            return Step::Rest; // removed already, as far as the kubelet is concerned
        }
        let seconds = self
            .seconds(TERMINATION_SECONDS)
            .unwrap_or(config.termination_seconds);
        let grace_ms = u64::try_from(grace).unwrap_or(0).saturating_mul(1000);
        let left_over_ms = grace_ms.saturating_sub(u64::from(seconds) * 1000);
        let stopped = Time::from_ms(deletion.ms().saturating_sub(left_over_ms));
        match stopped.ms_since(now) {
            0 => Step::Remove,
            _ if self.is_finished() => Step::Remove,
            ms => Step::Wait(ms),
        }
    }

    fn keep_running(&self, now: Time) -> Step {
        let ends = self
            .seconds(RUN_SECONDS)
            .filter(|_| self.spec.restart_policy != "Always");
        let left_ms = ends.map(|seconds| {
            let end = self
                .status
                .start_time
                .unwrap_or_default()
                .plus_seconds(seconds.into());
            end.ms_since(now)
        });
        match left_ms {
            Some(0) => Step::Succeed,
            _ if self.is_ready() != self.should_be_ready() => Step::UpdateReadiness,
            Some(ms) => Step::Wait(ms),
            None => Step::Rest,
        }
    }

    fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    fn is_ready(&self) -> bool {
        self.condition_is_true("Ready")
    }

    /// Its containers always are; its readiness gates are others' business.
    pub(crate) fn should_be_ready(&self) -> bool {
        self.spec
            .readiness_gates
            .iter()
            .all(|gate| self.condition_is_true(&gate.condition_type))
    }

    fn condition_is_true(&self, kind: &str) -> bool {
        self.status
            .conditions
            .iter()
            .any(|condition| condition.kind == kind && condition.is_true())
    }

    fn seconds(&self, annotation: &str) -> Option<u32> {
        self.metadata.annotations.get(annotation)?.parse().ok()
    }

    pub(crate) fn subject(&self) -> EventSubject {
        EventSubject {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A pod started at 100 s on a clock that stands at 130 s.
    fn step(metadata: Value, spec: Value, status: Value) -> Step {
        let pod = json!({"metadata": metadata, "spec": spec, "status": status});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        pod.step(&Config::default(), Time::from_ms(130_000))
    }

    fn running() -> Value {
        json!({"phase": "Running", "startTime": "1970-01-01T00:01:40Z", "conditions": [{"type": "Ready", "status": "True"}]})
    }

    #[test]
    fn a_life_without_deletion() {
        let runs = |seconds: &str| json!({"annotations": {RUN_SECONDS: seconds}});
        let never = || json!({"restartPolicy": "Never"});
        let cases = [
            (
                json!({}),
                json!({}),
                json!({"phase": "Pending"}),
                Step::Start,
            ),
            (json!({}), json!({}), json!({}), Step::Start),
            (
                json!({}),
                json!({"restartPolicy": "Always"}),
                running(),
                Step::Rest,
            ),
            (
                runs("10"),
                json!({"restartPolicy": "Always"}),
                running(),
                Step::Rest,
            ),
            (runs("30"), never(), running(), Step::Succeed),
            (runs("31"), never(), running(), Step::Wait(1000)),
            (
                runs("30"),
                json!({"restartPolicy": "OnFailure"}),
                running(),
                Step::Succeed,
            ),
            (runs("soon"), never(), running(), Step::Rest),
            (
                json!({}),
                never(),
                json!({"phase": "Succeeded"}),
                Step::Rest,
            ),
            (json!({}), never(), json!({"phase": "Failed"}), Step::Rest),
        ];
        for (metadata, spec, status, expected) in cases {
            let text = format!("{metadata} {spec} {status}");
            assert_eq!(step(metadata, spec, status), expected, "{text}");
        }
    }

    #[test]
    fn termination_takes_its_seconds_but_not_more_than_the_grace_period() {
        // Deleted at 120 s with 30 s of grace: at 150 s at the latest.
        let deleted = |annotation: &str, finalizers: Value| {
            json!({
                "deletionTimestamp": "1970-01-01T00:02:30Z", "deletionGracePeriodSeconds": 30,
                "annotations": {TERMINATION_SECONDS: annotation}, "finalizers": finalizers,
            })
        };
        let cases = [
            (deleted("", json!([])), Step::Remove),
            (deleted("10", json!([])), Step::Remove),
            (deleted("11", json!([])), Step::Wait(1000)),
            (deleted("90", json!([])), Step::Wait(20_000)),
            (deleted("0", json!(["a/b"])), Step::Remove),
        ];
        for (metadata, expected) in cases {
            let text = metadata.to_string();
            assert_eq!(step(metadata, json!({}), running()), expected, "{text}");
        }
        let held = json!({
            "deletionTimestamp": "1970-01-01T00:02:00Z", "deletionGracePeriodSeconds": 0, "finalizers": ["a/b"],
        });
        assert_eq!(step(held, json!({}), running()), Step::Rest);
        let finished = step(
            deleted("90", json!([])),
            json!({}),
            json!({"phase": "Succeeded"}),
        );
        assert_eq!(finished, Step::Remove);
    }

    #[test]
    fn readiness_gates_are_waited_for() {
        let gated = || json!({"restartPolicy": "Always", "readinessGates": [{"conditionType": "example.com/in"}]});
        let conditions = |ready: &str, gate: &str| {
            json!({"phase": "Running", "conditions": [
                {"type": "Ready", "status": ready}, {"type": "example.com/in", "status": gate},
            ]})
        };
        assert_eq!(
            step(json!({}), gated(), conditions("False", "False")),
            Step::Rest
        );
        assert_eq!(
            step(json!({}), gated(), conditions("False", "True")),
            Step::UpdateReadiness
        );
        assert_eq!(
            step(json!({}), gated(), conditions("True", "True")),
            Step::Rest
        );
        assert_eq!(
            step(json!({}), gated(), conditions("True", "False")),
            Step::UpdateReadiness
        );
    }
}
