//! PodDisruptionBudgets. Source: <https://kubernetes.io/docs/tasks/run-application/configure-pdb/>

pub(crate) mod eviction;
#[cfg(test)]
mod tests;

use k8s_openapi::{
    api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus},
    apimachinery::pkg::util::intstr::IntOrString,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{cells, checks, conditions, describe, fill, int_or_percent, replicas};
use crate::registry::{
    printing::Column,
    strategy::{Context, Strategy},
};

const ALWAYS_ALLOW: &str = "AlwaysAllow";
const IF_HEALTHY_BUDGET: &str = "IfHealthyBudget";

pub(super) struct PodDisruptionBudgetStrategy;

impl Strategy for PodDisruptionBudgetStrategy {
    type Object = PodDisruptionBudget;

    fn resource(&self) -> ResourceInfo {
        let kind = "PodDisruptionBudget";
        ResourceInfo {
            short_names: describe::texts(&["pdb"]),
            ..describe::namespaced("policy", "v1", "poddisruptionbudgets", kind)
        }
    }

    fn default(&self, budget: &mut PodDisruptionBudget) {
        let Some(status) = &mut budget.status else {
            return;
        };
        for count in [
            &mut status.current_healthy,
            &mut status.desired_healthy,
            &mut status.disruptions_allowed,
            &mut status.expected_pods,
        ] {
            fill::pointer(count, 0); // Kubernetes writes zeros here
        }
    }

    fn prepare_for_create(&self, _context: &Context, budget: &mut PodDisruptionBudget) {
        budget.status = Some(PodDisruptionBudgetStatus::default());
        self.default(budget);
    }

    fn prepare_for_update(
        &self,
        _context: &Context,
        new: &mut PodDisruptionBudget,
        old: &PodDisruptionBudget,
    ) {
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(
        &self,
    ) -> Option<fn(&mut PodDisruptionBudget, &PodDisruptionBudget)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn generation_changed(
        &self,
        new: &PodDisruptionBudget,
        old: &PodDisruptionBudget,
    ) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, budget: &PodDisruptionBudget) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = PodDisruptionBudgetSpec::default();
        let spec = budget.spec.as_ref().unwrap_or(&empty);
        let path = Path::new("spec");
        let amounts = (&spec.min_available, &spec.max_unavailable);
        if let (Some(min), Some(max)) = amounts {
            let shown = json!({
                "MinAvailable": int_or_percent::shown(min),
                "Selector": spec.selector.as_ref().map(replicas::shown),
                "MaxUnavailable": int_or_percent::shown(max),
                "UnhealthyPodEvictionPolicy": spec.unhealthy_pod_eviction_policy,
            });
            errors.push(FieldError::invalid(
                &path,
                shown,
                "minAvailable and maxUnavailable cannot be both set",
            ));
        }
        for (field, amount) in [("minAvailable", amounts.0), ("maxUnavailable", amounts.1)] {
            if let Some(amount) = amount {
                let path = path.child(field);
                int_or_percent::validate(&mut errors, &path, amount);
                int_or_percent::validate_at_most_all(&mut errors, &path, amount);
            }
        }
        let selector = spec.selector.as_ref();
        checks::label_selector(&mut errors, &path.child("selector"), selector);
        if let Some(policy) = &spec.unhealthy_pod_eviction_policy {
            checks::one_of(
                &mut errors,
                &path.child("unhealthyPodEvictionPolicy"),
                policy,
                &[ALWAYS_ALLOW, IF_HEALTHY_BUDGET],
            );
        }
        errors
    }

    fn validate_status_update(
        &self,
        new: &PodDisruptionBudget,
        _old: &PodDisruptionBudget,
    ) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("status");
        let empty = PodDisruptionBudgetStatus::default();
        let status = new.status.as_ref().unwrap_or(&empty);
        let list = status.conditions.as_deref().unwrap_or_default();
        conditions::validate(&mut errors, &path.child("conditions"), list);
        for (field, count) in [
            ("disruptionsAllowed", status.disruptions_allowed),
            ("currentHealthy", status.current_healthy),
            ("desiredHealthy", status.desired_healthy),
            ("expectedPods", status.expected_pods),
        ] {
            checks::not_negative(&mut errors, &path.child(field), count.map(i64::from));
        }
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Min Available", "Pods that must stay available."),
            Column::string("Max Unavailable", "Pods that may be unavailable."),
            Column::integer("Allowed Disruptions", "Pods that may be evicted now."),
            Column::AGE,
        ]
    }

    fn row(&self, budget: &PodDisruptionBudget, now: jiff::Timestamp) -> Vec<Value> {
        let spec = budget.spec.as_ref();
        let status = budget.status.as_ref();
        let amount = |amount: Option<&IntOrString>| {
            amount.map_or_else(|| "N/A".to_owned(), int_or_percent::text)
        };
        vec![
            json!(budget.metadata.name),
            json!(amount(spec.and_then(|s| s.min_available.as_ref()))),
            json!(amount(spec.and_then(|s| s.max_unavailable.as_ref()))),
            json!(status.and_then(|s| s.disruptions_allowed).unwrap_or(0)),
            json!(cells::since(
                budget.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}
