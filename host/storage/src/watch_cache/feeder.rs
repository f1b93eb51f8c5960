//! Fills a cache and keeps it up to date.
//!
//! ```text
//!            ┌──────────── compacted ────────────┐
//!            ▼                                   │
//!   list (first: fill, later: differences) ──► watch ──┐ unavailable: again from the same revision
//!                                                ▲─────┘
//! ```
//!
//! Only this task changes the state, so what it read stays true until it writes.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::StreamExt;
use pilothouse_api::{Revision, SharedObject};

use super::{CacheEvent, EventType, Objects, Shared, State, Unreadable, Waiter};
use crate::engine::{
    Event, EventKind, KeyValue, RangeRequest, Result, StorageError, WatchBatch, WatchRequest,
};

const PAGE_OBJECTS: usize = 1000;
/// Changes applied under one lock.
const APPLY_EVENTS: usize = 256;
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LAST_RETRY: Duration = Duration::from_secs(2);

/// Runs until it is aborted.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut retry = FIRST_RETRY;
    let mut listed = false;
    loop {
        let result = match listed {
            false => shared.list().await.map(|()| listed = true),
            true => shared.watch(&mut retry).await,
        };
        match result {
            Ok(()) => retry = FIRST_RETRY,
            Err(error) => {
                if let StorageError::Compacted { .. } = error {
                    listed = false;
                }
                let resource = shared.resource.group_resource().to_string();
                tracing::warn!(resource, %error, "watch cache: interrupted, going on soon");
                tokio::time::sleep(retry).await;
                retry = LAST_RETRY.min(retry * 2);
            }
        }
    }
}

impl Shared {
    async fn list(&self) -> Result<()> {
        let mut objects = Objects::new_sync();
        let mut unreadable = Unreadable::new();
        let mut request = RangeRequest {
            limit: PAGE_OBJECTS,
            ..RangeRequest::prefix(&self.prefix)
        };
        loop {
            let page = self.storage.range(request.clone()).await?;
            request.revision = Some(page.revision);
            if let Some(last) = page.kvs.last() {
                request.start = format!("{}\0", last.key);
            }
            for kv in &page.kvs {
                match self.read(kv) {
                    Ok(object) => objects.insert_mut(kv.key.clone(), object),
                    Err(error) => drop(unreadable.insert(kv.key.clone(), error)),
                }
            }
            if !page.more {
                self.replace(objects, unreadable, page.revision);
                return Ok(());
            }
        }
    }

    /// Takes over a complete list. Who watches sees the differences.
    fn replace(&self, objects: Objects, unreadable: Unreadable, revision: Revision) {
        let (known, old, hidden) = {
            let state = self.state.read();
            let hidden = !state.unreadable.is_empty() || !unreadable.is_empty();
            (state.revision, state.objects.clone(), hidden)
        };
        // The first list, or storage was set back, or not all that changed is known: no watch can go on from what it knows.
        let anew = known.0 == 0 || revision < known || hidden;
        let events = match anew {
            true => Vec::new(),
            false => differences(&old, &objects, revision),
        };
        let mut woken = Vec::new();
        {
            let mut state = self.state.write();
            if anew {
                state.window.reset(revision);
                self.watchers.lock().expire_all();
            } else {
                state.window.add_gap(known, revision);
                self.push(&mut state, events, &mut woken);
            }
            state.objects = objects;
            state.unreadable = unreadable;
            state.revision = revision;
        }
        self.announce(revision, woken);
    }

    async fn watch(&self, retry: &mut Duration) -> Result<()> {
        let after = self.state.read().revision;
        let request = WatchRequest::new(&self.prefix, after);
        let mut batches = self.storage.watch(request).await?;
        // who waits for what is there already must not wait for the highest that anybody asked for
        for wanted in [
            self.storage.current_revision().await?,
            Revision(self.wanted.load(Ordering::SeqCst)),
        ] {
            self.storage.request_progress(&self.prefix, wanted);
        }
        while let Some(batch) = batches.next().await {
            self.apply(batch?);
            *retry = FIRST_RETRY;
        }
        Err(StorageError::Unavailable("the watch ended".to_owned()))
    }

    /// Takes over a batch, a whole revision or some at a time.
    fn apply(&self, batch: WatchBatch) {
        let mut rest = batch.events.as_slice();
        while rest.len() > APPLY_EVENTS {
            let last = rest[APPLY_EVENTS - 1].kv.mod_revision;
            let split = rest.partition_point(|e| e.kv.mod_revision <= last);
            self.apply_some(&rest[..split], last);
            rest = &rest[split..];
        }
        self.apply_some(rest, batch.revision);
    }

    fn apply_some(&self, events: &[Event], revision: Revision) {
        let decoded: Vec<(&Event, Read)> = events
            .iter()
            .map(|event| match event.kind {
                EventKind::Put => (event, self.read(&event.kv).map(Some)),
                EventKind::Delete => (event, Ok(None)),
            })
            .collect();
        let departed = self.last_states(&decoded);
        let mut woken = Vec::new();
        {
            let mut state = self.state.write();
            let mut hidden = false;
            for ((event, object), departed) in decoded.into_iter().zip(departed) {
                let was_unreadable = state.unreadable.remove(&*event.kv.key).is_some();
                match object {
                    Ok(object) => {
                        hidden |= was_unreadable && object.is_none();
                        let change = change(&mut state, event, object, departed);
                        self.push(&mut state, change, &mut woken);
                    }
                    Err(error) => {
                        hidden = true;
                        state.objects.remove_mut(&*event.kv.key);
                        state.unreadable.insert(event.kv.key.clone(), error);
                    }
                }
            }
            state.revision = state.revision.max(revision);
            if hidden {
                // not all can be told: who lists again learns what is the matter
                let revision = state.revision;
                state.window.reset(revision);
                self.watchers.lock().expire_all();
            }
        }
        self.announce(revision, woken);
    }

    /// For each deletion the last state with the deletion's revision.
    fn last_states(&self, events: &[(&Event, Read)]) -> Vec<Option<SharedObject>> {
        let known = self.state.read().objects.clone();
        let last_state = |at: usize| {
            let (event, object) = &events[at];
            if !matches!(object, Ok(None)) {
                return None;
            }
            let earlier = events[..at].iter().rfind(|(e, _)| e.kv.key == event.kv.key);
            let last = match earlier {
                Some((_, object)) => object.as_ref().ok()?.as_ref(),
                None => known.get(&*event.kv.key),
            };
            gone(last?, event.kv.mod_revision)
        };
        (0..events.len()).map(last_state).collect()
    }

    fn push(
        &self,
        state: &mut State,
        events: impl IntoIterator<Item = CacheEvent>,
        woken: &mut Vec<Arc<Waiter>>,
    ) {
        let watchers = self.watchers.lock();
        for event in events {
            let event = Arc::new(event);
            let number = state.window.push(event.clone());
            watchers.mark(&event.object.header.namespace, number, woken);
        }
    }

    fn announce(&self, revision: Revision, woken: Vec<Arc<Waiter>>) {
        self.reached.send_replace(revision);
        for waiter in woken {
            waiter.wake();
        }
    }

    fn read(&self, kv: &KeyValue) -> Result<SharedObject> {
        let object = self.decode(kv).map(Arc::new);
        object.inspect_err(|error| tracing::error!(%error, "watch cache: an unreadable object"))
    }
}

/// What an event brings: an object, none, or one that cannot be read.
type Read = Result<Option<SharedObject>>;

/// Applies one change to the objects.
fn change(
    state: &mut State,
    event: &Event,
    object: Option<SharedObject>,
    departed: Option<SharedObject>,
) -> Option<CacheEvent> {
    let revision = event.kv.mod_revision;
    let previous = state.objects.get(&*event.kv.key).cloned();
    match object {
        Some(object) => {
            state
                .objects
                .insert_mut(event.kv.key.clone(), object.clone());
            let kind = match previous {
                Some(_) => EventType::Modified,
                None => EventType::Added,
            };
            Some(CacheEvent::new(kind, object, previous, revision))
        }
        None => {
            state.objects.remove_mut(&*event.kv.key);
            let departed = departed?;
            Some(CacheEvent::new(
                EventType::Deleted,
                departed,
                previous,
                revision,
            ))
        }
    }
}

/// The last state of an object with the revision of its deletion.
fn gone(last: &SharedObject, revision: Revision) -> Option<SharedObject> {
    match last.at_revision(revision) {
        Ok(object) => Some(Arc::new(object)),
        Err(error) => {
            tracing::error!(%error, name = last.header.name, "watch cache: undecodable last state");
            None
        }
    }
}

/// What happened between two states, in the order of revisions; deletions happened by `revision`.
fn differences(old: &Objects, new: &Objects, revision: Revision) -> Vec<CacheEvent> {
    let mut events = Vec::new();
    for (key, object) in new {
        let previous = old.get(key);
        let (kind, previous) = match previous {
            Some(previous) if previous.revision == object.revision => continue,
            Some(previous) if previous.header.uid == object.header.uid => {
                (EventType::Modified, Some(previous.clone()))
            }
            Some(previous) => {
                events.extend(deleted(previous, object.revision));
                (EventType::Added, None)
            }
            None => (EventType::Added, None),
        };
        events.push(CacheEvent::new(
            kind,
            object.clone(),
            previous,
            object.revision,
        ));
    }
    for (key, object) in old {
        if !new.contains_key(key) {
            events.extend(deleted(object, revision));
        }
    }
    events.sort_by_key(|event| event.revision);
    events
}

fn deleted(previous: &SharedObject, revision: Revision) -> Option<CacheEvent> {
    let object = gone(previous, revision)?;
    let previous = Some(previous.clone());
    Some(CacheEvent::new(
        EventType::Deleted,
        object,
        previous,
        revision,
    ))
}
