//! Tolerations and the effects of taints.
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>

use k8s_openapi::api::core::v1::Toleration;
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation,
};

use crate::registry::kinds::checks;

/// What a taint does to pods that do not tolerate it.
pub(in crate::registry::kinds) const EFFECTS: [&str; 3] =
    ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(in crate::registry::kinds) fn validate(
    errors: &mut ErrorList,
    path: &Path,
    tolerations: &[Toleration],
) {
    for (i, toleration) in tolerations.iter().enumerate() {
        validate_one(errors, &path.index(i), toleration);
    }
}

fn validate_one(errors: &mut ErrorList, path: &Path, toleration: &Toleration) {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (key, value) = (text(&toleration.key), text(&toleration.value));
    let (operator, effect) = (text(&toleration.operator), text(&toleration.effect));
    let operator_path = path.child("operator");
    if !key.is_empty() {
        checks::qualified_name(errors, &path.child("key"), &key);
    } else if operator != "Exists" {
        errors.push(FieldError::invalid(
            &operator_path,
            operator.as_str(),
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        ));
    }
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        errors.push(FieldError::invalid(
            &path.child("effect"),
            effect.as_str(),
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        ));
    }
    match operator.as_str() {
        "" | "Equal" => {
            let complaints = validation::is_label_value(&value);
            if !complaints.is_empty() {
                let why = complaints.join(";");
                errors.push(FieldError::invalid(&operator_path, value, &why));
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => errors.push(FieldError::invalid(
            &operator_path,
            value,
            "value must be empty when `operator` is 'Exists'",
        )),
        other => errors.push(FieldError::not_supported(
            &operator_path,
            other,
            &["Equal", "Exists"],
        )),
    }
    if !effect.is_empty() {
        checks::one_of(errors, &path.child("effect"), &effect, &EFFECTS);
    }
}
