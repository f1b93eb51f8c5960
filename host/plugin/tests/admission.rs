//! Admission plugins as components, through the engine.

use std::sync::Arc;

use pilothouse_api::Status;
use pilothouse_plugin::{
    ActiveComponent, Engine, EngineConfig, Revision, Settings, admission::AdmissionPlugins,
    cluster::NoCluster, manifest::FailurePolicy, testing,
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
        candidate: None,
    }]);
    plugins
}

async fn mutated(plugins: &AdmissionPlugins, pod: &Value) -> Result<Value, Status> {
    let request = testing::pod_request(pod);
    let done = plugins.mutate(request, &testing::apply_patch, None).await?;
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

/// A bad plugin in front of a good one, and a judge of what they make.
async fn held_to_it(behaviour: &str, policy: FailurePolicy) -> Result<Value, Status> {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let mut active = Vec::new();
    for (name, config) in [
        ("bad-admission", json!({ "behaviour": behaviour })),
        ("admission-default-toleration-seconds", json!({})),
    ] {
        let settings = Settings {
            config: Some(config),
            failure_policy: Some(policy),
            ..Settings::default()
        };
        let wasm = testing::component(name);
        let revision = Revision::load(&engine, name, &wasm, settings, Arc::new(NoCluster)).await;
        active.push(ActiveComponent {
            revision: Arc::new(revision.unwrap()),
            built_in: false,
            quarantined: false,
            candidate: None,
        });
    }
    let plugins = AdmissionPlugins::new();
    plugins.set(&active);
    let readable = |json: &[u8]| {
        let object: Value = serde_json::from_slice(json).unwrap();
        match object["metadata"]["annotations"].is_string() {
            true => Err(Status::bad_request("annotations: a string".repeat(100))),
            false => Ok(()),
        }
    };
    let request = testing::pod_request(&testing::pod());
    let done = plugins.mutate(request, &testing::apply_patch, Some(&readable));
    let object = done.await?.object.unwrap();
    Ok(serde_json::from_slice(&object).unwrap())
}

#[tokio::test]
async fn a_bad_answer_follows_the_failure_policy() {
    for behaviour in ["flood", "patch-nowhere"] {
        let refused = held_to_it(behaviour, FailurePolicy::Fail)
            .await
            .unwrap_err();
        assert_eq!(refused.code, 500, "{behaviour}");
        assert!(
            refused.message.contains("plugin Bad"),
            "{}",
            refused.message
        );
        assert!(refused.message.len() < 500, "it is not quoted at length");

        let pod = held_to_it(behaviour, FailurePolicy::Ignore).await.unwrap();
        assert!(pod["metadata"]["annotations"].is_object(), "{behaviour}");
        let tolerations = pod["spec"]["tolerations"].as_array().unwrap().len();
        assert_eq!(tolerations, 3, "the good one goes on, {behaviour}");
    }
}
