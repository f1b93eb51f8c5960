//! Answers that do not act: shadow mode, and candidates beside the revision that serves.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_api::Status;
use pilothouse_plugin::{
    Bounds, CandidateState, Cluster, Engine, EngineConfig, Mode, PluginMetrics, PluginRegistry,
    PluginState, PluginStatus, RegistryConfig, Settings, Source, StormPolicy,
    admission::AdmissionPlugins,
    capability::Grant,
    cluster::{CallingPlugin, GroupVersionResource},
    shadow::ShadowFigures,
    testing,
};
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::{Value, json};

/// Counts the objects that plugins create.
#[derive(Default)]
struct Counting(AtomicU32);

#[async_trait]
impl Cluster for Counting {
    async fn create(
        &self,
        _: CallingPlugin<'_>,
        _: &GroupVersionResource,
        _: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        self.0.fetch_add(1, SeqCst);
        Ok(object)
    }
}

struct World {
    registry: PluginRegistry,
    chain: AdmissionPlugins,
    cluster: Arc<Counting>,
}

fn world() -> World {
    let cluster = Arc::new(Counting::default());
    let config = RegistryConfig {
        cluster: cluster.clone(),
        bounds: Bounds {
            grant: Grant::Asked, // they write
            ..Bounds::default()
        },
        contracts: Vec::new(), // these plugins are bad on purpose
        ..RegistryConfig::new(Engine::new(EngineConfig::default()).unwrap())
    };
    World {
        registry: PluginRegistry::new(config).unwrap(),
        chain: AdmissionPlugins::new(),
        cluster,
    }
}

fn settings(config: Value, mode: Mode) -> Settings {
    Settings {
        config: Some(config),
        mode,
        storm: Some(StormPolicy {
            traps: 1_000_000,
            ..StormPolicy::default()
        }),
        ..Settings::default()
    }
}

impl World {
    async fn put(&self, config: Value, mode: Mode) {
        let wasm = testing::component("bad-admission");
        let source = Source::Object("judge".to_owned());
        let put = self
            .registry
            .put("judge", &wasm, source, settings(config, mode));
        put.await.unwrap();
        self.chain.set(&self.registry.active());
    }

    async fn beside(&self, settings: Settings, weight: u8) {
        let wasm = testing::component("bad-admission");
        let put = self
            .registry
            .put_candidate("judge", &wasm, settings, weight);
        put.await.unwrap();
        self.chain.set(&self.registry.active());
    }

    /// The label that a pod of this name gets, or the code of the refusal.
    async fn judged(&self, name: &str) -> Result<String, u16> {
        let mut pod = testing::pod();
        pod["metadata"]["name"] = name.into();
        let mut request = testing::pod_request(&pod);
        request.name = name.to_owned();
        let done = self
            .chain
            .mutate(request.clone(), &testing::apply_patch, None)
            .await
            .map_err(|status| status.code)?;
        request.object = done.object.or(request.object);
        self.chain
            .validate(&request)
            .await
            .map_err(|status| status.code)?;
        let object: Value = serde_json::from_slice(&request.object.unwrap()).unwrap();
        let label = &object["metadata"]["labels"]["example.com/judged"];
        Ok(label.as_str().unwrap_or_default().to_owned())
    }

    fn status(&self) -> PluginStatus {
        self.registry.status().remove(0)
    }

    fn figures(&self) -> ShadowFigures {
        let status = self.status();
        let candidate = status.candidate.map(|candidate| candidate.shadow);
        status.shadow.or(candidate).unwrap()
    }

    /// Once so many answers were compared, those of both passes.
    async fn compared(&self, count: u64) -> ShadowFigures {
        while self.figures().compared < count {
            tokio::task::yield_now().await;
        }
        self.figures()
    }
}

#[tokio::test]
async fn what_is_in_shadow_neither_changes_nor_refuses_and_its_differences_are_told() {
    let about = "CREATE pods default/web";
    for (config, kind, acted, shadow) in [
        (
            json!({ "label": "x" }),
            "object",
            "allowed",
            "/metadata/labels/example.com",
        ),
        (
            json!({ "behaviour": "overreach" }),
            "decision",
            "allowed",
            "refused, 403: ",
        ),
        (
            json!({ "behaviour": "trap" }),
            "failure",
            "allowed",
            "failed: plugin Bad trapped",
        ),
        (
            json!({ "behaviour": "patch-nowhere" }),
            "failure",
            "allowed",
            "failed: plugin Bad gave a bad answer",
        ),
    ] {
        let world = world();
        world.put(config.clone(), Mode::Shadow).await;
        assert_eq!(world.judged("web").await, Ok(String::new()), "{config}");
        let figures = world.compared(2).await;
        assert_eq!(figures.differences, BTreeMap::from([(kind, 1)]), "{config}");
        let told = &figures.samples[0];
        assert_eq!(
            (told.about.as_str(), told.acted.as_str()),
            (about, acted),
            "{config}"
        );
        assert!(told.shadow.contains(shadow), "{config}: {}", told.shadow);
        assert_eq!(world.status().state, PluginState::Shadow, "{config}");
    }
}

#[tokio::test]
async fn writes_of_a_shadow_go_nowhere_and_are_told() {
    for (mode, written) in [(Mode::Enforce, 1), (Mode::Shadow, 0)] {
        let world = world();
        world
            .put(json!({ "behaviour": "write-always" }), mode)
            .await;
        assert_eq!(world.judged("web").await, Ok(String::new()));
        if mode == Mode::Shadow {
            let figures = world.compared(2).await;
            assert_eq!(figures.differences, BTreeMap::from([("write", 1)]));
            assert_eq!(figures.samples[0].about, "create configmaps default/trace");
        }
        assert_eq!(world.cluster.0.load(SeqCst), written);
    }
}

#[tokio::test]
async fn a_shadow_that_never_answers_holds_up_nothing_and_what_it_misses_is_counted() {
    let world = world();
    world
        .put(json!({ "behaviour": "sleep" }), Mode::Shadow)
        .await;
    for n in 0..300 {
        assert_eq!(world.judged(&format!("pod-{n}")).await, Ok(String::new()));
    }
    let figures = world.figures();
    assert_eq!(figures.compared, 0);
    assert!(figures.dropped >= 600 - 258, "{figures:?}");
}

#[tokio::test]
async fn a_candidate_without_weight_is_compared_with_what_serves() {
    let world = world();
    world.put(json!({ "label": "one" }), Mode::Enforce).await;
    world
        .beside(settings(json!({ "label": "one" }), Mode::Enforce), 0)
        .await;
    assert_eq!(world.judged("web").await, Ok("one".to_owned()));
    assert_eq!(world.compared(2).await.differences, BTreeMap::new());

    world
        .beside(settings(json!({ "label": "two" }), Mode::Enforce), 0)
        .await;
    assert_eq!(world.judged("web").await, Ok("one".to_owned()));
    let figures = world.compared(2).await;
    assert_eq!(figures.differences, BTreeMap::from([("object", 1)]));
    assert!(figures.samples[0].acted.contains("\"one\""), "{figures:?}");
    assert!(figures.samples[0].shadow.contains("\"two\""), "{figures:?}");

    let mut shown = Registry::default();
    shown.register_collector(Box::new(PluginMetrics(world.registry.clone())));
    let mut text = String::new();
    encode(&mut text, &shown).unwrap();
    for expected in [
        "pilothouse_plugin_shadow_differences_total{component=\"judge\",kind=\"object\"} 1",
        "pilothouse_plugin_shadow_compared_total{component=\"judge\"} 4",
        "pilothouse_plugin_shadow_dropped_total{component=\"judge\"} 0",
    ] {
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}\n{text}"
        );
    }

    assert!(world.registry.remove_candidate("judge"));
    assert_eq!(world.status().candidate, None);
}

#[tokio::test]
async fn a_weight_decides_by_object_and_each_attempt_agrees() {
    let world = world();
    world.put(json!({ "label": "one" }), Mode::Enforce).await;
    world
        .beside(settings(json!({ "label": "two" }), Mode::Enforce), 30)
        .await;
    let mut by_candidate = 0;
    for n in 0..200 {
        let name = format!("pod-{n}");
        let first = world.judged(&name).await.unwrap();
        assert_eq!(world.judged(&name).await, Ok(first.clone()), "{name}");
        by_candidate += u32::from(first == "two");
    }
    assert!((40..=80).contains(&by_candidate), "{by_candidate} of 200");
    let candidate = world.status().candidate.unwrap();
    assert_eq!(candidate.state, CandidateState::Weighted);
    // twice each, and validated each time; besides, the start of its instances
    assert!(
        candidate.figures.calls >= u64::from(by_candidate) * 4,
        "{candidate:?}"
    );

    world
        .beside(settings(json!({ "label": "two" }), Mode::Enforce), 100)
        .await;
    assert_eq!(world.judged("pod-0").await, Ok("two".to_owned()));
}

#[tokio::test]
async fn where_a_candidate_fails_what_serves_answers_until_it_is_withdrawn() {
    for behaviour in ["trap", "patch-nowhere"] {
        let world = world();
        world.put(json!({ "label": "one" }), Mode::Enforce).await;
        let storm = Some(StormPolicy {
            traps: 3,
            ..StormPolicy::default()
        });
        let bad = settings(json!({ "behaviour": behaviour }), Mode::Enforce);
        world
            .beside(
                Settings {
                    storm,
                    ..bad.clone()
                },
                100,
            )
            .await;
        for n in 0..5 {
            world.chain.set(&world.registry.active());
            let judged = world.judged(&format!("pod-{n}")).await;
            assert_eq!(judged, Ok("one".to_owned()), "{behaviour}");
        }
        let status = world.status();
        assert_eq!(status.state, PluginState::Serving);
        let candidate = status.candidate.unwrap();
        assert_eq!(candidate.state, CandidateState::Withdrawn, "{behaviour}");
        assert_eq!(
            candidate.message,
            "it failed 3 times in 10 s and was withdrawn"
        );
        assert_eq!(candidate.figures.traps.values().sum::<u64>(), 3);

        // the same again is no reason to try it again
        world.beside(Settings { storm, ..bad }, 100).await;
        let candidate = world.status().candidate.unwrap();
        assert_eq!(candidate.state, CandidateState::Withdrawn, "{behaviour}");
    }
}

#[tokio::test]
async fn a_shadow_of_what_ships_with_the_host_leaves_it_its_work() {
    let world = world();
    let wasm = testing::component("bad-admission");
    let labelled = settings(json!({ "label": "built-in" }), Mode::Enforce);
    let added = world.registry.add_built_in("judge", &wasm, labelled);
    added.await.unwrap();
    world.put(json!({ "label": "mine" }), Mode::Shadow).await;
    assert_eq!(world.judged("web").await, Ok("built-in".to_owned()));
    assert_eq!(world.compared(2).await.differences["object"], 1);
}

#[tokio::test]
async fn a_candidate_that_does_not_load_changes_nothing_and_says_why() {
    let world = world();
    world.put(json!({ "label": "one" }), Mode::Enforce).await;
    let settings = settings(json!({}), Mode::Enforce);
    let refused = world
        .registry
        .put_candidate("judge", b"half a fi", settings, 50)
        .await;
    let why = refused.unwrap_err().to_string();
    world.chain.set(&world.registry.active());
    assert_eq!(world.judged("web").await, Ok("one".to_owned()));
    let candidate = world.status().candidate.unwrap();
    assert_eq!(
        (candidate.state, candidate.message),
        (CandidateState::Failed, why)
    );
}
