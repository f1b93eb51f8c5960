//! An informer's cache: the objects of one resource with indexes, and the handlers that hear of changes.
//!
//! Invariants: only the reflector's task changes the objects; a handler hears every change once, in order, with the cache
//! already showing it, and the present state as `Added` when it joins; handlers must not block.
//! Lock order: `handlers`, then `state`.

mod index;
mod state;

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, RwLock};
use pilothouse_api::{
    GroupVersionResource, ResourceInfo, Revision, SharedObject, Status,
    selector::{FieldSelector, LabelSelector},
};
use tokio::sync::watch;

pub use index::Index;
use state::State;

/// A change that a handler hears of.
#[derive(Clone, Debug)]
pub enum CacheEvent {
    Added(SharedObject),
    Modified {
        old: SharedObject,
        new: SharedObject,
    },
    /// The last state that is known.
    Deleted(SharedObject),
}

impl CacheEvent {
    /// The object after the change, or its last state.
    pub fn object(&self) -> &SharedObject {
        match self {
            CacheEvent::Added(object) | CacheEvent::Deleted(object) => object,
            CacheEvent::Modified { new, .. } => new,
        }
    }
}

/// Hears of changes. Called on the reflector's task: it must return at once.
pub trait Handler: Send + Sync + 'static {
    fn handle(&self, event: &CacheEvent);
}

impl<F: Fn(&CacheEvent) + Send + Sync + 'static> Handler for F {
    fn handle(&self, event: &CacheEvent) {
        self(event);
    }
}

/// See the module.
pub struct Cache {
    resource: ResourceInfo,
    handlers: Mutex<Vec<(u64, Arc<dyn Handler>)>>,
    state: RwLock<State>,
    /// `None` until the first list is in; then the revision up to which the cache is complete.
    revision: watch::Sender<Option<Revision>>,
}

impl Cache {
    /// Empty. The selectable fields of `resource` are those that headers carry.
    pub fn new(resource: ResourceInfo, indexes: Vec<Index>) -> Self {
        Self {
            resource,
            handlers: Mutex::default(),
            state: RwLock::new(State::new(indexes)),
            revision: watch::Sender::new(None),
        }
    }

    /// What is cached.
    pub fn resource(&self) -> &GroupVersionResource {
        &self.resource.gvr
    }

    /// Whether the first list is in.
    pub fn synced(&self) -> bool {
        self.revision.borrow().is_some()
    }

    /// Waits for the first list.
    pub async fn wait_synced(&self) {
        let mut revision = self.revision.subscribe();
        // the sender lives as long as `self`
        let _ = revision.wait_for(Option::is_some).await;
    }

    /// The revision up to which the cache is complete.
    pub fn revision(&self) -> Revision {
        self.revision.borrow().unwrap_or_default()
    }

    /// Waits until the cache has seen a revision, at most `limit`; whether it has.
    pub async fn wait_revision(&self, at_least: Revision, limit: Duration) -> bool {
        let mut revision = self.revision.subscribe();
        let seen = revision.wait_for(|r| r.is_some_and(|r| r >= at_least));
        tokio::time::timeout(limit, seen).await.is_ok()
    }

    /// Waits until `condition` holds, looking after each change of the cache, at most `limit`; whether it held.
    pub async fn wait_until(&self, condition: impl Fn(&Self) -> bool, limit: Duration) -> bool {
        let mut revision = self.revision.subscribe();
        let held = async {
            while !condition(self) {
                if revision.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(limit, held).await.unwrap_or(false)
    }

    /// One object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<SharedObject> {
        self.state.read().get(namespace, name).cloned()
    }

    /// All objects of a namespace (empty: all) that the selectors match, by namespace and name.
    pub fn list(
        &self,
        namespace: &str,
        labels: &LabelSelector,
        fields: &FieldSelector,
    ) -> Vec<SharedObject> {
        let state = self.state.read();
        let matches = |object: &SharedObject| {
            (namespace.is_empty() || object.header.namespace == namespace)
                && labels.matches(&object.header)
                && fields.matches(&object.header)
        };
        match state.narrowed(labels, fields) {
            Some(few) => few.filter(|object| matches(object)).cloned().collect(),
            None => state
                .in_namespace(namespace)
                .filter(|object| matches(object))
                .cloned()
                .collect(),
        }
    }

    /// All objects of a namespace (empty: all).
    pub fn list_all(&self, namespace: &str) -> Vec<SharedObject> {
        self.state.read().in_namespace(namespace).cloned().collect()
    }

    /// Objects with an owner reference to this uid, in a namespace (empty: all).
    pub fn owned_by(&self, namespace: &str, uid: &str) -> Vec<SharedObject> {
        let state = self.state.read();
        let owned = state.indexed(&Index::Owner, uid);
        owned
            .filter(|object| namespace.is_empty() || object.header.namespace == namespace)
            .cloned()
            .collect()
    }

    /// Objects whose index has this value; empty if there is no such index.
    pub fn indexed(&self, index: &Index, value: &str) -> Vec<SharedObject> {
        self.state.read().indexed(index, value).cloned().collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.state.read().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Parses a field selector of this resource; a field that is not cached is 400.
    pub fn field_selector(&self, text: &str) -> Result<FieldSelector, Status> {
        FieldSelector::parse(text, &self.resource)
    }

    /// Adds a handler, which hears of all present objects at once; dropping the subscription removes it.
    pub fn subscribe(self: &Arc<Self>, handler: Arc<dyn Handler>) -> Subscription {
        let mut handlers = self.handlers.lock();
        for object in self.list_all("") {
            handler.handle(&CacheEvent::Added(object));
        }
        let id = handlers.last().map_or(0, |(id, _)| id + 1);
        handlers.push((id, handler));
        Subscription {
            cache: self.clone(),
            id,
        }
    }

    /// The whole state anew: the differences go to the handlers.
    pub(crate) fn replace(&self, objects: Vec<SharedObject>, revision: Revision) {
        let handlers = self.handlers.lock();
        let events = self.state.write().replace(objects);
        tell(&handlers, &events);
        drop(handlers);
        self.reached(revision);
    }

    /// A new or changed object.
    pub(crate) fn upsert(&self, object: SharedObject) {
        let revision = object.revision;
        let handlers = self.handlers.lock();
        let event = self.state.write().upsert(object);
        tell(&handlers, event.as_slice());
        drop(handlers);
        self.reached(revision);
    }

    /// A deleted object, in its last state.
    pub(crate) fn remove(&self, object: &SharedObject) {
        let handlers = self.handlers.lock();
        let event = self.state.write().remove(object);
        tell(&handlers, event.as_slice());
        drop(handlers);
        self.reached(object.revision);
    }

    /// Nothing happened up to this revision.
    pub(crate) fn reached(&self, revision: Revision) {
        self.revision
            .send_modify(|r| *r = Some(r.unwrap_or_default().max(revision)));
    }
}

fn tell(handlers: &[(u64, Arc<dyn Handler>)], events: &[CacheEvent]) {
    for event in events {
        for (_, handler) in handlers {
            handler.handle(event);
        }
    }
}

/// Keeps a handler in its cache.
#[must_use = "dropping it removes the handler"]
pub struct Subscription {
    cache: Arc<Cache>,
    id: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.cache.handlers.lock().retain(|(id, _)| *id != self.id);
    }
}

#[cfg(test)]
mod tests;
