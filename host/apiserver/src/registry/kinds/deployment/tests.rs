use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    create_errors, created, defaulted, json, object, row, status_errors, update_errors, with,
};

fn base() -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "nginx", "image": "nginx"}]},
            },
        },
    })
}

#[test]
fn defaults() {
    let filled = json(&created(&DeploymentStrategy, &base()));
    let spec = &filled["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["revisionHistoryLimit"], 10);
    assert_eq!(spec["progressDeadlineSeconds"], 600);
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})
    );
    assert_eq!(spec["template"]["spec"]["restartPolicy"], "Always");
    assert_eq!(filled["status"], json!({}));
}

#[test]
fn requests_do_not_default_from_limits_in_templates() {
    let limits = json!({"cpu": "1"});
    let deployment = with(
        &base(),
        &[(
            "/spec/template/spec/containers/0/resources/limits",
            limits.clone(),
        )],
    );
    let filled = json(&defaulted(&DeploymentStrategy, &deployment));
    assert_eq!(
        filled["spec"]["template"]["spec"]["containers"][0]["resources"],
        json!({"limits": limits})
    );
}

#[test]
fn zero_replicas_and_recreate_stay_as_they_are() {
    let deployment = with(
        &base(),
        &[
            ("/spec/replicas", json!(0)),
            ("/spec/strategy/type", json!("Recreate")),
        ],
    );
    let filled = json(&defaulted(&DeploymentStrategy, &deployment));
    assert_eq!(filled["spec"]["replicas"], 0);
    assert_eq!(filled["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn validation() {
    let rolling = "/spec/strategy/rollingUpdate";
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/spec/template/metadata/labels/app", json!("api"))],
            vec![
                "spec.template.metadata.labels: Invalid value: {\"app\":\"api\"}: `selector` does not match template `labels`",
            ],
        ),
        (
            vec![("/spec/selector", json!({}))],
            vec!["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        ),
        (
            vec![("/spec/replicas", json!(-1))],
            vec!["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            vec![("/spec/template/spec/restartPolicy", json!("Never"))],
            vec![
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
            ],
        ),
        (
            vec![("/spec/template/spec/activeDeadlineSeconds", json!(5))],
            vec![
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
            ],
        ),
        (
            vec![(rolling, json!({"maxUnavailable": 0, "maxSurge": "0%"}))],
            vec![
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
            ],
        ),
        (
            vec![(rolling, json!({"maxUnavailable": "101%"}))],
            vec![
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ],
        ),
        (vec![(rolling, json!({"maxSurge": "200%"}))], vec![]),
        (
            vec![(rolling, json!({"maxSurge": "x"}))],
            vec![
                "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"x\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            ],
        ),
        (
            vec![(
                "/spec/strategy",
                json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
            )],
            vec![
                "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
            ],
        ),
        (
            vec![("/spec/minReadySeconds", json!(600))],
            vec![
                "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
            ],
        ),
        (
            vec![("/spec/template/spec/containers", json!([]))],
            vec!["spec.template.spec.containers: Required value"],
        ),
    ] {
        assert_eq!(
            create_errors(&DeploymentStrategy, &with(&base(), &changes)),
            expected
        );
    }
}

#[test]
fn the_selector_is_for_good() {
    let new = with(
        &base(),
        &[
            ("/spec/selector/matchLabels/app", json!("api")),
            ("/spec/template/metadata/labels/app", json!("api")),
        ],
    );
    assert_eq!(
        update_errors(&DeploymentStrategy, &base(), &new),
        ["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"api\"}}: field is immutable"]
    );
    let scaled = with(&base(), &[("/spec/replicas", json!(5))]);
    assert_eq!(
        update_errors(&DeploymentStrategy, &base(), &scaled),
        [""; 0]
    );
}

#[test]
fn generation_moves_with_spec_and_annotations() {
    for (changes, moved) in [
        (vec![("/spec/replicas", json!(2))], true),
        (vec![("/metadata/annotations/a", json!("b"))], true),
        (vec![("/metadata/labels/a", json!("b"))], false),
        (vec![("/status/replicas", json!(1))], false),
    ] {
        let (new, old) = (object(&with(&base(), &changes)), object(&base()));
        assert_eq!(
            DeploymentStrategy.generation_changed(&new, &old),
            Some(moved),
            "{changes:?}"
        );
    }
}

#[test]
fn the_status_is_written_by_its_own_subresource_only() {
    let old = with(&base(), &[("/status/replicas", json!(3))]);
    let new = with(
        &base(),
        &[("/status/replicas", json!(7)), ("/spec/replicas", json!(9))],
    );
    let (old, asked): (Deployment, Deployment) = (object(&old), object(&new));
    let seen = |d: &Deployment| {
        (
            d.spec.clone().and_then(|s| s.replicas),
            d.status.clone().and_then(|s| s.replicas),
        )
    };
    let mut new = asked.clone();
    DeploymentStrategy.prepare_for_update(
        &crate::registry::kinds::testing::context(),
        &mut new,
        &old,
    );
    assert_eq!(seen(&new), (Some(9), Some(3)));
    let mut new = asked;
    DeploymentStrategy
        .prepare_for_status_update()
        .expect("a status")(&mut new, &old);
    assert_eq!(seen(&new), (None, Some(7)));
}

#[test]
fn counts_of_the_status_fit_each_other() {
    let old = with(&base(), &[("/status/collisionCount", json!(2))]);
    for (status, expected) in [
        (
            json!({"replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "collisionCount": 2}),
            vec![],
        ),
        (
            json!({"replicas": 1, "updatedReplicas": 2, "collisionCount": 2}),
            vec![
                "status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas",
            ],
        ),
        (
            json!({"replicas": 2, "availableReplicas": 1, "collisionCount": 2}),
            vec![
                "status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas",
            ],
        ),
        (
            json!({"collisionCount": 1}),
            vec!["status.collisionCount: Invalid value: 1: cannot be decremented"],
        ),
    ] {
        let new = with(&base(), &[("/status", status)]);
        assert_eq!(status_errors(&DeploymentStrategy, &old, &new), expected);
    }
}

#[test]
fn scale() {
    let scale = DeploymentStrategy.scale().expect("a scale");
    let mut deployment: Deployment = object(&with(
        &base(),
        &[("/spec/replicas", json!(3)), ("/status/replicas", json!(2))],
    ));
    assert_eq!((scale.replicas)(&deployment), 3);
    assert_eq!((scale.status_replicas)(&deployment), 2);
    assert_eq!((scale.selector)(&deployment), "app=web");
    (scale.set_replicas)(&mut deployment, 0);
    assert_eq!((scale.replicas)(&deployment), 0);
}

#[test]
fn rows() {
    let deployment = with(
        &base(),
        &[
            ("/spec/replicas", json!(3)),
            (
                "/status",
                json!({"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}),
            ),
            (
                "/spec/template/spec/containers/-",
                json!({"name": "log", "image": "busybox:1"}),
            ),
        ],
    );
    assert_eq!(
        row(&DeploymentStrategy, &deployment),
        [
            ("Name", json!("web")),
            ("Ready", json!("2/3")),
            ("Up-to-date", json!(3)),
            ("Available", json!(1)),
            ("Age", json!("<unknown>")),
            ("Containers", json!("nginx,log")),
            ("Images", json!("nginx,busybox:1")),
            ("Selector", json!("app=web")),
        ]
    );
}

#[test]
fn templates_are_warned_of_where_they_stand() {
    let grace = "/spec/template/spec/terminationGracePeriodSeconds";
    let deployment = object(&with(&base(), &[(grace, json!(-1))]));
    assert_eq!(
        DeploymentStrategy.warnings(&deployment),
        [
            "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ]
    );
}
