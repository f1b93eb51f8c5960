//! HorizontalPodAutoscalers: `autoscaling/v2`, in whose form they are kept, and `autoscaling/v1`, which is converted.
//! Source: <https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/>

mod conversion;
mod defaults;
mod metrics;
mod printing;
#[cfg(test)]
mod tests;
mod v1;
mod validation;

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, Path},
};
use serde_json::Value;

use super::{checks, describe};
use crate::registry::{
    printing::Column,
    strategy::{Context, Strategy},
};

pub(super) use v1::HorizontalPodAutoscalerV1Strategy;

/// `autoscaling/v2`.
pub(super) struct HorizontalPodAutoscalerStrategy;

/// The resource in one of its versions.
fn resource(version: &'static str) -> ResourceInfo {
    let (plural, kind) = ("horizontalpodautoscalers", "HorizontalPodAutoscaler");
    ResourceInfo {
        short_names: describe::texts(&["hpa"]),
        categories: describe::all(),
        ..describe::namespaced("autoscaling", version, plural, kind)
    }
}

impl Strategy for HorizontalPodAutoscalerStrategy {
    type Object = HorizontalPodAutoscaler;

    fn resource(&self) -> ResourceInfo {
        resource("v2")
    }

    fn default(&self, autoscaler: &mut HorizontalPodAutoscaler) {
        defaults::fill(autoscaler);
    }

    fn prepare_for_create(&self, _context: &Context, autoscaler: &mut HorizontalPodAutoscaler) {
        autoscaler.status = Some(HorizontalPodAutoscalerStatus::default());
    }

    fn prepare_for_update(
        &self,
        _context: &Context,
        new: &mut HorizontalPodAutoscaler,
        old: &HorizontalPodAutoscaler,
    ) {
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(
        &self,
    ) -> Option<fn(&mut HorizontalPodAutoscaler, &HorizontalPodAutoscaler)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn validate(&self, autoscaler: &HorizontalPodAutoscaler) -> ErrorList {
        let mut errors = ErrorList::new();
        let spec: &HorizontalPodAutoscalerSpec = &autoscaler.spec;
        validation::validate(&mut errors, &Path::new("spec"), spec);
        errors
    }

    fn validate_status_update(
        &self,
        new: &HorizontalPodAutoscaler,
        _old: &HorizontalPodAutoscaler,
    ) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("status");
        let status = new.status.clone().unwrap_or_default();
        for (field, count) in [
            (
                "currentReplicas",
                status.current_replicas.unwrap_or_default(),
            ),
            ("desiredReplicas", status.desired_replicas),
        ] {
            checks::not_negative(&mut errors, &path.child(field), Some(count.into()));
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        printing::columns()
    }

    fn row(&self, autoscaler: &HorizontalPodAutoscaler, now: jiff::Timestamp) -> Vec<Value> {
        printing::row(autoscaler, now)
    }
}
