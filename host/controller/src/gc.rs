//! The owner graph for garbage collectors: fed by watches over every served resource, asked by plugins. What to delete is the
//! plugin's decision.
//! Source: <https://kubernetes.io/docs/concepts/architecture/garbage-collection/>
//!
//! Invariants: the graph may be behind, so an owner counts as absent only after a live read, or when its deletion was seen; an
//! owner whose kind cannot be found is not absent but unknown.
//! Lock order: `listeners`, then `graph`; neither is held while waiting.

mod absent;
mod graph;
mod monitors;

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::{Mutex, RwLock};
use pilothouse_api::{GroupVersionResource, Status};
use pilothouse_client::{Client, Clock, ServedResource};
use pilothouse_plugin::cluster::{GraphNode, GraphOwner, OwnerState};

use absent::AbsentOwners;
use graph::Graph;
use monitors::Monitors;

/// Hears the uids of objects that a garbage collector should look at.
pub type Enqueue = Arc<dyn Fn(&str) + Send + Sync>;

/// The finalizer of a foreground deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an orphaning deletion.
pub(crate) const ORPHAN: &str = "orphan";

/// See the module.
pub struct OwnerGraph {
    client: Client,
    clock: Arc<dyn Clock>,
    listeners: Mutex<Listeners>,
    graph: Mutex<Graph>,
    absent: Mutex<AbsentOwners>,
    /// Served resources by group and kind.
    kinds: RwLock<HashMap<(String, String), ServedResource>>,
    monitors: Mutex<Weak<Monitors>>,
}

#[derive(Default)]
struct Listeners {
    all: Vec<(u64, Enqueue)>,
    next: u64,
}

impl OwnerGraph {
    /// Empty; nothing is watched until somebody is fed. `client` lists and watches, and reads owners.
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            client,
            clock,
            listeners: Mutex::default(),
            graph: Mutex::default(),
            absent: Mutex::default(),
            kinds: RwLock::default(),
            monitors: Mutex::default(),
        })
    }

    /// Waits until the graph is complete, then feeds `enqueue` until the answer is dropped. The first one starts the watches,
    /// the last one stops them.
    pub async fn feed(self: &Arc<Self>, enqueue: Enqueue) -> Feeding {
        let monitors = self.monitors();
        monitors.wait_synced().await;
        let mut listeners = self.listeners.lock();
        let candidates = self.graph.lock().candidates();
        candidates.iter().for_each(|uid| enqueue(uid));
        let id = listeners.next;
        listeners.next += 1;
        listeners.all.push((id, enqueue));
        Feeding {
            graph: self.clone(),
            id,
            _monitors: monitors,
        }
    }

    /// The node of a uid; none if it is gone or only known from references.
    pub fn get(&self, uid: &str) -> Option<GraphNode> {
        self.graph.lock().get(uid)
    }

    /// The nodes that refer to a uid.
    pub fn dependents(&self, uid: &str) -> Vec<GraphNode> {
        self.graph.lock().dependents(uid)
    }

    /// How an owner stands, seen from an object in `namespace` (empty: a cluster-scoped one). Reads as `client`.
    pub async fn resolve(
        &self,
        client: &Client,
        namespace: &str,
        owner: &GraphOwner,
    ) -> Result<OwnerState, Status> {
        if self.absent.lock().contains(namespace, owner) {
            return Ok(OwnerState::Absent);
        }
        let served = self.served(&owner.api_version, &owner.kind).await?;
        if served.namespaced && namespace.is_empty() {
            return Err(Status::bad_request(format!(
                "a cluster-scoped object cannot be owned by a namespaced {}",
                owner.kind
            )));
        }
        let scope = if served.namespaced { namespace } else { "" };
        let state = match client.get(&served.gvr, scope, &owner.name).await {
            Ok(live) if live.header.uid != owner.uid => OwnerState::Absent,
            Ok(live) => {
                let header = &live.header;
                let waiting = header.deletion_timestamp.is_some()
                    && header.finalizers.iter().any(|f| f == FOREGROUND);
                match waiting {
                    true => OwnerState::Waiting,
                    false => OwnerState::Solid,
                }
            }
            Err(status) if status.is_not_found() => OwnerState::Absent,
            Err(status) => return Err(status),
        };
        if state == OwnerState::Absent {
            self.absent.lock().add(namespace, owner);
        }
        Ok(state)
    }

    /// The resource of a kind; one that is not known yet is looked for once more.
    async fn served(&self, api_version: &str, kind: &str) -> Result<ServedResource, Status> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let key = (group.to_owned(), kind.to_owned());
        if let Some(served) = self.kinds.read().get(&key) {
            return Ok(served.clone());
        }
        let found = self.client.discover().await?;
        self.learn(&found.resources);
        self.kinds.read().get(&key).cloned().ok_or_else(|| {
            let message = format!("no matches for kind {kind:?} in version {api_version:?}");
            Status::new(404, "NotFound", message)
        })
    }

    fn learn(&self, resources: &[ServedResource]) {
        let mut kinds = self.kinds.write();
        for served in resources {
            let key = (served.gvr.group.clone().into_owned(), served.kind.clone());
            kinds.insert(key, served.clone());
        }
    }

    fn monitors(self: &Arc<Self>) -> Arc<Monitors> {
        let mut monitors = self.monitors.lock();
        if let Some(running) = monitors.upgrade() {
            return running;
        }
        *self.graph.lock() = Graph::default();
        let started = Monitors::start(self);
        *monitors = Arc::downgrade(&started);
        started
    }

    /// Changes the graph and tells the listeners what to look at.
    fn change(&self, change: impl FnOnce(&mut Graph) -> Vec<String>) {
        let listeners = self.listeners.lock();
        let uids = change(&mut self.graph.lock());
        for uid in &uids {
            for (_, enqueue) in &listeners.all {
                enqueue(uid);
            }
        }
    }

    /// An object was seen deleted.
    fn gone(&self, uid: &str) {
        self.absent.lock().add_uid(uid);
        self.change(|graph| graph.remove(uid));
    }

    /// A resource is served no longer.
    fn unserved(&self, resource: &GroupVersionResource) {
        self.change(|graph| graph.replace(resource, &[]));
    }
}

/// Feeds as long as it is held.
#[must_use = "dropping it ends the feeding"]
pub struct Feeding {
    graph: Arc<OwnerGraph>,
    id: u64,
    _monitors: Arc<Monitors>,
}

impl Drop for Feeding {
    fn drop(&mut self) {
        let mut listeners = self.graph.listeners.lock();
        listeners.all.retain(|(id, _)| *id != self.id);
    }
}

#[cfg(test)]
mod tests;
