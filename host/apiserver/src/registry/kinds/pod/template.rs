//! Pod templates: what workloads make pods from. Every workload's strategy uses these.
//! Source: <https://kubernetes.io/docs/concepts/workloads/pods/#pod-templates>

use k8s_openapi::{
    api::core::v1::{PodSpec, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::json;

pub(in crate::registry::kinds) use super::defaults::template as fill_defaults;
use super::{Owner, spec, validate_annotations, warnings};
use crate::registry::kinds::checks;

/// A template of any workload.
pub(in crate::registry::kinds) fn validate(
    errors: &mut ErrorList,
    path: &Path,
    template: &PodTemplateSpec,
) {
    let metadata = template.metadata.clone().unwrap_or_default();
    checks::labels(errors, &path.child("labels"), metadata.labels.as_ref());
    let annotations = metadata.annotations.as_ref();
    let annotations_path = path.child("annotations");
    errors.extend(validation::validate_annotations(
        annotations,
        &annotations_path,
    ));
    let empty = PodSpec::default();
    let pod_spec = template.spec.as_ref().unwrap_or(&empty);
    validate_annotations(errors, &annotations_path, annotations, pod_spec);
    let path = path.child("spec");
    spec::validate(errors, &path, pod_spec, &Owner::TEMPLATE);
    if pod_spec
        .ephemeral_containers
        .as_ref()
        .is_some_and(|c| !c.is_empty())
    {
        errors.push(FieldError::forbidden(
            &path.child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        ));
    }
}

/// What is allowed in a template but hardly meant.
pub(in crate::registry::kinds) fn warnings(path: &Path, template: &PodTemplateSpec) -> Vec<String> {
    let empty = PodSpec::default();
    let spec = template.spec.as_ref().unwrap_or(&empty);
    let annotations = template.metadata.as_ref();
    let annotations = annotations.and_then(|m| m.annotations.as_ref());
    warnings::of(path, spec, annotations)
}

/// The same of what makes pods from `spec.template`.
pub(in crate::registry::kinds) fn warnings_of_spec(
    template: Option<&PodTemplateSpec>,
) -> Vec<String> {
    let path = Path::new("spec").child("template");
    template.map_or_else(Vec::new, |template| warnings(&path, template))
}

/// A template of a workload that keeps its pods running and finds them by a selector. `kind` is for the message.
pub(in crate::registry::kinds) fn validate_of_replicas(
    errors: &mut ErrorList,
    path: &Path,
    template: &PodTemplateSpec,
    selector: &LabelSelector,
    kind: &str,
) {
    let labels = template.metadata.as_ref().and_then(|m| m.labels.as_ref());
    if !is_empty(selector) && !checks::selects(selector, labels) {
        errors.push(FieldError::invalid(
            &path.child("metadata").child("labels"),
            json!(labels),
            "`selector` does not match template `labels`",
        ));
    }
    validate(errors, path, template);
    let empty = PodSpec::default();
    let spec = template.spec.as_ref().unwrap_or(&empty);
    let path = path.child("spec");
    let policy = spec.restart_policy.as_deref().unwrap_or_default();
    checks::one_of(errors, &path.child("restartPolicy"), policy, &["Always"]);
    if spec.active_deadline_seconds.is_some() {
        errors.push(FieldError::forbidden(
            &path.child("activeDeadlineSeconds"),
            &format!("activeDeadlineSeconds in {kind} is not Supported"),
        ));
    }
}

/// Whether a selector names nothing, which selects everything.
pub(in crate::registry::kinds) fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(|l| l.is_empty())
        && selector
            .match_expressions
            .as_ref()
            .is_none_or(|e| e.is_empty())
}
