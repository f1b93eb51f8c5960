//! The rules of autoscalers; those of metrics have their own file.

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerSpec,
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    quantity::Quantity,
    validation::NameFormat,
};

use super::metrics;
use crate::registry::kinds::checks;

const MAX_STABILIZATION_SECONDS: i32 = 3600;
const MAX_PERIOD_SECONDS: i32 = 1800;
const SELECT_POLICIES: [&str; 3] = ["Disabled", "Max", "Min"];
const POLICY_TYPES: [&str; 2] = ["Percent", "Pods"];

pub(super) fn validate(errors: &mut ErrorList, path: &Path, spec: &HorizontalPodAutoscalerSpec) {
    let (min, max) = (spec.min_replicas, spec.max_replicas);
    if let Some(min) = min.filter(|min| *min < 1) {
        let path = path.child("minReplicas");
        let why = "must be greater than or equal to 1";
        errors.push(FieldError::invalid(&path, min, why));
    }
    let max_path = path.child("maxReplicas");
    if max < 1 {
        errors.push(FieldError::invalid(
            &max_path,
            max,
            "must be greater than 0",
        ));
    }
    if min.is_some_and(|min| max < min) {
        let why = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(&max_path, max, why));
    }
    let target = &spec.scale_target_ref;
    validate_reference(errors, &path.child("scaleTargetRef"), target);
    let list = spec.metrics.as_deref().unwrap_or_default();
    for (i, metric) in list.iter().enumerate() {
        metrics::validate(errors, &path.child("metrics").index(i), metric);
    }
    if let Some(behavior) = &spec.behavior {
        let path = path.child("behavior");
        validate_rules(errors, &path.child("scaleUp"), behavior.scale_up.as_ref());
        validate_rules(
            errors,
            &path.child("scaleDown"),
            behavior.scale_down.as_ref(),
        );
    }
}

/// What is scaled, or measured.
pub(super) fn validate_reference(
    errors: &mut ErrorList,
    path: &Path,
    reference: &CrossVersionObjectReference,
) {
    for (field, value) in [("kind", &reference.kind), ("name", &reference.name)] {
        let path = path.child(field);
        match value.as_str() {
            "" => errors.push(FieldError::required(&path, "")),
            value => path_segment(errors, &path, value),
        }
    }
    let version = reference.api_version.as_deref().unwrap_or_default();
    if version.matches('/').count() > 1 {
        errors.push(FieldError::invalid(
            &path.child("apiVersion"),
            version,
            &format!("unexpected GroupVersion string: {version}"),
        ));
    }
}

/// A text that fits into a path.
pub(super) fn path_segment(errors: &mut ErrorList, path: &Path, value: &str) {
    let complaints = NameFormat::PathSegment.check(value, false);
    checks::invalid_each(errors, path, value, complaints);
}

fn validate_rules(errors: &mut ErrorList, path: &Path, rules: Option<&HPAScalingRules>) {
    let Some(rules) = rules else { return };
    if let Some(seconds) = rules.stabilization_window_seconds {
        let path = path.child("stabilizationWindowSeconds");
        if seconds < 0 {
            let why = "must be greater than or equal to zero";
            errors.push(FieldError::invalid(&path, seconds, why));
        }
        if seconds > MAX_STABILIZATION_SECONDS {
            let why = format!("must be less than or equal to {MAX_STABILIZATION_SECONDS}");
            errors.push(FieldError::invalid(&path, seconds, &why));
        }
    }
    if let Some(policy) = &rules.select_policy {
        checks::one_of(
            errors,
            &path.child("selectPolicy"),
            policy,
            &SELECT_POLICIES,
        );
    }
    let policies = rules.policies.as_deref().unwrap_or_default();
    let policies_path = path.child("policies");
    if policies.is_empty() {
        let why = "must specify at least one Policy";
        errors.push(FieldError::required(&policies_path, why));
    }
    for (i, policy) in policies.iter().enumerate() {
        validate_policy(errors, &policies_path.index(i), policy);
    }
    if let Some(tolerance) = &rules.tolerance {
        let path = path.child("tolerance");
        let text = tolerance.0.as_str();
        match Quantity::parse(text) {
            Ok(amount) if !amount.is_negative() => {}
            Ok(_) => {
                let why = "must be greater or equal to zero";
                errors.push(FieldError::invalid(&path, text, why));
            }
            Err(error) => errors.push(FieldError::invalid(&path, text, &error.to_string())),
        }
    }
}

fn validate_policy(errors: &mut ErrorList, path: &Path, policy: &HPAScalingPolicy) {
    checks::one_of(errors, &path.child("type"), &policy.type_, &POLICY_TYPES);
    for (field, value) in [
        ("value", policy.value),
        ("periodSeconds", policy.period_seconds),
    ] {
        if value <= 0 {
            errors.push(FieldError::invalid(
                &path.child(field),
                value,
                checks::POSITIVE,
            ));
        }
    }
    if policy.period_seconds > MAX_PERIOD_SECONDS {
        let why = format!("must be less than or equal to {MAX_PERIOD_SECONDS}");
        let path = path.child("periodSeconds");
        errors.push(FieldError::invalid(&path, policy.period_seconds, &why));
    }
}
