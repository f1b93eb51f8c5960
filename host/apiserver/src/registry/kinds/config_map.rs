//! ConfigMaps. Source: <https://kubernetes.io/docs/concepts/configuration/configmap/>

use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::{Value, json};

use super::{cells, checks, describe};
use crate::registry::{printing::Column, strategy::Strategy};

/// The bound of all values of a ConfigMap or Secret together, in bytes.
pub(super) const MAX_BYTES: usize = 1024 * 1024;
/// What is said of a frozen field.
pub(super) const FROZEN: &str = "field is immutable when `immutable` is set";

pub(super) struct ConfigMapStrategy;

impl Strategy for ConfigMapStrategy {
    type Object = ConfigMap;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["cm"]),
            ..describe::namespaced("", "v1", "configmaps", "ConfigMap")
        }
    }

    fn validate(&self, map: &ConfigMap) -> ErrorList {
        let mut errors = ErrorList::new();
        let mut bytes = 0;
        let path = Path::new("data");
        for (key, value) in map.data.iter().flatten() {
            let path = path.key(key);
            checks::invalid_each(&mut errors, &path, key, validation::is_config_map_key(key));
            if map
                .binary_data
                .as_ref()
                .is_some_and(|b| b.contains_key(key))
            {
                errors.push(FieldError::invalid(
                    &path,
                    key.as_str(),
                    "duplicate of key present in binaryData",
                ));
            }
            bytes += value.len();
        }
        let path = Path::new("binaryData");
        for (key, value) in map.binary_data.iter().flatten() {
            let complaints = validation::is_config_map_key(key);
            checks::invalid_each(&mut errors, &path.key(key), key, complaints);
            bytes += value.0.len();
        }
        if bytes > MAX_BYTES {
            errors.push(FieldError::too_long(&Path::new("[]"), MAX_BYTES)); // no field: the whole object
        }
        errors
    }

    fn validate_update(&self, new: &ConfigMap, old: &ConfigMap) -> ErrorList {
        let mut errors = ErrorList::new();
        if old.immutable != Some(true) {
            return errors;
        }
        let mut frozen = |field: &str, same: bool| {
            if !same {
                errors.push(FieldError::forbidden(&Path::new(field), FROZEN));
            }
        };
        frozen("immutable", new.immutable == Some(true));
        frozen("data", same_entries(&new.data, &old.data));
        frozen(
            "binaryData",
            same_entries(&new.binary_data, &old.binary_data),
        );
        errors
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Data", "Number of keys."),
            Column::AGE,
        ]
    }

    fn row(&self, map: &ConfigMap, now: jiff::Timestamp) -> Vec<Value> {
        let count = map.data.as_ref().map_or(0, |d| d.len())
            + map.binary_data.as_ref().map_or(0, |d| d.len());
        vec![
            json!(map.metadata.name),
            json!(count),
            json!(cells::since(map.metadata.creation_timestamp.as_ref(), now)),
        ]
    }
}

/// Equality in which no map and an empty map are the same.
pub(super) fn same_entries<K: Ord, V: PartialEq>(
    new: &Option<std::collections::BTreeMap<K, V>>,
    old: &Option<std::collections::BTreeMap<K, V>>,
) -> bool {
    let absent = |map: &Option<std::collections::BTreeMap<K, V>>| {
        map.as_ref().is_none_or(|map| map.is_empty())
    };
    new == old || (absent(new) && absent(old))
}

#[cfg(test)]
mod tests;
