//! What is always there and always the same: who is never held up, and where everything goes that nothing else takes.

use serde_json::{Value, json};

/// The rule that takes in all that these subjects do.
pub(super) fn everything(subjects: Vec<Value>) -> Value {
    json!({
        "subjects": subjects,
        "resourceRules": [{
            "verbs": ["*"],
            "apiGroups": ["*"],
            "resources": ["*"],
            "clusterScope": true,
            "namespaces": ["*"],
        }],
        "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
    })
}

/// The fixed spec of a FlowSchema, if it has one.
pub(super) fn flow_schema(name: &str) -> Option<Value> {
    let group = |name: &str| json!({ "kind": "Group", "group": { "name": name } });
    match name {
        "exempt" => Some(json!({
            "priorityLevelConfiguration": { "name": "exempt" },
            "matchingPrecedence": 1,
            "rules": [everything(vec![group("system:masters")])],
        })),
        "catch-all" => Some(json!({
            "priorityLevelConfiguration": { "name": "catch-all" },
            "matchingPrecedence": 10_000,
            "distinguisherMethod": { "type": "ByUser" },
            "rules": [everything(vec![
                group("system:unauthenticated"),
                group("system:authenticated"),
            ])],
        })),
        _ => None,
    }
}

/// The fixed spec of a PriorityLevelConfiguration, if it has one.
pub(super) fn priority_level(name: &str) -> Option<Value> {
    match name {
        "exempt" => Some(json!({
            "type": "Exempt",
            "exempt": { "nominalConcurrencyShares": 0, "lendablePercent": 0 },
        })),
        "catch-all" => Some(json!({
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 5,
                "lendablePercent": 0,
                "limitResponse": { "type": "Reject" },
            },
        })),
        _ => None,
    }
}
