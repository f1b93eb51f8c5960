//! Which requests are meant: rules, selectors, conditions. Webhooks and policies share them.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, RuleWithOperations,
};
use pilothouse_api::field::{ErrorList, FieldError, Path};

use crate::registry::kinds::{checks, fill};

const ALL: &str = "*";
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const MAX_CONDITIONS: usize = 64;

pub(super) fn fill_rules(rules: &mut Option<Vec<RuleWithOperations>>) {
    for rule in rules.iter_mut().flatten() {
        fill::pointer(&mut rule.scope, ALL.to_owned());
    }
}

pub(super) fn fill_match_resources(matched: &mut MatchResources) {
    fill::pointer(&mut matched.match_policy, MATCH_POLICIES[0].to_owned());
    matched.namespace_selector.get_or_insert_default();
    matched.object_selector.get_or_insert_default();
    let rules = matched.resource_rules.iter_mut().flatten();
    for rule in rules.chain(matched.exclude_resource_rules.iter_mut().flatten()) {
        fill::pointer(&mut rule.scope, ALL.to_owned());
    }
}

/// What happens if nobody answers.
pub(super) fn validate_failure_policy(errors: &mut ErrorList, path: &Path, policy: Option<&str>) {
    if let Some(policy) = policy {
        checks::one_of(
            errors,
            &path.child("failurePolicy"),
            policy,
            &FAILURE_POLICIES,
        );
    }
}

/// Whether a request counts that comes in another version of the resource.
pub(super) fn validate_match_policy(errors: &mut ErrorList, path: &Path, policy: Option<&str>) {
    if let Some(policy) = policy {
        checks::one_of(errors, &path.child("matchPolicy"), policy, &MATCH_POLICIES);
    }
}

pub(super) fn validate_match_resources(
    errors: &mut ErrorList,
    path: &Path,
    matched: &MatchResources,
) {
    validate_match_policy(errors, path, matched.match_policy.as_deref());
    let namespaces = matched.namespace_selector.as_ref();
    checks::label_selector(errors, &path.child("namespaceSelector"), namespaces);
    let objects = matched.object_selector.as_ref();
    checks::label_selector(errors, &path.child("objectSelector"), objects);
    for (field, rules) in [
        ("resourceRules", &matched.resource_rules),
        ("excludeResourceRules", &matched.exclude_resource_rules),
    ] {
        for (i, rule) in rules.iter().flatten().enumerate() {
            validate_named_rule(errors, &path.child(field).index(i), rule);
        }
    }
}

fn validate_named_rule(errors: &mut ErrorList, path: &Path, rule: &NamedRuleWithOperations) {
    let mut seen = BTreeSet::new();
    for (i, name) in rule.resource_names.iter().flatten().enumerate() {
        let path = path.child("resourceNames").index(i);
        checks::path_segment(errors, &path, name);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path, name.as_str()));
        }
    }
    let unnamed = RuleWithOperations {
        api_groups: rule.api_groups.clone(),
        api_versions: rule.api_versions.clone(),
        operations: rule.operations.clone(),
        resources: rule.resources.clone(),
        scope: rule.scope.clone(),
    };
    validate_rule(errors, path, &unnamed);
}

pub(super) fn validate_rule(errors: &mut ErrorList, path: &Path, rule: &RuleWithOperations) {
    let operations_path = path.child("operations");
    let operations = rule.operations.as_deref().unwrap_or_default();
    alone(errors, &operations_path, operations, "operations");
    for (i, operation) in operations.iter().enumerate() {
        checks::one_of(errors, &operations_path.index(i), operation, &OPERATIONS);
    }
    let groups = rule.api_groups.as_deref().unwrap_or_default();
    alone(errors, &path.child("apiGroups"), groups, "API groups");
    let versions_path = path.child("apiVersions");
    let versions = rule.api_versions.as_deref().unwrap_or_default();
    alone(errors, &versions_path, versions, "API versions");
    for (i, version) in versions.iter().enumerate() {
        checks::required(errors, &versions_path.index(i), version);
    }
    let resources = rule.resources.as_deref().unwrap_or_default();
    validate_resources(errors, &path.child("resources"), resources);
    if let Some(scope) = &rule.scope {
        checks::one_of(errors, &path.child("scope"), scope, &SCOPES);
    }
}

/// There is something, and nothing stands beside `*`.
fn alone(errors: &mut ErrorList, path: &Path, values: &[String], what: &str) {
    if values.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    if values.len() > 1 && values.iter().any(|value| value == ALL) {
        let why = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(path, values.to_vec(), &why));
    }
}

/// Resources and subresources, none of them covered by another's wildcard.
fn validate_resources(errors: &mut ErrorList, path: &Path, resources: &[String]) {
    if resources.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut all_below, mut below_all) = (BTreeSet::new(), BTreeSet::new());
    let mut last_plain = false;
    for (i, resource) in resources.iter().enumerate() {
        if resource.is_empty() {
            errors.push(FieldError::required(&path.index(i), ""));
            continue;
        }
        let Some((name, below)) = resource.split_once('/') else {
            last_plain = resource != ALL; // of several the last one counts, as upstream has it
            continue;
        };
        let mut refuse = |wildcard: String| {
            let why = format!("if '{wildcard}' is present, must not specify {resource}");
            errors.push(FieldError::invalid(&path.index(i), resource.as_str(), &why));
        };
        if all_below.contains(name) {
            refuse(format!("{name}/*"));
        }
        if below_all.contains(below) {
            refuse(format!("*/{below}"));
        }
        if below == ALL {
            all_below.insert(name);
        }
        if name == ALL {
            below_all.insert(below);
        }
    }
    let has = |wanted: &str| resources.iter().any(|resource| resource == wanted);
    let mut refuse = |why: &str| {
        errors.push(FieldError::invalid(path, resources.to_vec(), why));
    };
    if resources.len() > 1 && has("*/*") {
        refuse("if '*/*' is present, must not specify other resources");
    }
    if has(ALL) && last_plain {
        refuse("if '*' is present, must not specify other resources without subresources");
    }
}

/// Conditions have names of their own and something to say.
pub(super) fn validate_conditions(
    errors: &mut ErrorList,
    path: &Path,
    conditions: Option<&[MatchCondition]>,
) {
    let conditions = conditions.unwrap_or_default();
    if conditions.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(path, conditions.len(), MAX_CONDITIONS));
    }
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        checks::required(
            errors,
            &path.child("expression"),
            condition.expression.trim(),
        );
        let name_path = path.child("name");
        match condition.name.as_str() {
            "" => errors.push(FieldError::required(&name_path, "")),
            name => {
                checks::qualified_name(errors, &name_path, name);
                if !seen.insert(name) {
                    errors.push(FieldError::duplicate(&name_path, name));
                }
            }
        }
    }
}
