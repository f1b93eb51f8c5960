use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    context, create_errors, created, defaulted, json, row, status_errors, update_errors, with,
};

fn base() -> Value {
    json!({
        "metadata": {"name": "logs"},
        "spec": {
            "selector": {"matchLabels": {"app": "logs"}},
            "template": {
                "metadata": {"labels": {"app": "logs"}},
                "spec": {"containers": [{"name": "main", "image": "fluent:1"}]},
            },
        },
    })
}

#[test]
fn defaults() {
    let filled = json(&created(&DaemonSetStrategy, &base()));
    assert_eq!(
        filled["spec"]["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}})
    );
    assert_eq!(filled["spec"]["revisionHistoryLimit"], 10);
    assert_eq!(
        filled["metadata"]["annotations"],
        json!({TEMPLATE_GENERATION: "1"})
    );
    assert_eq!(filled["status"]["desiredNumberScheduled"], 0);
}

#[test]
fn the_template_generation_counts_templates() {
    let old = created(&DaemonSetStrategy, &base());
    for (change, value, expected) in [
        ("/spec/minReadySeconds", json!(5), "1"),
        (
            "/spec/template/spec/containers/0/image",
            json!("fluent:2"),
            "2",
        ),
        (
            "/metadata/annotations",
            json!({TEMPLATE_GENERATION: "9"}),
            "1",
        ),
    ] {
        let mut new = defaulted(&DaemonSetStrategy, &with(&base(), &[(change, value)]));
        DaemonSetStrategy.prepare_for_update(&context(), &mut new, &old);
        let annotations = new.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations[TEMPLATE_GENERATION], expected, "{change}");
    }
}

#[test]
fn validation() {
    let rolling = "/spec/updateStrategy/rollingUpdate";
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/spec/updateStrategy/type", json!("OnDelete"))],
            vec![],
        ),
        (
            vec![("/spec/updateStrategy/type", json!("Recreate"))],
            vec![
                "spec.updateStrategy: Unsupported value: {\"RollingUpdate\":null,\"Type\":\"Recreate\"}: supported values: \"RollingUpdate\", \"OnDelete\"",
            ],
        ),
        (
            vec![(rolling, json!({"maxUnavailable": 1, "maxSurge": 1}))],
            vec![
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
            ],
        ),
        (
            vec![(rolling, json!({"maxUnavailable": 0, "maxSurge": "0%"}))],
            vec![
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
            ],
        ),
        (
            vec![(rolling, json!({"maxUnavailable": 0, "maxSurge": "101%"}))],
            vec![
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: \"101%\": must not be greater than 100%",
            ],
        ),
        (
            vec![("/spec/selector", json!({}))],
            vec!["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"],
        ),
        (
            vec![
                ("/spec/template/spec/restartPolicy", json!("OnFailure")),
                ("/spec/template/spec/activeDeadlineSeconds", json!(5)),
            ],
            vec![
                "spec.template.spec.restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported",
            ],
        ),
        (
            vec![
                ("/spec/minReadySeconds", json!(-1)),
                ("/spec/revisionHistoryLimit", json!(-2)),
            ],
            vec![
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.revisionHistoryLimit: Invalid value: -2: must be greater than or equal to 0",
            ],
        ),
    ] {
        let set = with(&base(), &changes);
        assert_eq!(
            create_errors(&DaemonSetStrategy, &set),
            expected,
            "{changes:?}"
        );
    }
    let labels = json!({"app": "other"});
    let moved = with(
        &base(),
        &[
            ("/spec/selector/matchLabels", labels.clone()),
            ("/spec/template/metadata/labels", labels),
        ],
    );
    assert_eq!(
        update_errors(&DaemonSetStrategy, &base(), &moved),
        ["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"other\"}}: field is immutable"]
    );
}

#[test]
fn status() {
    let new = with(
        &base(),
        &[(
            "/status",
            json!({"currentNumberScheduled": -1, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0, "numberAvailable": -2}),
        )],
    );
    assert_eq!(
        status_errors(&DaemonSetStrategy, &base(), &new),
        [
            "status.currentNumberScheduled: Invalid value: -1: must be greater than or equal to 0",
            "status.numberAvailable: Invalid value: -2: must be greater than or equal to 0",
        ]
    );
}

#[test]
fn rows() {
    let set = with(
        &base(),
        &[
            ("/spec/template/spec/nodeSelector", json!({"disk": "ssd"})),
            (
                "/status",
                json!({"currentNumberScheduled": 2, "numberMisscheduled": 0, "desiredNumberScheduled": 3, "numberReady": 1, "updatedNumberScheduled": 2}),
            ),
        ],
    );
    assert_eq!(
        row(&DaemonSetStrategy, &set),
        [
            ("Name", json!("logs")),
            ("Desired", json!(3)),
            ("Current", json!(2)),
            ("Ready", json!(1)),
            ("Up-to-date", json!(2)),
            ("Available", json!(0)),
            ("Node Selector", json!("disk=ssd")),
            ("Age", json!("<unknown>")),
            ("Containers", json!("main")),
            ("Images", json!("fluent:1")),
            ("Selector", json!("app=logs")),
        ]
    );
}
