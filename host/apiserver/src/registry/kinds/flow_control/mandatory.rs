//! What is always there and always the same: who is never held up, and where everything goes that nothing else takes.

use serde_json::{Value, json};

/// The fixed spec of a FlowSchema, if it has one.
pub(super) fn flow_schema(name: &str) -> Option<Value> {
    let everything = |subjects: Value| {
        json!([{
            "subjects": subjects,
            "resourceRules": [{
                "verbs": ["*"],
                "apiGroups": ["*"],
                "resources": ["*"],
                "clusterScope": true,
                "namespaces": ["*"],
            }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
        }])
    };
    let group = |name: &str| json!({ "kind": "Group", "group": { "name": name } });
    match name {
        "exempt" => Some(json!({
            "priorityLevelConfiguration": { "name": "exempt" },
            "matchingPrecedence": 1,
            "rules": everything(json!([group("system:masters")])),
        })),
        "catch-all" => Some(json!({
            "priorityLevelConfiguration": { "name": "catch-all" },
            "matchingPrecedence": 10_000,
            "distinguisherMethod": { "type": "ByUser" },
            "rules": everything(json!([
                group("system:unauthenticated"),
                group("system:authenticated"),
            ])),
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

/// The objects themselves, with the plural of their kind: levels before the schemas that name them.
pub(crate) fn objects() -> Vec<(&'static str, &'static str, Value)> {
    const NAMES: [&str; 2] = ["exempt", "catch-all"];
    let object = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": kind,
            "metadata": {
                "name": name,
                "annotations": { "apf.kubernetes.io/autoupdate-spec": "true" },
            },
            "spec": spec,
        })
    };
    let levels = NAMES.iter().filter_map(|name| {
        let spec = priority_level(name)?;
        let level = object("PriorityLevelConfiguration", name, spec);
        Some(("prioritylevelconfigurations", *name, level))
    });
    let schemas = NAMES.iter().filter_map(|name| {
        let schema = object("FlowSchema", name, flow_schema(name)?);
        Some(("flowschemas", *name, schema))
    });
    levels.chain(schemas).collect()
}
