//! Contracts pass the built-in plugins, and each clause catches a plugin that breaks it.

use std::sync::Arc;

use pilothouse_plugin::{
    Engine, EngineConfig, Limits, Settings,
    contract::{self, AdmissionContract, Contract, ControllerContract},
    testing,
};
use serde_json::json;

async fn violations(
    component: &str,
    config: serde_json::Value,
    limits: Limits,
) -> Vec<(&'static str, String)> {
    broken(Arc::new(AdmissionContract), component, config, limits).await
}

async fn broken(
    contract: Arc<dyn Contract>,
    component: &str,
    config: serde_json::Value,
    limits: Limits,
) -> Vec<(&'static str, String)> {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let clauses = contract.clauses().len();
    let contracts = [contract];
    let settings = Settings {
        config: Some(config),
        limits,
        ..Settings::default()
    };
    let wasm = testing::component(component);
    let report = contract::check(&engine, component, &wasm, settings, &contracts, 0)
        .await
        .unwrap();
    assert_eq!(report.checked.len(), clauses);
    report
        .violations
        .into_iter()
        .map(|v| (v.clause, v.why))
        .collect()
}

#[tokio::test]
async fn the_built_in_plugins_keep_the_contract() {
    let components = [
        "admission-default-toleration-seconds",
        "admission-namespace-lifecycle",
        "admission-priority",
        "admission-service-account",
    ];
    for component in components {
        let found = violations(component, json!({}), Limits::default()).await;
        assert_eq!(found, [], "{component}");
    }
    let good = violations(
        "bad-admission",
        json!({ "behaviour": "good" }),
        Limits::default(),
    )
    .await;
    assert_eq!(good, []);
}

#[tokio::test]
async fn every_clause_catches_a_plugin_that_breaks_it() {
    // What it does, the clause that it breaks, a part of what is said.
    let cases = [
        (
            "append",
            "mutation-is-idempotent",
            "it changes its own output",
        ),
        ("patch-nowhere", "patches-apply", ""),
        ("flood", "a-patched-object-can-be-read", "annotations"),
        (
            "write-while-validating",
            "validation-writes-nothing",
            "create configmaps",
        ),
        (
            "write-always",
            "dry-run-has-no-side-effects",
            "create configmaps",
        ),
        (
            "overreach",
            "stays-within-its-capabilities",
            "no capability to create",
        ),
        (
            "count-calls",
            "same-answer-again-and-on-a-fresh-instance",
            "",
        ),
        (
            "trust-input",
            "no-trap-on-hostile-input",
            "cannot read the object",
        ),
        ("spin", "within-its-limits", "exceeded its running time"),
        ("allocate", "within-its-limits", "exceeded its memory"),
        ("trap", "within-its-limits", "on purpose"),
    ];
    for clause in AdmissionContract.clauses() {
        assert!(
            cases.iter().any(|(_, known, _)| known == clause),
            "nothing breaks {clause}"
        );
    }
    for (behaviour, clause, said) in cases {
        let config = json!({ "behaviour": behaviour });
        let limits = Limits {
            time_ms: if behaviour == "spin" { 20 } else { 5000 },
            // a flood is of 4 MB, and is to be caught for what it is
            memory_bytes: if behaviour == "flood" { 64 } else { 8 } << 20,
            ..Limits::default()
        };
        let found = violations("bad-admission", config, limits).await;
        let caught = found.iter().find(|(broken, _)| *broken == clause);
        let (_, why) = caught.unwrap_or_else(|| panic!("{behaviour}: {found:?}"));
        assert!(why.contains(said), "{behaviour}: {why}");
    }
}

#[tokio::test]
async fn what_breaks_a_clause_is_shown_as_small_as_it_still_does() {
    let smallest = |why: &str| {
        let (_, object) = why.rsplit_once("the smallest such object: ").unwrap();
        object.to_owned()
    };
    let config = json!({ "behaviour": "append" });
    let found = violations("bad-admission", config.clone(), Limits::default()).await;
    let object = smallest(&found[0].1);
    assert!(object.len() < 120, "{object}");
    assert_eq!(
        found,
        violations("bad-admission", config, Limits::default()).await
    );
}

#[tokio::test]
async fn every_clause_of_controllers_catches_a_component_that_breaks_it() {
    let good = controller("good").await;
    assert_eq!(good, []);
    let cases = [
        ("spin", "does-not-trap", "exceeded its running time"),
        ("allocate", "does-not-trap", "exceeded its memory"),
        ("trap", "does-not-trap", "on purpose"),
        ("write-for-ever", "converges", "still writes"),
        ("fail-for-ever", "converges", "I do not want to"),
        ("write-again", "second-reconcile-writes-nothing", ""),
        ("overreach", "stays-within-its-capabilities", "nodes"),
        ("delete-strangers", "touches-only-what-it-owns", ""),
    ];
    for clause in ControllerContract.clauses() {
        assert!(
            cases.iter().any(|(_, known, _)| known == clause),
            "nothing breaks {clause}"
        );
    }
    for (behaviour, clause, said) in cases {
        let found = controller(behaviour).await;
        let caught = found.iter().find(|(broken, _)| *broken == clause);
        let (_, why) = caught.unwrap_or_else(|| panic!("{behaviour}: {found:?}"));
        assert!(why.contains(said), "{behaviour}: {why}");
    }
}

async fn controller(behaviour: &str) -> Vec<(&'static str, String)> {
    let config = json!({ "behaviour": behaviour });
    let limits = Limits {
        time_ms: if behaviour == "spin" { 20 } else { 5000 },
        memory_bytes: 8 << 20,
        ..Limits::default()
    };
    let contract = Arc::new(ControllerContract);
    broken(contract, "bad-controller", config, limits).await
}
