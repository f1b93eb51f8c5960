//! `pilothouse plugin …`: looking at plugins and preparing them.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result, ensure};
use pilothouse_api::{GroupVersionResource, Kind, plugin_kind::Plugin};
use pilothouse_client::{Client, HttpsTransport, ListParams, UserInfo};
use pilothouse_plugin::{PluginRegistry, RegistryConfig};

use crate::{
    builtins::BUILTIN_PLUGINS,
    flags::{CommonFlags, PluginCommand},
    plugins,
};

const PLUGINS: GroupVersionResource =
    GroupVersionResource::of("plugins.pilothouse.dev", "v1alpha1", "plugins");

pub(crate) async fn run(command: PluginCommand) -> Result<()> {
    match command {
        PluginCommand::List { common, kubeconfig } => {
            let kubeconfig = kubeconfig.unwrap_or_else(|| common.data_dir.join("admin.kubeconfig"));
            list(&kubeconfig).await
        }
        PluginCommand::Inspect { common, file } => inspect(&common, &file).await,
        PluginCommand::Precompile { common } => precompile(&common).await,
    }
}

/// One line for each plugin of a running control plane.
async fn list(kubeconfig: &Path) -> Result<()> {
    let transport = HttpsTransport::from_kubeconfig(kubeconfig)
        .await
        .with_context(|| format!("reading {}", kubeconfig.display()))?;
    let client = Client::new(Arc::new(transport), UserInfo::default());
    let list = client
        .list_all(&PLUGINS, "", &ListParams::default(), &[])
        .await
        .context("asking the API server for its plugins")?;
    println!(
        "{:<34} {:<12} {:<20} {:>9} {:>8} {:>8} {:>6}  INTERFACES",
        "NAME", "STATE", "DIGEST", "CALLS", "P50 µs", "P99 µs", "TRAPS"
    );
    for object in &list.items {
        let plugin = Plugin::decode(&object.bytes)?;
        let status = plugin.status.unwrap_or_default();
        let digest: String = status.digest.chars().take(19).collect();
        println!(
            "{:<34} {:<12} {:<20} {:>9} {:>8} {:>8} {:>6}  {}",
            object.header.name,
            status.state,
            digest,
            status.calls,
            status.p50_micros,
            status.p99_micros,
            status.traps,
            status.interfaces.join(" ")
        );
    }
    Ok(())
}

/// What a component is, without installing it.
async fn inspect(common: &CommonFlags, file: &Path) -> Result<()> {
    let wasm = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let registry = PluginRegistry::new(RegistryConfig::new(plugins::engine(common)?))?;
    let name = file
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let source = pilothouse_plugin::Source::File(file.to_owned());
    registry
        .put(&name, &wasm, source, pilothouse_plugin::Settings::default())
        .await?;
    for component in registry.active().iter() {
        println!("digest       {}", component.revision.digest());
        println!("size         {} bytes", wasm.len());
        for interface in component.revision.interfaces() {
            println!("exports      {interface}");
        }
        for plugin in &component.revision.manifest().plugins {
            println!("plugin       {}", plugin.name);
            for rule in &plugin.capabilities {
                println!(
                    "  may        {} {} of {:?}",
                    rule.verbs.join(","),
                    rule.resources.join(","),
                    rule.api_groups.join(",")
                );
            }
        }
    }
    Ok(())
}

/// Fills the cache with the built-in plugins.
async fn precompile(common: &CommonFlags) -> Result<()> {
    let registry = PluginRegistry::new(RegistryConfig::new(plugins::engine(common)?))?;
    let failed = registry.add_built_ins(BUILTIN_PLUGINS).await;
    ensure!(
        failed.is_empty(),
        "these built-in plugins do not load: {failed:?}"
    );
    println!(
        "{} plugins are compiled in {}",
        BUILTIN_PLUGINS.len(),
        common.data_dir.display()
    );
    Ok(())
}
