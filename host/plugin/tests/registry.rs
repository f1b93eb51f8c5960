//! The registry: loading, swapping, falling back, rolling back and quarantine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use pilothouse_api::LabelSelector;
use pilothouse_plugin::{
    CallError, Clock, ConditionType, Digest, Engine, EngineConfig, LoadError, PluginMetrics,
    PluginRegistry, PluginState, PluginStatus, RegistryConfig, Settings, Source, StormPolicy,
    admission::{AdmissionPlugins, MatchRules},
    manifest::FailurePolicy,
    testing,
};
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::{Value, json};

#[derive(Default)]
struct TestClock(AtomicU64);

impl TestClock {
    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1000, Relaxed);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Relaxed))
    }
}

struct World {
    registry: PluginRegistry,
    clock: Arc<TestClock>,
    chain: AdmissionPlugins,
}

fn world() -> World {
    let clock = Arc::new(TestClock::default());
    let engine = Engine::new(EngineConfig {
        clock: clock.clone(),
        ..EngineConfig::default()
    })
    .unwrap();
    let config = RegistryConfig {
        storm: StormPolicy {
            traps: 3,
            ..StormPolicy::default()
        },
        // These plugins are bad on purpose.
        contracts: Vec::new(),
        ..RegistryConfig::new(engine)
    };
    World {
        registry: PluginRegistry::new(config).unwrap(),
        clock,
        chain: AdmissionPlugins::new(),
    }
}

fn source() -> Source {
    Source::Object("judge".to_owned())
}

impl World {
    async fn put(&self, config: Value) -> Result<(), LoadError> {
        let settings = Settings {
            config: Some(config),
            ..Settings::default()
        };
        let wasm = testing::component("bad-admission");
        self.registry.put("judge", &wasm, source(), settings).await
    }

    async fn put_bytes(&self, wasm: &[u8]) -> Result<(), LoadError> {
        self.registry
            .put("judge", wasm, source(), Settings::default())
            .await
    }

    /// The label that a pod gets, or the code of the refusal.
    async fn judged(&self) -> Result<String, u16> {
        self.chain.set(&self.registry.active());
        let request = testing::pod_request(&testing::pod());
        let done = self
            .chain
            .mutate(request, &testing::apply_patch, None)
            .await;
        let object = done
            .map_err(|status| status.code)?
            .object
            .unwrap_or_default();
        let object: Value = serde_json::from_slice(&object).unwrap_or_default();
        let label = &object["metadata"]["labels"]["example.com/judged"];
        Ok(label.as_str().unwrap_or_default().to_owned())
    }

    fn status(&self) -> PluginStatus {
        self.registry.status().remove(0)
    }

    fn message(&self, condition_type: ConditionType) -> String {
        let status = self.status();
        let found = status
            .conditions
            .iter()
            .find(|c| c.condition_type == condition_type);
        found.map(|c| c.message.clone()).unwrap_or_default()
    }
}

fn built_in() -> Vec<u8> {
    testing::component("bad-admission")
}

#[tokio::test]
async fn what_is_no_plugin_is_refused_in_one_sentence() {
    let core = b"\0asm\x01\0\0\0".to_vec();
    let nothing = b"\0asm\x0d\0\x01\0".to_vec();
    let other = tiny_component(&["example:thing/api@1.0.0"], None);
    let newer = tiny_component(&["pilothouse:admission/mutate@0.9.0"], None);
    let no_manifest = tiny_component(&["pilothouse:admission/mutate@0.1.0"], None);
    let own = [
        "pilothouse:admission/mutate@0.1.0",
        "pilothouse:host/manifest@0.1.0",
    ];
    let network = tiny_component(&own, Some("wasi:http/outgoing-handler@0.2.0"));
    let newer_host = tiny_component(&own, Some("pilothouse:host/cluster@0.7.0"));
    let shapeless = tiny_component(&own, None);
    let cases: [(&[u8], &str); 11] = [
        (b"", "the file is not a WebAssembly component"),
        (b"<html>", "the file is not a WebAssembly component"),
        (
            &core,
            "the file is a core WebAssembly module, not a component; build it for wasm32-wasip2",
        ),
        (
            &nothing,
            "the component exports no interface that Pilothouse knows (it exports nothing)",
        ),
        (
            &other,
            "the component exports no interface that Pilothouse knows (it exports example:thing/api@1.0.0)",
        ),
        (
            &newer,
            "the component exports pilothouse:admission/mutate@0.9.0, but this Pilothouse has 0.1.0; build it again with the SDK of this Pilothouse",
        ),
        (
            &no_manifest,
            "the component does not export pilothouse:host/manifest",
        ),
        (
            &network,
            "the component imports wasi:http/outgoing-handler@0.2.0, which Pilothouse does not offer to plugins",
        ),
        (
            &newer_host,
            "the component imports pilothouse:host/cluster@0.7.0, but this Pilothouse has 0.1.0; build it again with the SDK of this Pilothouse",
        ),
        (&shapeless, "the component does not fit the interfaces: "),
        (&built_in()[..1000], "the component does not compile: "),
    ];
    for (wasm, expected) in cases {
        let world = world();
        let error = world.put_bytes(wasm).await.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
        assert_eq!(world.status().state, PluginState::Failed);
        assert_eq!(world.message(ConditionType::Compiled), error);
    }
}

#[tokio::test]
async fn a_failed_step_leaves_the_old_revision_serving_and_says_why() {
    let world = world();
    world.put(json!({ "label": "one" })).await.unwrap();
    assert_eq!(world.judged().await, Ok("one".to_owned()));
    let before = world.status();
    assert_eq!(
        (before.state, before.plugins),
        (PluginState::Serving, vec!["Bad".to_owned()])
    );
    world.put_bytes(b"nonsense").await.unwrap_err();
    assert_eq!(world.judged().await, Ok("one".to_owned()));
    let after = world.status();
    assert_eq!(
        (after.state, after.digest),
        (PluginState::Degraded, before.digest)
    );
    assert_eq!(
        world.message(ConditionType::Degraded),
        "an earlier version goes on serving: the file is not a WebAssembly component"
    );
    world.put(json!({ "label": "two" })).await.unwrap();
    assert_eq!(world.judged().await, Ok("two".to_owned()));
    let last = world.status();
    assert_eq!(
        (last.state, last.figures.reloads),
        (PluginState::Serving, 1)
    );
}

#[tokio::test]
async fn the_smoke_contract_keeps_a_bad_one_out() {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let registry = PluginRegistry::new(RegistryConfig::new(engine)).unwrap();
    let settings = Settings {
        config: Some(json!({ "behaviour": "append" })),
        ..Settings::default()
    };
    let error = registry
        .put("judge", &built_in(), source(), settings)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("mutation-is-idempotent"),
        "{error}"
    );
    assert!(registry.active().is_empty());
    assert!(
        registry
            .put("judge", &built_in(), source(), Settings::default())
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_users_component_takes_the_place_of_a_built_in_one_until_it_is_removed() {
    let world = world();
    let failed = world
        .registry
        .add_built_ins(&[("judge", &built_in())])
        .await;
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(world.judged().await, Ok("good".to_owned()));
    assert!(world.status().built_in);
    let mut changes = world.registry.subscribe();
    changes.borrow_and_update();
    world.put(json!({ "label": "mine" })).await.unwrap();
    assert!(changes.has_changed().unwrap());
    assert_eq!(world.judged().await, Ok("mine".to_owned()));
    assert!(!world.status().built_in);
    assert!(world.registry.remove("judge").await);
    assert_eq!(world.judged().await, Ok("good".to_owned()));
    assert!(!world.registry.remove("judge").await);
}

#[tokio::test]
async fn what_does_less_than_a_built_in_does_not_take_its_place() {
    let world = world();
    world
        .registry
        .add_built_ins(&[("judge", &built_in())])
        .await;
    let other = testing::component("bad-controller");
    let error = world.put_bytes(&other).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "it would take the place of the built-in plugin of this name, but does not export its \
         pilothouse:admission/validate@0.1.0; give the file another name"
    );
    assert_eq!(world.judged().await, Ok("good".to_owned()));
    assert_eq!(world.status().state, PluginState::Degraded);
}

#[tokio::test]
async fn the_owner_decides_what_a_failure_means_and_which_requests_reach_the_plugin() {
    let selecting = |labels: &str| {
        Some(MatchRules {
            rules: Vec::new(),
            namespace_selector: LabelSelector::everything(),
            object_selector: LabelSelector::parse(labels).unwrap(),
        })
    };
    let trap = || Some(json!({ "behaviour": "trap" }));
    let single = |point: &str| {
        let policies = [(point.to_owned(), FailurePolicy::Ignore)].into();
        Settings {
            config: Some(json!({ "behaviour": "trap" })),
            failure_policies: policies,
            ..Settings::default()
        }
    };
    let settings = |config, failure_policy, match_rules| Settings {
        config,
        failure_policy,
        match_rules,
        ..Settings::default()
    };
    let ignore = Some(FailurePolicy::Ignore);
    let cases = [
        (
            "as the manifest says",
            settings(trap(), None, None),
            Err(500),
        ),
        ("passed over", settings(trap(), ignore, None), Ok("")),
        ("passed over there", single("admission/mutate"), Ok("")),
        ("not elsewhere", single("admission/validate"), Err(500)),
        (
            "reached",
            settings(None, None, selecting("app=web")),
            Ok("good"),
        ),
        (
            "not reached",
            settings(None, None, selecting("app!=web")),
            Ok(""),
        ),
    ];
    for (what, settings, expected) in cases {
        let world = world();
        let wasm = testing::component("bad-admission");
        let put = world.registry.put("judge", &wasm, source(), settings);
        put.await.unwrap();
        assert_eq!(world.judged().await, expected.map(str::to_owned), "{what}");
    }
}

#[tokio::test]
async fn a_call_ends_on_the_revision_that_it_began_on() {
    let world = world();
    world.put(json!({ "label": "one" })).await.unwrap();
    let old = world.registry.active()[0].revision.clone();
    world.put(json!({ "label": "two" })).await.unwrap();
    assert!(old.instantiate().await.is_ok());
    assert_eq!(old.digest(), Digest::of(&built_in()));
    assert_eq!(world.judged().await, Ok("two".to_owned()));
}

#[tokio::test]
async fn prometheus_sees_calls_failures_latencies_memory_and_states() {
    let world = world();
    world.put(json!({ "behaviour": "trap" })).await.unwrap();
    world.chain.set(&world.registry.active());
    let mut request = testing::pod_request(&testing::pod());
    request.deadline = Some(tokio::time::Instant::now() + Duration::from_secs(30));
    let done = world.chain.mutate(request, &testing::apply_patch, None);
    assert_eq!(done.await.unwrap_err().code, 500);
    let mut shown = Registry::default();
    shown.register_collector(Box::new(PluginMetrics(world.registry.clone())));
    let mut text = String::new();
    encode(&mut text, &shown).unwrap();
    let calls = world.status().figures.calls;
    for expected in [
        &format!("pilothouse_plugin_calls_total{{component=\"judge\"}} {calls}"),
        "pilothouse_plugin_failures_total{component=\"judge\",cause=\"trap\"} 1",
        "pilothouse_plugin_reloads_total{component=\"judge\"} 0",
        "pilothouse_plugin_state{component=\"judge\",state=\"Serving\"} 1",
        "pilothouse_plugin_deadline_share_count{component=\"judge\"} 1",
        "pilothouse_plugin_state{component=\"judge\",state=\"Failed\"} 0",
        &format!(
            "pilothouse_plugin_call_duration_microseconds_count{{component=\"judge\"}} {calls}"
        ),
        &format!(
            "pilothouse_plugin_call_duration_microseconds_bucket{{le=\"+Inf\",component=\"judge\"}} {calls}"
        ),
    ] {
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}\n{text}"
        );
    }
    assert!(world.status().figures.memory_peak > 64 << 10);
}

#[tokio::test]
async fn a_trap_storm_rolls_back() {
    let world = world();
    world.put(json!({ "label": "one" })).await.unwrap();
    world.put(json!({ "behaviour": "trap" })).await.unwrap();
    for _ in 0..3 {
        assert_eq!(world.judged().await, Err(500));
    }
    assert_eq!(world.judged().await, Ok("one".to_owned()));
    let status = world.status();
    assert_eq!(status.state, PluginState::RolledBack);
    assert_eq!(status.figures.traps.get("trap"), Some(&3));
    assert!(
        world
            .message(ConditionType::Degraded)
            .contains("failed 3 times in 10 s")
    );

    // What failed is not taken at once again, however often it is wanted.
    let again = world.put(json!({ "behaviour": "trap" })).await;
    let again = again.unwrap_err().to_string();
    assert!(again.starts_with("it failed 3 times in 10 s"), "{again}");
    assert_eq!(world.status().state, PluginState::RolledBack);
    assert_eq!(world.judged().await, Ok("one".to_owned()));
    world.clock.advance(10);
    world.put(json!({ "behaviour": "trap" })).await.unwrap();
    assert_eq!(world.status().state, PluginState::Serving);
}

#[tokio::test]
async fn without_an_earlier_revision_a_storm_quarantines_with_growing_pauses() {
    let world = world();
    world.put(json!({ "behaviour": "trap" })).await.unwrap();
    for pause in [10, 20, 40] {
        for _ in 0..3 {
            assert_eq!(world.judged().await, Err(500));
        }
        assert_eq!(world.status().state, PluginState::Quarantined);
        // Its failure policy holds, but it is not called.
        let calls = world.status().figures.calls;
        assert_eq!(world.judged().await, Err(500));
        assert_eq!(world.status().figures.calls, calls);
        world.clock.advance(pause - 1);
        world.registry.release_quarantined();
        assert_eq!(world.status().state, PluginState::Quarantined);
        world.clock.advance(1);
        world.registry.release_quarantined();
        assert_eq!(world.status().state, PluginState::Serving);
    }
}

#[tokio::test]
async fn traps_that_are_far_apart_are_no_storm() {
    let world = world();
    world.put(json!({ "behaviour": "trap" })).await.unwrap();
    for _ in 0..6 {
        assert_eq!(world.judged().await, Err(500));
        world.clock.advance(6);
    }
    assert_eq!(world.status().state, PluginState::Serving);
}

#[tokio::test]
async fn what_an_old_revision_does_is_not_held_against_the_new_one() {
    let world = world();
    world.put(json!({ "behaviour": "trap" })).await.unwrap();
    let old = world.registry.active();
    world.put(json!({ "label": "fixed" })).await.unwrap();
    let chain = AdmissionPlugins::new();
    chain.set(&old);
    for _ in 0..5 {
        let request = testing::pod_request(&testing::pod());
        assert!(
            chain
                .mutate(request, &testing::apply_patch, None)
                .await
                .is_err()
        );
    }
    assert_eq!(world.status().state, PluginState::Serving);
}

#[tokio::test]
async fn its_owner_says_how_many_failures_are_too_many() {
    let world = world();
    let settings = Settings {
        config: Some(json!({ "behaviour": "trap" })),
        storm: Some(StormPolicy {
            traps: 2,
            within: Duration::from_secs(60),
            ..StormPolicy::default()
        }),
        ..Settings::default()
    };
    let wasm = testing::component("bad-admission");
    let put = world.registry.put("judge", &wasm, source(), settings);
    put.await.unwrap();
    assert_eq!(world.judged().await, Err(500));
    world.clock.advance(59);
    assert_eq!(world.status().state, PluginState::Serving);
    assert_eq!(world.judged().await, Err(500));
    assert_eq!(world.status().state, PluginState::Quarantined);
    assert!(
        world
            .message(ConditionType::Degraded)
            .starts_with("it failed 2 times in 60 s")
    );
}

#[tokio::test]
async fn after_a_restart_a_storm_still_rolls_back_to_the_version_before() {
    let dir = tempfile::tempdir().unwrap();
    let start = || {
        let engine = Engine::new(EngineConfig::default()).unwrap();
        let config = RegistryConfig {
            state_dir: Some(dir.path().join("revisions")),
            contracts: Vec::new(), // one of the two is bad on purpose
            ..RegistryConfig::new(engine)
        };
        PluginRegistry::new(config).unwrap()
    };
    let settings = || Settings {
        config: Some(json!({ "behaviour": "trap" })),
        ..Settings::default()
    };
    let (good, bad) = (testing::component("admission-priority"), built_in());
    let registry = start();
    registry
        .put("judge", &good, source(), settings())
        .await
        .unwrap();
    registry
        .put("judge", &bad, source(), settings())
        .await
        .unwrap();

    let registry = start();
    registry
        .put("judge", &bad, source(), settings())
        .await
        .unwrap();
    let mut active = registry.subscribe();
    let chain = AdmissionPlugins::new();
    chain.set(&registry.active());
    for _ in 0..5 {
        let request = testing::pod_request(&testing::pod());
        let done = chain.mutate(request, &testing::apply_patch, None).await;
        done.unwrap_err();
    }
    let back =
        |active: &pilothouse_plugin::Active| active[0].revision.digest() == Digest::of(&good);
    active.wait_for(back).await.unwrap();
    let status = registry.status().remove(0);
    assert_eq!(status.state, PluginState::RolledBack);
    assert!(!registry.active()[0].quarantined);
}

#[tokio::test]
async fn after_a_restart_a_damaged_version_is_passed_over_for_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let start = || {
        let engine = Engine::new(EngineConfig::default()).unwrap();
        let config = RegistryConfig {
            state_dir: Some(dir.path().join("revisions")),
            ..RegistryConfig::new(engine)
        };
        PluginRegistry::new(config).unwrap()
    };
    let first = testing::component("admission-priority");
    for wasm in [&first, &built_in()] {
        let put = start();
        put.put("judge", wasm, source(), Settings::default())
            .await
            .unwrap();
    }
    let newest = std::fs::read_dir(dir.path().join("revisions/judge")).unwrap();
    let newest = newest.map(|entry| entry.unwrap().path()).max().unwrap();
    std::fs::write(newest, "torn").unwrap();
    let registry = start();
    let broken = registry.put("judge", b"half a fi", source(), Settings::default());
    broken.await.unwrap_err();
    assert_eq!(registry.active()[0].revision.digest(), Digest::of(&first));
    assert_eq!(registry.status()[0].state, PluginState::Degraded);
}

#[tokio::test]
async fn after_a_restart_the_last_good_version_serves_in_place_of_a_broken_file() {
    let dir = tempfile::tempdir().unwrap();
    let start = || {
        let engine = Engine::new(EngineConfig::default()).unwrap();
        let config = RegistryConfig {
            state_dir: Some(dir.path().join("revisions")),
            ..RegistryConfig::new(engine)
        };
        PluginRegistry::new(config).unwrap()
    };
    let settings = Settings::default;
    start()
        .put("judge", &built_in(), source(), settings())
        .await
        .unwrap();
    let registry = start();
    registry
        .put("judge", b"half a fi", source(), settings())
        .await
        .unwrap_err();
    assert_eq!(
        registry.active()[0].revision.digest(),
        Digest::of(&built_in())
    );
    let status = registry.status().remove(0);
    assert_eq!(status.state, PluginState::Degraded);
    registry.remove("judge").await;
    let registry = start();
    registry
        .put("judge", b"half a fi", source(), settings())
        .await
        .unwrap_err();
    assert!(registry.active().is_empty());
}

#[tokio::test]
async fn a_second_start_compiles_nothing_and_a_damaged_entry_is_compiled_anew() {
    let dir = tempfile::tempdir().unwrap();
    let start = || async {
        let engine = Engine::new(EngineConfig {
            cache_dir: Some(dir.path().to_owned()),
            ..EngineConfig::default()
        })
        .unwrap();
        let registry = PluginRegistry::new(RegistryConfig::new(engine.clone())).unwrap();
        registry
            .put("judge", &built_in(), source(), Settings::default())
            .await
            .unwrap();
        engine.compiled()
    };
    assert_eq!(start().await, 1);
    assert_eq!(start().await, 0);
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "cwasm") {
            let mut code = std::fs::read(&path).unwrap();
            let middle = code.len() / 2;
            code[middle] ^= 1;
            std::fs::write(&path, code).unwrap();
        }
    }
    assert_eq!(start().await, 1);
    assert_eq!(start().await, 0);
}

#[tokio::test]
async fn a_quarantined_plugin_says_so() {
    let world = world();
    world.put(json!({ "behaviour": "trap" })).await.unwrap();
    let revision = world.registry.active()[0].revision.clone();
    let mut instance = revision.instantiate().await.unwrap();
    let call = pilothouse_plugin::Call {
        plugin: 0,
        interface: "admission/mutate",
        deadline: None,
    };
    // A call that is dropped half-way leaves nothing that could be called again.
    assert!(instance.enter(call).is_ok());
    let error = instance.enter(call).err();
    assert!(
        matches!(error, Some(CallError::Unavailable { .. })),
        "{error:?}"
    );
}

/// A component that exports empty instances under these names, and imports an instance with one function.
fn tiny_component(exports: &[&str], import: Option<&str>) -> Vec<u8> {
    let name = |name: &str| {
        let mut bytes = vec![0, u8::try_from(name.len()).unwrap()];
        bytes.extend(name.as_bytes());
        bytes
    };
    let mut wasm = b"\0asm\x0d\0\x01\0".to_vec();
    let mut section = |id: u8, body: Vec<u8>| {
        wasm.push(id);
        wasm.push(u8::try_from(body.len()).unwrap());
        wasm.extend(body);
    };
    if let Some(import) = import {
        // An instance type: a function type, exported as the function `f`.
        section(
            7,
            [&[1, 0x42, 2, 1, 0x40, 0, 1, 0, 4][..], &name("f"), &[1, 0]].concat(),
        );
        section(10, [&[1][..], &name(import), &[5, 0]].concat());
    }
    let first = u8::from(import.is_some());
    for (index, export) in (first..).step_by(2).zip(exports) {
        section(5, vec![1, 1, 0]);
        section(11, [&[1][..], &name(export), &[5, index, 0]].concat());
    }
    wasm
}

#[tokio::test]
async fn only_what_ships_with_the_host_writes_without_a_limit() {
    let world = world();
    let rate = || {
        let active = world.registry.active();
        active[0].revision.settings().limits.writes_per_second
    };
    world
        .registry
        .add_built_ins(&[("judge", &built_in())])
        .await;
    assert_eq!(rate(), u32::MAX);
    let mut settings = Settings::default();
    settings.limits.writes_per_second = 7;
    let registry = &world.registry;
    registry
        .add_built_in("judge", &built_in(), settings)
        .await
        .unwrap();
    assert_eq!(rate(), 7);
    registry
        .put("judge", &built_in(), source(), Settings::default())
        .await
        .unwrap();
    assert_eq!(rate(), 2_000);
}
