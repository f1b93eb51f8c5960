//! Watches over every served resource, kept in step with discovery. Only headers are kept, in the graph.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use pilothouse_api::{GroupVersionResource, Header};
use pilothouse_client::{
    Discovered, ServedResource, WatchEvent,
    reflector::{Reflector, Source, Step},
};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::OwnerGraph;

/// As often upstream looks for new kinds.
const REDISCOVER: Duration = Duration::from_secs(30);
/// The graph counts as complete after so long even if a resource cannot be listed.
const SYNC_LIMIT: Duration = Duration::from_secs(30);

/// The running watches; dropping it stops them.
pub(super) struct Monitors {
    synced: watch::Receiver<bool>,
    _running: DropGuard,
}

impl Monitors {
    pub(super) fn start(graph: &Arc<OwnerGraph>) -> Arc<Self> {
        let cancel = CancellationToken::new();
        let (done, synced) = watch::channel(false);
        let run = run(Arc::downgrade(graph), done);
        tokio::spawn(cancel.clone().run_until_cancelled_owned(run));
        Arc::new(Self {
            synced,
            _running: cancel.drop_guard(),
        })
    }

    pub(super) async fn wait_synced(&self) {
        let mut synced = self.synced.clone();
        // an error means that the watches have ended, with this very object
        let _ = tokio::time::timeout(SYNC_LIMIT, synced.wait_for(|synced| *synced)).await;
    }
}

struct Monitor {
    listed: watch::Receiver<bool>,
    _running: DropGuard,
}

async fn run(graph: Weak<OwnerGraph>, synced: watch::Sender<bool>) {
    let mut monitors = HashMap::new();
    loop {
        let Some(graph) = graph.upgrade() else {
            return;
        };
        match graph.client.discover().await {
            Ok(found) => {
                graph.learn(&found.resources);
                follow(&graph, &mut monitors, &found);
                if !*synced.borrow() {
                    for monitor in monitors.values_mut() {
                        let _ = monitor.listed.wait_for(|listed| *listed).await;
                    }
                    synced.send_replace(true);
                }
            }
            Err(status) => tracing::warn!("discovery for the owner graph failed: {status}"),
        }
        drop(graph);
        tokio::time::sleep(REDISCOVER).await;
    }
}

/// Starts watches of new resources and stops those of resources that are gone; a group that did not answer keeps its own.
fn follow(
    graph: &Arc<OwnerGraph>,
    monitors: &mut HashMap<GroupVersionResource, Monitor>,
    found: &Discovered,
) {
    let wanted: Vec<&GroupVersionResource> = found
        .resources
        .iter()
        .filter(|served| is_collected(served))
        .map(|served| &served.gvr)
        .collect();
    let kept = |gvr: &GroupVersionResource| {
        wanted.contains(&gvr) || found.failed.contains(&gvr.api_version())
    };
    let ended: Vec<GroupVersionResource> = monitors.keys().filter(|g| !kept(g)).cloned().collect();
    for gvr in ended {
        monitors.remove(&gvr);
        graph.unserved(&gvr);
    }
    for gvr in wanted {
        if !monitors.contains_key(gvr) {
            monitors.insert(gvr.clone(), monitor(graph, gvr));
        }
    }
}

/// Events own nothing and are owned by nobody, and there are many of them.
fn is_collected(served: &ServedResource) -> bool {
    let is_event =
        served.gvr.resource == "events" && matches!(&*served.gvr.group, "" | "events.k8s.io");
    !is_event && served.can("list") && served.can("watch") && served.can("delete")
}

fn monitor(graph: &Arc<OwnerGraph>, gvr: &GroupVersionResource) -> Monitor {
    let source = Source {
        client: graph.client.clone(),
        resource: gvr.clone(),
        namespace: String::new(),
        label_selector: String::new(),
        field_selector: String::new(),
        fields: Arc::new([]),
    };
    let reflector = Reflector::new(source, graph.clock.clone());
    let cancel = CancellationToken::new();
    let (done, listed) = watch::channel(false);
    let fill = fill(Arc::downgrade(graph), gvr.clone(), reflector, done);
    tokio::spawn(cancel.clone().run_until_cancelled_owned(fill));
    Monitor {
        listed,
        _running: cancel.drop_guard(),
    }
}

async fn fill(
    graph: Weak<OwnerGraph>,
    gvr: GroupVersionResource,
    mut reflector: Reflector,
    listed: watch::Sender<bool>,
) {
    loop {
        let step = reflector.step().await;
        let Some(graph) = graph.upgrade() else {
            return;
        };
        match step {
            Step::Replace(objects, _) => {
                let headers: Vec<&Header> = objects.iter().map(|o| &o.header).collect();
                graph.change(|graph| graph.replace(&gvr, &headers));
                listed.send_replace(true);
            }
            Step::Event(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                graph.change(|graph| graph.upsert(&gvr, &object.header));
            }
            Step::Event(WatchEvent::Deleted(object)) => graph.gone(&object.header.uid),
            Step::Failed(status) => {
                tracing::debug!(resource = %gvr, "list or watch for the owner graph failed: {status}");
            }
            Step::Event(WatchEvent::Bookmark { .. }) | Step::Moved => {}
        }
    }
}
