//! Where pods may run: node affinity, pod affinity, spreading.
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/> and
//! <https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/>

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
        PodAffinityTerm, PodSpec, TopologySpreadConstraint, WeightedPodAffinityTerm,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation,
};

use crate::registry::kinds::checks;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const BAD_OPERATOR: &str = "not a valid selector operator";
const BAD_WEIGHT: &str = "must be in the range 1-100";
const IN_BOTH: &str = "exists in both matchLabelKeys and labelSelector";

/// Writes `matchLabelKeys` and `mismatchLabelKeys` into the selectors they narrow, with the pod's own labels; once, when the
/// pod is created.
pub(super) fn apply_label_keys(spec: &mut PodSpec, labels: Option<&BTreeMap<String, String>>) {
    let none = BTreeMap::new();
    let labels = labels.unwrap_or(&none);
    let affinity = spec.affinity.as_mut();
    if let Some(affinity) = affinity {
        let near = affinity.pod_affinity.as_mut().map(|a| {
            (
                &mut a.required_during_scheduling_ignored_during_execution,
                &mut a.preferred_during_scheduling_ignored_during_execution,
            )
        });
        let far = affinity.pod_anti_affinity.as_mut().map(|a| {
            (
                &mut a.required_during_scheduling_ignored_during_execution,
                &mut a.preferred_during_scheduling_ignored_during_execution,
            )
        });
        for (required, preferred) in near.into_iter().chain(far) {
            let preferred = preferred.iter_mut().flatten();
            for term in required
                .iter_mut()
                .flatten()
                .chain(preferred.map(|w| &mut w.pod_affinity_term))
            {
                let selector = term.label_selector.as_mut();
                narrow(selector, term.match_label_keys.as_deref(), "In", labels);
                let selector = term.label_selector.as_mut();
                narrow(
                    selector,
                    term.mismatch_label_keys.as_deref(),
                    "NotIn",
                    labels,
                );
            }
        }
    }
    for constraint in spec.topology_spread_constraints.iter_mut().flatten() {
        let selector = constraint.label_selector.as_mut();
        narrow(
            selector,
            constraint.match_label_keys.as_deref(),
            "In",
            labels,
        );
    }
}

fn narrow(
    selector: Option<&mut LabelSelector>,
    keys: Option<&[String]>,
    operator: &str,
    labels: &BTreeMap<String, String>,
) {
    let (Some(selector), Some(keys)) = (selector, keys) else {
        return;
    };
    let requirements = keys.iter().filter_map(|key| {
        Some(LabelSelectorRequirement {
            key: key.clone(),
            operator: operator.to_owned(),
            values: Some(vec![labels.get(key)?.clone()]),
        })
    });
    let requirements: Vec<_> = requirements.collect();
    if !requirements.is_empty() {
        let expressions = selector.match_expressions.get_or_insert_default();
        expressions.extend(requirements);
    }
}

pub(super) fn validate(errors: &mut ErrorList, path: &Path, affinity: &Affinity) {
    if let Some(node) = &affinity.node_affinity {
        validate_node_affinity(errors, &path.child("nodeAffinity"), node);
    }
    if let Some(near) = &affinity.pod_affinity {
        validate_pod_terms(
            errors,
            &path.child("podAffinity"),
            near.required_during_scheduling_ignored_during_execution
                .as_deref(),
            near.preferred_during_scheduling_ignored_during_execution
                .as_deref(),
        );
    }
    if let Some(far) = &affinity.pod_anti_affinity {
        validate_pod_terms(
            errors,
            &path.child("podAntiAffinity"),
            far.required_during_scheduling_ignored_during_execution
                .as_deref(),
            far.preferred_during_scheduling_ignored_during_execution
                .as_deref(),
        );
    }
}

fn validate_node_affinity(errors: &mut ErrorList, path: &Path, affinity: &NodeAffinity) {
    if let Some(required) = &affinity.required_during_scheduling_ignored_during_execution {
        validate_node_selector(errors, &path.child(REQUIRED), required);
    }
    let preferred = affinity
        .preferred_during_scheduling_ignored_during_execution
        .iter()
        .flatten();
    for (i, term) in preferred.enumerate() {
        let path = path.child(PREFERRED).index(i);
        if !(1..=100).contains(&term.weight) {
            let path = path.child("weight");
            errors.push(FieldError::invalid(&path, term.weight, BAD_WEIGHT));
        }
        // label values of preferences are not checked: one that matches no node does no harm
        validate_node_term(errors, &path.child("preference"), &term.preference, false);
    }
}

/// Which nodes, wherever that is said: in pods and in volumes.
pub(in crate::registry::kinds) fn validate_node_selector(
    errors: &mut ErrorList,
    path: &Path,
    selector: &NodeSelector,
) {
    let path = path.child("nodeSelectorTerms");
    if selector.node_selector_terms.is_empty() {
        errors.push(FieldError::required(
            &path,
            "must have at least one node selector term",
        ));
    }
    for (i, term) in selector.node_selector_terms.iter().enumerate() {
        validate_node_term(errors, &path.index(i), term, true);
    }
}

fn validate_node_term(
    errors: &mut ErrorList,
    path: &Path,
    term: &NodeSelectorTerm,
    check_values: bool,
) {
    for (i, requirement) in term.match_expressions.iter().flatten().enumerate() {
        let path = path.child("matchExpressions").index(i);
        validate_expression(errors, &path, requirement, check_values);
    }
    for (i, requirement) in term.match_fields.iter().flatten().enumerate() {
        let path = path.child("matchFields").index(i);
        validate_field(errors, &path, requirement);
    }
}

fn validate_expression(
    errors: &mut ErrorList,
    path: &Path,
    requirement: &NodeSelectorRequirement,
    check_values: bool,
) {
    let values = requirement.values.as_deref().unwrap_or_default();
    let values_path = path.child("values");
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
            &values_path,
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
            &values_path,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "Gt" | "Lt" if values.len() != 1 => errors.push(FieldError::required(
            &values_path,
            "must be specified single value when `operator` is 'Lt' or 'Gt'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.push(FieldError::invalid(
            &path.child("operator"),
            other,
            BAD_OPERATOR,
        )),
    }
    checks::qualified_name(errors, &path.child("key"), &requirement.key);
    if check_values {
        for (i, value) in values.iter().enumerate() {
            checks::label_value(errors, &values_path.index(i), value);
        }
    }
}

fn validate_field(errors: &mut ErrorList, path: &Path, requirement: &NodeSelectorRequirement) {
    let values = requirement.values.as_deref().unwrap_or_default();
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => errors.push(FieldError::required(
            &path.child("values"),
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )),
        other => errors.push(FieldError::invalid(
            &path.child("operator"),
            other,
            BAD_OPERATOR,
        )),
    }
    if requirement.key != "metadata.name" {
        errors.push(FieldError::invalid(
            &path.child("key"),
            requirement.key.as_str(),
            "not a valid field selector key",
        ));
        return;
    }
    for (i, value) in values.iter().enumerate() {
        checks::dns_subdomain(errors, &path.child("values").index(i), value);
    }
}

fn validate_pod_terms(
    errors: &mut ErrorList,
    path: &Path,
    required: Option<&[PodAffinityTerm]>,
    preferred: Option<&[WeightedPodAffinityTerm]>,
) {
    for (i, term) in required.unwrap_or_default().iter().enumerate() {
        validate_pod_term(errors, &path.child(REQUIRED).index(i), term);
    }
    for (i, weighted) in preferred.unwrap_or_default().iter().enumerate() {
        let path = path.child(PREFERRED).index(i);
        if !(1..=100).contains(&weighted.weight) {
            let path = path.child("weight");
            errors.push(FieldError::invalid(&path, weighted.weight, BAD_WEIGHT));
        }
        let path = path.child("podAffinityTerm");
        validate_pod_term(errors, &path, &weighted.pod_affinity_term);
    }
}

fn validate_pod_term(errors: &mut ErrorList, path: &Path, term: &PodAffinityTerm) {
    let selector = term.label_selector.as_ref();
    checks::label_selector(errors, &path.child("labelSelector"), selector);
    let namespaces = term.namespace_selector.as_ref();
    checks::label_selector(errors, &path.child("namespaceSelector"), namespaces);
    for name in term.namespaces.iter().flatten() {
        checks::dns_label(errors, &path.child("namespace"), name);
    }
    let keys = term.match_label_keys.as_deref().unwrap_or_default();
    let not_keys = term.mismatch_label_keys.as_deref().unwrap_or_default();
    for (field, keys) in [("matchLabelKeys", keys), ("mismatchLabelKeys", not_keys)] {
        validate_label_keys(errors, &path.child(field), keys, selector);
    }
    for i in repeated_keys(keys, selector) {
        errors.push(FieldError::invalid(
            &path.index(i),
            keys[i].as_str(),
            IN_BOTH,
        ));
    }
    for (i, key) in keys.iter().enumerate() {
        if not_keys.contains(key) {
            errors.push(FieldError::invalid(
                &path.child("matchLabelKeys").index(i),
                key.as_str(),
                "exists in both matchLabelKeys and mismatchLabelKeys",
            ));
        }
    }
    let path = path.child("topologyKey");
    if term.topology_key.is_empty() {
        errors.push(FieldError::required(&path, "can not be empty"));
    }
    checks::qualified_name(errors, &path, &term.topology_key);
}

fn validate_label_keys(
    errors: &mut ErrorList,
    path: &Path,
    keys: &[String],
    selector: Option<&LabelSelector>,
) {
    if keys.is_empty() {
        return;
    }
    if selector.is_none() {
        errors.push(FieldError::forbidden(
            path,
            "must not be specified when labelSelector is not set",
        ));
    }
    for (i, key) in keys.iter().enumerate() {
        let complaints = validation::is_label_key(key);
        checks::invalid_each(errors, &path.index(i), key, complaints);
    }
}

/// Which keys the selector names besides the one requirement that [`apply_label_keys`] wrote for each.
fn repeated_keys(keys: &[String], selector: Option<&LabelSelector>) -> Vec<usize> {
    let Some(selector) = selector else {
        return Vec::new();
    };
    let named = |key: &String| {
        let by_label = selector
            .match_labels
            .as_ref()
            .is_some_and(|l| l.contains_key(key));
        let expressions = selector.match_expressions.iter().flatten();
        usize::from(by_label) + expressions.filter(|e| e.key == *key).count()
    };
    (0..keys.len()).filter(|i| named(&keys[*i]) > 1).collect()
}

pub(super) fn validate_spread(
    errors: &mut ErrorList,
    path: &Path,
    constraints: &[TopologySpreadConstraint],
) {
    for (i, constraint) in constraints.iter().enumerate() {
        let path = path.index(i);
        validate_constraint(errors, &path, constraint);
        let same = |other: &&TopologySpreadConstraint| {
            other.topology_key == constraint.topology_key
                && other.when_unsatisfiable == constraint.when_unsatisfiable
        };
        if constraints[i + 1..].iter().find(same).is_some() {
            errors.push(FieldError::duplicate(
                &path.child("{topologyKey, whenUnsatisfiable}"),
                format!(
                    "{{{}, {}}}",
                    constraint.topology_key, constraint.when_unsatisfiable
                ),
            ));
        }
    }
}

fn validate_constraint(errors: &mut ErrorList, path: &Path, constraint: &TopologySpreadConstraint) {
    if constraint.max_skew <= 0 {
        let path = path.child("maxSkew");
        errors.push(FieldError::invalid(
            &path,
            constraint.max_skew,
            checks::POSITIVE,
        ));
    }
    if constraint.topology_key.is_empty() {
        let path = path.child("topologyKey");
        errors.push(FieldError::required(&path, "can not be empty"));
    }
    let action = constraint.when_unsatisfiable.as_str();
    checks::one_of(
        errors,
        &path.child("whenUnsatisfiable"),
        action,
        &["DoNotSchedule", "ScheduleAnyway"],
    );
    if let Some(min) = constraint.min_domains {
        let path = path.child("minDomains");
        if min <= 0 {
            errors.push(FieldError::invalid(&path, min, checks::POSITIVE));
        }
        if action != "DoNotSchedule" {
            let why =
                format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            errors.push(FieldError::invalid(&path, min, &why));
        }
    }
    for (field, policy) in [
        ("nodeAffinityPolicy", &constraint.node_affinity_policy),
        ("nodeTaintsPolicy", &constraint.node_taints_policy),
    ] {
        if let Some(policy) = policy {
            checks::one_of(errors, &path.child(field), policy, &["Honor", "Ignore"]);
        }
    }
    let selector = constraint.label_selector.as_ref();
    let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
    let keys_path = path.child("matchLabelKeys");
    validate_label_keys(errors, &keys_path, keys, selector);
    for i in repeated_keys(keys, selector) {
        errors.push(FieldError::invalid(
            &keys_path.index(i),
            keys[i].as_str(),
            IN_BOTH,
        ));
    }
    checks::label_selector(errors, &path.child("labelSelector"), selector);
}
