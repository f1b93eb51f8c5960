use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    create_errors, created, json, now, object, row, status_errors, with,
};

const STRATEGY: PodDisruptionBudgetStrategy = PodDisruptionBudgetStrategy;

fn base() -> Value {
    json!({
        "metadata": {"name": "web", "generation": 1},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    })
}

#[test]
fn validation() {
    for (changes, expected) in [
        (vec![], vec![]),
        (vec![("/spec/minAvailable", json!("50%"))], vec![]),
        (
            vec![("/spec/maxUnavailable", json!(1))],
            vec![
                "spec: Invalid value: {\"MaxUnavailable\":1,\"MinAvailable\":2,\"Selector\":{\"matchLabels\":{\"app\":\"web\"}},\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set",
            ],
        ),
        (
            vec![("/spec/minAvailable", json!(-1))],
            vec!["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            vec![("/spec/minAvailable", json!("101%"))],
            vec!["spec.minAvailable: Invalid value: \"101%\": must not be greater than 100%"],
        ),
        (
            vec![("/spec/unhealthyPodEvictionPolicy", json!("Never"))],
            vec![
                "spec.unhealthyPodEvictionPolicy: Unsupported value: \"Never\": supported values: \"AlwaysAllow\", \"IfHealthyBudget\"",
            ],
        ),
        (
            vec![(
                "/spec/selector",
                json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            )],
            vec![
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ],
        ),
    ] {
        let budget = with(&base(), &changes);
        assert_eq!(create_errors(&STRATEGY, &budget), expected, "{changes:?}");
    }
    assert_eq!(
        json(&created(&STRATEGY, &base()))["status"],
        json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0})
    );
}

#[test]
fn status() {
    let new = with(
        &base(),
        &[(
            "/status",
            json!({
                "currentHealthy": -1,
                "conditions": [{"type": "A", "status": "Maybe", "reason": "1", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
            }),
        )],
    );
    let errors = status_errors(&STRATEGY, &base(), &new);
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert_eq!(
        errors[0],
        "status.conditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\""
    );
    assert!(errors[1].starts_with(
        "status.conditions[0].reason: Invalid value: \"1\": a condition reason must start"
    ));
    assert_eq!(
        errors[2],
        "status.currentHealthy: Invalid value: -1: must be greater than or equal to 0"
    );
}

#[test]
fn a_disruption_is_taken_or_refused() {
    for (status, expected) in [
        (
            json!({"observedGeneration": 1, "disruptionsAllowed": 2}),
            Ok((1, false)),
        ),
        (
            json!({"observedGeneration": 1, "disruptionsAllowed": 1}),
            Ok((0, true)),
        ),
        (
            json!({"observedGeneration": 0, "disruptionsAllowed": 1}),
            Err((
                429,
                10,
                "The disruption budget web is still being processed by the server.",
            )),
        ),
        (
            json!({"observedGeneration": 1, "disruptionsAllowed": 0, "desiredHealthy": 2, "currentHealthy": 1}),
            Err((
                429,
                0,
                "The disruption budget web needs 2 healthy pods and has 1 currently",
            )),
        ),
        (
            json!({"observedGeneration": 1, "disruptionsAllowed": -1}),
            Err((403, 0, "")),
        ),
    ] {
        let mut budget: PodDisruptionBudget =
            object(&with(&base(), &[("/status", status.clone())]));
        let outcome = eviction::take(&mut budget, "web-0", now());
        let found = match outcome {
            Ok(()) => {
                let status = budget.status.as_ref().unwrap();
                assert!(
                    status
                        .disrupted_pods
                        .as_ref()
                        .unwrap()
                        .contains_key("web-0")
                );
                Ok((
                    status.disruptions_allowed.unwrap(),
                    status.conditions.is_some(),
                ))
            }
            Err(status) => {
                let details = status.details.unwrap();
                let cause = details.causes.first().map(|c| c.message.clone());
                Err((
                    status.code,
                    details.retry_after_seconds,
                    cause.unwrap_or_default(),
                ))
            }
        };
        let expected = expected.map_err(|(code, after, why)| (code, after, why.to_owned()));
        assert_eq!(found, expected, "{status}");
    }
}

#[test]
fn pods_that_are_not_ready_may_go_for_free() {
    let pod = |ready: &str| json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    let enough = json!({"currentHealthy": 2, "desiredHealthy": 2});
    let too_few = json!({"currentHealthy": 1, "desiredHealthy": 2});
    for (ready, status, policy, expected) in [
        ("True", &enough, json!(null), false),
        ("False", &enough, json!(null), true),
        ("False", &too_few, json!(null), false),
        ("False", &too_few, json!("AlwaysAllow"), true),
        ("False", &json!({}), json!("IfHealthyBudget"), false),
    ] {
        let budget = with(
            &base(),
            &[
                ("/status", status.clone()),
                ("/spec/unhealthyPodEvictionPolicy", policy),
            ],
        );
        assert_eq!(
            eviction::is_free(&object(&budget), &object(&pod(ready))),
            expected,
            "{ready} {status}"
        );
    }
}

#[test]
fn rows() {
    let budget = with(&base(), &[("/status/disruptionsAllowed", json!(3))]);
    let values: Vec<Value> = row(&STRATEGY, &budget).into_iter().map(|c| c.1).collect();
    assert_eq!(
        values,
        [
            json!("web"),
            json!("2"),
            json!("N/A"),
            json!(3),
            json!("<unknown>")
        ]
    );
}
