//! Validation of what says where a pod may run.

use serde_json::{Value, json};

use super::validation::check;
use crate::registry::kinds::testing::with;

#[test]
fn tolerations() {
    let one = |toleration: Value| json!([toleration]);
    let at = "/spec/tolerations";
    check(vec![
        (at, one(json!({"operator": "Exists"})), vec![]),
        (
            at,
            one(json!({"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5})),
            vec![],
        ),
        (
            at,
            one(json!({"value": "b"})),
            vec![
                "spec.tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ],
        ),
        (
            at,
            one(json!({"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5})),
            vec![
                "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            ],
        ),
        (
            at,
            one(json!({"key": "a", "operator": "Exists", "value": "b"})),
            vec![
                "spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
            ],
        ),
        (
            at,
            one(json!({"key": "a", "operator": "Near"})),
            vec![
                "spec.tolerations[0].operator: Unsupported value: \"Near\": supported values: \"Equal\", \"Exists\"",
            ],
        ),
        (
            at,
            one(json!({"key": "a", "effect": "Never"})),
            vec![
                "spec.tolerations[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            ],
        ),
    ]);
}

#[test]
fn affinity_and_spreading() {
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let term =
        |requirement: Value| json!({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]});
    let spread = |extra: &[(&str, Value)]| {
        let base = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}});
        json!([with(&base, extra)])
    };
    let constraints = "/spec/topologySpreadConstraints";
    check(vec![
        (
            required,
            json!({"nodeSelectorTerms": []}),
            vec![
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
            ],
        ),
        (
            required,
            term(json!({"key": "a", "operator": "In"})),
            vec![
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ],
        ),
        (
            required,
            term(json!({"key": "a", "operator": "Gt", "values": ["1", "2"]})),
            vec![
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
            ],
        ),
        (
            required,
            json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["x"]}]}]}),
            vec![
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key: Invalid value: \"metadata.uid\": not a valid field selector key",
            ],
        ),
        (
            "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution",
            json!([{"weight": 101, "preference": {}}]),
            vec![
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100",
            ],
        ),
        (
            "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution",
            json!([{"topologyKey": "zone", "matchLabelKeys": ["a"]}]),
            vec![
                "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
            ],
        ),
        (constraints, spread(&[]), vec![]),
        (
            constraints,
            spread(&[("/maxSkew", json!(0))]),
            vec![
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            ],
        ),
        (
            constraints,
            spread(&[("/topologyKey", json!(""))]),
            vec!["spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty"],
        ),
        (
            constraints,
            spread(&[
                ("/whenUnsatisfiable", json!("ScheduleAnyway")),
                ("/minDomains", json!(2)),
            ]),
            vec![
                "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            ],
        ),
        (
            constraints,
            json!([spread(&[])[0], spread(&[])[0]]),
            vec![
                "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{zone, DoNotSchedule}\"",
            ],
        ),
        (
            "/spec/nodeSelector",
            json!({"a": "b c"}),
            vec![
                "spec.nodeSelector: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ],
        ),
    ]);
}
