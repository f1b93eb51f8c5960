//! Which failures of pods count, and which end the Job.
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy>

use std::collections::HashSet;

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use pilothouse_api::field::{ErrorList, FieldError, Path};
use serde_json::json;

use crate::registry::kinds::checks;

const MAX_RULES: usize = 20;
const MAX_PATTERNS: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

pub(super) fn validate(
    errors: &mut ErrorList,
    path: &Path,
    policy: &PodFailurePolicy,
    spec: &JobSpec,
) {
    let path = path.child("rules");
    if policy.rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(&path, policy.rules.len(), MAX_RULES));
    }
    for (i, rule) in policy.rules.iter().enumerate() {
        validate_rule(errors, &path.index(i), rule, spec);
    }
}

fn validate_rule(errors: &mut ErrorList, path: &Path, rule: &PodFailurePolicyRule, spec: &JobSpec) {
    let action_path = path.child("action");
    match rule.action.as_str() {
        "FailIndex" if spec.backoff_limit_per_index.is_none() => errors.push(FieldError::invalid(
            &action_path,
            "FailIndex",
            "requires the backoffLimitPerIndex to be set",
        )),
        action => one_of_listed(errors, &action_path, action, &ACTIONS),
    }
    let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
    if let Some(codes) = &rule.on_exit_codes {
        validate_exit_codes(errors, &path.child("onExitCodes"), codes, spec);
    }
    if !patterns.is_empty() {
        validate_patterns(errors, &path.child("onPodConditions"), patterns);
    }
    let why = match (&rule.on_exit_codes, patterns.is_empty()) {
        (Some(_), false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (None, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(checks::invalid(path, why));
}

/// A value that must be there and be one of these; without one, these are listed as Kubernetes lists them.
fn one_of_listed(errors: &mut ErrorList, path: &Path, value: &str, supported: &[&str]) {
    match value {
        "" => {
            let listed: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
            let why = format!("valid values: [{}]", listed.join(" "));
            errors.push(FieldError::required(path, &why));
        }
        value => checks::one_of(errors, path, value, supported),
    }
}

fn validate_patterns(
    errors: &mut ErrorList,
    path: &Path,
    patterns: &[PodFailurePolicyOnPodConditionsPattern],
) {
    if patterns.len() > MAX_PATTERNS {
        errors.push(FieldError::too_many(path, patterns.len(), MAX_PATTERNS));
    }
    for (i, pattern) in patterns.iter().enumerate() {
        let path = path.index(i);
        checks::qualified_name(errors, &path.child("type"), &pattern.type_);
        let status = pattern.status.as_deref().unwrap_or_default();
        one_of_listed(errors, &path.child("status"), status, &STATUSES);
    }
}

fn validate_exit_codes(
    errors: &mut ErrorList,
    path: &Path,
    codes: &PodFailurePolicyOnExitCodesRequirement,
    spec: &JobSpec,
) {
    one_of_listed(errors, &path.child("operator"), &codes.operator, &OPERATORS);
    if let Some(name) = &codes.container_name {
        let pod = spec.template.spec.as_ref();
        let containers = pod.into_iter().flat_map(|pod| {
            let init = pod.init_containers.iter().flatten();
            pod.containers.iter().chain(init)
        });
        if !containers.into_iter().any(|c| c.name == *name) {
            errors.push(FieldError::invalid(
                &path.child("containerName"),
                name.as_str(),
                "must be one of the container or initContainer names in the pod template",
            ));
        }
    }
    let (path, values) = (path.child("values"), &codes.values);
    if values.is_empty() {
        let why = "at least one value is required";
        errors.push(FieldError::invalid(&path, json!(values), why));
    } else if values.len() > MAX_EXIT_CODES {
        errors.push(FieldError::too_many(&path, values.len(), MAX_EXIT_CODES));
    }
    let mut seen = HashSet::new();
    for (i, code) in values.iter().enumerate() {
        if codes.operator == "In" && *code == 0 {
            let why = "must not be 0 for the In operator";
            errors.push(FieldError::invalid(&path.index(i), *code, why));
        }
        if !seen.insert(code) {
            errors.push(FieldError::duplicate(&path.index(i), *code));
        }
    }
    if !values.is_sorted() {
        errors.push(FieldError::invalid(&path, json!(values), "must be ordered"));
    }
}
