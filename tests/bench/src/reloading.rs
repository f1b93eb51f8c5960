//! What reloads cost the calls meanwhile: the same load on one admission plugin, left alone and then replaced a hundred times
//! a minute by a version that nobody has compiled yet, contract included.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use pilothouse_plugin::{
    Engine, EngineConfig, PluginDirectory, PluginRegistry, RegistryConfig,
    admission::AdmissionPlugins, contract::SampleCluster, testing,
};
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

const COMPONENT: &str = "admission-default-toleration-seconds";
const RELOADS: u32 = 30;
/// A hundred a minute.
const PAUSE: Duration = Duration::from_millis(600);
/// Calls that each of the callers makes a second, so that the machine is busy, but not with them alone.
const CALLERS: u32 = 2;
const RATE: u32 = 500;

/// Prints a table.
pub(crate) fn under_load() -> Result<()> {
    Runtime::new()?.block_on(async {
        let files = tempfile::tempdir()?;
        let engine = Engine::new(EngineConfig {
            cache_dir: Some(files.path().join("cache")),
            ..EngineConfig::default()
        })?;
        let registry = PluginRegistry::new(RegistryConfig {
            cluster: SampleCluster::new(),
            ..RegistryConfig::new(engine)
        })?;
        let dir = files.path().join("plugins");
        fs::create_dir(&dir)?;
        let file = dir.join("reloaded.wasm");
        let wasm = testing::component(COMPONENT);
        fs::write(&file, &wasm)?;
        let mut directory = PluginDirectory::open(&dir, registry.clone())?;
        directory.load_all().await;
        let plugins = Arc::new(AdmissionPlugins::new());
        let (following, active) = (Arc::clone(&plugins), registry.subscribe());
        tokio::spawn(async move { following.follow(active).await });
        let stop = CancellationToken::new();
        let running = tokio::spawn(directory.run(stop.clone()));

        println!(
            "{:<28} {:>8} {:>10} {:>10} {:>10} {:>8} {:>8}",
            "admission calls", "calls", "p50 µs", "p99 µs", "max µs", "failed", "reloads"
        );
        for (what, reload) in [("left alone", false), ("100 reloads a minute", true)] {
            let before = registry.status()[0].figures.reloads;
            let (enough, callers) = callers(&plugins);
            for version in 0..RELOADS {
                if reload {
                    let beside = file.with_extension("new");
                    fs::write(&beside, versioned(&wasm, version))?;
                    fs::rename(&beside, &file)?;
                }
                tokio::time::sleep(PAUSE).await;
            }
            enough.store(true, Relaxed);
            let mut times = nanoseconds()?;
            let mut failed = 0;
            for caller in callers {
                let (of_one, failures) = caller.await??;
                times.add(of_one).map_err(|error| anyhow!("{error}"))?;
                failed += failures;
            }
            let micros = |nanos: u64| nanos as f64 / 1000.0;
            println!(
                "{what:<28} {:>8} {:>10.1} {:>10.1} {:>10.1} {failed:>8} {:>8}",
                times.len(),
                micros(times.value_at_quantile(0.5)),
                micros(times.value_at_quantile(0.99)),
                micros(times.max()),
                registry.status()[0].figures.reloads - before,
            );
        }
        stop.cancel();
        running.await?;
        Ok(())
    })
}

type Caller = JoinHandle<Result<(Histogram<u64>, u64)>>;

/// Calls at a steady rate until told that it is enough; nanoseconds, and how many failed.
fn callers(plugins: &Arc<AdmissionPlugins>) -> (Arc<AtomicBool>, Vec<Caller>) {
    let enough = Arc::new(AtomicBool::new(false));
    let callers = (0..CALLERS).map(|_| {
        let (plugins, enough) = (Arc::clone(plugins), Arc::clone(&enough));
        tokio::spawn(async move {
            let request = testing::pod_request(&testing::pod());
            let (mut times, mut failed) = (nanoseconds()?, 0);
            let mut tick = tokio::time::interval(Duration::from_secs(1) / RATE);
            while !enough.load(Relaxed) {
                tick.tick().await;
                let request = request.clone();
                let began = Instant::now();
                let done = plugins.mutate(request, &testing::apply_patch, None).await;
                times.saturating_record(u64::try_from(began.elapsed().as_nanos())?);
                failed += u64::from(done.is_err());
            }
            Ok((times, failed))
        })
    });
    let callers = callers.collect();
    (enough, callers)
}

/// Up to a minute.
fn nanoseconds() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 60_000_000_000, 3)?)
}

/// The same component with other bytes: a custom section at the end, which means nothing.
fn versioned(wasm: &[u8], version: u32) -> Vec<u8> {
    let mut section = vec![0, 6, 1, b'v'];
    section.extend(version.to_le_bytes());
    [wasm, &section].concat()
}
