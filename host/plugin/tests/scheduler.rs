//! Scheduler plugins as components, through the engine: those that ship keep the contract, a bad one is caught at each clause.

use std::{collections::BTreeSet, sync::Arc};

use pilothouse_plugin::{
    Engine, EngineConfig, Settings,
    contract::{Contract, Report, SchedulerContract, check},
    testing,
};
use serde_json::{Value, json};

async fn report(engine: &Engine, name: &str, config: Option<Value>) -> Report {
    let settings = Settings {
        config,
        ..Settings::default()
    };
    let wasm = testing::component(name);
    let contracts: [Arc<dyn Contract>; 1] = [Arc::new(SchedulerContract)];
    check(engine, name, &wasm, settings, &contracts, 0)
        .await
        .unwrap()
}

#[tokio::test]
async fn the_default_plugins_keep_the_contract() {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let report = report(&engine, "scheduler-defaults", None).await;
    assert!(report.passed(), "{:?}", report.violations);
    assert_eq!(report.checked.len(), SchedulerContract.clauses().len());
}

#[tokio::test]
async fn every_clause_catches_a_bad_plugin() {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let cases = [
        ("good", ""),
        ("count-nodes", "filter-same-for-any-split"),
        ("look-back", "filter-same-for-any-order"),
        ("odd-word", "filter-words-are-legal-and-explained"),
        ("no-reason", "filter-words-are-legal-and-explained"),
        ("count-cycles", "same-answer-on-a-fresh-instance"),
        ("score-too-high", "scores-within-bounds"),
        ("score-below-zero", "scores-within-bounds"),
        ("score-by-order", "score-same-for-any-order"),
        ("keep-reserved", "unreserve-undoes-reserve"),
        ("trust-pods", "no-trap-on-hostile-input"),
        ("trust-numbers", "no-trap-on-hostile-input"),
        ("spin", "within-its-limits-at-5000-nodes"),
        ("slow", "within-its-limits-at-5000-nodes"),
    ];
    let mut caught = BTreeSet::new();
    for (behaviour, clause) in cases {
        let config = json!({ "behaviour": behaviour });
        let report = report(&engine, "bad-scheduler", Some(config)).await;
        let broken: Vec<&str> = report.violations.iter().map(|v| v.clause).collect();
        match clause {
            "" => assert!(report.passed(), "{:?}", report.violations),
            clause => assert!(
                broken.contains(&clause),
                "{behaviour}: {:?}",
                report.violations
            ),
        }
        caught.extend(broken);
    }
    let clauses = SchedulerContract.clauses().iter().copied();
    assert_eq!(caught, clauses.collect());
}
