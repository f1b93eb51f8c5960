//! Pods. Source: <https://kubernetes.io/docs/concepts/workloads/pods/>

pub(super) mod affinity;
pub(crate) mod binding;
mod containers;
pub(super) mod defaults;
mod env;
mod ephemeral;
mod mounts;
pub(super) mod paths;
mod printing;
mod probes;
mod resize;
pub(super) mod resources;
mod security;
pub(super) mod spec;
mod status;
pub(super) mod template;
#[cfg(test)]
mod tests;
pub(super) mod tolerations;
mod update;
pub(super) mod volumes;
mod warnings;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodSpec, PodStatus};
use pilothouse_api::{
    ResourceInfo,
    apply::Scope,
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::Value;

use super::describe;
use crate::registry::{
    printing::Column,
    strategy::{Context, Part, Strategy},
};

/// Whose specification is being checked: a pod's, or the template of a workload.
pub(super) struct Owner<'a> {
    /// The pod's name once it has one; ephemeral volumes are named after it.
    pod_name: Option<&'a str>,
    pod: bool,
    has_service_account: bool,
}

impl Owner<'_> {
    /// The template of a workload.
    const TEMPLATE: Self = Self {
        pod_name: None,
        pod: false,
        has_service_account: false,
    };

    fn is_pod(&self) -> bool {
        self.pod
    }
}

pub(super) struct PodStrategy;

impl Strategy for PodStrategy {
    type Object = Pod;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["po"]),
            categories: describe::all(),
            selectable_fields: describe::texts(&[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork?false",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            ]),
            ..describe::namespaced("", "v1", "pods", "Pod")
        }
    }

    fn default(&self, pod: &mut Pod) {
        defaults::pod(pod);
    }

    fn prepare_for_create(&self, _context: &Context, pod: &mut Pod) {
        let labels = pod.metadata.labels.clone();
        let spec = pod.spec.get_or_insert_default();
        affinity::apply_label_keys(spec, labels.as_ref());
        let gated = spec
            .scheduling_gates
            .as_ref()
            .is_some_and(|g| !g.is_empty());
        pod.status = Some(PodStatus {
            phase: Some("Pending".to_owned()),
            qos_class: Some(resources::qos_class(spec).to_owned()),
            conditions: gated.then(|| vec![gated_condition()]),
            ..PodStatus::default()
        });
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut Pod, old: &Pod) {
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(&self) -> Option<fn(&mut Pod, &Pod)> {
        Some(status::prepare)
    }

    fn parts(&self) -> Vec<Part<Pod>> {
        vec![ephemeral::part(), resize::part()]
    }

    fn owned_scope(&self, subresource: &str) -> Option<Scope> {
        const STATUS: Scope = Scope::Without(&[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ]);
        match subresource {
            "status" => Some(STATUS),
            "ephemeralcontainers" => Some(Scope::Only(&[&["spec", "ephemeralContainers"]])),
            "resize" => Some(resize::OWNED),
            _ => None,
        }
    }

    fn generation_changed(&self, new: &Pod, old: &Pod) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, pod: &Pod) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let path = Path::new("metadata").child("annotations");
        let annotations = pod.metadata.annotations.as_ref();
        validate_annotations(&mut errors, &path, annotations, spec);
        let account = spec.service_account_name.as_deref().unwrap_or_default();
        let owner = Owner {
            pod_name: pod.metadata.name.as_deref(),
            pod: true,
            has_service_account: !account.is_empty(),
        };
        spec::validate(&mut errors, &Path::new("spec"), spec, &owner);
        errors
    }

    fn validate_create(&self, pod: &Pod) -> ErrorList {
        let mut errors = ErrorList::new();
        let Some(spec) = &pod.spec else { return errors };
        let path = Path::new("spec");
        if spec
            .ephemeral_containers
            .as_ref()
            .is_some_and(|c| !c.is_empty())
        {
            errors.push(FieldError::forbidden(
                &path.child("ephemeralContainers"),
                "cannot be set on create",
            ));
        }
        let assigned = spec.node_name.as_deref().is_some_and(|n| !n.is_empty());
        let gated = spec
            .scheduling_gates
            .as_ref()
            .is_some_and(|g| !g.is_empty());
        if assigned && gated {
            errors.push(FieldError::forbidden(
                &path.child("nodeName"),
                "cannot be set until all schedulingGates have been cleared",
            ));
        }
        errors
    }

    fn validate_update(&self, new: &Pod, old: &Pod) -> ErrorList {
        let mut errors = update::validate_annotations(new, old);
        errors.extend(update::validate(new, old));
        errors
    }

    fn validate_status_update(&self, new: &Pod, old: &Pod) -> ErrorList {
        status::validate(new, old)
    }

    fn warnings(&self, pod: &Pod) -> Vec<String> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let empty = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let annotations = pod.metadata.annotations.as_ref();
        let mut warnings = warnings::of(&Path::default(), spec, annotations);
        let complaints = validation::is_dns1123_label(name);
        if !complaints.is_empty() {
            warnings.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
                complaints.join(" ")
            ));
        }
        warnings
    }

    fn deletion_grace_seconds(&self, pod: &Pod, asked: Option<i64>) -> Option<i64> {
        let spec = pod.spec.as_ref();
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
        let unscheduled = spec.is_none_or(|s| s.node_name.as_deref().unwrap_or_default() == "");
        if unscheduled || matches!(phase, Some("Succeeded" | "Failed")) {
            return Some(0);
        }
        let own = spec.and_then(|s| s.termination_grace_period_seconds);
        match asked.or(own).unwrap_or_default() {
            ..0 => Some(1),
            seconds => Some(seconds),
        }
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        printing::columns()
    }

    fn row(&self, pod: &Pod, now: jiff::Timestamp) -> Vec<Value> {
        printing::row(pod, now)
    }
}

fn gated_condition() -> PodCondition {
    PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("SchedulingGated".to_owned()),
        message: Some("Scheduling is blocked due to non-empty scheduling gates".to_owned()),
        ..PodCondition::default()
    }
}

/// Annotations of pods and templates that mean something to Kubernetes.
fn validate_annotations(
    errors: &mut ErrorList,
    path: &Path,
    annotations: Option<&BTreeMap<String, String>>,
    spec: &PodSpec,
) {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    let Some(annotations) = annotations else {
        return;
    };
    if let Some(value) = annotations.get(MIRROR)
        && spec.node_name.as_deref().unwrap_or_default().is_empty()
    {
        errors.push(FieldError::invalid(
            &path.key(MIRROR),
            value.as_str(),
            "must set spec.nodeName if mirror pod annotation is set",
        ));
    }
    if let Some(cost) = annotations.get(DELETION_COST) {
        // as Kubernetes reads it: no plus sign, no leading zeros
        let canonical = cost.parse::<i32>().is_ok_and(|n| n.to_string() == *cost);
        if !canonical {
            errors.push(FieldError::invalid(
                &path.key(DELETION_COST),
                cost.as_str(),
                "must be a 32bit integer",
            ));
        }
    }
}
