//! The controller manager: one [`ControllerRunner`] for each controller that the active plugins export.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use pilothouse_client::{Client, Clock, EventRecorder, InformerSet};
use pilothouse_plugin::{
    ActiveComponent, Digest, PluginRegistry, Settings, controller::ControllerCalls,
    manifest::ControllerSettings,
};

use crate::{
    calls::PluginCalls,
    cluster::PluginCluster,
    gc::OwnerGraph,
    metrics::Metrics,
    runner::{ControllerRunner, Shared},
};

/// See the module. A cheap clone is [`Handle`].
pub struct ControllerManager {
    shared: Shared,
    running: Mutex<HashMap<String, Running>>,
}

/// What others hold of the manager.
pub type Handle = Arc<ControllerManager>;

struct Running {
    runner: Arc<ControllerRunner>,
    loaded: Loaded,
}

/// What makes two loads of a controller the same.
#[derive(Clone, PartialEq)]
struct Loaded {
    digest: Digest,
    plugin: u32,
    settings: ControllerSettings,
    /// What its owner decides about it.
    owner: Settings,
    /// Digest, settings and weight.
    candidate: Option<(Digest, Settings, u8)>,
}

impl ControllerManager {
    /// Watches, reads and writes through `client` (as its user; plugins write as their own). `cluster` is the one that the
    /// plugins were loaded with; it is connected here. No controller runs until [`Self::set`].
    pub fn start(
        client: Client,
        cluster: Arc<PluginCluster>,
        instance: &str,
        clock: Arc<dyn Clock>,
    ) -> Handle {
        let informers = InformerSet::new(client.clone(), clock.clone());
        let graph = OwnerGraph::new(client.clone(), clock.clone());
        let recorder = EventRecorder::new(client.clone(), instance, clock);
        cluster.connect(client, recorder, graph.clone());
        Arc::new(Self {
            shared: Shared {
                informers,
                graph,
                cluster,
                metrics: Metrics::default(),
            },
            running: Mutex::default(),
        })
    }

    /// The informers, to share with other parts of the process.
    pub fn informers(&self) -> &InformerSet {
        &self.shared.informers
    }

    /// The figures, to publish.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// The names of the running controllers, sorted.
    pub fn controllers(&self) -> Vec<String> {
        let mut names: Vec<String> = self.running.lock().keys().cloned().collect();
        names.sort();
        names
    }

    /// Whether no controller has anything to do at the moment.
    pub fn is_idle(&self) -> bool {
        self.running.lock().values().all(|r| r.runner.is_idle())
    }

    /// Follows a registry for as long as both live: call it once, and [`Self::stop`] at the end.
    pub fn follow(self: &Arc<Self>, registry: &PluginRegistry) {
        let mut active = registry.subscribe();
        let manager = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                let components = active.borrow_and_update().clone();
                let Some(manager) = manager.upgrade() else {
                    return;
                };
                manager.set(&components);
                drop(manager);
                if active.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    /// Takes over the active components: new controllers start, changed ones go on with the new revision, missing and
    /// quarantined ones stop. Two controllers of one name: the first counts.
    pub fn set(&self, components: &[ActiveComponent]) {
        let mut wanted: HashMap<String, (PluginCalls, Loaded)> = HashMap::new();
        let serving = components.iter().filter(|c| !c.quarantined);
        for component in serving {
            let revision = &component.revision;
            let calls = Arc::new(ControllerCalls::new(revision.clone()));
            let candidate = component.candidate.as_ref().map(|candidate| {
                let calls = Arc::new(ControllerCalls::new(candidate.revision.clone()));
                (calls, candidate.weight)
            });
            for (plugin, entry) in (0..).zip(&revision.manifest().plugins) {
                let Some(settings) = &entry.controller else {
                    continue;
                };
                let loaded = Loaded {
                    digest: revision.digest(),
                    plugin,
                    settings: settings.clone(),
                    owner: revision.settings().clone(),
                    candidate: candidate.as_ref().map(|(calls, weight)| {
                        let revision = calls.revision();
                        (revision.digest(), revision.settings().clone(), *weight)
                    }),
                };
                if wanted.contains_key(&entry.name) {
                    tracing::warn!(plugin = %entry.name, component = %revision.component(), "another controller has this name; this one does not run");
                    continue;
                }
                let calls = PluginCalls::new(calls.clone(), plugin);
                let calls = match &candidate {
                    Some((beside, weight)) => calls.beside(&entry.name, beside, *weight),
                    None => calls,
                };
                wanted.insert(entry.name.clone(), (calls, loaded));
            }
        }
        let mut running = self.running.lock();
        let ended: Vec<String> = running
            .keys()
            .filter(|name| !wanted.contains_key(*name))
            .cloned()
            .collect();
        for name in ended {
            if let Some(Running { runner, .. }) = running.remove(&name) {
                tracing::info!(plugin = %name, "controller stops");
                tokio::spawn(async move { runner.stop().await });
            }
        }
        for (name, (calls, loaded)) in wanted {
            self.load(&mut running, &name, calls, loaded);
        }
    }

    fn load(
        &self,
        running: &mut HashMap<String, Running>,
        name: &str,
        calls: PluginCalls,
        loaded: Loaded,
    ) {
        let calls = Arc::new(calls);
        if let Some(old) = running.get_mut(name) {
            if old.loaded != loaded {
                tracing::info!(plugin = %name, digest = %loaded.digest, "controller goes on with another revision");
                old.runner.load(calls, &loaded.settings);
                old.loaded = loaded;
            }
            return;
        }
        tracing::info!(plugin = %name, digest = %loaded.digest, "controller starts");
        let runner = ControllerRunner::new(name, self.shared.clone(), calls.clone());
        runner.load(calls, &loaded.settings);
        let runner = Arc::new(runner);
        running.insert(name.to_owned(), Running { runner, loaded });
    }

    /// Stops every controller and waits for the runs under way.
    pub async fn stop(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        let stops = running.values().map(|r| r.runner.stop());
        futures::future::join_all(stops).await;
    }
}
