use serde_json::{Value, json};

use super::*;
use crate::registry::kinds::testing::{create_errors, created, json, row, status_errors, with};

fn schema() -> Value {
    json!({
        "metadata": {"name": "probes"},
        "spec": {
            "priorityLevelConfiguration": {"name": "exempt"},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": "alice"}}],
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
            }],
        },
    })
}

fn level() -> Value {
    json!({
        "metadata": {"name": "batch"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}},
    })
}

#[test]
fn defaults() {
    let made = json(&created(&FlowSchemaStrategy, &schema()));
    assert_eq!(made["spec"]["matchingPrecedence"], 1000);
    let made = json(&created(&PriorityLevelStrategy, &level()));
    assert_eq!(
        made["spec"]["limited"],
        json!({
            "nominalConcurrencyShares": 30,
            "lendablePercent": 0,
            "limitResponse": {"type": "Queue", "queuing": {"handSize": 8, "queues": 64, "queueLengthLimit": 50}},
        })
    );
}

#[test]
fn flow_schemas() {
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/spec/matchingPrecedence", json!(1))],
            vec![
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
            ],
        ),
        (
            vec![("/spec/matchingPrecedence", json!(10001))],
            vec!["spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"],
        ),
        (
            vec![("/spec/distinguisherMethod", json!({"type": "ByMood"}))],
            vec![
                "spec.distinguisherMethod.type: Unsupported value: \"ByMood\": supported values: \"ByNamespace\", \"ByUser\"",
            ],
        ),
        (
            vec![("/spec/priorityLevelConfiguration/name", json!(""))],
            vec![
                "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
            ],
        ),
        (
            vec![("/spec/rules/0", json!({"subjects": []}))],
            vec![
                "spec.rules[0].subjects: Required value: subjects must contain at least one value",
                "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
            ],
        ),
        (
            vec![(
                "/spec/rules/0/subjects",
                json!([{"kind": "User", "group": {"name": "x"}}, {"kind": "Robot"}]),
            )],
            vec![
                "spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'",
                "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
                "spec.rules[0].subjects[1].kind: Unsupported value: \"Robot\": supported values: \"Group\", \"ServiceAccount\", \"User\"",
            ],
        ),
        (
            vec![(
                "/spec/rules/0/subjects",
                json!([{"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": ""}}]),
            )],
            vec![
                "spec.rules[0].subjects[0].serviceAccount.namespace: Required value: must specify namespace for service account",
            ],
        ),
        (
            vec![(
                "/spec/rules/0/nonResourceRules/0",
                json!({"verbs": ["*", "get"], "nonResourceURLs": ["x", "/a b", "/a//b", "/a*"]}),
            )],
            vec![
                "spec.rules[0].nonResourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify other verbs",
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"x\": must start with slash",
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: \"/a b\": must not contain white-space",
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[2]: Invalid value: \"/a//b\": must not contain double slash",
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[3]: Invalid value: \"/a*\": wildcard can only do suffix matching",
            ],
        ),
        (
            vec![(
                "/spec/rules/0/resourceRules",
                json!([{"verbs": ["get"], "apiGroups": [], "resources": ["*", "pods"]}]),
            )],
            vec![
                "spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "spec.rules[0].resourceRules[0].resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources",
                "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace",
            ],
        ),
        (
            vec![(
                "/spec/rules/0/resourceRules",
                json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["a.b"]}]),
            )],
            vec![
                "spec.rules[0].resourceRules[0].namespaces[0]: Invalid value: \"a.b\": each member of this list must be '*' or a DNS-1123 label; must not contain dots",
            ],
        ),
    ] {
        assert_eq!(
            create_errors(&FlowSchemaStrategy, &with(&schema(), &changes)),
            expected
        );
    }
    let odd = with(
        &schema(),
        &[(
            "/status/conditions",
            json!([{"type": "A"}, {"type": "A"}, {}]),
        )],
    );
    assert_eq!(
        status_errors(&FlowSchemaStrategy, &schema(), &odd),
        [
            "status.conditions[1].type: Duplicate value: \"A\"",
            "status.conditions[2].type: Required value: must not be empty",
        ]
    );
}

#[test]
fn priority_levels() {
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/spec/type", json!("Exempt"))],
            vec![
                "spec.type: Invalid value: \"Exempt\": type must be 'Exempt' if and only if name is 'exempt'",
                "spec.limited: Forbidden: must be nil if the type is not Limited",
            ],
        ),
        (
            vec![("/spec/limited", json!(null)), ("/spec/exempt", json!({}))],
            vec![
                "spec.exempt: Forbidden: must be nil if the type is Limited",
                "spec.limited: Required value: must not be empty when type is Limited",
            ],
        ),
        (
            vec![
                ("/spec/limited/nominalConcurrencyShares", json!(-1)),
                ("/spec/limited/lendablePercent", json!(101)),
                ("/spec/limited/borrowingLimitPercent", json!(-1)),
            ],
            vec![
                "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
                "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
                "spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer",
            ],
        ),
        (
            vec![("/spec/limited/limitResponse", json!({"type": "Queue"}))],
            vec![
                "spec.limited.limitResponse.queuing: Required value: must not be empty if limited.limitResponse.type is Limited",
            ],
        ),
        (
            vec![("/spec/limited/limitResponse", json!({"type": "Shrug"}))],
            vec![
                "spec.limited.limitResponse.type: Unsupported value: \"Shrug\": supported values: \"Queue\", \"Reject\"",
            ],
        ),
        (
            vec![(
                "/spec/limited/limitResponse/queuing",
                json!({"queues": 4, "handSize": 5, "queueLengthLimit": -1}),
            )],
            vec![
                "spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive",
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 5: should not be greater than queues (4)",
            ],
        ),
        (
            vec![(
                "/spec/limited/limitResponse/queuing",
                json!({"queues": 1024, "handSize": 7}),
            )],
            vec![
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 7: required entropy bits of deckSize 1024 and handSize 7 should not be greater than 60",
            ],
        ),
    ] {
        assert_eq!(
            create_errors(&PriorityLevelStrategy, &with(&level(), &changes)),
            expected
        );
    }
}

#[test]
fn what_is_mandatory_stays_as_it_is() {
    for (resource, name, object) in objects() {
        let errors = match resource {
            "flowschemas" => create_errors(&FlowSchemaStrategy, &object),
            _ => create_errors(&PriorityLevelStrategy, &object),
        };
        assert_eq!(errors, [""; 0], "{resource} {name}");
    }
    let objects = objects();
    let of = |resource: &str, name: &str| {
        let found = objects
            .iter()
            .find(|(r, n, _)| *r == resource && *n == name);
        found.unwrap().2.clone()
    };
    let changed = with(
        &of("flowschemas", "catch-all"),
        &[("/spec/matchingPrecedence", json!(9999))],
    );
    let errors = create_errors(&FlowSchemaStrategy, &changed);
    assert!(
        errors[0].ends_with("spec of 'catch-all' must equal the fixed value"),
        "{errors:?}"
    );
    let lent = with(
        &of("prioritylevelconfigurations", "exempt"),
        &[("/spec/exempt/lendablePercent", json!(50))],
    );
    assert_eq!(create_errors(&PriorityLevelStrategy, &lent), [""; 0]);
}

#[test]
fn rows() {
    let cells = |row: Vec<(&'static str, Value)>| -> Vec<Value> {
        row.into_iter().map(|(_, value)| value).collect()
    };
    assert_eq!(
        cells(row(
            &FlowSchemaStrategy,
            &with(&schema(), &[("/spec/matchingPrecedence", json!(7))])
        )),
        [
            json!("probes"),
            json!("exempt"),
            json!(7),
            json!("<none>"),
            json!("<unknown>"),
            json!("?")
        ]
    );
    let made = json(&created(&PriorityLevelStrategy, &level()));
    assert_eq!(
        cells(row(&PriorityLevelStrategy, &made)),
        [
            json!("batch"),
            json!("Limited"),
            json!(30),
            json!(64),
            json!(8),
            json!(50),
            json!("<unknown>")
        ]
    );
}
