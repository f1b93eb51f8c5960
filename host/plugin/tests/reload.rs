//! Reloads under load: no call fails, is lost or made twice, and each is answered by a version that served while it ran.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_api::Status;
use pilothouse_plugin::{
    Bounds, Cluster, Engine, EngineConfig, PluginRegistry, RegistryConfig, Settings, Source,
    admission::AdmissionPlugins,
    capability::Grant,
    cluster::{CallingPlugin, GroupVersionResource},
    testing,
};
use serde_json::{Value, json};

const RELOADS: u64 = 100;
const CALLERS: usize = 4;

/// Counts what the plugin writes: once a call.
#[derive(Default)]
struct Counting(AtomicU64);

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
        tokio::task::yield_now().await; // some calls are under way at any swap
        Ok(object)
    }
}

/// The component under two names: one says which version it is, the other writes once a call.
async fn load(registry: &PluginRegistry, wasm: &[u8], version: u64) {
    for (name, behaviour) in [("label", "good"), ("writer", "write-always")] {
        let config = json!({ "behaviour": behaviour, "label": format!("v{version}") });
        let settings = Settings {
            config: Some(config),
            ..Settings::default()
        };
        let source = Source::Object(name.to_owned());
        registry.put(name, wasm, source, settings).await.unwrap();
    }
}

fn version(object: &Bytes) -> u64 {
    let object: Value = serde_json::from_slice(object).unwrap();
    let label = object["metadata"]["labels"]["example.com/judged"].as_str();
    label.unwrap()[1..].parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_is_lost_or_made_twice() {
    let cache = tempfile::tempdir().unwrap();
    let engine = Engine::new(EngineConfig {
        cache_dir: Some(cache.path().to_owned()),
        ..EngineConfig::default()
    });
    let cluster = Arc::new(Counting::default());
    let registry = PluginRegistry::new(RegistryConfig {
        cluster: cluster.clone(),
        bounds: Bounds {
            grant: Grant::Asked, // they write
            ..Bounds::default()
        },
        contracts: Vec::new(), // writing on a dry run breaks one
        ..RegistryConfig::new(engine.unwrap())
    });
    let registry = registry.unwrap();
    let wasm = testing::component("bad-admission");
    load(&registry, &wasm, 0).await;
    let chain = Arc::new(AdmissionPlugins::new());
    chain.set(&registry.active());
    // the newest that a call may see, and the oldest that one begun now may
    let (newest, oldest) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let enough = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (chain, enough) = (Arc::clone(&chain), Arc::clone(&enough));
            let (newest, oldest) = (Arc::clone(&newest), Arc::clone(&oldest));
            tokio::spawn(async move {
                let mut calls = 0_u64;
                while !enough.load(SeqCst) {
                    let at_least = oldest.load(SeqCst);
                    let request = testing::pod_request(&testing::pod());
                    let done = chain.mutate(request, &testing::apply_patch, None).await;
                    let object = done.expect("no call fails").object;
                    let version = version(&object.expect("no call is lost"));
                    let at_most = newest.load(SeqCst);
                    assert!(
                        (at_least..=at_most).contains(&version),
                        "{at_least} {version} {at_most}"
                    );
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    for version in 1..=RELOADS {
        newest.store(version, SeqCst);
        load(&registry, &wasm, version).await;
        chain.set(&registry.active());
        oldest.store(version, SeqCst);
        tokio::task::yield_now().await;
    }
    enough.store(true, SeqCst);
    let mut calls = 0;
    for caller in callers {
        calls += caller.await.unwrap();
    }
    assert!(calls > RELOADS, "{calls} calls saw {RELOADS} reloads");
    assert_eq!(cluster.0.load(SeqCst), calls, "each call is made once");
    let reloads: Vec<u64> = registry
        .status()
        .iter()
        .map(|s| s.figures.reloads)
        .collect();
    assert_eq!(reloads, [RELOADS, RELOADS]);
}
