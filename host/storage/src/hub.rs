//! Hands committed changes to the watches of an engine. Both engines use it: a writer (or etcd's one stream) publishes, each
//! watch has a bounded queue, and a watch that falls behind reads the history again instead of holding anybody up.
//!
//! ```text
//!             replayed up to the published revision
//!   Behind ───► Replaying ───► Live ──┐ queue overflowed
//!     ▲                               │
//!     └───────────────────────────────┘
//! ```
//!
//! Invariants:
//! 1. A queue holds whole revisions, in order, all after the revision at which it was last cleared.
//! 2. Changes are in the queues before `published` reaches their revision, so an empty queue and a published revision,
//!    read under the queue's lock, prove that nothing up to that revision is missing.
//!
//! Lock order: `Hub::inner`, then `Queue::state`. Nothing is awaited under either.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{StreamExt, stream::BoxStream};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::engine::{
    BoxFuture, Event, KeyValue, Result, Revision, StorageError, WatchBatch, WatchRequest,
    WatchStream,
};

/// Events that a watch may leave unread before it has to read the history.
const QUEUE_EVENTS: usize = 4096;
/// Revisions that are waited for on one watch.
const MAX_WANTED: usize = 1024;

/// Where a watch that is behind finds what it missed.
pub(crate) trait Source: Send + Sync + 'static {
    /// The changes below `prefix` after `after` up to and including `upto`.
    fn replay(
        self: Arc<Self>,
        prefix: Arc<str>,
        after: Revision,
        upto: Revision,
    ) -> BoxStream<'static, Result<WatchBatch>>;

    /// A key as it was just before a change.
    fn before<'a>(
        &'a self,
        key: &'a str,
        revision: Revision,
    ) -> BoxFuture<'a, Result<Option<KeyValue>>>;
}

/// The watches of one engine.
#[derive(Debug)]
pub(crate) struct Hub {
    inner: Mutex<Inner>,
    published: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    /// Queues whose prefix ends in a slash, found by looking up the key's own prefixes.
    folders: HashMap<Arc<str>, Vec<Arc<Queue>>>,
    /// All others, tried one by one.
    irregular: Vec<Arc<Queue>>,
    /// The lowest revision for which somebody waits to be told of progress.
    lowest_wanted: Option<u64>,
    closed: Option<StorageError>,
}

#[derive(Debug)]
struct Queue {
    prefix: Arc<str>,
    state: Mutex<QueueState>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    batches: VecDeque<WatchBatch>,
    events: usize,
    lagging: bool,
    wanted: BTreeSet<u64>,
    closed: Option<StorageError>,
}

/// What a watch finds in its queue.
enum Taken {
    Batch(WatchBatch),
    Progress(Revision),
    Lagging,
    Closed(StorageError),
    Empty,
}

impl Hub {
    pub(crate) fn new(published: Revision) -> Self {
        Self {
            inner: Mutex::default(),
            published: AtomicU64::new(published.0),
        }
    }

    /// Queues changes for those whom they concern. `events` are in revision order and complete up to `revision`.
    pub(crate) fn publish(&self, events: &[Event], revision: Revision) {
        let mut woken: Vec<Arc<Queue>> = Vec::new();
        {
            let mut inner = self.inner.lock();
            for same in events.chunk_by(|a, b| a.kv.mod_revision == b.kv.mod_revision) {
                for (queue, events) in inner.route(same) {
                    queue.push(events);
                    if !woken.iter().any(|w| Arc::ptr_eq(w, &queue)) {
                        woken.push(queue);
                    }
                }
            }
            self.published.fetch_max(revision.0, Ordering::Release);
            if inner
                .lowest_wanted
                .is_some_and(|wanted| wanted <= revision.0)
            {
                woken.extend(inner.take_wanting(revision.0));
            }
        }
        for queue in woken {
            queue.wake.notify_one();
        }
    }

    /// Everything up to here has been queued.
    pub(crate) fn published(&self) -> Revision {
        Revision(self.published.load(Ordering::Acquire))
    }

    /// See [`crate::Storage::request_progress`].
    pub(crate) fn request_progress(&self, prefix: &str, revision: Revision) {
        let mut inner = self.inner.lock();
        let queues: Vec<Arc<Queue>> = inner
            .all_of(prefix)
            .filter(|q| *q.prefix == *prefix)
            .cloned()
            .collect();
        if queues.is_empty() {
            return;
        }
        let reached = self.published().0 >= revision.0;
        for queue in queues {
            let mut state = queue.state.lock();
            state.want(revision.0);
            if reached {
                queue.wake.notify_one();
            }
        }
        if !reached {
            let lowest = inner.lowest_wanted.unwrap_or(u64::MAX);
            inner.lowest_wanted = Some(lowest.min(revision.0));
        }
    }

    /// Ends every watch, the later ones too, after what is queued.
    pub(crate) fn close(&self, error: &StorageError) {
        let mut inner = self.inner.lock();
        inner.closed = Some(error.clone());
        for queue in inner.folders.values().flatten().chain(&inner.irregular) {
            queue.state.lock().closed = Some(error.clone());
            queue.wake.notify_one();
        }
    }

    /// Ends every watch that is open now, because what happened up to `published` was not seen; new ones may start.
    pub(crate) fn break_watches(&self, error: &StorageError, published: Revision) {
        let mut inner = self.inner.lock();
        for queue in inner.folders.values().flatten().chain(&inner.irregular) {
            queue.state.lock().closed = Some(error.clone());
            queue.wake.notify_one();
        }
        inner.lowest_wanted = None;
        self.published.store(published.0, Ordering::Release);
    }

    /// A watch of this hub whose missed changes come from `source`.
    pub(crate) fn watch(
        self: &Arc<Self>,
        source: Arc<dyn Source>,
        request: WatchRequest,
    ) -> WatchStream {
        let watch = Watch {
            queue: self.register(request.prefix.into()),
            hub: self.clone(),
            source,
            position: request.after,
            previous: request.previous,
            phase: Phase::Behind,
        };
        Box::pin(futures::stream::unfold(Some(watch), |watch| async {
            let mut watch = watch?;
            match watch.next().await {
                Ok(batch) => Some((Ok(batch), Some(watch))),
                Err(error) => Some((Err(error), None)),
            }
        }))
    }

    fn register(&self, prefix: Arc<str>) -> Arc<Queue> {
        let mut inner = self.inner.lock();
        let queue = Arc::new(Queue {
            prefix: prefix.clone(),
            state: Mutex::new(QueueState {
                closed: inner.closed.clone(),
                ..QueueState::default()
            }),
            wake: Notify::new(),
        });
        match prefix.ends_with('/') {
            true => inner.folders.entry(prefix).or_default().push(queue.clone()),
            false => inner.irregular.push(queue.clone()),
        }
        queue
    }

    fn unregister(&self, queue: &Arc<Queue>) {
        let mut inner = self.inner.lock();
        inner.irregular.retain(|q| !Arc::ptr_eq(q, queue));
        if let Some(queues) = inner.folders.get_mut(&queue.prefix) {
            queues.retain(|q| !Arc::ptr_eq(q, queue));
            if queues.is_empty() {
                inner.folders.remove(&queue.prefix);
            }
        }
    }

    /// Empties a queue and says from which revision on it is complete again.
    fn restart(&self, queue: &Queue) -> Revision {
        let _publishing = self.inner.lock();
        let mut state = queue.state.lock();
        state.batches.clear();
        state.events = 0;
        state.lagging = false;
        self.published()
    }
}

impl Inner {
    /// The queues that want some of the events of one revision, each with its events.
    fn route(&self, events: &[Event]) -> Vec<(Arc<Queue>, Vec<Event>)> {
        let mut routed: Vec<(Arc<Queue>, Vec<Event>)> = Vec::new();
        for event in events {
            for queue in self.all_of(&event.kv.key) {
                match routed.iter_mut().find(|(q, _)| Arc::ptr_eq(q, queue)) {
                    Some((_, events)) => events.push(event.clone()),
                    None => routed.push((queue.clone(), vec![event.clone()])),
                }
            }
        }
        routed
    }

    /// The queues whose prefix is a prefix of `key`.
    fn all_of<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Arc<Queue>> {
        let folders = key
            .match_indices('/')
            .filter_map(move |(at, _)| self.folders.get(&key[..=at]))
            .flatten();
        let irregular = self.irregular.iter();
        folders.chain(irregular.filter(move |q| key.starts_with(&*q.prefix)))
    }

    /// The queues that waited for this revision; what the others wait for is noted anew.
    fn take_wanting(&mut self, published: u64) -> Vec<Arc<Queue>> {
        let mut reached = Vec::new();
        let mut lowest: Option<u64> = None;
        for queue in self.folders.values().flatten().chain(&self.irregular) {
            let state = queue.state.lock();
            if state
                .wanted
                .first()
                .is_some_and(|first| *first <= published)
            {
                reached.push(queue.clone());
            }
            if let Some(next) = state.wanted.range(published + 1..).next() {
                lowest = Some(lowest.map_or(*next, |lowest| lowest.min(*next)));
            }
        }
        self.lowest_wanted = lowest;
        reached
    }
}

impl Queue {
    fn push(&self, mut events: Vec<Event>) {
        let Some(revision) = events.last().map(|e| e.kv.mod_revision) else {
            return;
        };
        let mut state = self.state.lock();
        if state.lagging {
            return;
        }
        state.events += events.len();
        if state.events > QUEUE_EVENTS {
            state.batches = VecDeque::new();
            state.events = 0;
            state.lagging = true;
            return;
        }
        match state.batches.back_mut() {
            Some(last) => {
                last.revision = revision;
                last.events.append(&mut events);
            }
            None => state.batches.push_back(WatchBatch { revision, events }),
        }
    }

    fn take(&self, hub: &Hub) -> Taken {
        let mut state = self.state.lock();
        if state.lagging {
            return Taken::Lagging;
        }
        if let Some(batch) = state.batches.pop_front() {
            state.events -= batch.events.len();
            return Taken::Batch(batch);
        }
        if let Some(error) = &state.closed {
            return Taken::Closed(error.clone());
        }
        let published = hub.published();
        match state.wanted.first() {
            Some(wanted) if *wanted <= published.0 => {
                state.wanted = state.wanted.split_off(&(published.0 + 1));
                Taken::Progress(published)
            }
            _ => Taken::Empty,
        }
    }
}

impl QueueState {
    /// Notes a revision that somebody waits for. One that may never come must not hide those that will; of very many the
    /// highest are forgotten.
    fn want(&mut self, revision: u64) {
        self.wanted.insert(revision);
        if self.wanted.len() > MAX_WANTED {
            self.wanted.pop_last();
        }
    }
}

/// One watch; see the diagram above.
struct Watch {
    hub: Arc<Hub>,
    source: Arc<dyn Source>,
    queue: Arc<Queue>,
    /// All up to here has been handed out.
    position: Revision,
    previous: bool,
    phase: Phase,
}

enum Phase {
    Behind,
    Replaying {
        batches: BoxStream<'static, Result<WatchBatch>>,
        upto: Revision,
    },
    Live,
}

impl Watch {
    async fn next(&mut self) -> Result<WatchBatch> {
        loop {
            let batch = match &mut self.phase {
                Phase::Behind => {
                    self.catch_up();
                    continue;
                }
                Phase::Replaying { batches, upto } => match batches.next().await {
                    Some(batch) => batch?,
                    None => {
                        self.position = self.position.max(*upto);
                        self.phase = Phase::Live;
                        continue;
                    }
                },
                Phase::Live => match self.queue.take(&self.hub) {
                    Taken::Batch(batch) => batch,
                    Taken::Progress(revision) => WatchBatch {
                        revision,
                        events: Vec::new(),
                    },
                    Taken::Closed(error) => return Err(error),
                    Taken::Lagging => {
                        self.phase = Phase::Behind;
                        continue;
                    }
                    Taken::Empty => {
                        self.queue.wake.notified().await;
                        continue;
                    }
                },
            };
            if let Some(batch) = self.accept(batch).await? {
                return Ok(batch);
            }
        }
    }

    fn catch_up(&mut self) {
        let upto = self.hub.restart(&self.queue);
        self.phase = if upto > self.position {
            let prefix = self.queue.prefix.clone();
            let batches = self.source.clone().replay(prefix, self.position, upto);
            Phase::Replaying { batches, upto }
        } else {
            Phase::Live
        };
    }

    /// Leaves out what was handed out before, which happens when a watch starts ahead of the hub.
    async fn accept(&mut self, mut batch: WatchBatch) -> Result<Option<WatchBatch>> {
        if batch.revision < self.position {
            return Ok(None);
        }
        let position = self.position;
        let was_progress = batch.events.is_empty();
        batch.events.retain(|e| e.kv.mod_revision > position);
        if batch.events.is_empty() && !was_progress {
            return Ok(None);
        }
        self.position = batch.revision;
        if self.previous {
            for event in &mut batch.events {
                let before = self.source.before(&event.kv.key, event.kv.mod_revision);
                event.previous = before.await?;
            }
        }
        Ok(Some(batch))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.hub.unregister(&self.queue);
    }
}

#[cfg(test)]
mod tests;
