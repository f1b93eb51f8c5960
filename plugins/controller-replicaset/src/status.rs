//! The status of a ReplicaSet or ReplicationController, from its pods.

use std::collections::BTreeMap;

use pilothouse_sdk::objects::{Condition, Pod, Time, find_condition};
use serde_json::{Value, json};

use crate::workload::{Kind, Status, Workload};

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// What the status should say, given the workload's active and terminating pods and why managing them failed, if it did.
pub(crate) fn calculate(
    kind: Kind,
    workload: &Workload,
    active: &[Pod],
    terminating: usize,
    failure: Option<&str>,
    now: Time,
) -> Status {
    let spec = &workload.spec;
    let available = |pod: &&Pod| {
        pod.available_from(spec.min_ready_seconds)
            .is_some_and(|available_from| available_from <= now)
    };
    let no_labels = BTreeMap::new();
    let wanted = spec
        .template
        .as_ref()
        .map_or(&no_labels, |template| &template.metadata.labels);
    let fully_labeled = |pod: &&Pod| {
        wanted
            .iter()
            .all(|(key, value)| pod.metadata.labels.get(key) == Some(value))
    };
    Status {
        replicas: count(active.len()),
        fully_labeled_replicas: count(active.iter().filter(fully_labeled).count()),
        ready_replicas: count(active.iter().filter(|pod| pod.is_ready()).count()),
        available_replicas: count(active.iter().filter(available).count()),
        terminating_replicas: kind.counts_terminating().then(|| count(terminating)),
        observed_generation: workload.metadata.generation,
        conditions: conditions(workload, active.len(), failure, now),
    }
}

/// `ReplicaFailure` is set at the first failure, keeps its text while failures last, and goes when there are none.
fn conditions(
    workload: &Workload,
    active: usize,
    failure: Option<&str>,
    now: Time,
) -> Vec<Condition> {
    let mut conditions = workload.status.conditions.clone();
    let Some(failure) = failure else {
        conditions.retain(|condition| condition.kind != REPLICA_FAILURE);
        return conditions;
    };
    if find_condition(&conditions, REPLICA_FAILURE).is_none() {
        let reason = match count(active).cmp(&workload.spec.replicas) {
            std::cmp::Ordering::Less => "FailedCreate",
            std::cmp::Ordering::Greater => "FailedDelete",
            std::cmp::Ordering::Equal => "",
        };
        conditions.push(Condition {
            kind: REPLICA_FAILURE.into(),
            status: "True".into(),
            reason: reason.into(),
            message: failure.into(),
            last_transition_time: Some(now.whole_seconds()),
            ..Condition::default()
        });
    }
    conditions
}

/// When the next ready pod becomes available, in milliseconds from now; none if none is waiting for that.
pub(crate) fn next_availability_ms(workload: &Workload, active: &[Pod], now: Time) -> Option<u64> {
    active
        .iter()
        .filter_map(|pod| pod.available_from(workload.spec.min_ready_seconds))
        .filter(|available_from| *available_from > now)
        .map(|available_from| available_from.ms_since(now))
        .min()
}

/// The merge patch that brings the stored status to `status`. Zero counts are absent, as Kubernetes leaves them out.
pub(crate) fn patch(workload: &Workload, status: &Status) -> Value {
    let some = |number: i32| {
        if number == 0 {
            Value::Null
        } else {
            json!(number)
        }
    };
    let conditions = if status.conditions.is_empty() {
        Value::Null
    } else {
        json!(status.conditions)
    };
    let mut patch = json!({
        "metadata": {"uid": workload.metadata.uid},
        "status": {
            "replicas": status.replicas,
            "fullyLabeledReplicas": some(status.fully_labeled_replicas),
            "readyReplicas": some(status.ready_replicas),
            "availableReplicas": some(status.available_replicas),
            "observedGeneration": status.observed_generation,
            "conditions": conditions,
        },
    });
    if let Some(terminating) = status.terminating_replicas {
        patch["status"]["terminatingReplicas"] = json!(terminating);
    }
    patch
}

fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}
