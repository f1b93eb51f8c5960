//! The plugin registry of a process: what ships with the binary, and the watched directory.

use std::{fs, sync::Arc};

use anyhow::{Context, Result};
use pilothouse_controller::PluginCluster;
use pilothouse_plugin::{Engine, EngineConfig, PluginDirectory, PluginRegistry, RegistryConfig};
use tokio_util::sync::CancellationToken;

use crate::{builtins::BUILTIN_PLUGINS, flags::CommonFlags, plugin_objects::Remembered};

/// An engine whose compiled components are kept in the data directory.
pub(crate) fn engine(flags: &CommonFlags) -> Result<Engine> {
    let config = EngineConfig {
        cache_dir: Some(flags.cache_dir()),
        ..EngineConfig::default()
    };
    Engine::new(config).context("starting the plugin engine")
}

/// As [`engine`], for a look at a single component: in a data directory that is not there yet nothing is kept, nor is it made. Traps
/// tell their line if the component knows it.
pub(crate) fn engine_for(flags: &CommonFlags, wasm: &[u8]) -> Result<Engine> {
    const DEBUG_INFORMATION: &[u8] = b".debug_line";
    let keep = flags.cache_dir.is_some() || flags.data_dir.is_dir();
    let mut windows = wasm.windows(DEBUG_INFORMATION.len());
    let config = EngineConfig {
        cache_dir: keep.then(|| flags.cache_dir()),
        lines: windows.any(|bytes| bytes == DEBUG_INFORMATION),
        ..EngineConfig::default()
    };
    Engine::new(config).context("starting the plugin engine")
}

/// Loads the built-in plugins and those of the watched directory. `cluster` is what they reach; it is connected later.
pub(crate) async fn load(
    flags: &CommonFlags,
    cluster: &Arc<PluginCluster>,
) -> Result<(PluginRegistry, PluginDirectory)> {
    let directory = flags.plugin_dir();
    fs::create_dir_all(&directory)
        .with_context(|| format!("making the plugin directory {}", directory.display()))?;
    if !flags.cache_dir().exists() {
        eprintln!(
            "pilothouse: compiling the built-in plugins into {}; only the first start does this",
            flags.cache_dir().display()
        );
    }
    let mut config = RegistryConfig::new(engine(flags)?);
    config.cluster = cluster.clone();
    config.bounds = flags.plugin_bounds()?;
    config.state_dir = Some(flags.history_dir());
    let remembered = Remembered::new(flags.history_dir());
    config.remembered = Arc::new(move |name| remembered.settings(name));
    let registry = PluginRegistry::new(config).context("making the plugin registry")?;
    let failed = registry.add_built_ins(BUILTIN_PLUGINS).await;
    if let Some((name, error)) = failed.first() {
        anyhow::bail!("the built-in plugin {name} does not load: {error}");
    }
    let mut watched = PluginDirectory::open(&directory, registry.clone())
        .with_context(|| format!("opening the plugin directory {}", directory.display()))?;
    watched.load_all().await;
    Ok((registry, watched))
}

/// Follows the directory until `stop`.
pub(crate) fn watch(directory: PluginDirectory, stop: &CancellationToken) {
    tokio::spawn(directory.run(stop.clone()));
}
