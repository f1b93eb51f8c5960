//! The API server with its storage and its admission plugins.

use std::{fs, path::Path, sync::Arc};

use anyhow::{Context, Result};
use pilothouse_apiserver::{
    ApiServer, ApiServerOptions, ClusterIpRange, InProcess, RunningServer, ServiceAccountOptions,
};
use pilothouse_client::{Client, UserInfo};
use pilothouse_controller::{Handle, LeaderConfig, PluginCluster};
use pilothouse_plugin::{
    PluginMetrics, PluginRegistry,
    admission::{AdmissionPlugins, Exempt},
};
use pilothouse_storage::Storage;
use serde_json::{Map, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    banner, encryption,
    engines::{self, EtcdUse},
    flags::{ApiServerFlags, ServiceAccountFlags},
    plugin_objects::{HostConfig, PluginObjects, Remembered},
    plugins,
    roles::{control, election},
    snapshots, stop,
};

/// Runs until asked to stop.
pub(crate) async fn run(flags: ApiServerFlags) -> Result<()> {
    let started = std::time::Instant::now();
    let stopping = CancellationToken::new();
    let serving = start(&flags, &stopping).await?;
    if !flags.storage_read_only {
        serving.keep_plugin_objects(&flags, None, &stopping);
    }
    banner::print(started, &serving.server, &serving.plugins, &[]);
    stop::asked().await?;
    serving.server.leave();
    stopping.cancel();
    serving.manager.stop().await;
    serving.server.shutdown().await;
    Ok(())
}

/// A started API server with what admission needs.
pub(crate) struct Serving {
    pub(crate) server: RunningServer,
    pub(crate) plugins: PluginRegistry,
    /// Runs no controllers until told to; what plugins read and write goes through it.
    pub(crate) manager: Handle,
}

impl Serving {
    /// A client of this server within the process.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Client {
        Client::new(
            Arc::new(self.server.transport()),
            UserInfo::new(user, groups),
        )
    }

    /// Keeps Plugin objects and the plugin registry in step.
    pub(crate) fn keep_plugin_objects(
        &self,
        flags: &ApiServerFlags,
        nodes: Option<u32>,
        stopping: &CancellationToken,
    ) {
        let (writer, writes) = watch::channel(!flags.is_shared());
        let objects = PluginObjects {
            writes,
            client: self.client("system:apiserver", &["system:masters"]),
            registry: self.plugins.clone(),
            directory: flags.common.plugin_dir(),
            host_config: host_config(flags, nodes),
            remembered: Remembered::new(flags.common.history_dir()),
            events: control::event_recorder(self.client("system:apiserver", &["system:masters"])),
        };
        let client = objects.client.clone();
        tokio::spawn(objects.run(self.manager.informers().clone(), stopping.clone()));
        if flags.is_shared() {
            let identity = election::identity(&flags.common.data_dir);
            let config = LeaderConfig::new("kube-system", "pilothouse-plugin-objects", &identity);
            let writer = Arc::new(writer);
            let write = move |term: CancellationToken| {
                let writer = writer.clone();
                async move {
                    writer.send_replace(true);
                    term.cancelled().await;
                    writer.send_replace(false);
                }
            };
            let stop = stopping.clone();
            tokio::spawn(election::while_leading(client, config, stop, write));
        }
    }
}

/// Opens the storage, loads the plugins and serves.
pub(crate) async fn start(flags: &ApiServerFlags, stopping: &CancellationToken) -> Result<Serving> {
    make_private(&flags.common.data_dir)?;
    let cluster = PluginCluster::new();
    let (storage, loaded) = tokio::join!(storage(flags), plugins::load(&flags.common, &cluster));
    let (registry, directory) = loaded?;
    let storage = encryption::in_front_of(storage?, flags, stopping)?;
    snapshots::schedule(&storage, flags, stopping);
    let admission = Arc::new(AdmissionPlugins::new().exempting(Exempt {
        namespaces: flags.plugin_exempt_namespaces.iter().cloned().collect(),
        resources: flags.plugin_exempt_resources.iter().cloned().collect(),
    }));
    admission.set(&registry.active());
    let mut manager = None;
    let connect = |transport: InProcess| {
        let user = UserInfo::new(control::CONTROLLER_MANAGER, &[]);
        let client = Client::new(Arc::new(transport), user);
        manager = Some(control::controller_manager(client, cluster));
    };
    let server =
        ApiServer::start_connected(options(flags)?, storage, admission.clone(), connect).await?;
    let active = registry.subscribe();
    tokio::spawn(async move { admission.follow(active).await });
    plugins::watch(directory, stopping);
    let manager = manager.context("the API server did not connect its plugins")?;
    let mut metrics = prometheus_client::registry::Registry::default();
    metrics.register_collector(Box::new(PluginMetrics(registry.clone())));
    manager.metrics().register(&mut metrics);
    server.also_expose(metrics);
    Ok(Serving {
        server,
        plugins: registry,
        manager,
    })
}

/// Makes the data directory, for this user alone: Secrets lie in it as they are.
fn make_private(directory: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(directory)
        .with_context(|| format!("making the data directory {}", directory.display()))
}

/// What built-in plugins are told of this process: the root certificate to publish, and how many nodes to simulate.
fn host_config(flags: &ApiServerFlags, nodes: Option<u32>) -> HostConfig {
    let mut config = HostConfig::new();
    if let Ok(certificate) = fs::read_to_string(flags.common.data_dir.join("pki/ca.crt")) {
        config.insert(
            "controller-serviceaccount",
            Map::from_iter([("rootCA".to_owned(), json!(certificate))]),
        );
    }
    if let Some(nodes) = nodes {
        config.insert(
            "simulated-kubelet",
            Map::from_iter([("nodes".to_owned(), json!(nodes))]),
        );
    }
    config
}

/// The engine that the flags choose.
async fn storage(flags: &ApiServerFlags) -> Result<Arc<dyn Storage>> {
    match flags.etcd_servers.is_empty() {
        true => engines::embedded(&flags.common.data_dir, flags.storage_read_only).await,
        false => engines::etcd(&flags.etcd_servers, &flags.etcd, EtcdUse::Serve).await,
    }
}

fn options(flags: &ApiServerFlags) -> Result<ApiServerOptions> {
    let ranges = flags
        .service_cluster_ip_range
        .split(',')
        .map(|range| range.trim().parse::<ClusterIpRange>());
    let ports = flags
        .service_node_port_range
        .split_once('-')
        .and_then(|(first, last)| Some(first.trim().parse().ok()?..=last.trim().parse().ok()?));
    Ok(ApiServerOptions {
        bind_address: flags.bind_address,
        secure_port: flags.secure_port,
        advertise_address: flags.advertise_address,
        data_dir: flags.common.data_dir.clone(),
        client_ca_file: flags.client_ca_file.clone(),
        tls_cert_file: flags.tls_cert_file.clone(),
        tls_private_key_file: flags.tls_private_key_file.clone(),
        token_auth_file: flags.token_auth_file.clone(),
        max_requests_inflight: flags.max_requests_inflight,
        max_mutating_requests_inflight: flags.max_mutating_requests_inflight,
        shutdown_delay: flags.shutdown_delay_duration,
        service_accounts: service_accounts(&flags.service_accounts),
        service_cluster_ip_ranges: ranges
            .collect::<Result<_, _>>()
            .context("--service-cluster-ip-range")?,
        service_node_port_range: ports
            .context("--service-node-port-range must look like 30000-32767")?,
        ..ApiServerOptions::default()
    })
}

fn service_accounts(flags: &ServiceAccountFlags) -> ServiceAccountOptions {
    ServiceAccountOptions {
        issuers: flags.service_account_issuer.clone(),
        signing_key_file: flags.service_account_signing_key_file.clone(),
        key_files: flags.service_account_key_file.clone(),
        api_audiences: flags.api_audiences.clone(),
        max_token_seconds: flags
            .service_account_max_token_expiration
            .map(|most| i64::try_from(most.as_secs()).unwrap_or(i64::MAX)),
        extend_expiration: flags.service_account_extend_token_expiration,
        jwks_uri: flags.service_account_jwks_uri.clone(),
    }
}
