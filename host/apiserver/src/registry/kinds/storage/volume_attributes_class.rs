//! VolumeAttributesClasses. Source: <https://kubernetes.io/docs/concepts/storage/volume-attributes-classes/>

use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{GROUP, parameters};
use crate::registry::{
    kinds::{cells, config_map::same_entries, describe},
    printing::Column,
    strategy::Strategy,
};

pub(in crate::registry::kinds) struct VolumeAttributesClassStrategy;

impl Strategy for VolumeAttributesClassStrategy {
    type Object = VolumeAttributesClass;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["vac"]),
            ..describe::cluster_scoped(
                GROUP,
                "v1",
                "volumeattributesclasses",
                "VolumeAttributesClass",
            )
        }
    }

    fn validate(&self, class: &VolumeAttributesClass) -> ErrorList {
        let mut errors = ErrorList::new();
        parameters::validate_provider(&mut errors, &Path::new("driverName"), &class.driver_name);
        let path = Path::new("parameters");
        parameters::validate(&mut errors, &path, class.parameters.as_ref());
        if class.parameters.as_ref().is_none_or(|p| p.is_empty()) {
            let why = "must contain at least one key/value pair";
            errors.push(FieldError::required(&path, why));
        }
        errors
    }

    fn validate_update(
        &self,
        new: &VolumeAttributesClass,
        old: &VolumeAttributesClass,
    ) -> ErrorList {
        let mut errors = ErrorList::new();
        let same = new.driver_name == old.driver_name;
        parameters::forbid_update(&mut errors, "driverName", same);
        let same = same_entries(&new.parameters, &old.parameters);
        parameters::forbid_update(&mut errors, "parameters", same);
        errors
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("DriverName", "The driver that knows the parameters."),
            Column::AGE,
        ]
    }

    fn row(&self, class: &VolumeAttributesClass, now: jiff::Timestamp) -> Vec<Value> {
        vec![
            json!(class.metadata.name),
            json!(class.driver_name),
            json!(cells::since(
                class.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::testing::{create_errors, row, update_errors, with};

    #[test]
    fn fields() {
        let base = json!({"metadata": {"name": "gold"}, "driverName": "d.example.com", "parameters": {"iops": "9"}});
        for (changes, expected) in [
            (vec![], vec![]),
            (
                vec![("/driverName", json!("")), ("/parameters", json!({}))],
                vec![
                    "driverName: Required value",
                    "parameters: Required value: must contain at least one key/value pair",
                ],
            ),
        ] {
            let class = with(&base, &changes);
            assert_eq!(
                create_errors(&VolumeAttributesClassStrategy, &class),
                expected
            );
        }
        let changed = with(
            &base,
            &[
                ("/driverName", json!("e.example.com")),
                ("/parameters/iops", json!("8")),
            ],
        );
        assert_eq!(
            update_errors(&VolumeAttributesClassStrategy, &base, &changed),
            [
                "driverName: Forbidden: updates to driverName are forbidden.",
                "parameters: Forbidden: updates to parameters are forbidden.",
            ]
        );
        assert_eq!(
            row(&VolumeAttributesClassStrategy, &base),
            [
                ("Name", json!("gold")),
                ("DriverName", json!("d.example.com")),
                ("Age", json!("<unknown>")),
            ]
        );
    }
}
