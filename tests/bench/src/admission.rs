//! What admission plugins cost: loading, a call on a warm and on a fresh instance, a whole pass, and from a file dropped to it
//! being live.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, ensure};
use hdrhistogram::Histogram;
use pilothouse_plugin::{
    Allocation, Engine, EngineConfig, PluginDirectory, PluginRegistry, RegistryConfig, Revision,
    Settings,
    admission::{AdmissionPlugins, Request, Trial},
    contract::SampleCluster,
    manifest::ObjectNeed,
    testing,
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::print;

const COMPONENTS: [&str; 4] = [
    "admission-namespace-lifecycle",
    "admission-service-account",
    "admission-priority",
    "admission-default-toleration-seconds",
];
const WARM_CALLS: u32 = 20_000;
const FRESH_CALLS: u32 = 2_000;

/// Calls of the plugins that ship with the host, about a pod of 2 kB.
pub(crate) fn calls() -> Result<()> {
    Runtime::new()?.block_on(async {
        let cache = tempfile::tempdir()?;
        loading(cache.path()).await?;
        let engine = engine(cache.path())?;
        for component in COMPONENTS {
            one_plugin(&engine, component).await?;
        }
        whole_pass(&engine).await?;
        drop_to_live(&engine).await
    })
}

/// As the host has it.
fn engine(cache: &Path) -> Result<Engine> {
    Ok(Engine::new(EngineConfig {
        cache_dir: Some(cache.to_owned()),
        allocation: Allocation::Pooling { instances: 64 },
        ..EngineConfig::default()
    })?)
}

async fn loading(cache: &Path) -> Result<()> {
    for what in ["compile a component", "load a precompiled component"] {
        let engine = engine(cache)?;
        let began = Instant::now();
        for component in COMPONENTS {
            revision(&engine, component).await?;
        }
        let each = began.elapsed() / u32::try_from(COMPONENTS.len())?;
        print(what, each.as_secs_f64() * 1000.0, "ms", "");
    }
    Ok(())
}

async fn revision(engine: &Engine, component: &str) -> Result<Arc<Revision>> {
    let wasm = testing::component(component);
    let cluster = SampleCluster::new();
    let settings = Settings::default();
    let revision = Revision::load(engine, component, &wasm, settings, cluster).await?;
    Ok(Arc::new(revision))
}

async fn one_plugin(engine: &Engine, component: &str) -> Result<()> {
    let revision = revision(engine, component).await?;
    let mut trial = Trial::new(&revision, 0, ObjectNeed::Full);
    let request = testing::pod_request(&testing::pod());
    let mut warm = Times::new()?;
    for _ in 0..WARM_CALLS {
        warm.take(mutate(&mut trial, &request).await?);
    }
    let mut fresh = Times::new()?;
    for _ in 0..FRESH_CALLS {
        trial.renew();
        fresh.take(mutate(&mut trial, &request).await?);
    }
    warm.print(component, "aim 30 µs / 150 µs");
    fresh.print(&format!("{component}, fresh instance"), "");
    Ok(())
}

/// One call, and how long it took.
async fn mutate(trial: &mut Trial, request: &Request) -> Result<Duration> {
    let began = Instant::now();
    let answer = trial.mutate(request).await?;
    let took = began.elapsed();
    answer.map_err(|denial| anyhow!(denial.message))?;
    Ok(took)
}

async fn whole_pass(engine: &Engine) -> Result<()> {
    let config = RegistryConfig {
        cluster: SampleCluster::new(),
        ..RegistryConfig::new(engine.clone())
    };
    let registry = PluginRegistry::new(config)?;
    let built = COMPONENTS.map(testing::component);
    let built_ins: Vec<(&str, &[u8])> = COMPONENTS
        .into_iter()
        .zip(built.iter().map(Vec::as_slice))
        .collect();
    let failed = registry.add_built_ins(&built_ins).await;
    ensure!(failed.is_empty(), "plugins do not load: {failed:?}");
    let plugins = AdmissionPlugins::new();
    plugins.set(&registry.active());
    let request = testing::pod_request(&testing::pod());
    let mut whole = Times::new()?;
    for _ in 0..WARM_CALLS {
        let request = request.clone();
        let began = Instant::now();
        let outcome = plugins.mutate(request, &testing::apply_patch, None).await;
        whole.take(began.elapsed());
        outcome.map_err(|status| anyhow!(status.message))?;
    }
    whole.print("mutating pass of all four, patches applied", "");
    Ok(())
}

async fn drop_to_live(engine: &Engine) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let registry = PluginRegistry::new(RegistryConfig::new(engine.clone()))?;
    let mut active = registry.subscribe();
    let directory = PluginDirectory::open(dir.path(), registry.clone())?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(directory.run(stop.clone()));
    tokio::time::sleep(Duration::from_millis(50)).await; // until the watcher listens
    let wasm = testing::component(COMPONENTS[0]);
    let began = Instant::now();
    fs::write(dir.path().join("dropped.wasm"), wasm)?;
    active.wait_for(|now| !now.is_empty()).await?;
    let took = began.elapsed().as_secs_f64() * 1000.0;
    print(
        "from a file dropped to a plugin live",
        took,
        "ms",
        "aim 200",
    );
    stop.cancel();
    running.await?;
    Ok(())
}

/// Durations, and their quantiles.
struct Times(Histogram<u64>);

impl Times {
    fn new() -> Result<Self> {
        Ok(Self(Histogram::new_with_bounds(1, 60_000_000_000, 3)?))
    }

    fn take(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanos);
    }

    fn print(&self, what: &str, note: &str) {
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let micros = self.0.value_at_quantile(quantile) as f64 / 1000.0;
            print(&format!("{what}, {name}"), micros, "µs", note);
        }
    }
}
