//! The controllers alone, for any API server; and what both such roles share.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, Result, bail};
use pilothouse_client::{Client, HttpsTransport, UserInfo};
use pilothouse_controller::{Leader, LeaderConfig, PluginCluster};
use pilothouse_plugin::PluginRegistry;
use tokio_util::sync::CancellationToken;

use crate::{
    banner,
    flags::ComponentFlags,
    plugins,
    roles::{control, election},
    stop,
};

/// Runs until asked to stop, or until leadership is lost.
pub(crate) async fn run(flags: ComponentFlags) -> Result<()> {
    let cluster = PluginCluster::new();
    let component = Component::prepare(&flags, "kube-controller-manager", &cluster).await?;
    let manager = control::controller_manager(component.client.clone(), cluster);
    let stop = component.stopping.clone();
    let controllers = control::control(manager.clone(), &component.plugins, stop);
    component.lead(controllers).await?;
    manager.stop().await;
    Ok(())
}

/// A component that works for a remote API server.
pub(crate) struct Component {
    pub(crate) client: Client,
    pub(crate) plugins: PluginRegistry,
    pub(crate) stopping: CancellationToken,
    name: &'static str,
    /// `None`: the work is done without asking others.
    leader: Option<LeaderConfig>,
    started: Instant,
}

impl Component {
    /// Connects and loads the plugins.
    pub(crate) async fn prepare(
        flags: &ComponentFlags,
        name: &'static str,
        cluster: &Arc<PluginCluster>,
    ) -> Result<Self> {
        let started = Instant::now();
        let lease = flags.leader_elect_resource_name.as_deref().unwrap_or(name);
        let leader = match flags.leader.leader_elect {
            true => Some(election::config(
                &flags.leader,
                lease,
                &flags.common.data_dir,
            )?),
            false => None,
        };
        let transport = HttpsTransport::from_kubeconfig(&flags.kubeconfig)
            .await
            .with_context(|| format!("reading {}", flags.kubeconfig.display()))?;
        let client = Client::new(
            Arc::new(transport),
            UserInfo::new(&format!("system:{name}"), &[]),
        );
        let stopping = CancellationToken::new();
        let (registry, directory) = plugins::load(&flags.common, cluster).await?;
        plugins::watch(directory, &stopping);
        Ok(Self {
            client,
            plugins: registry,
            stopping,
            name,
            leader,
            started,
        })
    }

    /// Does the work, while holding the Lease if asked so. A process that loses it ends, as upstream's do: whoever watches it
    /// starts it again, with nothing left over from its time as leader.
    pub(crate) async fn lead(&self, work: impl Future<Output = ()>) -> Result<()> {
        banner::print_component(self.started, self.name, &self.plugins);
        let Some(config) = self.leader.clone() else {
            return self.until_stopped(work).await;
        };
        let lease = format!("{}/{}", config.namespace, config.name);
        let mut leader = Leader::new(self.client.clone(), config, control::clock());
        tokio::select! {
            () = leader.acquire() => {}
            asked = stop::asked() => return asked,
        }
        tokio::select! {
            done = self.until_stopped(work) => done?,
            () = leader.hold() => {
                self.stopping.cancel();
                bail!("the lease {lease} was lost; start the process again");
            }
        }
        leader.release().await;
        Ok(())
    }

    async fn until_stopped(&self, work: impl Future<Output = ()>) -> Result<()> {
        tokio::pin!(work);
        tokio::select! {
            asked = stop::asked() => asked?,
            () = &mut work => return Ok(()),
        }
        self.stopping.cancel();
        work.await;
        Ok(())
    }
}
