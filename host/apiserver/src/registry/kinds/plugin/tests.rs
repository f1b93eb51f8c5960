use serde_json::{Value, json};

use super::*;
use crate::registry::kinds::testing::{context, create_errors, json as encoded, object, row, with};

fn base() -> Value {
    json!({"metadata": {"name": "zones"}, "spec": {"source": {"path": "zones.wasm"}}})
}

#[test]
fn validation() {
    let digest = |digits: &str| json!(format!("sha256:{digits}"));
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/spec/source/path", json!("team/zones.wasm"))],
            vec![],
        ),
        (
            vec![("/spec/source/path", json!(""))],
            vec!["spec.source.path: Required value"],
        ),
        (
            vec![("/spec/source/path", json!("."))],
            vec![
                "spec.source.path: Invalid value: \".\": must be the path of a file below the plugin directory",
            ],
        ),
        (
            vec![("/spec/source/path", json!("../zones.wasm"))],
            vec![
                "spec.source.path: Invalid value: \"../zones.wasm\": must be the path of a file below the plugin directory",
            ],
        ),
        (
            vec![("/spec/source/path", json!("/etc/zones.wasm"))],
            vec![
                "spec.source.path: Invalid value: \"/etc/zones.wasm\": must be the path of a file below the plugin directory",
            ],
        ),
        (
            vec![("/spec/source/digest", digest(&"0a".repeat(32)))],
            vec![],
        ),
        (
            vec![("/spec/source/digest", digest("0A"))],
            vec![
                "spec.source.digest: Invalid value: \"sha256:0A\": must be 'sha256:' and 64 lower case hexadecimal digits",
            ],
        ),
        (
            vec![(
                "/spec/limits",
                json!({"timeMs": 0, "memoryBytes": 1, "writesPerSecond": 5}),
            )],
            vec!["spec.limits.timeMs: Invalid value: 0: must be greater than zero"],
        ),
        (
            vec![(
                "/spec/capabilities",
                json!([{"apiGroups": [""], "resources": ["pods"], "verbs": []}]),
            )],
            vec![
                "spec.capabilities[0].verbs: Required value: verbs must contain at least one value",
            ],
        ),
        (
            vec![(
                "/spec/matchRules/rules",
                json!([{"operations": ["PATCH"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods"]}]),
            )],
            vec![
                "spec.matchRules.rules[0].operations[0]: Unsupported value: \"PATCH\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
            ],
        ),
        (
            vec![(
                "/spec/matchRules/rules",
                json!([{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"]}]),
            )],
            vec!["spec.matchRules.rules[0].resources: Required value"],
        ),
        (
            vec![(
                "/spec/candidate",
                json!({"source": {"path": "next/zones.wasm"}, "weight": 100}),
            )],
            vec![],
        ),
        (
            vec![(
                "/spec/candidate",
                json!({"source": {"path": "./next.wasm"}, "weight": -1}),
            )],
            vec![
                "spec.candidate.source.path: Invalid value: \"./next.wasm\": must be in a subdirectory of the plugin directory: a file right in it is a plugin itself",
                "spec.candidate.weight: Invalid value: -1: must be between 0 and 100, inclusive",
            ],
        ),
        (
            vec![("/spec/candidate", json!({}))],
            vec!["spec.candidate.source.path: Required value"],
        ),
        (
            vec![("/spec/rollback", json!({"failures": 0, "withinSeconds": 5}))],
            vec!["spec.rollback.failures: Invalid value: 0: must be greater than zero"],
        ),
        (
            vec![(
                "/spec/failurePolicies",
                json!([
                    {"extensionPoint": "admission/validate", "failurePolicy": "Ignore"},
                    {"extensionPoint": "admission/validate", "failurePolicy": "Fail"},
                ]),
            )],
            vec!["spec.failurePolicies[1].extensionPoint: Duplicate value: \"admission/validate\""],
        ),
        (
            vec![(
                "/spec/failurePolicies",
                json!([{"extensionPoint": "controller/reconcile", "failurePolicy": "Ignore"}]),
            )],
            vec![
                "spec.failurePolicies[0].extensionPoint: Unsupported value: \"controller/reconcile\": supported values: \"admission/mutate\", \"admission/validate\", \"scheduler/cycle\", \"scheduler/filter\", \"scheduler/post-bind\", \"scheduler/pre-bind\", \"scheduler/reserve\", \"scheduler/score\"",
            ],
        ),
    ] {
        assert_eq!(
            create_errors(&PluginStrategy, &with(&base(), &changes)),
            expected,
            "{changes:?}"
        );
    }
}

#[test]
fn the_status_is_the_hosts() {
    let mut created: Plugin = object(&with(&base(), &[("/status/state", json!("Ready"))]));
    PluginStrategy.prepare_for_create(&context(), &mut created);
    assert_eq!(created.status, None);
    let old: Plugin = object(&with(&base(), &[("/status/state", json!("Ready"))]));
    let mut new: Plugin = object(&with(
        &base(),
        &[
            ("/spec/source/path", json!("b.wasm")),
            ("/status/state", json!("Lies")),
        ],
    ));
    assert_eq!(PluginStrategy.generation_changed(&new, &old), Some(true));
    let mut status = new.clone();
    PluginStrategy.prepare_for_update(&context(), &mut new, &old);
    assert_eq!(encoded(&new)["status"]["state"], "Ready");
    assert_eq!(encoded(&new)["spec"]["source"]["path"], "b.wasm");
    PluginStrategy
        .prepare_for_status_update()
        .expect("a status")(&mut status, &old);
    assert_eq!(encoded(&status)["status"]["state"], "Lies");
    assert_eq!(encoded(&status)["spec"]["source"]["path"], "zones.wasm");
}

#[test]
fn rows() {
    let plugin = with(
        &base(),
        &[(
            "/status",
            json!({"digest": format!("sha256:{}", "0123456789ab".repeat(5)), "state": "Ready", "interfaces": ["pilothouse:scheduler/filter@0.1.0"], "calls": 7, "traps": 1, "p50Micros": 840, "p99Micros": 1250}),
        )],
    );
    assert_eq!(
        row(&PluginStrategy, &plugin),
        [
            ("Name", json!("zones")),
            ("State", json!("Ready")),
            ("Interfaces", json!("pilothouse:scheduler/filter@0.1.0")),
            ("Digest", json!("0123456789ab")),
            ("Calls", json!(7)),
            ("P50", json!("840µs")),
            ("P99", json!("1.2ms")),
            ("Traps", json!(1)),
            ("Age", json!("<unknown>")),
            ("Path", json!("zones.wasm")),
        ]
    );
    let fresh: Vec<Value> = row(&PluginStrategy, &base())
        .into_iter()
        .map(|(_, cell)| cell)
        .collect();
    assert_eq!(
        fresh[1..4],
        [json!("<none>"), json!("<none>"), json!("<none>")]
    );
}
