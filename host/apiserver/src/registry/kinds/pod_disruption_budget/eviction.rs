//! What a budget says to an eviction.
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/>

use k8s_openapi::{
    api::{
        core::v1::{Pod, PodCondition},
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use pilothouse_api::{Cause, GroupResource, Status};

use super::ALWAYS_ALLOW;
use crate::registry::kinds::{checks, conditions};

/// Evictions that are on their way and have not been seen by the controller are at most so many.
const MAX_DISRUPTED_PODS: usize = 2000;
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Whether a budget is about a pod.
pub(crate) fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|s| s.selector.as_ref());
    selector.is_some_and(|selector| checks::selects(selector, pod.metadata.labels.as_ref()))
}

/// Whether evicting the pod disrupts nothing: it does not run yet, or not any more.
pub(crate) fn disrupts_nothing(pod: &Pod) -> bool {
    matches!(phase(pod), "Pending" | "Succeeded" | "Failed")
        || pod.metadata.deletion_timestamp.is_some()
}

/// Whether the pod has ended, or is about to, so that it cannot become ready meanwhile.
pub(crate) fn is_over(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed") || pod.metadata.deletion_timestamp.is_some()
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status.and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// Whether a pod that is not ready may go without being counted: it counts for nothing, and the others suffice.
pub(crate) fn is_free(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let mut conditions = status
        .into_iter()
        .flat_map(|s| s.conditions.iter().flatten());
    if conditions.any(|c| c.type_ == "Ready" && c.status == "True") {
        return false;
    }
    let spec = budget.spec.as_ref();
    if spec.and_then(|s| s.unhealthy_pod_eviction_policy.as_deref()) == Some(ALWAYS_ALLOW) {
        return true;
    }
    let status = budget.status.as_ref();
    let healthy = status.and_then(|s| s.current_healthy).unwrap_or_default();
    let desired = status.and_then(|s| s.desired_healthy).unwrap_or_default();
    healthy >= desired && desired > 0
}

/// Takes one disruption from the budget for a pod, or says why not: 429, or 403 for a budget that is out of order.
pub(crate) fn take(
    budget: &mut PodDisruptionBudget,
    pod: &str,
    now: jiff::Timestamp,
) -> Result<(), Status> {
    let name = budget.metadata.name.clone().unwrap_or_default();
    let generation = budget.metadata.generation.unwrap_or_default();
    let status = budget.status.get_or_insert_default();
    if status.observed_generation.unwrap_or_default() < generation {
        return Err(still_being_processed(&name));
    }
    let out_of_order = |why: &str| {
        let resource = GroupResource {
            group: "policy".into(),
            resource: "poddisruptionbudget".into(),
        };
        Err(Status::forbidden(&resource, &name, why))
    };
    let allowed = status.disruptions_allowed.unwrap_or_default();
    let disrupted = status.disrupted_pods.as_ref().map_or(0, |pods| pods.len());
    if allowed < 0 {
        return out_of_order("pdb disruptions allowed is negative");
    }
    if disrupted > MAX_DISRUPTED_PODS {
        return out_of_order(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        );
    }
    if allowed == 0 {
        return Err(exhausted(&name, status));
    }
    status.disruptions_allowed = Some(allowed - 1);
    if allowed == 1 {
        let condition = Condition {
            type_: "DisruptionAllowed".to_owned(),
            status: "False".to_owned(),
            reason: "InsufficientPods".to_owned(),
            observed_generation: status.observed_generation,
            last_transition_time: Time(now),
            message: String::new(),
        };
        conditions::set(status.conditions.get_or_insert_default(), condition);
    }
    let pods = status.disrupted_pods.get_or_insert_default();
    pods.insert(pod.to_owned(), Time(now));
    Ok(())
}

/// 429 to be tried again: the controller has not judged the budget as it is now.
pub(crate) fn still_being_processed(budget: &str) -> Status {
    Status::too_many_requests(REFUSED, 10).with_cause(cause(format!(
        "The disruption budget {budget} is still being processed by the server."
    )))
}

fn exhausted(budget: &str, status: &PodDisruptionBudgetStatus) -> Status {
    let (desired, healthy) = (
        status.desired_healthy.unwrap_or_default(),
        status.current_healthy.unwrap_or_default(),
    );
    Status::too_many_requests(REFUSED, 0).with_cause(cause(format!(
        "The disruption budget {budget} needs {desired} healthy pods and has {healthy} currently"
    )))
}

fn cause(message: String) -> Cause {
    Cause {
        reason: "DisruptionBudget".to_owned(),
        message,
        field: String::new(),
    }
}

/// Notes on the pod why it goes.
pub(crate) fn mark(pod: &mut Pod, now: jiff::Timestamp) {
    let target = PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some("EvictionByEvictionAPI".to_owned()),
        message: Some("Eviction API: evicting".to_owned()),
        last_transition_time: Some(Time(now)),
        ..PodCondition::default()
    };
    let status = pod.status.get_or_insert_default();
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|c| c.type_ == target.type_) {
        Some(known) if known.status == target.status => {
            known.reason = target.reason;
            known.message = target.message;
        }
        Some(known) => *known = target,
        None => conditions.push(target),
    }
}
