//! `pilothouse plugin …`: making plugins, looking at them and preparing them.

mod bench;
mod brake;
mod build;
mod c_component;
mod kit;
mod new;
mod promote;
mod record;
mod rollback;
mod run;
mod trial;

use std::{
    fmt::Write as _,
    io::{ErrorKind, Write as _},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use pilothouse_api::{GroupVersionResource, Kind, plugin_kind::Plugin};
use pilothouse_client::{Client, HttpsTransport, ListParams, UserInfo};
use pilothouse_plugin::{
    PluginRegistry, RegistryConfig, Revision, Settings,
    cluster::NoCluster,
    contract::{self, AdmissionContract, Contract, ControllerContract, SchedulerContract},
};

use crate::{
    builtins::BUILTIN_PLUGINS,
    flags::{CommonFlags, PluginCommand},
    plugins,
};

pub(crate) use kit::Language;
pub(crate) use new::PluginKind;

const PLUGINS: GroupVersionResource =
    GroupVersionResource::of("plugins.pilothouse.dev", "v1alpha1", "plugins");

pub(crate) async fn run(command: PluginCommand) -> Result<()> {
    match command {
        PluginCommand::List { common, kubeconfig } => {
            let kubeconfig = kubeconfig.unwrap_or_else(|| common.data_dir.join("admin.kubeconfig"));
            list(&kubeconfig).await
        }
        PluginCommand::Inspect { common, file } => inspect(&common, &file).await,
        PluginCommand::Test {
            common,
            plugin_config,
            seed,
            file,
        } => test(&common, plugin_config.as_deref(), seed, &file).await,
        PluginCommand::Run {
            common,
            trial,
            output,
            file,
        } => run::run(&common, &trial, output, &file).await,
        PluginCommand::Bench {
            common,
            trial,
            calls,
            file,
        } => bench::run(&common, &trial, calls, &file).await,
        PluginCommand::Record {
            common,
            kubeconfig,
            length,
            calls,
            to,
            name,
        } => {
            let kubeconfig = kubeconfig.unwrap_or_else(|| common.data_dir.join("admin.kubeconfig"));
            record::record(&kubeconfig, &name, length, calls, to.as_deref()).await
        }
        PluginCommand::Replay {
            common,
            plugin_config,
            calls,
            output,
            file,
        } => record::run(&common, plugin_config.as_deref(), &calls, output, &file).await,
        PluginCommand::History { common, name } => rollback::history(&common, &name),
        PluginCommand::Rollback { common, to, name } => {
            rollback::rollback(&common, &name, to.as_deref())
        }
        PluginCommand::Promote {
            common,
            kubeconfig,
            name,
        } => {
            let kubeconfig = kubeconfig.unwrap_or_else(|| common.data_dir.join("admin.kubeconfig"));
            promote::promote(&common, &kubeconfig, &name).await
        }
        PluginCommand::Disable { common, name } => brake::disable(&common, &name),
        PluginCommand::Enable { common, name } => brake::enable(&common, &name),
        PluginCommand::New {
            kind, lang, path, ..
        } => say(&new::run(kind, lang, &path)?),
        PluginCommand::Build { project, .. } => {
            say(&format!("{}\n", build::run(&project)?.display()))
        }
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
    let mut text = format!(
        "{:<38} {:<12} {:<20} {:>9} {:>8} {:>8} {:>6}  INTERFACES\n",
        "NAME", "STATE", "DIGEST", "CALLS", "P50 µs", "P99 µs", "TRAPS"
    );
    for object in &list.items {
        let plugin = Plugin::decode(&object.bytes)?;
        let status = plugin.status.unwrap_or_default();
        let digest: String = status.digest.chars().take(19).collect();
        writeln!(
            text,
            "{:<38} {:<12} {:<20} {:>9} {:>8} {:>8} {:>6}  {}",
            object.header.name,
            status.state,
            digest,
            status.calls,
            status.p50_micros,
            status.p99_micros,
            status.traps,
            status.interfaces.join(" ")
        )?;
    }
    say(&text)
}

/// What a component is, without installing it.
async fn inspect(common: &CommonFlags, file: &Path) -> Result<()> {
    let wasm = read(file)?;
    let (engine, settings) = (plugins::engine_for(common, &wasm)?, Settings::default());
    let nobody = Arc::new(NoCluster);
    let revision = Revision::load(&engine, &name(file), &wasm, settings, nobody)
        .await
        .with_context(|| file.display().to_string())?;
    let mut text = String::new();
    writeln!(text, "digest       {}", revision.digest())?;
    writeln!(text, "size         {} bytes", wasm.len())?;
    for interface in revision.interfaces() {
        writeln!(text, "exports      {interface}")?;
    }
    for plugin in &revision.manifest().plugins {
        let families: Vec<&str> = plugin.families().collect();
        writeln!(
            text,
            "plugin       {} ({})",
            plugin.name,
            families.join(", ")
        )?;
        for rule in &plugin.capabilities {
            let (verbs, resources) = (rule.verbs.join(","), rule.resources.join(","));
            let groups = rule.api_groups.join(",");
            writeln!(text, "  may        {verbs} {resources} of {groups:?}")?;
        }
    }
    say(&text)
}

/// Every clause of every contract that the component's interfaces have; an error if one is broken.
async fn test(common: &CommonFlags, config: Option<&str>, seed: u64, file: &Path) -> Result<()> {
    let wasm = read(file)?;
    let settings = settings(config)?;
    let engine = plugins::engine_for(common, &wasm)?;
    let contracts: [Arc<dyn Contract>; 3] = [
        Arc::new(AdmissionContract),
        Arc::new(ControllerContract),
        Arc::new(SchedulerContract),
    ];
    let report = contract::check(&engine, &name(file), &wasm, settings, &contracts, seed)
        .await
        .with_context(|| file.display().to_string())?;
    let mut text = String::new();
    for clause in &report.checked {
        let broken: Vec<_> = report
            .violations
            .iter()
            .filter(|v| clause.ends_with(&format!(": {}", v.clause)))
            .collect();
        let word = if broken.is_empty() { "ok" } else { "BROKEN" };
        writeln!(text, "{word:<8} {clause}")?;
        for violation in broken {
            writeln!(text, "         {}: {}", violation.plugin, violation.why)?;
        }
    }
    say(&text)?;
    ensure!(
        report.passed(),
        "{} of {} clauses are broken",
        report.violations.len(),
        report.checked.len()
    );
    Ok(())
}

/// The settings of a plugin with this `spec.config`.
fn settings(config: Option<&str>) -> Result<Settings> {
    let config = config.map(serde_json::from_str).transpose();
    Ok(Settings {
        config: config.context("--plugin-config is no JSON")?,
        ..Settings::default()
    })
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("reading {}", file.display()))
}

/// As the plugin directory names it.
fn name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// To standard output; that nobody reads on is no error.
fn say(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Fills the cache with the built-in plugins.
async fn precompile(common: &CommonFlags) -> Result<()> {
    let registry = PluginRegistry::new(RegistryConfig::new(plugins::engine(common)?))?;
    let failed = registry.add_built_ins(BUILTIN_PLUGINS).await;
    ensure!(
        failed.is_empty(),
        "these built-in plugins do not load: {failed:?}"
    );
    let (count, directory) = (BUILTIN_PLUGINS.len(), common.cache_dir());
    say(&format!(
        "{count} plugins are compiled in {}\n",
        directory.display()
    ))
}
