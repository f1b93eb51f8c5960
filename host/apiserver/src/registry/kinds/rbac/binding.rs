//! RoleBindings and ClusterRoleBindings: who has which role, and where.

use k8s_openapi::{
    api::rbac::v1::{ClusterRoleBinding, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::GROUP;
use crate::registry::{
    kinds::{cells, checks, describe, fill},
    printing::Column,
    strategy::{NameFormat, Strategy},
};

const SERVICE_ACCOUNT: &str = "ServiceAccount";
const USER: &str = "User";
const GROUP_KIND: &str = "Group";

pub(in crate::registry::kinds) struct RoleBindingStrategy;
pub(in crate::registry::kinds) struct ClusterRoleBindingStrategy;

impl Strategy for RoleBindingStrategy {
    type Object = RoleBinding;

    fn resource(&self) -> ResourceInfo {
        describe::namespaced(GROUP, "v1", "rolebindings", "RoleBinding")
    }

    fn default(&self, binding: &mut RoleBinding) {
        fill_defaults(&mut binding.role_ref, &mut binding.subjects);
    }

    fn validate(&self, binding: &RoleBinding) -> ErrorList {
        validate(&binding.role_ref, binding.subjects.as_deref(), true)
    }

    fn validate_update(&self, new: &RoleBinding, old: &RoleBinding) -> ErrorList {
        validate_same_role(&new.role_ref, &old.role_ref)
    }

    fn name_format(&self) -> NameFormat {
        NameFormat::PathSegment
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns()
    }

    fn row(&self, binding: &RoleBinding, now: jiff::Timestamp) -> Vec<Value> {
        let subjects = binding.subjects.as_deref();
        row(&binding.metadata, &binding.role_ref, subjects, now)
    }
}

impl Strategy for ClusterRoleBindingStrategy {
    type Object = ClusterRoleBinding;

    fn resource(&self) -> ResourceInfo {
        describe::cluster_scoped(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding")
    }

    fn default(&self, binding: &mut ClusterRoleBinding) {
        fill_defaults(&mut binding.role_ref, &mut binding.subjects);
    }

    fn validate(&self, binding: &ClusterRoleBinding) -> ErrorList {
        validate(&binding.role_ref, binding.subjects.as_deref(), false)
    }

    fn validate_update(&self, new: &ClusterRoleBinding, old: &ClusterRoleBinding) -> ErrorList {
        validate_same_role(&new.role_ref, &old.role_ref)
    }

    fn name_format(&self) -> NameFormat {
        NameFormat::PathSegment
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        columns()
    }

    fn row(&self, binding: &ClusterRoleBinding, now: jiff::Timestamp) -> Vec<Value> {
        let subjects = binding.subjects.as_deref();
        row(&binding.metadata, &binding.role_ref, subjects, now)
    }
}

fn fill_defaults(role: &mut RoleRef, subjects: &mut Option<Vec<Subject>>) {
    fill::text(&mut role.api_group, GROUP);
    for subject in subjects.iter_mut().flatten() {
        if matches!(subject.kind.as_str(), USER | GROUP_KIND) {
            fill::text(&mut subject.api_group, GROUP);
        }
    }
}

fn validate(role: &RoleRef, subjects: Option<&[Subject]>, namespaced: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("roleRef");
    let api_group = role.api_group.as_deref().unwrap_or_default();
    checks::one_of(&mut errors, &path.child("apiGroup"), api_group, &[GROUP]);
    let kinds: &[&str] = match namespaced {
        true => &["Role", "ClusterRole"],
        false => &["ClusterRole"],
    };
    checks::one_of(&mut errors, &path.child("kind"), &role.kind, kinds);
    checks::required_path_segment(&mut errors, &path.child("name"), &role.name);
    for (i, subject) in subjects.unwrap_or_default().iter().enumerate() {
        let path = Path::new("subjects").index(i);
        validate_subject(&mut errors, &path, subject, namespaced);
    }
    errors
}

fn validate_subject(errors: &mut ErrorList, path: &Path, subject: &Subject, namespaced: bool) {
    checks::required(errors, &path.child("name"), &subject.name);
    let api_group = subject.api_group.as_deref().unwrap_or_default();
    match subject.kind.as_str() {
        SERVICE_ACCOUNT => {
            if !subject.name.is_empty() {
                checks::dns_subdomain(errors, &path.child("name"), &subject.name);
            }
            checks::one_of(errors, &path.child("apiGroup"), api_group, &[""]);
            if !namespaced {
                let namespace = subject.namespace.as_deref().unwrap_or_default();
                checks::required(errors, &path.child("namespace"), namespace);
            }
        }
        USER | GROUP_KIND => {
            checks::one_of(errors, &path.child("apiGroup"), api_group, &[GROUP]);
        }
        other => errors.push(FieldError::not_supported(
            &path.child("kind"),
            other,
            &[SERVICE_ACCOUNT, USER, GROUP_KIND],
        )),
    }
}

/// To give another role, a binding must be made anew, so that who may bind it is asked again.
fn validate_same_role(new: &RoleRef, old: &RoleRef) -> ErrorList {
    match new == old {
        true => ErrorList::new(),
        false => {
            let role = json!({ "apiGroup": new.api_group, "kind": new.kind, "name": new.name });
            let path = Path::new("roleRef");
            vec![FieldError::invalid(&path, role, "cannot change roleRef")]
        }
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::NAME,
        Column::string("Role", "Kind and name of the role."),
        Column::AGE,
        Column::string("Users", "Users who have the role.").wide(),
        Column::string("Groups", "Groups that have the role.").wide(),
        Column::string("ServiceAccounts", "Service accounts that have the role.").wide(),
    ]
}

fn row(
    metadata: &ObjectMeta,
    role: &RoleRef,
    subjects: Option<&[Subject]>,
    now: jiff::Timestamp,
) -> Vec<Value> {
    let of_kind = |kind: &str| -> String {
        let names = subjects
            .unwrap_or_default()
            .iter()
            .filter(|s| s.kind == kind);
        let shown: Vec<String> = names
            .map(|subject| match (kind, subject.namespace.as_deref()) {
                (SERVICE_ACCOUNT, Some(namespace)) if !namespace.is_empty() => {
                    format!("{namespace}/{}", subject.name)
                }
                _ => subject.name.clone(),
            })
            .collect();
        shown.join(", ")
    };
    vec![
        json!(metadata.name),
        json!(format!("{}/{}", role.kind, role.name)),
        json!(cells::since(metadata.creation_timestamp.as_ref(), now)),
        json!(of_kind(USER)),
        json!(of_kind(GROUP_KIND)),
        json!(of_kind(SERVICE_ACCOUNT)),
    ]
}
