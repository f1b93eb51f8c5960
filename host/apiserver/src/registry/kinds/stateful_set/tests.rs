use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    create_errors, created, json, object, row, status_errors, update_errors, with,
};

fn base() -> Value {
    json!({
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{
                    "name": "main",
                    "image": "postgres:18",
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
            }],
        },
    })
}

#[test]
fn defaults() {
    let filled = json(&created(&StatefulSetStrategy, &base()));
    let spec = &filled["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["revisionHistoryLimit"], 10);
    assert_eq!(spec["podManagementPolicy"], "OrderedReady");
    assert_eq!(
        spec["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}})
    );
    assert_eq!(
        spec["persistentVolumeClaimRetentionPolicy"],
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
    );
    assert_eq!(spec["template"]["spec"]["restartPolicy"], "Always");
    assert_eq!(
        spec["volumeClaimTemplates"][0],
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeMode": "Filesystem",
            },
            "status": {"phase": "Pending"},
        })
    );
    assert_eq!(
        filled["status"],
        json!({"replicas": 0, "availableReplicas": 0})
    );
    let on_delete = with(&base(), &[("/spec/updateStrategy/type", json!("OnDelete"))]);
    assert_eq!(
        json(&created(&StatefulSetStrategy, &on_delete))["spec"]["updateStrategy"],
        json!({"type": "OnDelete"})
    );
}

#[test]
fn validation() {
    let rolling = "/spec/updateStrategy/rollingUpdate";
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/spec/podManagementPolicy", json!("Random"))],
            vec![
                "spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'",
            ],
        ),
        (
            vec![("/spec/updateStrategy/type", json!("Recreate"))],
            vec![
                "spec.updateStrategy: Invalid value: {\"RollingUpdate\":null,\"Type\":\"Recreate\"}: must be 'RollingUpdate' or 'OnDelete'",
            ],
        ),
        (
            vec![(
                "/spec/updateStrategy",
                json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
            )],
            vec![
                "spec.updateStrategy.rollingUpdate: Invalid value: {\"MaxUnavailable\":null,\"Partition\":1}: only allowed for updateStrategy 'RollingUpdate'",
            ],
        ),
        (
            vec![(rolling, json!({"partition": -1, "maxUnavailable": 0}))],
            vec![
                "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0",
            ],
        ),
        (
            vec![(rolling, json!({"maxUnavailable": "101%"}))],
            vec![
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ],
        ),
        (
            vec![(
                "/spec/persistentVolumeClaimRetentionPolicy",
                json!({"whenDeleted": "Keep"}),
            )],
            vec![
                "spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: \"Keep\": supported values: \"Retain\", \"Delete\"",
            ],
        ),
        (
            vec![
                ("/spec/replicas", json!(-1)),
                ("/spec/minReadySeconds", json!(-2)),
                ("/spec/ordinals", json!({"start": -3})),
            ],
            vec![
                "spec.ordinals.start: Invalid value: -3: must be greater than or equal to 0",
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
            ],
        ),
        (
            vec![("/spec/selector", json!({}))],
            vec!["spec.selector: Invalid value: {}: empty selector is invalid for statefulset"],
        ),
        (
            vec![("/spec/template/metadata/labels/app", json!("web"))],
            vec![
                "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
            ],
        ),
        (
            vec![
                ("/spec/template/spec/restartPolicy", json!("Never")),
                ("/spec/template/spec/activeDeadlineSeconds", json!(5)),
            ],
            vec![
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported",
            ],
        ),
        (
            vec![(
                "/spec/template/spec/containers/0/volumeMounts/0/name",
                json!("logs"),
            )],
            vec!["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"logs\""],
        ),
        (
            vec![("/spec/volumeClaimTemplates/0/spec/resources", json!({}))],
            vec!["spec.volumeClaimTemplates[0].spec.resources[storage]: Required value"],
        ),
    ] {
        let set = with(&base(), &changes);
        assert_eq!(
            create_errors(&StatefulSetStrategy, &set),
            expected,
            "{changes:?}"
        );
    }
    assert_eq!(
        StatefulSetStrategy.name_format().check("a.b", false),
        ["must not contain dots"]
    );
}

#[test]
fn updates() {
    let forbidden = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    for (change, value, expected) in [
        ("/spec/replicas", json!(3), vec![]),
        ("/spec/ordinals/start", json!(3), vec![]),
        ("/spec/minReadySeconds", json!(3), vec![]),
        ("/spec/revisionHistoryLimit", json!(3), vec![]),
        (
            "/spec/template/spec/containers/0/image",
            json!("postgres:19"),
            vec![],
        ),
        ("/spec/updateStrategy/type", json!("OnDelete"), vec![]),
        (
            "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted",
            json!("Delete"),
            vec![],
        ),
        ("/spec/serviceName", json!("other"), vec![forbidden]),
        (
            "/spec/podManagementPolicy",
            json!("Parallel"),
            vec![forbidden],
        ),
        (
            "/spec/volumeClaimTemplates/0/spec/resources/requests/storage",
            json!("2Gi"),
            vec![forbidden],
        ),
    ] {
        let new = with(&base(), &[(change, value)]);
        assert_eq!(
            update_errors(&StatefulSetStrategy, &base(), &new),
            expected,
            "{change}"
        );
    }
    let (old, new) = (
        object::<StatefulSet>(&base()),
        object(&with(&base(), &[("/spec/replicas", json!(2))])),
    );
    assert_eq!(
        StatefulSetStrategy.generation_changed(&new, &old),
        Some(true)
    );
}

#[test]
fn status() {
    let old = with(
        &base(),
        &[("/status", json!({"replicas": 1, "collisionCount": 2}))],
    );
    let new = with(
        &base(),
        &[(
            "/status",
            json!({"replicas": 1, "readyReplicas": 2, "availableReplicas": 3, "collisionCount": 1}),
        )],
    );
    assert_eq!(
        status_errors(&StatefulSetStrategy, &old, &new),
        [
            "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 3: cannot be greater than status.readyReplicas",
            "status.collisionCount: Invalid value: 1: cannot be decremented",
        ]
    );
}

#[test]
fn rows() {
    let set = with(
        &base(),
        &[
            ("/spec/replicas", json!(3)),
            ("/status", json!({"replicas": 3, "readyReplicas": 2})),
        ],
    );
    assert_eq!(
        row(&StatefulSetStrategy, &set),
        [
            ("Name", json!("db")),
            ("Ready", json!("2/3")),
            ("Age", json!("<unknown>")),
            ("Containers", json!("main")),
            ("Images", json!("postgres:18")),
        ]
    );
}
