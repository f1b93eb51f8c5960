//! All objects of one resource in memory, fed by one watch: serves gets, lists and watches without parsing or encoding.
//!
//! ```text
//! Storage ─ list, then watch ─► feeder ─► objects (persistent map) ─► gets, lists (snapshots)
//!                                    └──► window (recent events)   ─► watches, each with its position
//! ```
//!
//! Invariants:
//! 1. `State::revision` is exact: the objects are what storage held at that revision, never half of a revision.
//! 2. What cannot be read is in no list and no event, but is known: reads that would have to show it fail and name it, and
//!    watches that would have to tell of it end with `Expired`.
//! 3. The window holds every change after `oldest`, except inside its gaps; a watch that would miss something ends with
//!    `Expired`.
//! 4. The feeder waits for nobody: a watch is a position in the window and a wake-up, whatever its client does.
//!
//! Lock order: `Shared::state`, then `Shared::watchers`. Nothing is awaited, encoded or decoded under either.

mod event;
mod feeder;
mod list;
mod subscription;
mod window;

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub use event::{CacheEvent, EventType};
pub use list::CacheList;
use parking_lot::{Mutex, RwLock};
use pilothouse_api::{Object, ResourceInfo, Revision, SharedObject};
use rpds::RedBlackTreeMapSync;
pub use subscription::{CacheBatch, CacheWatch};
use subscription::{Waiter, Watchers};
use window::Window;

use crate::engine::{KeyValue, Storage, StorageError};

/// Objects by storage key, so that their order is that of storage.
type Objects = RedBlackTreeMapSync<Arc<str>, SharedObject>;
type Unreadable = BTreeMap<Arc<str>, StorageError>;

/// Why the cache cannot answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CacheError {
    /// The first list is not complete yet; try again soon.
    #[error("the cache of {0} is still filling")]
    NotReady(String),
    /// The changes after this revision are not all in the window; list again.
    #[error("too old resource version: {asked} ({oldest})")]
    Expired { asked: Revision, oldest: Revision },
    /// The cache has not seen this revision in time.
    #[error("too large resource version: {asked}, current: {current}")]
    Behind { asked: Revision, current: Revision },
    /// The cache is gone.
    #[error("the cache is closed")]
    Closed,
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// How a cache runs.
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    /// Changes kept for watches that resume or are slow.
    pub window_events: usize,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            window_events: 8192,
        }
    }
}

/// The cache of one resource. Dropping it ends its watches.
pub struct WatchCache {
    shared: Arc<Shared>,
    feeder: tokio::task::AbortHandle,
}

struct Shared {
    storage: Arc<dyn Storage>,
    resource: ResourceInfo,
    /// All keys of the resource.
    prefix: String,
    state: RwLock<State>,
    watchers: Mutex<Watchers>,
    /// Follows `State::revision`; zero until the first list is complete.
    reached: tokio::sync::watch::Sender<Revision>,
    /// The highest revision that anybody has waited for.
    wanted: AtomicU64,
}

struct State {
    revision: Revision,
    objects: Objects,
    /// Why which keys have values that cannot be read.
    unreadable: Unreadable,
    window: Window,
    closed: bool,
}

impl WatchCache {
    /// Starts filling the cache on the current tokio runtime.
    pub fn start(storage: Arc<dyn Storage>, resource: ResourceInfo) -> Self {
        Self::with_options(storage, resource, CacheOptions::default())
    }

    /// The same with other limits.
    pub fn with_options(
        storage: Arc<dyn Storage>,
        resource: ResourceInfo,
        options: CacheOptions,
    ) -> Self {
        let shared = Arc::new(Shared {
            storage,
            prefix: resource.storage_key_prefix(""),
            resource,
            state: RwLock::new(State {
                revision: Revision(0),
                objects: Objects::new_sync(),
                unreadable: Unreadable::new(),
                window: Window::new(options.window_events),
                closed: false,
            }),
            watchers: Mutex::default(),
            reached: tokio::sync::watch::Sender::new(Revision(0)),
            wanted: AtomicU64::new(0),
        });
        let feeder = tokio::spawn(feeder::run(shared.clone())).abort_handle();
        Self { shared, feeder }
    }

    /// The resource that is cached.
    pub fn resource(&self) -> &ResourceInfo {
        &self.shared.resource
    }

    /// Whether the first list is complete.
    pub fn is_ready(&self) -> bool {
        self.revision().0 > 0
    }

    /// Waits until the first list is complete.
    pub async fn ready(&self, timeout: Duration) -> Result<(), CacheError> {
        match self.wait_until(Revision(1), timeout).await {
            Err(CacheError::Behind { .. }) => Err(self.shared.not_ready()),
            other => other,
        }
    }

    /// The cache shows exactly what storage held at this revision; zero while it is not ready.
    pub fn revision(&self) -> Revision {
        *self.shared.reached.borrow()
    }

    /// Waits until the cache has seen a revision. `Behind` when it takes longer than `timeout`.
    pub async fn wait_until(
        &self,
        revision: Revision,
        timeout: Duration,
    ) -> Result<(), CacheError> {
        if self.revision() >= revision {
            return Ok(());
        }
        let shared = &self.shared;
        let mut reached = shared.reached.subscribe();
        shared.wanted.fetch_max(revision.0, Ordering::SeqCst);
        shared.storage.request_progress(&shared.prefix, revision);
        let wait = reached.wait_for(|reached| *reached >= revision);
        match tokio::time::timeout(timeout, wait).await {
            Ok(_) => Ok(()),
            Err(_) => Err(CacheError::Behind {
                asked: revision,
                current: self.revision(),
            }),
        }
    }

    /// Waits until the cache shows every write that has been answered before this call: a read after it is linearizable.
    pub async fn catch_up(&self, timeout: Duration) -> Result<Revision, CacheError> {
        let current = self.shared.storage.current_revision().await?;
        self.wait_until(current, timeout).await?;
        Ok(self.revision())
    }

    /// An object as the cache has it. `namespace` is empty for cluster-scoped resources.
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<SharedObject>, CacheError> {
        let key = self.shared.resource.storage_key(namespace, name);
        let state = self.shared.ready_state()?;
        match state.unreadable.get(key.as_str()) {
            Some(error) => Err(error.clone().into()),
            None => Ok(state.objects.get(key.as_str()).cloned()),
        }
    }

    /// An object as storage has it now (linearizable), with the revision of the read; the cache only saves the decoding.
    pub async fn get_fresh(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<(Option<SharedObject>, Revision), CacheError> {
        let shared = &self.shared;
        let key = shared.resource.storage_key(namespace, name);
        let response = shared.storage.get(&key, None).await?;
        let Some(kv) = response.kv else {
            return Ok((None, response.revision));
        };
        let cached = shared.state.read().objects.get(key.as_str()).cloned();
        let object = match cached.filter(|o| o.revision == kv.mod_revision) {
            Some(object) => object,
            None => Arc::new(shared.decode(&kv)?),
        };
        Ok((Some(object), response.revision))
    }

    /// How many objects there are; none while the cache is not ready.
    pub fn len(&self) -> usize {
        self.shared.state.read().objects.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects, or those of a namespace, in the order of their keys. Costs nothing until it is read. Fails if one of them
    /// cannot be read: who lists takes what is not there for deleted.
    pub fn list(&self, namespace: Option<&str>) -> Result<CacheList, CacheError> {
        let state = self.shared.ready_state()?;
        let prefix = self
            .shared
            .resource
            .storage_key_prefix(namespace.unwrap_or(""));
        let from = (Bound::Included(&*prefix), Bound::Unbounded);
        let unreadable = state.unreadable.range::<str, _>(from).next();
        if let Some((_, error)) = unreadable.filter(|(key, _)| key.starts_with(&prefix)) {
            return Err(error.clone().into());
        }
        Ok(CacheList::new(
            state.revision,
            state.objects.clone(),
            prefix,
        ))
    }

    /// The changes after a revision, or from now on, in all namespaces or one. `Expired` if some are no longer known.
    pub fn subscribe(
        &self,
        namespace: Option<&str>,
        after: Option<Revision>,
    ) -> Result<CacheWatch, CacheError> {
        CacheWatch::new(self.shared.clone(), namespace, after)
    }
}

impl Drop for WatchCache {
    fn drop(&mut self) {
        self.feeder.abort();
        self.shared.state.write().closed = true;
        self.shared.watchers.lock().wake_all();
    }
}

impl Shared {
    fn not_ready(&self) -> CacheError {
        CacheError::NotReady(self.resource.group_resource().to_string())
    }

    fn ready_state(&self) -> Result<parking_lot::RwLockReadGuard<'_, State>, CacheError> {
        let state = self.state.read();
        match state.revision.0 {
            0 => Err(self.not_ready()),
            _ => Ok(state),
        }
    }

    fn decode(&self, kv: &KeyValue) -> Result<Object, StorageError> {
        let fields = &self.resource.selectable_fields;
        let object = Object::from_stored(kv.readable()?, kv.mod_revision, fields);
        object.map_err(|error| StorageError::Unreadable {
            key: kv.key.clone(),
            why: error.to_string().into(),
        })
    }
}

#[cfg(test)]
mod tests;
