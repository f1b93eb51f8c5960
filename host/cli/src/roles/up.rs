//! Everything in one process.

use std::time::{Duration, Instant};

use anyhow::Result;
use pilothouse_api::GroupVersionResource;
use pilothouse_client::{Client, ListParams};
use tokio_util::sync::CancellationToken;

use crate::{
    banner,
    flags::UpFlags,
    roles::{apiserver, control},
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
    control::run_controllers(manager.clone(), &serving.plugins, stopping.clone());

    let (scheduler, informers) = (
        serving.client(control::SCHEDULER, &[]),
        manager.informers().clone(),
    );
    let (plugins, stop_scheduler) = (serving.plugins.clone(), stopping.clone());
    let scheduling = tokio::spawn(async move {
        control::run_scheduler(scheduler, &informers, &plugins, stop_scheduler).await
    });

    let nodes = nodes(
        &serving.client(control::CONTROLLER_MANAGER, &[]),
        flags.nodes.unwrap_or(0),
    )
    .await;
    banner::print(started, &serving.server, &serving.plugins, &nodes);
    stop::asked().await?;
    serving.server.leave();
    stopping.cancel();
    scheduling.await?;
    manager.stop().await;
    serving.server.shutdown().await;
    Ok(())
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
