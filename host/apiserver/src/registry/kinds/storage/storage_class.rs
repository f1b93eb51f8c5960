//! StorageClasses. Source: <https://kubernetes.io/docs/concepts/storage/storage-classes/>

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{core::v1::TopologySelectorTerm, storage::v1::StorageClass};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{GROUP, parameters};
use crate::registry::{
    kinds::{cells, checks, config_map::same_entries, describe, fill},
    printing::Column,
    strategy::Strategy,
};

const DEFAULT_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
const RECLAIM: &str = "Delete";
const BINDING: &str = "Immediate";

pub(in crate::registry::kinds) struct StorageClassStrategy;

impl Strategy for StorageClassStrategy {
    type Object = StorageClass;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["sc"]),
            ..describe::cluster_scoped(GROUP, "v1", "storageclasses", "StorageClass")
        }
    }

    fn default(&self, class: &mut StorageClass) {
        fill::pointer(&mut class.reclaim_policy, RECLAIM.to_owned());
        fill::pointer(&mut class.volume_binding_mode, BINDING.to_owned());
    }

    fn validate_create(&self, class: &StorageClass) -> ErrorList {
        let mut errors = ErrorList::new();
        parameters::validate_provider(&mut errors, &Path::new("provisioner"), &class.provisioner);
        let path = Path::new("parameters");
        parameters::validate(&mut errors, &path, class.parameters.as_ref());
        let reclaim = class.reclaim_policy.as_deref().unwrap_or_default();
        if !reclaim.is_empty() {
            let path = Path::new("reclaimPolicy");
            checks::one_of(&mut errors, &path, reclaim, &["Delete", "Retain"]);
        }
        let path = Path::new("volumeBindingMode");
        let mode = class.volume_binding_mode.as_deref().unwrap_or_default();
        checks::one_of(
            &mut errors,
            &path,
            mode,
            &["Immediate", "WaitForFirstConsumer"],
        );
        let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
        validate_topologies(&mut errors, &Path::new("allowedTopologies"), topologies);
        errors
    }

    fn validate_update(&self, new: &StorageClass, old: &StorageClass) -> ErrorList {
        let mut errors = ErrorList::new();
        let same = same_entries(&new.parameters, &old.parameters);
        parameters::forbid_update(&mut errors, "parameters", same);
        let same = new.provisioner == old.provisioner;
        parameters::forbid_update(&mut errors, "provisioner", same);
        let same = new.reclaim_policy == old.reclaim_policy;
        parameters::forbid_update(&mut errors, "reclaimPolicy", same);
        checks::immutable(
            &mut errors,
            &Path::new("volumeBindingMode"),
            new.volume_binding_mode == old.volume_binding_mode,
            json!(new.volume_binding_mode),
        );
        errors
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Provisioner", "Who makes volumes of this class."),
            Column::string(
                "ReclaimPolicy",
                "What becomes of volumes nobody claims any more.",
            ),
            Column::string("VolumeBindingMode", "When volumes are made and bound."),
            Column::boolean("AllowVolumeExpansion", "Whether claims may grow."),
            Column::AGE,
        ]
    }

    fn row(&self, class: &StorageClass, now: jiff::Timestamp) -> Vec<Value> {
        let annotations = class.metadata.annotations.as_ref();
        let is_default = annotations.is_some_and(|all| {
            DEFAULT_ANNOTATIONS
                .iter()
                .any(|key| all.get(*key).is_some_and(|v| v == "true"))
        });
        let name = class.metadata.name.as_deref().unwrap_or_default();
        vec![
            json!(if is_default {
                format!("{name} (default)")
            } else {
                name.to_owned()
            }),
            json!(class.provisioner),
            json!(class.reclaim_policy.as_deref().unwrap_or(RECLAIM)),
            json!(class.volume_binding_mode.as_deref().unwrap_or(BINDING)),
            json!(class.allow_volume_expansion.unwrap_or_default()),
            json!(cells::since(
                class.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

/// Terms are different sets of labels, each with some values.
fn validate_topologies(errors: &mut ErrorList, path: &Path, terms: &[TopologySelectorTerm]) {
    let mut seen: Vec<BTreeMap<&str, BTreeSet<&str>>> = Vec::new();
    for (i, term) in terms.iter().enumerate() {
        let path = path.index(i).child("matchLabelExpressions");
        let mut labels = BTreeMap::new();
        for (j, expression) in term.match_label_expressions.iter().flatten().enumerate() {
            let path = path.index(j);
            let values_path = path.child("values");
            let mut values = BTreeSet::new();
            if expression.values.is_empty() {
                errors.push(FieldError::required(&values_path, ""));
            }
            for (k, value) in expression.values.iter().enumerate() {
                if !values.insert(value.as_str()) {
                    errors.push(FieldError::duplicate(&values_path.index(k), value.as_str()));
                }
            }
            checks::qualified_name(errors, &path.child("key"), &expression.key);
            if labels.insert(expression.key.as_str(), values).is_some() {
                errors.push(FieldError::duplicate(
                    &path.child("key"),
                    expression.key.as_str(),
                ));
            }
        }
        if seen.contains(&labels) {
            errors.push(FieldError::duplicate(&path, ""));
        }
        seen.push(labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::testing::{create_errors, created, json, row, update_errors, with};

    fn base() -> Value {
        json!({"metadata": {"name": "fast"}, "provisioner": "disks.example.com"})
    }

    #[test]
    fn defaults() {
        let made = json(&created(&StorageClassStrategy, &base()));
        assert_eq!(made["reclaimPolicy"], "Delete");
        assert_eq!(made["volumeBindingMode"], "Immediate");
    }

    #[test]
    fn fields() {
        let zone = |values: &[&str]| json!({"key": "zone", "values": values});
        let many: BTreeMap<String, String> =
            (0..513).map(|i| (i.to_string(), String::new())).collect();
        for (changes, expected) in [
            (vec![], vec![]),
            (
                vec![("/provisioner", json!(""))],
                vec!["provisioner: Required value"],
            ),
            (vec![("/provisioner", json!("Example.com/Disks"))], vec![]),
            (
                vec![("/provisioner", json!("/x"))],
                vec!["provisioner: Invalid value: \"/x\": prefix part must be non-empty"],
            ),
            (
                vec![("/parameters", json!(many))],
                vec!["parameters: Too long: may not be more than 512 bytes"],
            ),
            (
                vec![("/parameters", json!({"a": "x".repeat(256 * 1024)}))],
                vec!["parameters: Too long: may not be more than 262144 bytes"],
            ),
            (
                vec![("/parameters", json!({"": "x"}))],
                vec!["parameters: Invalid value: \"\": field can not be empty."],
            ),
            (
                vec![("/reclaimPolicy", json!("Recycle"))],
                vec![
                    "reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\"",
                ],
            ),
            (
                vec![("/volumeBindingMode", json!("Later"))],
                vec![
                    "volumeBindingMode: Unsupported value: \"Later\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
                ],
            ),
            (
                vec![(
                    "/allowedTopologies",
                    json!([{"matchLabelExpressions": [zone(&["a", "a"]), {"key": "disk", "values": []}]}]),
                )],
                vec![
                    "allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: \"a\"",
                    "allowedTopologies[0].matchLabelExpressions[1].values: Required value",
                ],
            ),
            (
                vec![(
                    "/allowedTopologies",
                    json!([
                        {"matchLabelExpressions": [zone(&["a", "b"])]},
                        {"matchLabelExpressions": [zone(&["b", "a"])]},
                    ]),
                )],
                vec!["allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\""],
            ),
        ] {
            assert_eq!(
                create_errors(&StorageClassStrategy, &with(&base(), &changes)),
                expected
            );
        }
    }

    #[test]
    fn what_volumes_were_made_with_stays() {
        for (changes, expected) in [
            (vec![("/allowVolumeExpansion", json!(true))], vec![]),
            (
                vec![("/parameters/a", json!("b"))],
                vec!["parameters: Forbidden: updates to parameters are forbidden."],
            ),
            (
                vec![("/provisioner", json!("other"))],
                vec!["provisioner: Forbidden: updates to provisioner are forbidden."],
            ),
            (
                vec![("/reclaimPolicy", json!("Retain"))],
                vec!["reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden."],
            ),
            (
                vec![("/volumeBindingMode", json!("WaitForFirstConsumer"))],
                vec![
                    "volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable",
                ],
            ),
        ] {
            let new = with(&base(), &changes);
            assert_eq!(
                update_errors(&StorageClassStrategy, &base(), &new),
                expected
            );
        }
    }

    #[test]
    fn rows() {
        let class = with(
            &base(),
            &[(
                "/metadata/annotations",
                json!({DEFAULT_ANNOTATIONS[0]: "true"}),
            )],
        );
        let cells: Vec<Value> = row(&StorageClassStrategy, &class)
            .into_iter()
            .map(|(_, v)| v)
            .collect();
        assert_eq!(
            cells,
            [
                json!("fast (default)"),
                json!("disks.example.com"),
                json!("Delete"),
                json!("Immediate"),
                json!(false),
                json!("<unknown>"),
            ]
        );
    }
}
