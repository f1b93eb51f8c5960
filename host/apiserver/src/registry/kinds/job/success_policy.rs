//! When an indexed Job has succeeded before all its indexes have.
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/job/#success-policy>

use k8s_openapi::api::batch::v1::{JobSpec, SuccessPolicy, SuccessPolicyRule};
use pilothouse_api::field::{ErrorList, FieldError, Path};
use serde_json::json;

use super::{INDEXED, indexes};
use crate::registry::kinds::checks;

const MAX_RULES: usize = 20;
const MAX_INDEXES_BYTES: usize = 64 * 1024;

pub(super) fn validate(
    errors: &mut ErrorList,
    path: &Path,
    policy: &SuccessPolicy,
    spec: &JobSpec,
) {
    if spec.completion_mode.as_deref() != Some(INDEXED) {
        let rules = policy.rules.iter().map(|rule| {
            json!({"SucceededIndexes": rule.succeeded_indexes, "SucceededCount": rule.succeeded_count})
        });
        let shown = json!({"Rules": rules.collect::<Vec<_>>()});
        let why = "requires indexed completion mode";
        errors.push(FieldError::invalid(path, shown, why));
        return;
    }
    let path = path.child("rules");
    if policy.rules.is_empty() {
        errors.push(FieldError::required(
            &path,
            "at least one rules must be specified when the successPolicy is specified",
        ));
    }
    if policy.rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(&path, policy.rules.len(), MAX_RULES));
    }
    let completions = spec.completions.unwrap_or_default();
    for (i, rule) in policy.rules.iter().enumerate() {
        validate_rule(errors, &path.index(i), rule, completions);
    }
}

fn validate_rule(errors: &mut ErrorList, path: &Path, rule: &SuccessPolicyRule, completions: i32) {
    if rule.succeeded_count.is_none() && rule.succeeded_indexes.is_none() {
        errors.push(FieldError::required(
            path,
            "at least one of succeededCount or succeededIndexes must be specified",
        ));
    }
    let mut total = 0;
    if let Some(text) = &rule.succeeded_indexes {
        let path = path.child("succeededIndexes");
        if text.len() > MAX_INDEXES_BYTES {
            errors.push(FieldError::too_long(&path, MAX_INDEXES_BYTES));
        }
        match indexes::count(text, completions) {
            Ok(count) => total = count,
            Err(error) => errors.push(FieldError::invalid(
                &path,
                text.as_str(),
                &format!("error parsing succeededIndexes: {error}"),
            )),
        }
    }
    let Some(count) = rule.succeeded_count else {
        return;
    };
    let path = path.child("succeededCount");
    checks::not_negative(errors, &path, Some(count.into()));
    if count > completions {
        let why = format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        );
        errors.push(FieldError::invalid(&path, count, &why));
    }
    if rule.succeeded_indexes.is_some() && count > total {
        let why = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.push(FieldError::invalid(&path, count, &why));
    }
}
