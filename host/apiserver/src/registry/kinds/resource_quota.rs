//! ResourceQuotas. Source: <https://kubernetes.io/docs/concepts/policy/resource-quotas/>

mod scopes;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::{Value, json};

use super::{
    cells, describe,
    pod::resources::{self, ResourceList},
};
use crate::registry::{
    printing::Column,
    strategy::{Context, Strategy},
};

pub(super) struct ResourceQuotaStrategy;

impl Strategy for ResourceQuotaStrategy {
    type Object = ResourceQuota;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["quota"]),
            ..describe::namespaced("", "v1", "resourcequotas", "ResourceQuota")
        }
    }

    fn default(&self, quota: &mut ResourceQuota) {
        if let Some(spec) = &mut quota.spec {
            resources::canonicalize(&mut spec.hard);
        }
        if let Some(status) = &mut quota.status {
            resources::canonicalize(&mut status.hard);
            resources::canonicalize(&mut status.used);
        }
    }

    fn prepare_for_create(&self, _context: &Context, quota: &mut ResourceQuota) {
        quota.status = Some(ResourceQuotaStatus::default());
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut ResourceQuota, old: &ResourceQuota) {
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(&self) -> Option<fn(&mut ResourceQuota, &ResourceQuota)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn validate(&self, quota: &ResourceQuota) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = ResourceQuotaSpec::default();
        let spec = quota.spec.as_ref().unwrap_or(&empty);
        let path = Path::new("spec");
        validate_list(&mut errors, &path.child("hard"), spec.hard.as_ref());
        scopes::validate(&mut errors, &path, spec);
        errors
    }

    fn validate_update(&self, new: &ResourceQuota, old: &ResourceQuota) -> ErrorList {
        let scopes = |quota: &ResourceQuota| {
            let spec = quota.spec.as_ref();
            let mut scopes = spec.and_then(|s| s.scopes.clone()).unwrap_or_default();
            scopes.sort_unstable();
            scopes.dedup();
            scopes
        };
        match scopes(new) == scopes(old) {
            true => ErrorList::new(),
            false => vec![FieldError::invalid(
                &Path::new("spec").child("scopes"),
                json!(new.spec.as_ref().and_then(|s| s.scopes.as_ref())),
                validation::FIELD_IS_IMMUTABLE,
            )],
        }
    }

    fn validate_status_update(&self, new: &ResourceQuota, _old: &ResourceQuota) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("status");
        if let Some(status) = &new.status {
            validate_list(&mut errors, &path.child("hard"), status.hard.as_ref());
            validate_list(&mut errors, &path.child("used"), status.used.as_ref());
        }
        errors
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Request", "What is used and may be used, limits excepted."),
            Column::string("Limit", "Limits that are set and may be set."),
            Column::AGE,
        ]
    }

    fn row(&self, quota: &ResourceQuota, now: jiff::Timestamp) -> Vec<Value> {
        let empty = ResourceQuotaStatus::default();
        let status = quota.status.as_ref().unwrap_or(&empty);
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (name, hard) in status.hard.iter().flatten() {
            let used = cells::quantity(status.used.as_ref(), name);
            let list = match name.starts_with("limits.") {
                true => &mut limits,
                false => &mut requests,
            };
            list.push(format!("{name}: {used}/{}", hard.0));
        }
        vec![
            json!(quota.metadata.name),
            json!(requests.join(", ")),
            json!(limits.join(", ")),
            json!(cells::since(
                quota.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

fn validate_list(errors: &mut ErrorList, path: &Path, list: Option<&ResourceList>) {
    for (name, quantity) in list.into_iter().flatten() {
        let path = path.key(name);
        resources::validate_resource_name(errors, &path, name);
        if !name.contains('/') && !scopes::is_quota_resource(name) {
            let why = "must be a standard resource for quota";
            errors.push(FieldError::invalid(&path, name.as_str(), why));
        }
        resources::validate_quantity(errors, &path, name, quantity);
    }
}
