//! The specification of a Job, alone or in the template of a CronJob.

use k8s_openapi::api::batch::v1::JobSpec;
use pilothouse_api::field::{ErrorList, FieldError, Path};

use super::{INDEXED, NON_INDEXED, failure_policy, success_policy};
use crate::registry::kinds::{checks, fill, pod::template};

const MAX_PARALLELISM: i32 = 100_000;
const MAX_FAILED_INDEXES: i32 = 100_000;
/// With more completions than this, other bounds are lower.
const MANY_COMPLETIONS: i32 = 100_000;
const PARALLELISM_OF_MANY: i32 = 10_000;
const FAILED_INDEXES_OF_MANY: i32 = 10_000;
const MANAGED_BY_MAX: usize = 63;

/// What Kubernetes fills in wherever a Job's specification stands.
pub(in crate::registry::kinds) fn fill_template_defaults(spec: &mut JobSpec) {
    let rules = spec.pod_failure_policy.iter_mut();
    for rule in rules.flat_map(|policy| &mut policy.rules) {
        for pattern in rule.on_pod_conditions.iter_mut().flatten() {
            fill::text(&mut pattern.status, "True");
        }
    }
    template::fill_defaults(&mut spec.template);
}

pub(in crate::registry::kinds) fn validate(errors: &mut ErrorList, path: &Path, spec: &JobSpec) {
    let number = |value: Option<i32>| value.map(i64::from);
    for (field, value) in [
        ("parallelism", number(spec.parallelism)),
        ("completions", number(spec.completions)),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", number(spec.backoff_limit)),
        (
            "ttlSecondsAfterFinished",
            number(spec.ttl_seconds_after_finished),
        ),
        ("backoffLimitPerIndex", number(spec.backoff_limit_per_index)),
        ("maxFailedIndexes", number(spec.max_failed_indexes)),
    ] {
        checks::not_negative(errors, &path.child(field), value);
    }
    if spec.max_failed_indexes.is_some() && spec.backoff_limit_per_index.is_none() {
        errors.push(FieldError::required(
            &path.child("backoffLimitPerIndex"),
            "when maxFailedIndexes is specified",
        ));
    }
    if let Some(manager) = &spec.managed_by {
        let path = path.child("managedBy");
        checks::domain_prefixed_path(errors, &path, manager);
        if manager.len() > MANAGED_BY_MAX {
            errors.push(FieldError::too_long(&path, MANAGED_BY_MAX));
        }
    }
    validate_completion_mode(errors, path, spec);
    if let Some(policy) = &spec.pod_failure_policy {
        failure_policy::validate(errors, &path.child("podFailurePolicy"), policy, spec);
    }
    if let Some(policy) = &spec.success_policy {
        success_policy::validate(errors, &path.child("successPolicy"), policy, spec);
    }
    if let Some(policy) = &spec.pod_replacement_policy {
        let allowed: &[&str] = match spec.pod_failure_policy {
            Some(_) => &["Failed"],
            None => &["Failed", "TerminatingOrFailed"],
        };
        checks::one_of(errors, &path.child("podReplacementPolicy"), policy, allowed);
    }
    let path = path.child("template");
    template::validate(errors, &path, &spec.template);
    validate_restart_policy(errors, &path.child("spec").child("restartPolicy"), spec);
}

fn validate_completion_mode(errors: &mut ErrorList, path: &Path, spec: &JobSpec) {
    match spec.completion_mode.as_deref() {
        Some(INDEXED) => validate_indexed(errors, path, spec),
        None | Some(NON_INDEXED) => {
            for (field, value) in [
                ("backoffLimitPerIndex", spec.backoff_limit_per_index),
                ("maxFailedIndexes", spec.max_failed_indexes),
            ] {
                if let Some(value) = value {
                    errors.push(FieldError::invalid(
                        &path.child(field),
                        value,
                        "requires indexed completion mode",
                    ));
                }
            }
        }
        Some(other) => errors.push(FieldError::not_supported(
            &path.child("completionMode"),
            other,
            &[NON_INDEXED, INDEXED],
        )),
    }
}

fn validate_indexed(errors: &mut ErrorList, path: &Path, spec: &JobSpec) {
    let mut at_most = |field: &str, value: Option<i32>, max: i32, why: &str| {
        if let Some(value) = value.filter(|value| *value > max) {
            errors.push(FieldError::invalid(&path.child(field), value, why));
        }
    };
    let (parallelism, failed) = (spec.parallelism, spec.max_failed_indexes);
    let why = format!(
        "must be less than or equal to {MAX_PARALLELISM} when completion mode is {INDEXED}"
    );
    at_most("parallelism", parallelism, MAX_PARALLELISM, &why);
    if let Some(completions) = spec.completions {
        let why = "must be less than or equal to completions";
        at_most("maxFailedIndexes", failed, completions, why);
    }
    let why = format!("must be less than or equal to {MAX_FAILED_INDEXES}");
    at_most("maxFailedIndexes", failed, MAX_FAILED_INDEXES, &why);
    let many = spec.completions.is_some_and(|n| n > MANY_COMPLETIONS)
        && spec.backoff_limit_per_index.is_some();
    if many {
        let why = |max| {
            format!(
                "must be less than or equal to {max} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
            )
        };
        let max = PARALLELISM_OF_MANY;
        at_most("parallelism", parallelism, max, &why(max));
        let max = FAILED_INDEXES_OF_MANY;
        at_most("maxFailedIndexes", failed, max, &why(max));
    }
    if spec.completions.is_none() {
        errors.push(FieldError::required(
            &path.child("completions"),
            &format!("when completion mode is {INDEXED}"),
        ));
    }
    if many && failed.is_none() {
        errors.push(FieldError::required(
            &path.child("maxFailedIndexes"),
            &format!("must be specified when completions is above {MANY_COMPLETIONS}"),
        ));
    }
}

/// Pods of Jobs end, so what restarts for ever is not for them. The default of pods counts as nothing said.
fn validate_restart_policy(errors: &mut ErrorList, path: &Path, spec: &JobSpec) {
    let policy = spec.template.spec.as_ref();
    let policy = policy.and_then(|s| s.restart_policy.as_deref());
    match policy.unwrap_or_default() {
        "" | "Always" => errors.push(FieldError::required(
            path,
            "valid values: \"OnFailure\", \"Never\"",
        )),
        "OnFailure" if spec.pod_failure_policy.is_some() => errors.push(FieldError::invalid(
            path,
            "OnFailure",
            "only \"Never\" is supported when podFailurePolicy is specified",
        )),
        "OnFailure" | "Never" => {}
        other => errors.push(FieldError::not_supported(
            path,
            other,
            &["OnFailure", "Never"],
        )),
    }
}

/// A warning about Jobs whose status may grow too large.
pub(super) fn too_many_indexes(spec: &JobSpec) -> Option<String> {
    let many = spec.completion_mode.as_deref() == Some(INDEXED)
        && spec.completions.is_some_and(|n| n > MANY_COMPLETIONS)
        && spec.parallelism.is_some_and(|n| n > PARALLELISM_OF_MANY);
    many.then(|| {
        "spec.completions: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail".to_owned()
    })
}
