//! LimitRanges. Source: <https://kubernetes.io/docs/concepts/policy/limit-range/>

#[cfg(test)]
mod tests;
mod validation;

use k8s_openapi::api::core::v1::{LimitRange, LimitRangeItem};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, Path},
};
use serde_json::{Value, json};

use super::{
    describe,
    pod::resources::{self, ResourceList},
};
use crate::registry::{printing::Column, strategy::Strategy};

const CONTAINER: &str = "Container";
const POD: &str = "Pod";
const CLAIM: &str = "PersistentVolumeClaim";

pub(super) struct LimitRangeStrategy;

impl Strategy for LimitRangeStrategy {
    type Object = LimitRange;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["limits"]),
            ..describe::namespaced("", "v1", "limitranges", "LimitRange")
        }
    }

    fn default(&self, range: &mut LimitRange) {
        let limits = range.spec.iter_mut().flat_map(|spec| &mut spec.limits);
        for limit in limits {
            fill_defaults(limit);
        }
    }

    fn validate(&self, range: &LimitRange) -> ErrorList {
        let mut errors = ErrorList::new();
        let limits = range.spec.as_ref().map(|spec| spec.limits.as_slice());
        let path = Path::new("spec").child("limits");
        validation::validate(&mut errors, &path, limits.unwrap_or_default());
        errors
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column {
                column_type: "date",
                ..Column::string("Created At", "Time of creation.")
            },
        ]
    }

    fn row(&self, range: &LimitRange, _now: jiff::Timestamp) -> Vec<Value> {
        let created = range.metadata.creation_timestamp.as_ref();
        vec![
            json!(range.metadata.name),
            json!(created.map(|time| time.0.to_string())),
        ]
    }
}

/// Containers that say nothing get the most that they may have; what they ask for is their limit, or the least there may be.
fn fill_defaults(limit: &mut LimitRangeItem) {
    for list in [
        &mut limit.default,
        &mut limit.default_request,
        &mut limit.max,
        &mut limit.max_limit_request_ratio,
        &mut limit.min,
    ] {
        resources::canonicalize(list);
    }
    if limit.type_ != CONTAINER {
        return;
    }
    let default = limit.default.get_or_insert_default();
    fill_from(default, limit.max.as_ref());
    let request = limit.default_request.get_or_insert_default();
    fill_from(request, Some(default));
    fill_from(request, limit.min.as_ref());
    limit.default.take_if(|list| list.is_empty());
    limit.default_request.take_if(|list| list.is_empty());
}

fn fill_from(list: &mut ResourceList, other: Option<&ResourceList>) {
    for (name, quantity) in other.into_iter().flatten() {
        list.entry(name.clone()).or_insert_with(|| quantity.clone());
    }
}
