//! What may change in a Job: how many pods run at once, deadlines, whether it is suspended; and while it is suspended and has
//! no pods, where they will run and what they will ask for.
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/job/#mutable-scheduling-directives>

use k8s_openapi::api::{
    batch::v1::{Job, JobSpec},
    core::v1::{Affinity, PodSpec, PodTemplateSpec},
};
use pilothouse_api::field::{ErrorList, FieldError, Path};

use super::{INDEXED, conditions};
use crate::registry::kinds::{checks, replicas, semantic};

pub(super) fn validate(new: &Job, old: &Job) -> ErrorList {
    let mut errors = ErrorList::new();
    let empty = JobSpec::default();
    let (spec, before) = (
        new.spec.as_ref().unwrap_or(&empty),
        old.spec.as_ref().unwrap_or(&empty),
    );
    let path = Path::new("spec");
    validate_completions(&mut errors, &path, spec, before);
    let selector = spec.selector.as_ref().map(replicas::shown);
    let shown = |field: &str| semantic::value_at(new, &format!("/spec/{field}"));
    let mut kept = |field: &str, same: bool, value: serde_json::Value| {
        checks::immutable(&mut errors, &path.child(field), same, value);
    };
    let same = spec.selector == before.selector;
    kept("selector", same, selector.unwrap_or_default());
    let template = with_allowed_changes(old, before, &spec.template);
    if spec.template != template {
        kept("template", false, shown("template"));
    }
    for (field, same) in [
        (
            "completionMode",
            spec.completion_mode == before.completion_mode,
        ),
        (
            "podFailurePolicy",
            spec.pod_failure_policy == before.pod_failure_policy,
        ),
        (
            "backoffLimitPerIndex",
            spec.backoff_limit_per_index == before.backoff_limit_per_index,
        ),
        ("managedBy", spec.managed_by == before.managed_by),
        (
            "successPolicy",
            spec.success_policy == before.success_policy,
        ),
    ] {
        if !same {
            kept(field, false, shown(field));
        }
    }
    errors
}

/// Indexed Jobs grow and shrink, in step with their parallelism.
fn validate_completions(errors: &mut ErrorList, path: &Path, new: &JobSpec, old: &JobSpec) {
    if new.completions == old.completions {
        return;
    }
    let path = path.child("completions");
    let value = serde_json::json!(new.completions);
    if new.completion_mode.as_deref() != Some(INDEXED) {
        checks::immutable(errors, &path, false, value);
    } else if new.completions.is_some() && new.completions != new.parallelism {
        errors.push(FieldError::invalid(
            &path,
            value,
            "can only be modified in tandem with spec.parallelism",
        ));
    }
}

/// The old template with those changes of the new one that the state of the Job allows.
fn with_allowed_changes(old: &Job, before: &JobSpec, new: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = before.template.clone();
    let status = old.status.clone().unwrap_or_default();
    let is_idle = before.suspend == Some(true)
        && (status.start_time.is_none() || conditions::holds(&status, conditions::SUSPENDED))
        && status.active.unwrap_or_default() == 0;
    if !is_idle {
        return template;
    }
    let empty = PodSpec::default();
    let wanted = new.spec.as_ref().unwrap_or(&empty);
    let spec = template.spec.get_or_insert_default();
    take_node_affinity(spec, wanted);
    spec.node_selector = wanted.node_selector.clone();
    spec.tolerations = wanted.tolerations.clone();
    spec.scheduling_gates = wanted.scheduling_gates.clone();
    let init = spec.init_containers.iter_mut().flatten();
    let wanted_init = wanted.init_containers.iter().flatten();
    for (container, wanted) in init.zip(wanted_init) {
        container.resources = wanted.resources.clone();
    }
    for (container, wanted) in spec.containers.iter_mut().zip(&wanted.containers) {
        container.resources = wanted.resources.clone();
    }
    let metadata = template.metadata.get_or_insert_default();
    let wanted = new.metadata.clone().unwrap_or_default();
    metadata.labels = wanted.labels;
    metadata.annotations = wanted.annotations;
    template
}

fn take_node_affinity(spec: &mut PodSpec, wanted: &PodSpec) {
    match (&mut spec.affinity, &wanted.affinity) {
        (None, None) => {}
        (None, Some(wanted)) => {
            spec.affinity = Some(Affinity {
                node_affinity: wanted.node_affinity.clone(),
                ..Affinity::default()
            });
        }
        (Some(affinity), Some(wanted)) => affinity.node_affinity = wanted.node_affinity.clone(),
        (Some(affinity), None) => {
            affinity.node_affinity = None;
            spec.affinity
                .take_if(|affinity| *affinity == Affinity::default());
        }
    }
}
