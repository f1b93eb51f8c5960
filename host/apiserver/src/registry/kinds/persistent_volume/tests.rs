use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    NOW, context, create_errors, created, json, object, row, update_errors, with,
};

const STRATEGY: PersistentVolumeStrategy = PersistentVolumeStrategy;

fn base() -> Value {
    json!({
        "metadata": {"name": "pv-1"},
        "spec": {
            "capacity": {"storage": "1024Mi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"},
        },
    })
}

#[test]
fn defaults() {
    let filled = json(&created(&STRATEGY, &base()));
    assert_eq!(
        filled["spec"],
        json!({
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data", "type": ""},
            "persistentVolumeReclaimPolicy": "Retain",
            "volumeMode": "Filesystem",
        })
    );
    assert_eq!(
        filled["status"],
        json!({"phase": "Pending", "lastPhaseTransitionTime": NOW})
    );
    let iscsi = with(
        &base(),
        &[
            ("/spec/hostPath", json!(null)),
            (
                "/spec/iscsi",
                json!({"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:a", "lun": 1, "secretRef": {"name": "s"}}),
            ),
        ],
    );
    let source = json(&created(&STRATEGY, &iscsi))["spec"]["iscsi"].clone();
    assert_eq!(source["iscsiInterface"], "default");
    assert_eq!(source["secretRef"]["name"], "s");
}

#[test]
fn validation() {
    let source =
        |name: &'static str, value: Value| vec![("/spec/hostPath", json!(null)), (name, value)];
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/spec/accessModes", json!([]))],
            vec!["spec.accessModes: Required value"],
        ),
        (
            vec![("/spec/capacity", json!({"cpu": "1", "storage": "0"}))],
            vec![
                "spec.capacity: Unsupported value: {\"cpu\":\"1\",\"storage\":\"0\"}: supported values: \"storage\"",
                "spec.capacity[storage]: Invalid value: \"0\": must be greater than zero",
            ],
        ),
        (
            vec![("/spec/hostPath", json!(null))],
            vec!["spec: Required value: must specify a volume type"],
        ),
        (
            vec![("/spec/nfs", json!({"server": "s", "path": "/"}))],
            vec!["spec.nfs: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            source("/spec/nfs", json!({"server": "", "path": "x"})),
            vec![
                "spec.nfs.server: Required value",
                "spec.nfs.path: Invalid value: \"x\": must be an absolute path",
            ],
        ),
        (
            source("/spec/local", json!({"path": "/a/../b"})),
            vec![
                "spec.local.path: Invalid value: \"/a/../b\": must not contain '..'",
                "spec.nodeAffinity: Required value: Local volume requires node affinity",
            ],
        ),
        (
            source(
                "/spec/csi",
                json!({"driver": "", "volumeHandle": "", "nodeExpandSecretRef": {"name": "s"}}),
            ),
            vec![
                "spec.csi.driver: Required value",
                "spec.csi.volumeHandle: Required value",
                "spec.csi.nodeExpandSecretRef.namespace: Required value",
            ],
        ),
        (
            vec![
                ("/spec/persistentVolumeReclaimPolicy", json!("Recycle")),
                ("/spec/hostPath/path", json!("/")),
                ("/spec/volumeMode", json!("Tape")),
                ("/spec/volumeAttributesClassName", json!("")),
                ("/spec/nodeAffinity", json!({})),
            ],
            vec![
                "spec.nodeAffinity.required: Required value: must specify required node constraints",
                "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
                "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
                "spec.volumeAttributesClassName: Required value: an empty string is disallowed",
                "spec.csi: Required value: has to be specified when using volumeAttributesClassName",
            ],
        ),
    ] {
        let volume = with(&base(), &changes);
        assert_eq!(create_errors(&STRATEGY, &volume), expected, "{changes:?}");
    }
}

#[test]
fn updates() {
    let csi = with(
        &base(),
        &[
            ("/spec/hostPath", json!(null)),
            ("/spec/csi", json!({"driver": "d", "volumeHandle": "v"})),
        ],
    );
    let secret = json!({"name": "s", "namespace": "n"});
    for (old, change, value, expected) in [
        (&base(), "/spec/capacity/storage", json!("2Gi"), vec![]),
        (
            &base(),
            "/spec/claimRef",
            json!({"namespace": "n", "name": "c"}),
            vec![],
        ),
        (
            &base(),
            "/spec/hostPath/path",
            json!("/other"),
            vec![
                "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\nspec.hostPath: {\"path\":\"/data\"} => {\"path\":\"/other\"}",
            ],
        ),
        (&csi, "/spec/csi/controllerExpandSecretRef", secret, vec![]),
        (
            &base(),
            "/spec/volumeMode",
            json!("Block"),
            vec!["volumeMode: Invalid value: \"Block\": field is immutable"],
        ),
    ] {
        let new = with(old, &[(change, value)]);
        assert_eq!(update_errors(&STRATEGY, old, &new), expected, "{change}");
    }
}

#[test]
fn the_time_of_a_phase_is_noted() {
    let earlier = "2026-01-01T00:00:00Z";
    let status = |phase: &str, time: &str| {
        with(
            &base(),
            &[(
                "/status",
                json!({"phase": phase, "lastPhaseTransitionTime": time}),
            )],
        )
    };
    let old = status("Pending", earlier);
    for (new, expected) in [
        (status("Bound", earlier), NOW),
        (status("Pending", earlier), earlier),
        (
            status("Bound", "2026-01-01T12:00:00Z"),
            "2026-01-01T12:00:00Z",
        ),
    ] {
        let mut new = object(&new);
        STRATEGY.settle_status(&context(), &mut new, &object(&old));
        assert_eq!(json(&new)["status"]["lastPhaseTransitionTime"], expected);
    }
}

#[test]
fn rows() {
    let volume = with(
        &base(),
        &[
            ("/spec/claimRef", json!({"namespace": "n", "name": "c"})),
            ("/spec/storageClassName", json!("fast")),
            ("/spec/persistentVolumeReclaimPolicy", json!("Delete")),
            ("/status", json!({"phase": "Bound"})),
        ],
    );
    let values: Vec<Value> = row(&STRATEGY, &volume).into_iter().map(|c| c.1).collect();
    assert_eq!(
        values,
        [
            "pv-1",
            "1024Mi",
            "RWO",
            "Delete",
            "Bound",
            "n/c",
            "fast",
            "<unset>",
            "",
            "<unknown>",
            "<unset>",
        ]
        .map(|text| json!(text))
    );
}
