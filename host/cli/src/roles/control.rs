//! The scheduler and the controllers as parts of any process: they see a client and a plugin registry.

use std::sync::Arc;

use pilothouse_client::{Client, Clock, EventRecorder, InformerSet, SystemClock};
use pilothouse_controller::{ControllerManager, Handle, PluginCluster};
use pilothouse_plugin::{PluginRegistry, scheduler::Component};
use pilothouse_scheduler::{Options, Roster, Shadowed, compare};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The names that upstream's components have.
pub(crate) const SCHEDULER: &str = "system:kube-scheduler";
pub(crate) const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";

/// Runs the controllers of the active plugins until `stop`.
pub(crate) async fn control(manager: Handle, plugins: &PluginRegistry, stop: CancellationToken) {
    let mut active = plugins.subscribe();
    loop {
        manager.set(&active.borrow_and_update().clone());
        tokio::select! {
            changed = active.changed() => if changed.is_err() { break },
            () = stop.cancelled() => break,
        }
    }
    manager.stop().await;
}

/// A controller manager that acts through `client`; it connects `cluster`.
pub(crate) fn controller_manager(client: Client, cluster: Arc<PluginCluster>) -> Handle {
    ControllerManager::start(client, cluster, &instance(), clock())
}

/// Records what this process tells about objects, as the user of `client`.
pub(crate) fn event_recorder(client: Client) -> EventRecorder {
    EventRecorder::new(client, &instance(), clock())
}

/// Runs the scheduler with the active plugins until `stop`.
pub(crate) async fn run_scheduler(
    client: Client,
    informers: &InformerSet,
    plugins: &PluginRegistry,
    stop: CancellationToken,
) {
    let (components, shadows) = components(plugins);
    tokio::spawn(compare(informers.clone(), shadows, stop.clone()));
    let recorder = event_recorder(client.clone());
    let handle =
        pilothouse_scheduler::start(client, informers, recorder, components, Options::default());
    stop.cancelled().await;
    handle.stop().await;
}

type Changing<T> = watch::Receiver<Vec<T>>;

/// The scheduling components among the active plugins, as they change: those that decide, and those that are compared.
fn components(plugins: &PluginRegistry) -> (Changing<Arc<dyn Component>>, Changing<Shadowed>) {
    let mut active = plugins.subscribe();
    let mut roster = Roster::default();
    let (deciding, shadows) = roster.of(&active.borrow_and_update().clone());
    let (send, deciding) = watch::channel(deciding);
    let (send_shadows, shadows) = watch::channel(shadows);
    tokio::spawn(async move {
        while active.changed().await.is_ok() {
            let (deciding, shadows) = roster.of(&active.borrow_and_update().clone());
            send_shadows.send_replace(shadows);
            if send.send(deciding).is_err() {
                return;
            }
        }
    });
    (deciding, shadows)
}

/// How events and leases name this process.
pub(crate) fn instance() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match host.trim() {
        "" => "pilothouse".to_owned(),
        host => host.to_owned(),
    }
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}
