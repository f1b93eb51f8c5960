//! Watches whose keys the plugin itself names. Events wait here, one per object: newer ones are merged into a waiting one, so
//! that a slow plugin costs no memory and never holds up the reflector. A failed call is repeated with back-off.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use pilothouse_client::CacheEvent;
use tokio_util::sync::CancellationToken;

use super::Inner;
use crate::{
    calls::{Change, WatchEvent},
    keys::Key,
    queue::WorkQueue,
};

/// The watch's index and the object.
type ObjectKey = (usize, Key);

pub(super) struct EventMapper {
    inner: Arc<Inner>,
    waiting: Mutex<HashMap<ObjectKey, WatchEvent>>,
    queue: WorkQueue<ObjectKey>,
}

impl EventMapper {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self {
            inner,
            waiting: Mutex::default(),
            queue: WorkQueue::new(),
        }
    }

    pub(super) fn add(&self, watch: usize, event: &CacheEvent) {
        let key = (watch, Key::of(event.object()));
        let event = watch_event(watch, event);
        let mut waiting = self.waiting.lock();
        let merged = match waiting.remove(&key) {
            Some(before) => merge(before, event),
            None => event,
        };
        waiting.insert(key.clone(), merged);
        drop(waiting);
        self.queue.add(key);
    }

    /// Maps until cancelled.
    pub(super) async fn work(self: Arc<Self>, cancel: CancellationToken) {
        loop {
            let object = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                object = self.queue.get() => object,
            };
            let Some(object) = object else {
                return;
            };
            self.map(&object).await;
            self.queue.done(&object);
        }
    }

    async fn map(&self, object: &ObjectKey) {
        let Some(event) = self.waiting.lock().remove(object) else {
            return;
        };
        let calls = self.inner.calls.read().clone();
        match calls.map_event(&event).await {
            Ok(keys) => {
                self.queue.forget(object);
                keys.into_iter().for_each(|key| self.inner.queue.add(key));
            }
            Err(error) => {
                tracing::warn!(plugin = %self.inner.name, "map-event failed: {error}");
                let mut waiting = self.waiting.lock();
                let merged = match waiting.remove(object) {
                    Some(after) => merge(event, after),
                    None => event,
                };
                waiting.insert(object.clone(), merged);
                drop(waiting);
                self.queue.add_rate_limited(object.clone());
            }
        }
    }
}

fn watch_event(watch: usize, event: &CacheEvent) -> WatchEvent {
    let (change, old) = match event {
        CacheEvent::Added(_) => (Change::Added, None),
        CacheEvent::Modified { old, .. } => (Change::Modified, Some(old.bytes.clone())),
        CacheEvent::Deleted(_) => (Change::Deleted, None),
    };
    WatchEvent {
        watch: u32::try_from(watch).unwrap_or(u32::MAX),
        change,
        object: event.object().bytes.clone(),
        old,
    }
}

/// Two events as one: from the first one's old state to the second one's new state.
fn merge(first: WatchEvent, second: WatchEvent) -> WatchEvent {
    let (change, old) = match (first.change, second.change) {
        // never seen by the plugin
        (Change::Added, Change::Added | Change::Modified) => (Change::Added, None),
        // another object of the same name
        (Change::Deleted, Change::Added | Change::Modified) => {
            (Change::Modified, Some(first.object))
        }
        (_, change) => (change, first.old.or(second.old)),
    };
    WatchEvent {
        watch: second.watch,
        change,
        object: second.object,
        old,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_events_lead_from_the_first_old_to_the_last_new_state() {
        let event = |change, object: &'static str, old: Option<&'static str>| WatchEvent {
            watch: 0,
            change,
            object: object.into(),
            old: old.map(Into::into),
        };
        use Change::{Added, Deleted, Modified};
        for (first, second, expected) in [
            (
                event(Added, "1", None),
                event(Modified, "2", Some("1")),
                event(Added, "2", None),
            ),
            (
                event(Modified, "2", Some("1")),
                event(Modified, "3", Some("2")),
                event(Modified, "3", Some("1")),
            ),
            (
                event(Modified, "2", Some("1")),
                event(Deleted, "2", None),
                event(Deleted, "2", Some("1")),
            ),
            (
                event(Deleted, "1", None),
                event(Added, "2", None),
                event(Modified, "2", Some("1")),
            ),
        ] {
            assert_eq!(merge(first, second), expected);
        }
    }
}
