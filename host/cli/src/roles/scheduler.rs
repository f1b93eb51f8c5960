//! The scheduler alone, for any API server.

use anyhow::Result;
use pilothouse_client::InformerSet;
use pilothouse_controller::PluginCluster;

use crate::{
    flags::ComponentFlags,
    roles::{control, controller_manager::Component},
};

/// Runs until asked to stop, or until leadership is lost.
pub(crate) async fn run(flags: ComponentFlags) -> Result<()> {
    let cluster = PluginCluster::new();
    let component = Component::prepare(&flags, "kube-scheduler", &cluster).await?;
    // Binding plugins write through the same connection that the controllers' plugins would.
    let manager = control::controller_manager(component.client.clone(), cluster);
    let informers = InformerSet::new(component.client.clone(), control::clock());
    let run = control::run_scheduler(
        component.client.clone(),
        &informers,
        &component.plugins,
        component.stopping.clone(),
    );
    component.lead(run).await?;
    manager.stop().await;
    Ok(())
}
