//! Which objects a quota counts, and which of its resources that goes with.
//! Source: <https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-scopes>

use k8s_openapi::api::core::v1::{ResourceQuotaSpec, ScopedResourceSelectorRequirement};
use pilothouse_api::field::{ErrorList, FieldError, Path};
use serde_json::{Value, json};

const TERMINATING: &str = "Terminating";
const NOT_TERMINATING: &str = "NotTerminating";
const BEST_EFFORT: &str = "BestEffort";
const NOT_BEST_EFFORT: &str = "NotBestEffort";
const CROSS_NAMESPACE: &str = "CrossNamespacePodAffinity";
const PRIORITY_CLASS: &str = "PriorityClass";
const VOLUME_ATTRIBUTES_CLASS: &str = "VolumeAttributesClass";
const OPPOSITES: [(&str, &str); 2] = [
    (BEST_EFFORT, NOT_BEST_EFFORT),
    (TERMINATING, NOT_TERMINATING),
];

/// Resource names without a domain that quotas may bound.
pub(super) fn is_quota_resource(name: &str) -> bool {
    const NAMES: [&str; 19] = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "persistentvolumeclaims",
        "configmaps",
        "services.nodeports",
        "services.loadbalancers",
    ];
    NAMES.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

fn is_scope(scope: &str) -> bool {
    [
        TERMINATING,
        NOT_TERMINATING,
        BEST_EFFORT,
        NOT_BEST_EFFORT,
        CROSS_NAMESPACE,
        PRIORITY_CLASS,
        VOLUME_ATTRIBUTES_CLASS,
    ]
    .contains(&scope)
}

/// Whether the objects of a scope use a resource.
fn goes_with(scope: &str, resource: &str) -> bool {
    let of_pods = [
        "pods",
        "cpu",
        "memory",
        "limits.cpu",
        "limits.memory",
        "requests.cpu",
        "requests.memory",
    ];
    match scope {
        TERMINATING | NOT_TERMINATING | NOT_BEST_EFFORT | PRIORITY_CLASS | CROSS_NAMESPACE => {
            of_pods.contains(&resource)
        }
        BEST_EFFORT => resource == "pods",
        VOLUME_ATTRIBUTES_CLASS => {
            ["persistentvolumeclaims", "requests.storage"].contains(&resource)
        }
        _ => true,
    }
}

pub(super) fn validate(errors: &mut ErrorList, path: &Path, spec: &ResourceQuotaSpec) {
    let scopes = spec.scopes.as_deref().unwrap_or_default();
    let shown = json!(scopes);
    let scopes_path = path.child("scopes");
    for scope in scopes {
        if !is_scope(scope) {
            errors.push(FieldError::invalid(
                &scopes_path,
                shown.clone(),
                "unsupported scope",
            ));
        }
        validate_resources(errors, &scopes_path, spec, scope, &shown);
    }
    validate_opposites(
        errors,
        &scopes_path,
        scopes.iter().map(String::as_str),
        &shown,
    );
    let Some(selector) = &spec.scope_selector else {
        return;
    };
    let path = path.child("scopeSelector").child("matchExpressions");
    let requirements = selector.match_expressions.as_deref().unwrap_or_default();
    let items = requirements
        .iter()
        .map(|r| json!({"ScopeName": r.scope_name, "Operator": r.operator, "Values": r.values}));
    let selected = json!({"MatchExpressions": items.collect::<Vec<_>>()});
    for requirement in requirements {
        let scope = requirement.scope_name.as_str();
        if !is_scope(scope) {
            let path = path.child("scopeName");
            errors.push(FieldError::invalid(&path, scope, "unsupported scope"));
        }
        validate_resources(errors, &path, spec, scope, &selected);
        validate_requirement(errors, &path, requirement);
    }
    let names = requirements.iter().map(|r| r.scope_name.as_str());
    validate_opposites(errors, &path, names, &shown);
}

fn validate_resources(
    errors: &mut ErrorList,
    path: &Path,
    spec: &ResourceQuotaSpec,
    scope: &str,
    shown: &Value,
) {
    for name in spec.hard.iter().flat_map(|hard| hard.keys()) {
        if is_quota_resource(name) && !goes_with(scope, name) {
            errors.push(FieldError::invalid(
                path,
                shown.clone(),
                "unsupported scope applied to resource",
            ));
        }
    }
}

fn validate_opposites<'a>(
    errors: &mut ErrorList,
    path: &Path,
    scopes: impl Iterator<Item = &'a str>,
    shown: &Value,
) {
    let scopes: Vec<&str> = scopes.collect();
    for (one, other) in OPPOSITES {
        if scopes.contains(&one) && scopes.contains(&other) {
            let why = "conflicting scopes";
            errors.push(FieldError::invalid(path, shown.clone(), why));
        }
    }
}

fn validate_requirement(
    errors: &mut ErrorList,
    path: &Path,
    requirement: &ScopedResourceSelectorRequirement,
) {
    let (operator_path, values_path) = (path.child("operator"), path.child("values"));
    let operator = requirement.operator.as_str();
    let exists_only = matches!(
        requirement.scope_name.as_str(),
        BEST_EFFORT | NOT_BEST_EFFORT | TERMINATING | NOT_TERMINATING | CROSS_NAMESPACE
    );
    if exists_only && operator != "Exists" {
        errors.push(FieldError::invalid(
            &operator_path,
            operator,
            "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
        ));
    }
    let values = requirement.values.as_deref().unwrap_or_default();
    match operator {
        "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
            &values_path,
            "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        )),
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::invalid(
            &values_path,
            json!(values),
            "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
        )),
        "Exists" | "DoesNotExist" => {}
        other => errors.push(FieldError::invalid(
            &operator_path,
            other,
            "not a valid selector operator",
        )),
    }
}
