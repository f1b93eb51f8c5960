use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    create_errors, created, json, row, status_errors, update_errors, with,
};

fn base() -> Value {
    json!({"metadata": {"name": "team"}, "spec": {"hard": {"pods": "10", "requests.cpu": "4000m"}}})
}

#[test]
fn defaults() {
    let filled = json(&created(&ResourceQuotaStrategy, &base()));
    assert_eq!(
        filled["spec"]["hard"],
        json!({"pods": "10", "requests.cpu": "4"})
    );
}

#[test]
fn validation() {
    let expression = |scope: &str, operator: &str, values: Value| json!({"matchExpressions": [{"scopeName": scope, "operator": operator, "values": values}]});
    let selector = "/spec/scopeSelector";
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![(
                "/spec/hard",
                json!({"count/deployments.apps": "2", "example.com/gpu": "1"}),
            )],
            vec![],
        ),
        (
            vec![("/spec/hard", json!({"storage": "1", "rooms": "1"}))],
            vec![
                "spec.hard[rooms]: Invalid value: \"rooms\": must be a standard resource type or fully qualified",
                "spec.hard[rooms]: Invalid value: \"rooms\": must be a standard resource for quota",
                "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota",
            ],
        ),
        (
            vec![("/spec/hard", json!({"pods": "1500m", "cpu": "-1"}))],
            vec![
                "spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "spec.hard[pods]: Invalid value: \"1500m\": must be an integer",
            ],
        ),
        (
            vec![("/spec/scopes", json!(["BestEffort", "Loud"]))],
            vec![
                "spec.scopes: Invalid value: [\"BestEffort\",\"Loud\"]: unsupported scope applied to resource",
                "spec.scopes: Invalid value: [\"BestEffort\",\"Loud\"]: unsupported scope",
            ],
        ),
        (
            vec![("/spec/scopes", json!(["Terminating", "NotTerminating"]))],
            vec![
                "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: conflicting scopes",
            ],
        ),
        (
            vec![(selector, expression("PriorityClass", "In", json!(["high"])))],
            vec![],
        ),
        (
            vec![(selector, expression("PriorityClass", "In", json!([])))],
            vec![
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ],
        ),
        (
            vec![(selector, expression("Terminating", "Near", json!(null)))],
            vec![
                "spec.scopeSelector.matchExpressions.operator: Invalid value: \"Near\": must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
                "spec.scopeSelector.matchExpressions.operator: Invalid value: \"Near\": not a valid selector operator",
            ],
        ),
    ] {
        let quota = with(&base(), &changes);
        let errors = create_errors(&ResourceQuotaStrategy, &quota);
        assert_eq!(errors, expected, "{changes:?}");
    }
}

#[test]
fn updates() {
    let scoped = with(&base(), &[("/spec/scopes", json!(["NotBestEffort"]))]);
    let more = with(&base(), &[("/spec/hard/pods", json!("20"))]);
    assert_eq!(
        update_errors(&ResourceQuotaStrategy, &base(), &more),
        [""; 0]
    );
    assert_eq!(
        update_errors(&ResourceQuotaStrategy, &base(), &scoped),
        ["spec.scopes: Invalid value: [\"NotBestEffort\"]: field is immutable"]
    );
    let status = with(&base(), &[("/status/used", json!({"rooms": "1"}))]);
    assert_eq!(
        status_errors(&ResourceQuotaStrategy, &base(), &status).len(),
        2
    );
}

#[test]
fn rows() {
    let quota = with(
        &base(),
        &[(
            "/status",
            json!({"hard": {"pods": "10", "requests.cpu": "4", "limits.cpu": "8"}, "used": {"pods": "3", "limits.cpu": "1"}}),
        )],
    );
    assert_eq!(
        row(&ResourceQuotaStrategy, &quota),
        [
            ("Name", json!("team")),
            ("Request", json!("pods: 3/10, requests.cpu: 0/4")),
            ("Limit", json!("limits.cpu: 1/8")),
            ("Age", json!("<unknown>")),
        ]
    );
}
