use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    create_errors, created, json, row, status_errors, update_errors, with,
};

const STRATEGY: PersistentVolumeClaimStrategy = PersistentVolumeClaimStrategy;

fn base() -> Value {
    json!({
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1024Mi"}},
        },
    })
}

#[test]
fn defaults() {
    let filled = json(&created(&STRATEGY, &base()));
    assert_eq!(
        filled["spec"],
        json!({
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeMode": "Filesystem",
        })
    );
    assert_eq!(filled["status"], json!({"phase": "Pending"}));
}

#[test]
fn sources_are_kept_in_step() {
    let claim = json!({"kind": "PersistentVolumeClaim", "name": "old"});
    let volume = json!({"apiGroup": "example.com", "kind": "Volume", "name": "v"});
    let elsewhere = with(&claim, &[("/namespace", json!("other"))]);
    for (sent, expected) in [
        (
            vec![("/spec/dataSource", claim.clone())],
            (claim.clone(), claim.clone()),
        ),
        (
            vec![("/spec/dataSourceRef", claim.clone())],
            (claim.clone(), claim.clone()),
        ),
        (
            vec![("/spec/dataSource", volume.clone())],
            (Value::Null, Value::Null),
        ),
        (
            vec![("/spec/dataSourceRef", elsewhere)],
            (Value::Null, Value::Null),
        ),
        (
            vec![("/spec/dataSourceRef", volume.clone())],
            (volume.clone(), volume.clone()),
        ),
    ] {
        let filled = json(&created(&STRATEGY, &with(&base(), &sent)));
        let spec = &filled["spec"];
        assert_eq!(
            (spec["dataSource"].clone(), spec["dataSourceRef"].clone()),
            expected,
            "{sent:?}"
        );
    }
}

#[test]
fn validation() {
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/spec/accessModes", json!([]))],
            vec!["spec.accessModes: Required value: at least 1 access mode is required"],
        ),
        (
            vec![(
                "/spec/accessModes",
                json!(["ReadWriteOncePod", "ReadWriteMany", "Never"]),
            )],
            vec![
                "spec.accessModes: Unsupported value: \"Never\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            ],
        ),
        (
            vec![("/spec/resources", json!(null))],
            vec!["spec.resources[storage]: Required value"],
        ),
        (
            vec![("/spec/resources/requests/storage", json!("0"))],
            vec!["spec.resources[storage]: Invalid value: \"0\": must be greater than zero"],
        ),
        (
            vec![("/spec/volumeMode", json!("Tape"))],
            vec![
                "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
            ],
        ),
        (
            vec![("/spec/dataSourceRef", json!({"kind": "Pod", "name": ""}))],
            vec![
                "spec.dataSource.name: Required value",
                "spec.dataSource: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                "spec.dataSourceRef.name: Required value",
                "spec.dataSourceRef: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            ],
        ),
        (
            vec![
                (
                    "/spec/dataSource",
                    json!({"kind": "PersistentVolumeClaim", "name": "a"}),
                ),
                (
                    "/spec/dataSourceRef",
                    json!({"kind": "PersistentVolumeClaim", "name": "b"}),
                ),
            ],
            vec!["spec: Invalid value: \"spec.dataSource\": must match dataSourceRef"],
        ),
    ] {
        let claim = with(&base(), &changes);
        assert_eq!(create_errors(&STRATEGY, &claim), expected, "{changes:?}");
    }
}

#[test]
fn updates() {
    let immutable = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n";
    let bound = with(
        &base(),
        &[(
            "/status",
            json!({"phase": "Bound", "capacity": {"storage": "1Gi"}}),
        )],
    );
    let expanding = with(
        &bound,
        &[("/spec/resources/requests/storage", json!("4Gi"))],
    );
    let gold = with(
        &bound,
        &[("/spec/volumeAttributesClassName", json!("gold"))],
    );
    let bound_to = with(&bound, &[("/spec/volumeName", json!("pv-1"))]);
    for (old, change, value, expected) in [
        (&base(), "/spec/volumeName", json!("pv-1"), vec![]),
        (&base(), "/spec/storageClassName", json!("fast"), vec![]),
        (
            &bound_to,
            "/spec/volumeName",
            json!("pv-2"),
            vec![format!(
                "{immutable}spec.volumeName: \"pv-1\" => \"pv-2\""
            )],
        ),
        (
            &base(),
            "/spec/accessModes",
            json!(["ReadWriteMany"]),
            vec![format!(
                "{immutable}spec.accessModes: [\"ReadWriteOnce\"] => [\"ReadWriteMany\"]"
            )],
        ),
        (
            &base(),
            "/spec/resources/requests/storage",
            json!("2Gi"),
            vec![format!(
                "{immutable}spec.resources: {{\"requests\":{{\"storage\":\"1Gi\"}}}} => {{\"requests\":{{\"storage\":\"2Gi\"}}}}"
            )],
        ),
        (&bound, "/spec/resources/requests/storage", json!("2Gi"), vec![]),
        (
            &expanding,
            "/spec/resources/requests/storage",
            json!("2Gi"),
            vec![],
        ),
        (
            &expanding,
            "/spec/resources/requests/storage",
            json!("1Gi"),
            vec!["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity".to_owned()],
        ),
        (&bound, "/spec/volumeAttributesClassName", json!("gold"), vec![]),
        (
            &gold,
            "/spec/volumeAttributesClassName",
            json!(null),
            vec!["spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden".to_owned()],
        ),
    ] {
        let new = with(old, &[(change, value.clone())]);
        assert_eq!(update_errors(&STRATEGY, old, &new), expected, "{change} {value}");
    }
}

#[test]
fn status() {
    let new = with(
        &base(),
        &[(
            "/status",
            json!({
                "capacity": {"storage": "-1"},
                "allocatedResources": {"cpu": "1"},
                "allocatedResourceStatuses": {"storage": "Growing"},
            }),
        )],
    );
    assert_eq!(
        status_errors(&STRATEGY, &base(), &new),
        [
            "status.capacity[storage]: Invalid value: \"-1\": must be greater than or equal to 0",
            "status.allocatedResourceStatus: Unsupported value: \"storage\": supported values: \"ControllerResizeInProgress\", \"ControllerResizeInfeasible\", \"NodeResizeInProgress\", \"NodeResizeInfeasible\", \"NodeResizePending\"",
            "status.allocatedResources: Unsupported value: \"cpu\": supported values: \"storage\"",
        ]
    );
}

#[test]
fn rows() {
    let bound = with(
        &base(),
        &[
            ("/spec/volumeName", json!("pv-1")),
            ("/spec/storageClassName", json!("fast")),
            ("/spec/volumeMode", json!("Filesystem")),
            (
                "/status",
                json!({"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}),
            ),
        ],
    );
    for (claim, expected) in [
        (
            with(&base(), &[("/status/phase", json!("Pending"))]),
            ["Pending", "", "", "", "", "<unset>", "<unknown>", "<unset>"],
        ),
        (
            bound,
            [
                "Bound",
                "pv-1",
                "2Gi",
                "RWO,RWX",
                "fast",
                "<unset>",
                "<unknown>",
                "Filesystem",
            ],
        ),
    ] {
        let cells: Vec<Value> = row(&STRATEGY, &claim).into_iter().map(|(_, v)| v).collect();
        assert_eq!(cells[1..], expected.map(|text| json!(text)));
    }
}
