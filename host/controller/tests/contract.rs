//! The built controllers are held to the contract of controllers.

use std::sync::Arc;

use pilothouse_plugin::{
    Engine, EngineConfig, Revision, Settings, SmokeContract,
    cluster::NoCluster,
    contract::{self, ControllerContract, ControllerSmoke},
    testing,
};

async fn hold_to_contract(component: &str) {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let wasm = testing::component(component);
    let settings = Settings::default();
    let contracts: [Arc<dyn contract::Contract>; 1] = [Arc::new(ControllerContract)];
    let report = contract::check(&engine, component, &wasm, settings, &contracts, 0).await;
    let report = report.unwrap();
    assert!(!report.checked.is_empty());
    assert_eq!(report.violations, [], "{component}");
}

/// What a reload is checked for must let everything through that ships with the host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_smoke_contract_lets_the_built_in_controllers_through() {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    for component in [
        "controller-deployment",
        "controller-endpointslice",
        "controller-garbage-collector",
        "controller-namespace",
        "controller-replicaset",
        "controller-serviceaccount",
        "simulated-kubelet",
    ] {
        let wasm = testing::component(component);
        let settings = Settings::default();
        let cluster = Arc::new(NoCluster);
        let revision = Revision::load(&engine, component, &wasm, settings, cluster).await;
        let verdict = ControllerSmoke.check(&revision.unwrap()).await;
        assert_eq!(verdict, Ok(()), "{component}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_sets() {
    hold_to_contract("controller-replicaset").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments() {
    hold_to_contract("controller-deployment").await;
}
