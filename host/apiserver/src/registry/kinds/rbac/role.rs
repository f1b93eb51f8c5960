//! Roles and ClusterRoles: sets of rules.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::Value;

use super::GROUP;
use crate::registry::{
    kinds::describe,
    printing::{self, Column},
    strategy::{NameFormat, Strategy},
};

pub(in crate::registry::kinds) struct RoleStrategy;
pub(in crate::registry::kinds) struct ClusterRoleStrategy;

impl Strategy for RoleStrategy {
    type Object = Role;

    fn resource(&self) -> ResourceInfo {
        describe::namespaced(GROUP, "v1", "roles", "Role")
    }

    fn validate(&self, role: &Role) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_rules(&mut errors, role.rules.as_deref(), true);
        errors
    }

    fn name_format(&self) -> NameFormat {
        NameFormat::PathSegment
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        printing::created_at_columns()
    }

    fn row(&self, role: &Role, _now: jiff::Timestamp) -> Vec<Value> {
        printing::created_at_row(role)
    }
}

impl Strategy for ClusterRoleStrategy {
    type Object = ClusterRole;

    fn resource(&self) -> ResourceInfo {
        describe::cluster_scoped(GROUP, "v1", "clusterroles", "ClusterRole")
    }

    fn validate(&self, role: &ClusterRole) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_rules(&mut errors, role.rules.as_deref(), false);
        if let Some(aggregation) = &role.aggregation_rule {
            let path = Path::new("aggregationRule").child("clusterRoleSelectors");
            let selectors = aggregation
                .cluster_role_selectors
                .as_deref()
                .unwrap_or_default();
            if selectors.is_empty() {
                let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
                errors.push(FieldError::required(&path, why));
            }
            for (i, selector) in selectors.iter().enumerate() {
                errors.extend(validation::validate_label_selector(
                    selector,
                    &path.index(i),
                ));
            }
        }
        errors
    }

    fn name_format(&self) -> NameFormat {
        NameFormat::PathSegment
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        printing::created_at_columns()
    }

    fn row(&self, role: &ClusterRole, _now: jiff::Timestamp) -> Vec<Value> {
        printing::created_at_row(role)
    }
}

/// A rule is about resources or about paths, and says what may be done with them. Only cluster roles know paths.
fn validate_rules(errors: &mut ErrorList, rules: Option<&[PolicyRule]>, namespaced: bool) {
    for (i, rule) in rules.unwrap_or_default().iter().enumerate() {
        validate_rule(errors, &Path::new("rules").index(i), rule, namespaced);
    }
}

fn validate_rule(errors: &mut ErrorList, path: &Path, rule: &PolicyRule, namespaced: bool) {
    if rule.verbs.is_empty() {
        errors.push(FieldError::required(
            &path.child("verbs"),
            "verbs must contain at least one value",
        ));
    }
    let filled = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    if filled(&rule.non_resource_urls) {
        let urls = rule.non_resource_urls.as_deref().unwrap_or_default();
        let mut refuse = |why: &str| {
            let path = path.child("nonResourceURLs");
            errors.push(FieldError::invalid(&path, urls.to_vec(), why));
        };
        if namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if filled(&rule.api_groups) || filled(&rule.resources) || filled(&rule.resource_names) {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    let mut required = |field: &str, list: &Option<Vec<String>>, why: &str| {
        if !filled(list) {
            errors.push(FieldError::required(&path.child(field), why));
        }
    };
    required(
        "apiGroups",
        &rule.api_groups,
        "resource rules must supply at least one api group",
    );
    required(
        "resources",
        &rule.resources,
        "resource rules must supply at least one resource",
    );
}
