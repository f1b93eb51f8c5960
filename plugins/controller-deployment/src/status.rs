//! A Deployment's status: counts, and the conditions `Available`, `Progressing` and `ReplicaFailure`.
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#deployment-status>

use pilothouse_sdk::objects::{Condition, Time, find_condition};
use serde_json::{Value, json};

use crate::{
    bounds::Bounds,
    objects::{Deployment, DeploymentStatus, ReplicaSet},
};

pub(crate) const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(crate) const NEW_REPLICA_SET_CREATED: &str = "NewReplicaSetCreated";
pub(crate) const FOUND_NEW_REPLICA_SET: &str = "FoundNewReplicaSet";
pub(crate) const REPLICA_SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const REPLICA_SET_UPDATED: &str = "ReplicaSetUpdated";
const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
const DEPLOYMENT_PAUSED: &str = "DeploymentPaused";
const DEPLOYMENT_RESUMED: &str = "DeploymentResumed";

/// A condition that begins now.
pub(crate) fn condition(
    kind: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Time,
) -> Condition {
    let now = Some(now.whole_seconds());
    Condition {
        kind: kind.into(),
        status: status.into(),
        reason: reason.into(),
        message,
        last_update_time: now,
        last_transition_time: now,
        ..Condition::default()
    }
}

/// Puts a condition in place of the one of its type. One of the same status and reason stays as it is; one of the same
/// status keeps its transition time.
pub(crate) fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) {
    let current = find_condition(conditions, &condition.kind);
    if let Some(current) = current.filter(|current| current.status == condition.status) {
        if current.reason == condition.reason {
            return;
        }
        condition.last_transition_time = current.last_transition_time;
    }
    remove_condition(conditions, &condition.kind);
    conditions.push(condition);
}

fn remove_condition(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.kind != kind);
}

/// Notes that a rollout was paused or resumed, so that the time in between is not held against it.
pub(crate) fn note_paused(deployment: &Deployment, conditions: &mut Vec<Condition>, now: Time) {
    let reason = find_condition(conditions, PROGRESSING).map_or("", |condition| &condition.reason);
    if deployment.spec.progress_deadline_seconds.is_none() || reason == PROGRESS_DEADLINE_EXCEEDED {
        return;
    }
    let (reason, message) = match (deployment.spec.paused, reason == DEPLOYMENT_PAUSED) {
        (true, false) => (DEPLOYMENT_PAUSED, "Deployment is paused"),
        (false, true) => (DEPLOYMENT_RESUMED, "Deployment is resumed"),
        _ => return,
    };
    set_condition(
        conditions,
        condition(PROGRESSING, "Unknown", reason, message.into(), now),
    );
}

/// The counts and `Available`, with the given other conditions.
pub(crate) fn counted(
    deployment: &Deployment,
    new: Option<&ReplicaSet>,
    old: &[ReplicaSet],
    conditions: Vec<Condition>,
    now: Time,
) -> DeploymentStatus {
    let all = || old.iter().chain(new);
    let bounds = Bounds::of(deployment);
    let wanted: i32 = all().map(|set| set.spec.replicas).sum();
    let available: i32 = all().map(|set| set.status.available_replicas).sum();
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: all().map(|set| set.status.replicas).sum(),
        updated_replicas: new.map_or(0, |set| set.status.replicas),
        ready_replicas: all().map(|set| set.status.ready_replicas).sum(),
        available_replicas: available,
        unavailable_replicas: (wanted - available).max(0),
        terminating_replicas: all().map(|set| set.status.terminating_replicas).sum(),
        collision_count: deployment.status.collision_count,
        conditions,
    };
    let (value, reason, message) = if available >= bounds.min_available() {
        (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    set_condition(
        &mut status.conditions,
        condition(AVAILABLE, value, reason, message.into(), now),
    );
    status
}

/// The status during a rollout: besides the counts it judges progress and carries failures of ReplicaSets upwards.
pub(crate) fn rollout(
    deployment: &Deployment,
    new: Option<&ReplicaSet>,
    old: &[ReplicaSet],
    conditions: Vec<Condition>,
    now: Time,
) -> DeploymentStatus {
    let mut status = counted(deployment, new, old, conditions, now);
    match deployment.progress_deadline_seconds() {
        Some(deadline) => judge_progress(deployment, new, deadline, &mut status, now),
        None => remove_condition(&mut status.conditions, PROGRESSING),
    }
    let failure = new
        .into_iter()
        .chain(old)
        .find_map(|set| find_condition(&set.status.conditions, REPLICA_FAILURE));
    match failure {
        Some(failure) => {
            let since = failure.last_transition_time;
            let failure = Condition {
                last_update_time: since,
                ..failure.clone()
            };
            set_condition(&mut status.conditions, failure);
        }
        None => remove_condition(&mut status.conditions, REPLICA_FAILURE),
    }
    status
}

fn judge_progress(
    deployment: &Deployment,
    new: Option<&ReplicaSet>,
    deadline: i32,
    status: &mut DeploymentStatus,
    now: Time,
) {
    let current = find_condition(&status.conditions, PROGRESSING).cloned();
    let reason = current.as_ref().map_or("", |condition| &condition.reason);
    if status.replicas == status.updated_replicas && reason == NEW_REPLICA_SET_AVAILABLE {
        return; // no rollout is under way
    }
    let subject = match new {
        Some(set) => format!("ReplicaSet {:?}", set.metadata.name),
        None => format!("Deployment {:?}", deployment.metadata.name),
    };
    if deployment.is_complete(status) {
        let message = format!("{subject} has successfully progressed.");
        set_condition(
            &mut status.conditions,
            condition(PROGRESSING, "True", NEW_REPLICA_SET_AVAILABLE, message, now),
        );
    } else if has_progressed(&deployment.status, status) {
        // Unlike any other condition, this one moves its update time although nothing else of it changes.
        let message = format!("{subject} is progressing.");
        let mut progressing = condition(PROGRESSING, "True", REPLICA_SET_UPDATED, message, now);
        if let Some(current) = current.filter(Condition::is_true) {
            progressing.last_transition_time = current.last_transition_time;
        }
        remove_condition(&mut status.conditions, PROGRESSING);
        status.conditions.push(progressing);
    } else if has_timed_out(current.as_ref(), deadline, now) {
        let message = format!("{subject} has timed out progressing.");
        set_condition(
            &mut status.conditions,
            condition(
                PROGRESSING,
                "False",
                PROGRESS_DEADLINE_EXCEEDED,
                message,
                now,
            ),
        );
    }
}

/// More new, fewer old, more ready or more available pods than before.
fn has_progressed(before: &DeploymentStatus, after: &DeploymentStatus) -> bool {
    after.updated_replicas > before.updated_replicas
        || after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        || after.ready_replicas > before.ready_replicas
        || after.available_replicas > before.available_replicas
}

fn has_timed_out(progressing: Option<&Condition>, deadline: i32, now: Time) -> bool {
    match progressing {
        None => false,
        Some(condition) if condition.reason == NEW_REPLICA_SET_AVAILABLE => false,
        Some(condition) if condition.reason == PROGRESS_DEADLINE_EXCEEDED => true,
        Some(condition) => {
            condition
                .last_update_time
                .unwrap_or_default()
                .plus_seconds(deadline.into())
                < now
        }
    }
}

/// When to look whether the deadline has passed, in milliseconds from now; none if there is nothing to wait for.
pub(crate) fn progress_check_ms(
    deployment: &Deployment,
    status: &DeploymentStatus,
    now: Time,
) -> Option<u64> {
    let deadline = deployment.progress_deadline_seconds()?;
    let condition = find_condition(&status.conditions, PROGRESSING)?;
    let judged = [PROGRESS_DEADLINE_EXCEEDED, NEW_REPLICA_SET_AVAILABLE];
    if deployment.spec.paused
        || deployment.is_complete(status)
        || judged.contains(&condition.reason.as_str())
    {
        return None;
    }
    // A second more, because timestamps have whole seconds.
    let due = condition
        .last_update_time?
        .plus_seconds(i64::from(deadline) + 1);
    Some(due.ms_since(now).max(1000))
}

/// The merge patch that brings the stored status to `status`, and the revision annotation if it is not `revision` yet.
/// Kubernetes' status endpoint for Deployments takes annotations, without moving the generation as the main one would.
pub(crate) fn patch(
    deployment: &Deployment,
    status: &DeploymentStatus,
    revision: Option<&str>,
) -> Value {
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
        "metadata": {"uid": deployment.metadata.uid, "resourceVersion": deployment.metadata.resource_version},
        "status": {
            "observedGeneration": status.observed_generation,
            "replicas": some(status.replicas),
            "updatedReplicas": some(status.updated_replicas),
            "readyReplicas": some(status.ready_replicas),
            "availableReplicas": some(status.available_replicas),
            "unavailableReplicas": some(status.unavailable_replicas),
            "terminatingReplicas": status.terminating_replicas,
            "collisionCount": status.collision_count,
            "conditions": conditions,
        },
    });
    if let Some(revision) = revision {
        patch["metadata"]["annotations"] = json!({crate::revision::REVISION: revision});
    }
    patch
}

#[cfg(test)]
mod tests;
