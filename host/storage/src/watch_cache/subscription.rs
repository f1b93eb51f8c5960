//! Watches of a cache: a position in the window and a wake-up.
//!
//! An idle watch costs nothing: `Waiter::pending` is the number of the first change that may concern it, set by the feeder,
//! so that changes of other namespaces are never looked at. A slow one stays parked at that number; it catches up from the
//! window, or is expired once the window has moved on.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use pilothouse_api::Revision;
use tokio::sync::Notify;

use super::{CacheError, CacheEvent, Shared};

/// Changes handed out at once, and looked at under one lock.
const BATCH_EVENTS: usize = 256;
/// A batch ends once its objects are as large together: who does not go on holds no more.
const BATCH_BYTES: usize = 256 * 1024;
const EXAMINE: usize = 4096;
const NOTHING: u64 = u64::MAX;

/// A watch as the feeder sees it.
pub(super) struct Waiter {
    /// The number of the first change not read yet, or `NOTHING`. Written by the feeder under the state's write lock, by the
    /// watch under its read lock.
    pending: AtomicU64,
    wake: Notify,
}

/// All watches of a cache.
#[derive(Default)]
pub(super) struct Watchers {
    everywhere: Vec<Arc<Waiter>>,
    namespaces: HashMap<String, Vec<Arc<Waiter>>>,
}

impl Watchers {
    /// Tells those whom a change concerns where to read on; returns through `woken` who has to be woken.
    pub(super) fn mark(&self, namespace: &str, number: u64, woken: &mut Vec<Arc<Waiter>>) {
        let local = self.namespaces.get(namespace).into_iter().flatten();
        for waiter in self.everywhere.iter().chain(local) {
            if waiter.pending.load(Ordering::Relaxed) == NOTHING {
                waiter.pending.store(number, Ordering::Relaxed);
                woken.push(waiter.clone());
            }
        }
    }

    /// Makes every watch look at the window, to find that it has ended.
    pub(super) fn expire_all(&self) {
        for waiter in self
            .everywhere
            .iter()
            .chain(self.namespaces.values().flatten())
        {
            waiter.pending.store(0, Ordering::Relaxed);
            waiter.wake.notify_one();
        }
    }

    pub(super) fn wake_all(&self) {
        for waiter in self
            .everywhere
            .iter()
            .chain(self.namespaces.values().flatten())
        {
            waiter.wake.notify_one();
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.everywhere.is_empty() && self.namespaces.is_empty()
    }

    fn add(&mut self, namespace: Option<&str>, waiter: Arc<Waiter>) {
        match namespace {
            Some(namespace) => match self.namespaces.get_mut(namespace) {
                Some(waiters) => waiters.push(waiter),
                None => {
                    self.namespaces.insert(namespace.to_owned(), vec![waiter]);
                }
            },
            None => self.everywhere.push(waiter),
        }
    }

    fn remove(&mut self, namespace: Option<&str>, waiter: &Arc<Waiter>) {
        let waiters = match namespace {
            Some(namespace) => self.namespaces.get_mut(namespace),
            None => Some(&mut self.everywhere),
        };
        let Some(waiters) = waiters else {
            return;
        };
        if let Some(at) = waiters.iter().position(|w| Arc::ptr_eq(w, waiter)) {
            waiters.swap_remove(at);
        }
        if let Some(namespace) = namespace
            && waiters.is_empty()
        {
            self.namespaces.remove(namespace);
        }
    }
}

impl Waiter {
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }
}

/// Changes in order.
#[derive(Debug)]
pub struct CacheBatch {
    pub events: Vec<Arc<CacheEvent>>,
    /// Nothing up to here is missing, so a client may resume after it.
    pub revision: Revision,
}

/// A watch of a cache.
pub struct CacheWatch {
    shared: Arc<Shared>,
    namespace: Option<String>,
    waiter: Arc<Waiter>,
    /// All up to here has been handed out.
    delivered: Revision,
}

impl CacheWatch {
    pub(super) fn new(
        shared: Arc<Shared>,
        namespace: Option<&str>,
        after: Option<Revision>,
    ) -> Result<Self, CacheError> {
        let (waiter, delivered) = {
            let state = shared.ready_state()?;
            let after = after.unwrap_or(state.revision);
            let position = state.window.position(after);
            let position = position.ok_or_else(|| CacheError::Expired {
                asked: after,
                oldest: state.window.oldest(),
            })?;
            let pending = match position < state.window.end() {
                true => position,
                false => NOTHING,
            };
            let waiter = Arc::new(Waiter {
                pending: AtomicU64::new(pending),
                wake: Notify::new(),
            });
            shared.watchers.lock().add(namespace, waiter.clone());
            (waiter, after)
        };
        Ok(Self {
            shared,
            namespace: namespace.map(str::to_owned),
            waiter,
            delivered,
        })
    }

    /// The next changes, at least one. Ends with `Expired` when this watch was too slow. Nothing is lost if the future is
    /// dropped before it is ready.
    pub async fn next(&mut self) -> Result<CacheBatch, CacheError> {
        loop {
            match self.take()? {
                Some(batch) if !batch.events.is_empty() => return Ok(batch),
                Some(_) => tokio::task::yield_now().await, // much to skip: let others run
                None => self.waiter.wake.notified().await,
            }
        }
    }

    /// The revision up to which this watch has handed out everything: what a bookmark may say. It follows the cache's own
    /// revision, which [`super::WatchCache::catch_up`] brings up to date.
    pub fn position(&self) -> Revision {
        let state = self.shared.state.read();
        match self.waiter.pending.load(Ordering::Relaxed) {
            NOTHING => self.delivered.max(state.revision),
            _ => self.delivered,
        }
    }

    /// What can be read now: `None` if there is nothing to look at.
    fn take(&mut self) -> Result<Option<CacheBatch>, CacheError> {
        let state = self.shared.state.read();
        let pending = self.waiter.pending.load(Ordering::Relaxed);
        if pending == NOTHING {
            return match state.closed {
                true => Err(CacheError::Closed),
                false => Ok(None),
            };
        }
        let unread = state.window.from(pending).ok_or(CacheError::Expired {
            asked: self.delivered,
            oldest: state.window.oldest(),
        })?;
        let mut events = Vec::new();
        let (mut examined, mut bytes) = (0, 0);
        let mut reached = self.delivered;
        for event in unread {
            let full = events.len() >= BATCH_EVENTS || bytes >= BATCH_BYTES || examined >= EXAMINE;
            if full && event.revision != reached {
                break;
            }
            examined += 1;
            reached = event.revision;
            if event.revision > self.delivered && self.concerns(event) {
                bytes += event.object.bytes.len();
                events.push(event.clone());
            }
        }
        let next = pending + examined as u64;
        let at_end = next == state.window.end();
        let pending = if at_end { NOTHING } else { next };
        self.waiter.pending.store(pending, Ordering::Relaxed);
        let revision = self
            .delivered
            .max(if at_end { state.revision } else { reached });
        drop(state);
        self.delivered = revision;
        Ok(Some(CacheBatch { events, revision }))
    }

    fn concerns(&self, event: &CacheEvent) -> bool {
        let namespace = self.namespace.as_ref();
        namespace.is_none_or(|n| *n == event.object.header.namespace)
    }
}

impl Drop for CacheWatch {
    fn drop(&mut self) {
        let mut watchers = self.shared.watchers.lock();
        watchers.remove(self.namespace.as_deref(), &self.waiter);
    }
}
