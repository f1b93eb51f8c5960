//! The `binding` subresource, as functions on pods.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/binding-v1/>

use k8s_openapi::{
    api::core::v1::{Binding, Pod, PodCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};
use pilothouse_api::{
    GroupResource, Status,
    field::{ErrorList, FieldError, Path},
};

use crate::registry::kinds::checks;

/// What is wrong with a binding in itself.
pub(crate) fn validate_binding(binding: &Binding) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("target");
    let kind = binding.target.kind.as_deref().unwrap_or_default();
    if !matches!(kind, "" | "Node") {
        errors.push(FieldError::not_supported(
            &path.child("kind"),
            kind,
            &["Node", "<empty>"],
        ));
    }
    let name = binding.target.name.as_deref().unwrap_or_default();
    checks::required(&mut errors, &path.child("name"), name);
    errors
}

/// Assigns the pod to the binding's node. 409 `Conflict` if it is assigned already, being deleted or gated, or if it is not the
/// pod whose uid or resource version the binding names.
pub(crate) fn bind(pod: &mut Pod, binding: &Binding, now: jiff::Timestamp) -> Result<(), Status> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    if let Some(why) = refusal(pod, binding, &name) {
        let resource = GroupResource {
            group: "".into(),
            resource: "pods/binding".into(),
        };
        return Err(Status::conflict(&resource, &name, why));
    }
    let annotations = binding.metadata.annotations.clone().unwrap_or_default();
    if !annotations.is_empty() {
        let merged = pod.metadata.annotations.get_or_insert_default();
        merged.extend(annotations);
    }
    for (key, value) in binding.metadata.labels.iter().flatten() {
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.entry(key.clone()).or_insert_with(|| value.clone());
    }
    let node = binding.target.name.clone();
    pod.spec.get_or_insert_default().node_name = node;
    let status = pod.status.get_or_insert_default();
    status.nominated_node_name = None;
    let conditions = status.conditions.get_or_insert_default();
    set_scheduled(conditions, now);
    Ok(())
}

fn refusal(pod: &Pod, binding: &Binding, name: &str) -> Option<String> {
    let given = |field: &Option<String>| field.clone().filter(|value| !value.is_empty());
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    if let Some(wanted) = given(&binding.metadata.uid).filter(|wanted| wanted != uid) {
        return Some(format!(
            "Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
        ));
    }
    let version = pod.metadata.resource_version.as_deref().unwrap_or_default();
    let wanted = given(&binding.metadata.resource_version);
    if let Some(wanted) = wanted.filter(|wanted| wanted != version) {
        return Some(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        ));
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }
    let spec = pod.spec.as_ref();
    if let Some(node) = spec.and_then(|s| given(&s.node_name)) {
        return Some(format!("pod {name} is already assigned to node {node:?}"));
    }
    let gates = spec.and_then(|s| s.scheduling_gates.as_ref());
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return Some(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    None
}

fn set_scheduled(conditions: &mut Vec<PodCondition>, now: jiff::Timestamp) {
    let scheduled = PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(Time(now)),
        ..PodCondition::default()
    };
    match conditions.iter_mut().find(|c| c.type_ == scheduled.type_) {
        Some(condition) => *condition = scheduled,
        None => conditions.push(scheduled),
    }
}
