//! Admission plugins as components, through the engine.

use std::sync::Arc;

use pilothouse_api::Status;
use pilothouse_plugin::{
    ActiveComponent, Engine, EngineConfig, Revision, Settings, admission::AdmissionPlugins,
    cluster::NoCluster, testing,
};
use serde_json::{Value, json};

/// A revision of a built component, with a configuration.
async fn load(name: &str, config: Option<Value>) -> Arc<Revision> {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let settings = Settings {
        config,
        ..Settings::default()
    };
    let wasm = testing::component(name);
    let revision = Revision::load(&engine, name, &wasm, settings, Arc::new(NoCluster)).await;
    Arc::new(revision.unwrap())
}

fn chain(revision: Arc<Revision>) -> AdmissionPlugins {
    let plugins = AdmissionPlugins::new();
    plugins.set(&[ActiveComponent {
        revision,
        built_in: true,
        quarantined: false,
    }]);
    plugins
}

async fn mutated(plugins: &AdmissionPlugins, pod: &Value) -> Result<Value, Status> {
    let request = testing::pod_request(pod);
    let done = plugins.mutate(request, &testing::apply_patch).await?;
    Ok(match done.object {
        Some(object) => serde_json::from_slice(&object).unwrap(),
        None => pod.clone(),
    })
}

#[tokio::test]
async fn default_tolerations_are_added_with_the_configured_seconds() {
    let config = json!({ "defaultNotReadyTolerationSeconds": 7 });
    let plugins = chain(load("admission-default-toleration-seconds", Some(config)).await);
    let pod = json!({ "metadata": { "name": "web" }, "spec": { "containers": [] } });
    let pod = mutated(&plugins, &pod).await.unwrap();
    let seconds: Vec<_> = pod["spec"]["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| &t["tolerationSeconds"])
        .collect();
    assert_eq!(seconds, [&json!(7), &json!(300)]);
    assert_eq!(mutated(&plugins, &pod).await.unwrap(), pod);
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_a_bad_request() {
    let plugins = chain(load("admission-default-toleration-seconds", None).await);
    let refused = mutated(&plugins, &json!({ "spec": 1 })).await.unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (400, "BadRequest"));
}
