//! Everything in one process.

use std::time::{Duration, Instant};

use anyhow::Result;
use pilothouse_api::GroupVersionResource;
use pilothouse_client::{Client, ListParams};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    banner,
    flags::UpFlags,
    roles::{
        apiserver::{self, Serving},
        control, election,
    },
    stop,
};

const NODES: GroupVersionResource = GroupVersionResource::of("", "v1", "nodes");
/// How long to wait for the simulated nodes before saying that the rest is ready.
const NODES_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs until asked to stop.
pub(crate) async fn run(flags: UpFlags) -> Result<()> {
    if flags.api_server.storage_read_only {
        return apiserver::run(flags.api_server).await; // nobody else could do anything
    }
    let started = Instant::now();
    let stopping = CancellationToken::new();
    let serving = apiserver::start(&flags.api_server, &stopping).await?;
    let manager = serving.manager.clone();
    serving.keep_plugin_objects(&flags.api_server, flags.nodes, &stopping);
    let work = work(&serving, &flags, &stopping)?;

    let nodes = nodes(
        &serving.client(control::CONTROLLER_MANAGER, &[]),
        flags.nodes.unwrap_or(0),
    )
    .await;
    banner::print(started, &serving.server, &serving.plugins, &nodes);
    stop::asked().await?;
    serving.server.leave();
    stopping.cancel();
    work.await?;
    manager.stop().await;
    serving.server.shutdown().await;
    Ok(())
}

/// Runs the controllers and the scheduler until `stopping`. On an etcd there may be others of this process, so one of them all
/// is elected for each.
fn work(
    serving: &Serving,
    flags: &UpFlags,
    stopping: &CancellationToken,
) -> Result<JoinHandle<()>> {
    let (manager, plugins) = (serving.manager.clone(), serving.plugins.clone());
    let control = move |stop: CancellationToken| {
        let (manager, plugins) = (manager.clone(), plugins.clone());
        async move { control::control(manager, &plugins, stop).await }
    };
    let scheduler = serving.client(control::SCHEDULER, &[]);
    let (informers, plugins) = (serving.manager.informers().clone(), serving.plugins.clone());
    let schedule = move |stop: CancellationToken| {
        let (client, informers, plugins) = (scheduler.clone(), informers.clone(), plugins.clone());
        async move { control::run_scheduler(client, &informers, &plugins, stop).await }
    };
    let stop = stopping.clone();
    if !flags.leader.leader_elect || !flags.api_server.is_shared() {
        return Ok(tokio::spawn(async move {
            tokio::join!(control(stop.clone()), schedule(stop));
        }));
    }
    let client = serving.client("system:apiserver", &["system:masters"]);
    let data_dir = &flags.api_server.common.data_dir;
    let controllers = election::config(&flags.leader, "kube-controller-manager", data_dir)?;
    let scheduler = election::config(&flags.leader, "kube-scheduler", data_dir)?;
    Ok(tokio::spawn(async move {
        tokio::join!(
            election::while_leading(client.clone(), controllers, stop.clone(), control),
            election::while_leading(client, scheduler, stop, schedule),
        );
    }))
}

/// The names of the nodes, once there are as many as asked for.
async fn nodes(client: &Client, wanted: u32) -> Vec<String> {
    let deadline = Instant::now() + NODES_TIMEOUT;
    loop {
        let list = client
            .list_all(&NODES, "", &ListParams::default(), &[])
            .await;
        let names: Vec<String> = list
            .map(|l| l.items.iter().map(|n| n.header.name.clone()).collect())
            .unwrap_or_default();
        if names.len() >= wanted as usize || Instant::now() > deadline {
            return names;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
