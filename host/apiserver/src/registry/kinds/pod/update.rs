//! What may change in a pod: images, tolerations that are added, gates that go, a nearer deadline; while it is gated, also
//! where it may run, if that only narrows.
//! Source: <https://kubernetes.io/docs/concepts/workloads/pods/#pod-update-and-replacement>

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Container, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec,
    Toleration,
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::json;

use crate::registry::kinds::{checks, semantic};

const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn validate(new: &Pod, old: &Pod) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let empty = PodSpec::default();
    let (new_spec, old_spec) = (
        new.spec.as_ref().unwrap_or(&empty),
        old.spec.as_ref().unwrap_or(&empty),
    );
    let init = |spec: &PodSpec| spec.init_containers.as_ref().map_or(0, Vec::len);
    for (field, same) in [
        (
            "containers",
            new_spec.containers.len() == old_spec.containers.len(),
        ),
        ("initContainers", init(new_spec) == init(old_spec)),
    ] {
        if !same {
            errors.push(FieldError::forbidden(
                &path.child(field),
                "pod updates may not add or remove containers",
            ));
            return errors;
        }
    }
    let before = errors.len();
    validate_deadline(&mut errors, &path, new_spec, old_spec);
    if errors.len() > before && new_spec.active_deadline_seconds.is_some() {
        return errors;
    }
    validate_tolerations(&mut errors, &path.child("tolerations"), new_spec, old_spec);
    validate_gates(
        &mut errors,
        &path.child("schedulingGates"),
        new_spec,
        old_spec,
    );
    if new_spec == old_spec {
        return errors;
    }
    let mut rest = undo_allowed_changes(new_spec, old_spec);
    if !gates(old_spec).is_empty() {
        validate_narrowing(&mut errors, &path, &mut rest, old_spec);
    }
    let rest = Pod {
        spec: Some(rest),
        ..Pod::default()
    };
    let kept = Pod {
        spec: Some(old_spec.clone()),
        ..Pod::default()
    };
    let differences = semantic::differences(&rest, &kept, "spec");
    if !differences.is_empty() {
        let why = format!(
            "pod updates may not change fields other than {CHANGEABLE}\n{}",
            differences.join("\n")
        );
        errors.push(FieldError::forbidden(&path, &why));
    }
    errors
}

fn gates(spec: &PodSpec) -> Vec<&str> {
    let gates = spec.scheduling_gates.iter().flatten();
    gates.map(|gate| gate.name.as_str()).collect()
}

fn validate_deadline(errors: &mut ErrorList, path: &Path, new: &PodSpec, old: &PodSpec) {
    let path = path.child("activeDeadlineSeconds");
    match (new.active_deadline_seconds, old.active_deadline_seconds) {
        (Some(new), old) => {
            for why in validation::is_in_range(new, 0, i32::MAX.into()) {
                errors.push(FieldError::invalid(&path, new, &why));
            }
            if old.is_some_and(|old| old < new) {
                errors.push(FieldError::invalid(
                    &path,
                    new,
                    "must be less than or equal to previous value",
                ));
            }
        }
        (None, Some(_)) => errors.push(FieldError::invalid(
            &path,
            json!(null),
            "must not update from a positive integer to nil value",
        )),
        (None, None) => {}
    }
}

fn validate_tolerations(errors: &mut ErrorList, path: &Path, new: &PodSpec, old: &PodSpec) {
    let without_time = |toleration: &Toleration| Toleration {
        toleration_seconds: None,
        ..toleration.clone()
    };
    let kept: Vec<Toleration> = new.tolerations.iter().flatten().map(without_time).collect();
    let mut before = old.tolerations.iter().flatten().map(without_time);
    if before.any(|toleration| !kept.contains(&toleration)) {
        errors.push(FieldError::forbidden(
            path,
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
}

fn validate_gates(errors: &mut ErrorList, path: &Path, new: &PodSpec, old: &PodSpec) {
    let before = gates(old);
    for (i, gate) in gates(new).into_iter().enumerate() {
        if !before.contains(&gate) {
            errors.push(FieldError::forbidden(
                &path.index(i).child("name"),
                &format!("only deletion is allowed, but found new scheduling gate '{gate}'"),
            ));
        }
    }
}

/// The new specification with everything that may change put back.
fn undo_allowed_changes(new: &PodSpec, old: &PodSpec) -> PodSpec {
    let mut rest = new.clone();
    let undo_images = |new: &mut [Container], old: &[Container]| {
        for (new, old) in new.iter_mut().zip(old) {
            new.image = old.image.clone();
        }
    };
    undo_images(&mut rest.containers, &old.containers);
    if let (Some(new), Some(old)) = (&mut rest.init_containers, &old.init_containers) {
        undo_images(new, old);
    }
    rest.active_deadline_seconds = old.active_deadline_seconds;
    rest.scheduling_gates = old.scheduling_gates.clone();
    rest.tolerations = old.tolerations.clone();
    let was_negative = old.termination_grace_period_seconds.is_some_and(|s| s < 0);
    if was_negative && rest.termination_grace_period_seconds == Some(1) {
        rest.termination_grace_period_seconds = old.termination_grace_period_seconds;
    }
    rest
}

/// A gated pod may be narrowed to fewer nodes. Puts back in `rest` what was judged here.
fn validate_narrowing(errors: &mut ErrorList, path: &Path, rest: &mut PodSpec, old: &PodSpec) {
    let none = BTreeMap::new();
    let selector = rest.node_selector.as_ref().unwrap_or(&none);
    let mut before = old.node_selector.iter().flatten();
    if before.any(|(key, value)| selector.get(key) != Some(value)) {
        errors.push(FieldError::invalid(
            &path.child("nodeSelector"),
            json!(selector),
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        ));
    }
    rest.node_selector = old.node_selector.clone();

    let node_affinity = |spec: &PodSpec| spec.affinity.as_ref()?.node_affinity.clone();
    let (new_affinity, old_affinity) = (node_affinity(rest), node_affinity(old));
    if new_affinity == old_affinity {
        return;
    }
    let path = path.child("affinity").child("nodeAffinity");
    validate_affinity_narrowing(errors, &path, new_affinity.as_ref(), old_affinity.as_ref());
    let affinity = rest.affinity.get_or_insert_default();
    affinity.node_affinity = old_affinity;
    if *affinity == Affinity::default() {
        rest.affinity = old.affinity.clone().filter(|a| *a == Affinity::default());
    }
}

fn validate_affinity_narrowing(
    errors: &mut ErrorList,
    path: &Path,
    new: Option<&NodeAffinity>,
    old: Option<&NodeAffinity>,
) {
    let terms = |affinity: Option<&NodeAffinity>| -> Vec<NodeSelectorTerm> {
        let required = affinity.and_then(|a| {
            a.required_during_scheduling_ignored_during_execution
                .as_ref()
        });
        required.map_or_else(Vec::new, |selector| selector.node_selector_terms.clone())
    };
    let (new, old) = (terms(new), terms(old));
    let path = path
        .child("requiredDuringSchedulingIgnoredDuringExecution")
        .child("nodeSelectorTerms");
    if !old.is_empty() && new.len() != old.len() {
        errors.push(FieldError::invalid(
            &path,
            json!(new.len()),
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        ));
        return;
    }
    for (i, (new, old)) in new.iter().zip(&old).enumerate() {
        if !only_adds(new, old) {
            errors.push(FieldError::invalid(
                &path.index(i),
                json!(requirement_keys(new)),
                "only additions are allowed (no mutations or deletions)",
            ));
        }
    }
}

/// Requirements of a term are joined by AND, so more of them narrow it; an empty term matches nothing, so any would widen it.
fn only_adds(new: &NodeSelectorTerm, old: &NodeSelectorTerm) -> bool {
    let expressions = |term: &NodeSelectorTerm| term.match_expressions.clone().unwrap_or_default();
    let fields = |term: &NodeSelectorTerm| term.match_fields.clone().unwrap_or_default();
    let extends = |new: Vec<NodeSelectorRequirement>, old: Vec<NodeSelectorRequirement>| {
        new.starts_with(&old)
    };
    let was_empty = expressions(old).is_empty() && fields(old).is_empty();
    let is_empty = expressions(new).is_empty() && fields(new).is_empty();
    (!was_empty || is_empty)
        && extends(expressions(new), expressions(old))
        && extends(fields(new), fields(old))
}

fn requirement_keys(term: &NodeSelectorTerm) -> Vec<&str> {
    let all = term.match_expressions.iter().chain(&term.match_fields);
    all.flatten().map(|r| r.key.as_str()).collect()
}

/// Annotations that belong to the kubelet's own pods and to AppArmor may not come, change or go.
pub(super) fn validate_annotations(new: &Pod, old: &Pod) -> ErrorList {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
    let mut errors = ErrorList::new();
    let path = Path::new("metadata").child("annotations");
    let none = BTreeMap::new();
    let (new, old) = (
        new.metadata.annotations.as_ref().unwrap_or(&none),
        old.metadata.annotations.as_ref().unwrap_or(&none),
    );
    let mut forbid = |key: &String, what: &str| {
        let subject = match key.as_str() {
            MIRROR => "mirror pod annotation",
            key if key.starts_with(APP_ARMOR) => "AppArmor annotations",
            _ => return,
        };
        let why = format!("may not {what} {subject}");
        errors.push(FieldError::forbidden(&path.key(key), &why));
    };
    for key in old
        .iter()
        .filter(|(k, v)| new.get(*k) != Some(v))
        .map(|(k, _)| k)
    {
        forbid(key, "remove or update");
    }
    for key in new.keys().filter(|key| !old.contains_key(*key)) {
        forbid(key, "add");
    }
    errors
}

/// A sanity check shared with the status: which node a pod is on never changes by an update.
pub(super) fn validate_node_name(errors: &mut ErrorList, new: &Pod, old: &Pod) {
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|s| s.node_name.clone());
    if node(new) != node(old) {
        errors.push(FieldError::forbidden(
            &Path::new("status").child("nodeName"),
            "may not be changed directly",
        ));
    }
    let nominated = |pod: &Pod| {
        let status = pod.status.as_ref();
        status
            .and_then(|s| s.nominated_node_name.clone())
            .unwrap_or_default()
    };
    let name = nominated(new);
    if name != nominated(old) && !name.is_empty() {
        let path = Path::new("status").child("nominatedNodeName");
        checks::dns_subdomain(errors, &path, &name);
    }
}
