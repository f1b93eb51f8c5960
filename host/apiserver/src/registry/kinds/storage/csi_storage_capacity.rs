//! CSIStorageCapacities: how much is left where. Source: <https://kubernetes.io/docs/concepts/storage/storage-capacity/>

use k8s_openapi::{
    api::storage::v1::CSIStorageCapacity, apimachinery::pkg::api::resource::Quantity as Amount,
};
use pilothouse_api::{
    Quantity, ResourceInfo,
    field::{ErrorList, Path},
};
use serde_json::{Value, json};

use super::GROUP;
use crate::registry::{
    kinds::{checks, describe, pod::resources::validate_quantity, semantic},
    printing::Column,
    strategy::Strategy,
};

pub(in crate::registry::kinds) struct CsiStorageCapacityStrategy;

impl Strategy for CsiStorageCapacityStrategy {
    type Object = CSIStorageCapacity;

    fn resource(&self) -> ResourceInfo {
        describe::namespaced(GROUP, "v1", "csistoragecapacities", "CSIStorageCapacity")
    }

    fn default(&self, capacity: &mut CSIStorageCapacity) {
        for amount in [&mut capacity.capacity, &mut capacity.maximum_volume_size] {
            canonicalize(amount.as_mut());
        }
    }

    fn validate(&self, capacity: &CSIStorageCapacity) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("nodeTopology");
        checks::label_selector(&mut errors, &path, capacity.node_topology.as_ref());
        let path = Path::new("storageClassName");
        checks::dns_subdomain(&mut errors, &path, &capacity.storage_class_name);
        if let Some(amount) = &capacity.capacity {
            validate_quantity(&mut errors, &Path::new("capacity"), "storage", amount);
        }
        errors
    }

    /// What the driver was asked stays; its answer may change.
    fn validate_update(&self, new: &CSIStorageCapacity, old: &CSIStorageCapacity) -> ErrorList {
        let mut errors = ErrorList::new();
        checks::immutable(
            &mut errors,
            &Path::new("nodeTopology"),
            new.node_topology == old.node_topology,
            semantic::value_at(new, "/nodeTopology"),
        );
        checks::immutable(
            &mut errors,
            &Path::new("storageClassName"),
            new.storage_class_name == old.storage_class_name,
            new.storage_class_name.as_str(),
        );
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("StorageClassName", "The class that the capacity is of."),
            Column::string("Capacity", "What is left."),
        ]
    }

    fn row(&self, capacity: &CSIStorageCapacity, _now: jiff::Timestamp) -> Vec<Value> {
        let amount = capacity
            .capacity
            .as_ref()
            .map_or("<unset>", |amount| &amount.0);
        vec![
            json!(capacity.metadata.name),
            json!(capacity.storage_class_name),
            json!(amount),
        ]
    }
}

fn canonicalize(amount: Option<&mut Amount>) {
    if let Some(amount) = amount
        && let Ok(canonical) = Quantity::canonical(&amount.0)
    {
        amount.0 = canonical;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::testing::{create_errors, created, row, update_errors, with};

    fn base() -> Value {
        json!({"metadata": {"name": "c", "namespace": "a"}, "storageClassName": "fast", "capacity": "1024Gi"})
    }

    #[test]
    fn fields() {
        let made = created(&CsiStorageCapacityStrategy, &base());
        assert_eq!(made.capacity.unwrap().0, "1Ti");
        for (changes, expected) in [
            (vec![], vec![]),
            (
                vec![("/capacity", json!("-1Gi"))],
                vec!["capacity: Invalid value: \"-1Gi\": must be greater than or equal to 0"],
            ),
            (
                vec![(
                    "/nodeTopology",
                    json!({"matchExpressions": [{"key": "a", "operator": "Has"}]}),
                )],
                vec![
                    "nodeTopology.matchExpressions[0].operator: Invalid value: \"Has\": not a valid selector operator",
                ],
            ),
        ] {
            let capacity = with(&base(), &changes);
            assert_eq!(
                create_errors(&CsiStorageCapacityStrategy, &capacity),
                expected
            );
        }
    }

    #[test]
    fn the_question_stays() {
        for (changes, expected) in [
            (vec![("/capacity", json!("1Gi"))], vec![]),
            (
                vec![("/storageClassName", json!("slow"))],
                vec!["storageClassName: Invalid value: \"slow\": field is immutable"],
            ),
            (
                vec![("/nodeTopology", json!({"matchLabels": {"a": "b"}}))],
                vec![
                    "nodeTopology: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: field is immutable",
                ],
            ),
        ] {
            let new = with(&base(), &changes);
            assert_eq!(
                update_errors(&CsiStorageCapacityStrategy, &base(), &new),
                expected
            );
        }
    }

    #[test]
    fn rows() {
        assert_eq!(
            row(&CsiStorageCapacityStrategy, &base()),
            [
                ("Name", json!("c")),
                ("StorageClassName", json!("fast")),
                ("Capacity", json!("1024Gi")),
            ]
        );
    }
}
