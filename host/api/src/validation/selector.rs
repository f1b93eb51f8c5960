//! `metav1.LabelSelector` as a field of an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::{is_label_key, is_label_value, validate_labels};
use crate::field::{ErrorList, FieldError, Path};

/// Labels, operators, and how many values they take.
pub fn validate_label_selector(selector: &LabelSelector, path: &Path) -> ErrorList {
    let mut errors = validate_labels(selector.match_labels.as_ref(), &path.child("matchLabels"));
    let path = path.child("matchExpressions");
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        validate_requirement(&mut errors, requirement, &path.index(index));
    }
    errors
}

fn validate_requirement(
    errors: &mut ErrorList,
    requirement: &LabelSelectorRequirement,
    path: &Path,
) {
    let values = requirement.values.as_deref().unwrap_or_default();
    let values_path = path.child("values");
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
            &values_path,
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
            &values_path,
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "Exists" | "DoesNotExist" => {}
        other => errors.push(FieldError::invalid(
            &path.child("operator"),
            other,
            "not a valid selector operator",
        )),
    }
    let key = requirement.key.as_str();
    for message in is_label_key(key) {
        errors.push(FieldError::invalid(&path.child("key"), key, &message));
    }
    for (index, value) in values.iter().enumerate() {
        for message in is_label_value(value) {
            let path = values_path.index(index);
            errors.push(FieldError::invalid(&path, value.as_str(), &message));
        }
    }
}
