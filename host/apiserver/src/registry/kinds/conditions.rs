//! Conditions as newer kinds have them (`meta/v1` Condition).
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/>

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use pilothouse_api::field::{ErrorList, FieldError, Path};

use super::checks;

const MAX_REASON: usize = 1024;
const MAX_MESSAGE: usize = 32 * 1024;
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

pub(super) fn validate(errors: &mut ErrorList, path: &Path, conditions: &[Condition]) {
    let mut types = HashSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        if !types.insert(condition.type_.as_str()) {
            let path = path.child("type");
            errors.push(FieldError::duplicate(&path, condition.type_.as_str()));
        }
        validate_one(errors, &path, condition);
    }
}

fn validate_one(errors: &mut ErrorList, path: &Path, condition: &Condition) {
    checks::qualified_name(errors, &path.child("type"), &condition.type_);
    let statuses = ["False", "True", "Unknown"];
    checks::one_of(errors, &path.child("status"), &condition.status, &statuses);
    if let Some(generation) = condition.observed_generation.filter(|g| *g < 0) {
        errors.push(FieldError::invalid(
            &path.child("observedGeneration"),
            generation,
            "must be greater than or equal to zero",
        ));
    }
    let (reason, path_of_reason) = (condition.reason.as_str(), path.child("reason"));
    if reason.is_empty() {
        errors.push(FieldError::required(&path_of_reason, "must be set"));
    } else {
        if !is_reason(reason) {
            errors.push(FieldError::invalid(&path_of_reason, reason, REASON));
        }
        if reason.len() > MAX_REASON {
            errors.push(FieldError::too_long(&path_of_reason, MAX_REASON));
        }
    }
    if condition.message.len() > MAX_MESSAGE {
        errors.push(FieldError::too_long(&path.child("message"), MAX_MESSAGE));
    }
}

fn is_reason(reason: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = reason.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    first.is_ascii_alphabetic()
        && word(*last)
        && bytes.iter().all(|b| word(*b) || matches!(b, b',' | b':'))
}

/// Sets a condition; its time moves only if its status does.
pub(super) fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    match conditions.iter_mut().find(|c| c.type_ == condition.type_) {
        Some(known) => {
            if known.status == condition.status {
                condition.last_transition_time = known.last_transition_time.clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}
