//! CSINodes: the drivers of each node. Source: <https://kubernetes-csi.github.io/docs/csi-node-object.html>

use std::collections::BTreeSet;

use k8s_openapi::api::storage::v1::{CSINode, CSINodeDriver};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
    validation::FIELD_IS_IMMUTABLE,
};
use serde_json::{Value, json};

use super::GROUP;
use crate::registry::{
    kinds::{cells, checks, describe},
    printing::Column,
    strategy::Strategy,
};

const NODE_ID_MAX: usize = 256;

pub(in crate::registry::kinds) struct CsiNodeStrategy;

impl Strategy for CsiNodeStrategy {
    type Object = CSINode;

    fn resource(&self) -> ResourceInfo {
        describe::cluster_scoped(GROUP, "v1", "csinodes", "CSINode")
    }

    fn validate(&self, node: &CSINode) -> ErrorList {
        let mut errors = ErrorList::new();
        let mut names = BTreeSet::new();
        for (i, driver) in node.spec.drivers.iter().enumerate() {
            let path = Path::new("spec").child("drivers").index(i);
            validate_driver(&mut errors, &path, driver);
            if !names.insert(driver.name.as_str()) {
                errors.push(FieldError::duplicate(
                    &path.child("name"),
                    driver.name.as_str(),
                ));
            }
        }
        errors
    }

    /// A driver that is there stays as it is, but for how many volumes fit.
    fn validate_update(&self, new: &CSINode, old: &CSINode) -> ErrorList {
        let fixed = |driver: &CSINodeDriver| CSINodeDriver {
            allocatable: None,
            ..driver.clone()
        };
        let changed = |driver: &&CSINodeDriver| {
            let before = old.spec.drivers.iter().find(|old| old.name == driver.name);
            before.is_some_and(|before| fixed(before) != fixed(driver))
        };
        let refuse = |driver: &CSINodeDriver| {
            let shown = json!({
                "Name": driver.name,
                "NodeID": driver.node_id,
                "TopologyKeys": driver.topology_keys,
            });
            FieldError::invalid(&Path::new("CSINodeDriver"), shown, FIELD_IS_IMMUTABLE)
        };
        new.spec
            .drivers
            .iter()
            .filter(changed)
            .map(refuse)
            .collect()
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::integer("Drivers", "How many drivers run on the node."),
            Column::AGE,
        ]
    }

    fn row(&self, node: &CSINode, now: jiff::Timestamp) -> Vec<Value> {
        vec![
            json!(node.metadata.name),
            json!(node.spec.drivers.len()),
            json!(cells::since(node.metadata.creation_timestamp.as_ref(), now)),
        ]
    }
}

fn validate_driver(errors: &mut ErrorList, path: &Path, driver: &CSINodeDriver) {
    checks::csi_driver_name(errors, &path.child("name"), &driver.name);
    let id_path = path.child("nodeID");
    checks::required(errors, &id_path, &driver.node_id);
    if driver.node_id.len() > NODE_ID_MAX {
        let why = format!("must be {NODE_ID_MAX} characters or less");
        errors.push(FieldError::invalid(&id_path, driver.node_id.as_str(), &why));
    }
    let count = driver
        .allocatable
        .as_ref()
        .and_then(|a| a.count)
        .map(i64::from);
    checks::not_negative(errors, &path.child("allocatable").child("count"), count);
    let mut keys = BTreeSet::new();
    for key in driver.topology_keys.iter().flatten() {
        checks::required(errors, path, key);
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(path, key.as_str()));
        }
        checks::qualified_name(errors, path, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::testing::{create_errors, row, update_errors, with};

    fn base() -> Value {
        json!({
            "metadata": {"name": "node-0"},
            "spec": {"drivers": [{"name": "d.example.com", "nodeID": "n0", "topologyKeys": ["zone"]}]},
        })
    }

    #[test]
    fn fields() {
        for (changes, expected) in [
            (vec![], vec![]),
            (vec![("/spec/drivers", json!([]))], vec![]),
            (
                vec![("/spec/drivers/0", json!({"name": "", "nodeID": ""}))],
                vec![
                    "spec.drivers[0].name: Required value",
                    "spec.drivers[0].nodeID: Required value",
                ],
            ),
            (
                vec![(
                    "/spec/drivers/-",
                    json!({"name": "d.example.com", "nodeID": "n0"}),
                )],
                vec!["spec.drivers[1].name: Duplicate value: \"d.example.com\""],
            ),
            (
                vec![("/spec/drivers/0/allocatable", json!({"count": -1}))],
                vec![
                    "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
                ],
            ),
            (
                vec![("/spec/drivers/0/topologyKeys", json!(["zone", "zone"]))],
                vec!["spec.drivers[0]: Duplicate value: \"zone\""],
            ),
        ] {
            assert_eq!(
                create_errors(&CsiNodeStrategy, &with(&base(), &changes)),
                expected
            );
        }
    }

    #[test]
    fn drivers_come_and_go_but_do_not_change() {
        for (changes, expected) in [
            (vec![("/spec/drivers", json!([]))], vec![]),
            (
                vec![("/spec/drivers/0/allocatable", json!({"count": 5}))],
                vec![],
            ),
            (
                vec![("/spec/drivers/0/nodeID", json!("n1"))],
                vec![
                    "CSINodeDriver: Invalid value: {\"Name\":\"d.example.com\",\"NodeID\":\"n1\",\"TopologyKeys\":[\"zone\"]}: field is immutable",
                ],
            ),
        ] {
            let new = with(&base(), &changes);
            assert_eq!(update_errors(&CsiNodeStrategy, &base(), &new), expected);
        }
    }

    #[test]
    fn rows() {
        assert_eq!(
            row(&CsiNodeStrategy, &base()),
            [
                ("Name", json!("node-0")),
                ("Drivers", json!(1)),
                ("Age", json!("<unknown>"))
            ]
        );
    }
}
