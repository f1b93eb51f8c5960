//! Prints what admission plugins cost: loading, a call on a warm and on a fresh instance, from a file dropped to it being live.
//! `cargo run --release -p pilothouse-plugin --example admission_figures`, after `cargo xtask build`.

use std::{
    error::Error,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use pilothouse_plugin::{
    Allocation, Engine, EngineConfig, PluginDirectory, PluginRegistry, RegistryConfig, Revision,
    Settings,
    admission::{AdmissionPlugins, Trial},
    contract::SampleCluster,
    manifest::ObjectNeed,
    testing,
};
use tokio_util::sync::CancellationToken;

const COMPONENTS: [&str; 4] = [
    "admission-namespace-lifecycle",
    "admission-service-account",
    "admission-priority",
    "admission-default-toleration-seconds",
];
const WARM_CALLS: u32 = 20_000;
const FRESH_CALLS: u32 = 2_000;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let pod = testing::pod();
    println!("pod of {} bytes", pod.to_string().len());
    for allocation in [Allocation::OnDemand, Allocation::Pooling { instances: 64 }] {
        println!("\n{allocation:?}");
        let cache = tempfile::tempdir()?;
        loading(allocation, cache.path()).await?;
        let engine = Engine::new(EngineConfig {
            cache_dir: Some(cache.path().to_owned()),
            allocation,
            ..EngineConfig::default()
        })?;
        for component in COMPONENTS {
            calls(&engine, component).await?;
        }
        chain(&engine).await?;
        drop_to_live(&engine).await?;
        println!("resident memory {} kB", resident_kb());
    }
    Ok(())
}

async fn loading(allocation: Allocation, cache: &Path) -> Outcome {
    for word in ["compile", "load precompiled"] {
        let engine = Engine::new(EngineConfig {
            cache_dir: Some(cache.to_owned()),
            allocation,
            ..EngineConfig::default()
        })?;
        let began = Instant::now();
        for component in COMPONENTS {
            revision(&engine, component).await?;
        }
        let took = began.elapsed();
        println!(
            "{word}, {} components one after the other: {took:?}",
            COMPONENTS.len()
        );
    }
    Ok(())
}

async fn revision(engine: &Engine, component: &str) -> Outcome<Arc<Revision>> {
    let wasm = testing::component(component);
    let cluster = SampleCluster::new();
    let settings = Settings::default();
    Ok(Arc::new(
        Revision::load(engine, component, &wasm, settings, cluster).await?,
    ))
}

async fn calls(engine: &Engine, component: &str) -> Outcome {
    let revision = revision(engine, component).await?;
    let mut trial = Trial::new(&revision, 0, ObjectNeed::Full);
    let request = testing::pod_request(&testing::pod());
    let mut warm = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    for _ in 0..WARM_CALLS {
        let began = Instant::now();
        trial
            .mutate(&request)
            .await?
            .map_err(|denial| denial.message)?;
        warm.saturating_record(nanos(began));
    }
    let mut fresh = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    for _ in 0..FRESH_CALLS {
        trial.renew();
        let began = Instant::now();
        trial
            .mutate(&request)
            .await?
            .map_err(|denial| denial.message)?;
        fresh.saturating_record(nanos(began));
    }
    print_line(&format!("{component}, warm"), &warm);
    print_line(&format!("{component}, fresh"), &fresh);
    Ok(())
}

async fn chain(engine: &Engine) -> Outcome {
    let config = RegistryConfig {
        cluster: SampleCluster::new(),
        ..RegistryConfig::new(engine.clone())
    };
    let registry = PluginRegistry::new(config)?;
    let built: Vec<Vec<u8>> = COMPONENTS
        .iter()
        .map(|name| testing::component(name))
        .collect();
    let built_ins: Vec<(&str, &[u8])> = COMPONENTS
        .iter()
        .copied()
        .zip(built.iter().map(Vec::as_slice))
        .collect();
    let began = Instant::now();
    let failed = registry.add_built_ins(&built_ins).await;
    println!(
        "registry with all four, contracts included: {:?}; failed: {failed:?}",
        began.elapsed()
    );
    let plugins = AdmissionPlugins::new();
    plugins.set(&registry.active());
    let request = testing::pod_request(&testing::pod());
    let mut whole = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    for _ in 0..WARM_CALLS {
        let request = request.clone();
        let began = Instant::now();
        plugins.mutate(request, &testing::apply_patch).await?;
        whole.saturating_record(nanos(began));
    }
    print_line("mutating pass of all four, patches applied", &whole);
    for status in registry.status() {
        let figures = &status.figures;
        println!(
            "  {}: {} calls, p50 {} µs, p99 {} µs",
            status.name, figures.calls, figures.p50_us, figures.p99_us
        );
    }
    Ok(())
}

async fn drop_to_live(engine: &Engine) -> Outcome {
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
    println!(
        "from the file to live, compiled before: {:?}",
        began.elapsed()
    );
    stop.cancel();
    running.await?;
    Ok(())
}

fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn print_line(what: &str, histogram: &Histogram<u64>) {
    let micros = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
    println!(
        "{what}: p50 {:.1} µs, p99 {:.1} µs",
        micros(0.5),
        micros(0.99)
    );
}

fn resident_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}
