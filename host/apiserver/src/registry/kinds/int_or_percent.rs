//! Amounts that are a number or a percentage: how many pods may be missing, how many may be too many.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::{Value, json};

use super::checks;

/// A number of at least zero, or a percentage.
pub(super) fn validate(errors: &mut ErrorList, path: &Path, value: &IntOrString) {
    match value {
        IntOrString::Int(number) => checks::not_negative(errors, path, Some((*number).into())),
        IntOrString::String(text) => {
            let complaints = validation::is_percent(text);
            checks::invalid_each(errors, path, text, complaints);
        }
    }
}

/// A percentage of at most one hundred; numbers may be anything.
pub(super) fn validate_at_most_all(errors: &mut ErrorList, path: &Path, value: &IntOrString) {
    if percent_of(value).is_some_and(|percent| percent > 100) {
        errors.push(FieldError::invalid(
            path,
            shown(value),
            "must not be greater than 100%",
        ));
    }
}

/// Whether it is `0` or `0%`. What is no amount at all counts as zero, as in Kubernetes.
pub(super) fn is_zero(value: &IntOrString) -> bool {
    match value {
        IntOrString::Int(number) => *number == 0,
        IntOrString::String(text) => match percent_of(value) {
            Some(percent) => percent == 0,
            None => text.parse().unwrap_or(0) == 0,
        },
    }
}

/// The value as it is in JSON.
pub(super) fn shown(value: &IntOrString) -> Value {
    match value {
        IntOrString::Int(number) => json!(number),
        IntOrString::String(text) => json!(text),
    }
}

/// The value as text: `3` or `25%`.
pub(super) fn text(value: &IntOrString) -> String {
    match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

fn percent_of(value: &IntOrString) -> Option<u32> {
    match value {
        IntOrString::String(text) => text.strip_suffix('%')?.parse().ok(),
        IntOrString::Int(_) => None,
    }
}
