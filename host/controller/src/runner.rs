//! Runs one controller: its watches feed its queue, its workers take keys and reconcile them.
//!
//! ```text
//!   informer caches ── events ──► Mapper ── keys ──► WorkQueue ──► workers ──► Calls::reconcile
//!                        └ custom ► EventMapper ─────────▲  ▲                     │ wrote
//!                                    resync, singleton ──┘  └── done when seen ◄──┘
//! ```
//!
//! Invariants: a key is done only when the caches have seen what its run wrote; loading another revision swaps the calls while
//! runs under way end on the old one, and makes every key of every watch run again; the queue outlives revisions, so one key
//! never runs twice at once even across a reload.

mod custom;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, RwLock};
use pilothouse_client::{Cache, CacheEvent, Informer, InformerSet, cache::Subscription};
use pilothouse_plugin::manifest::{ControllerSettings, KeyMap};
use tokio::time::Instant;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use tracing::Instrument;

use crate::{
    calls::{Calls, Outcome, ReconcileError},
    cluster::PluginCluster,
    gc::OwnerGraph,
    keys::{Key, Mapper, Selectors, resource_of},
    metrics::Metrics,
    queue::WorkQueue,
    written::Written,
};
use custom::EventMapper;

/// What all controllers of a process share.
#[derive(Clone)]
pub struct Shared {
    pub informers: InformerSet,
    pub graph: Arc<OwnerGraph>,
    pub cluster: Arc<PluginCluster>,
    pub metrics: Metrics,
}

/// One running controller. Dropping it stops it; [`Self::stop`] also waits for the runs under way.
pub struct ControllerRunner {
    inner: Arc<Inner>,
    loaded: Mutex<Option<DropGuard>>,
}

pub(crate) struct Inner {
    name: String,
    shared: Shared,
    queue: WorkQueue<Key>,
    calls: RwLock<Arc<dyn Calls>>,
    tasks: TaskTracker,
}

impl ControllerRunner {
    /// A controller that is not running yet.
    pub fn new(name: &str, shared: Shared, calls: Arc<dyn Calls>) -> Self {
        Self {
            inner: Arc::new(Inner {
                name: name.to_owned(),
                shared,
                queue: WorkQueue::new(),
                calls: RwLock::new(calls),
                tasks: TaskTracker::new(),
            }),
            loaded: Mutex::new(None),
        }
    }

    /// Starts, or goes on with another revision: runs under way end on the old one.
    pub fn load(&self, calls: Arc<dyn Calls>, settings: &ControllerSettings) {
        *self.inner.calls.write() = calls;
        let cancel = CancellationToken::new();
        let generation = Generation {
            inner: self.inner.clone(),
            settings: settings.clone(),
            cancel: cancel.clone(),
        };
        let started = cancel.clone().run_until_cancelled_owned(generation.run());
        self.inner.tasks.spawn(async move {
            started.await;
        });
        *self.loaded.lock() = Some(cancel.drop_guard()); // which ends the generation before
    }

    /// Takes no more keys and waits for the runs under way.
    pub async fn stop(&self) {
        self.loaded.lock().take();
        self.inner.queue.close();
        self.inner.shared.cluster.forget(&self.inner.name);
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Whether nothing is to do at the moment.
    pub fn is_idle(&self) -> bool {
        self.inner.queue.is_idle()
    }

    /// Keys ready to run.
    pub fn depth(&self) -> usize {
        self.inner.queue.len()
    }
}

impl Drop for ControllerRunner {
    fn drop(&mut self) {
        self.inner.queue.close();
    }
}

/// The watches and workers of one loaded revision.
struct Generation {
    inner: Arc<Inner>,
    settings: ControllerSettings,
    cancel: CancellationToken,
}

impl Generation {
    /// Waits for the caches, then feeds and works until it is cancelled.
    async fn run(self) {
        let informers = self.informers();
        let cluster = &self.inner.shared.cluster;
        cluster.watch(&self.inner.name, &informers);
        for (watch, informer) in self.settings.watches.iter().zip(&informers) {
            if !watch.optional {
                informer.cache().wait_synced().await;
            }
        }
        let mapper = Arc::new(EventMapper::new(self.inner.clone()));
        let _subscriptions = self.subscribe(&informers, &mapper);
        let _graph = match self.settings.graph {
            true => Some(self.feed_from_graph().await),
            false => None,
        };
        for _ in 0..self.settings.workers.max(1) {
            let work = work(self.inner.clone(), self.cancel.clone());
            self.inner.tasks.spawn(work);
        }
        let has_custom = self
            .settings
            .watches
            .iter()
            .any(|w| w.map == KeyMap::Custom);
        if has_custom {
            let work = mapper.clone().work(self.cancel.clone());
            self.inner.tasks.spawn(work);
        }
        self.resync(&informers).await;
    }

    fn informers(&self) -> Vec<Arc<Informer>> {
        let watches = self.settings.watches.iter();
        watches
            .map(|watch| self.inner.shared.informers.get(&resource_of(watch)))
            .collect()
    }

    /// The `self` watches first, so that their selectors are known when other objects are mapped.
    fn subscribe(
        &self,
        informers: &[Arc<Informer>],
        custom: &Arc<EventMapper>,
    ) -> Vec<Subscription> {
        let mut selectors = BTreeMap::new();
        for watch in &self.settings.watches {
            if let KeyMap::Selector { path, .. } = &watch.map {
                selectors.insert(path.as_str(), Arc::new(Selectors::at(path)));
            }
        }
        let none = Arc::new(Selectors::default());
        let own = |i: &usize| self.settings.watches[*i].map == KeyMap::Own;
        let (mut order, others): (Vec<usize>, Vec<usize>) =
            (0..self.settings.watches.len()).partition(own);
        order.extend(others);
        let mut subscriptions = Vec::new();
        for index in order {
            let watch = &self.settings.watches[index];
            if watch.map == KeyMap::None {
                continue;
            }
            let cache = informers[index].cache();
            let mapper = match Mapper::new(watch, cache) {
                Ok(mapper) => mapper,
                Err(status) => {
                    tracing::error!(plugin = %self.inner.name, resource = %cache.resource(), "a watch is skipped: {status}");
                    continue;
                }
            };
            let mapped_by = match &watch.map {
                KeyMap::Selector { path, .. } => &selectors[path.as_str()],
                _ => &none,
            };
            let feed = Feed {
                inner: self.inner.clone(),
                index,
                mapper,
                selectors: mapped_by.clone(),
                own: selectors.values().cloned().collect(),
                custom: custom.clone(),
            };
            subscriptions
                .push(cache.subscribe(Arc::new(move |event: &CacheEvent| feed.take(event))));
        }
        subscriptions
    }

    async fn feed_from_graph(&self) -> crate::gc::Feeding {
        let inner = self.inner.clone();
        let enqueue = move |uid: &str| inner.queue.add(Key::new("", uid));
        self.inner.shared.graph.feed(Arc::new(enqueue)).await
    }

    /// Every key of the `self` watches, and the singleton, at the asked interval; the singleton also at once.
    async fn resync(&self, informers: &[Arc<Informer>]) {
        loop {
            if self.settings.singleton {
                self.inner.queue.add(Key::default());
            }
            if self.settings.resync_seconds == 0 {
                return std::future::pending().await;
            }
            let interval = Duration::from_secs(u64::from(self.settings.resync_seconds));
            tokio::time::sleep(interval).await;
            for (watch, informer) in self.settings.watches.iter().zip(informers) {
                if watch.map == KeyMap::Own {
                    self.enqueue_all(informer.cache());
                }
            }
        }
    }

    fn enqueue_all(&self, cache: &Cache) {
        for object in cache.list_all("") {
            self.inner.queue.add(Key::of(&object));
        }
    }
}

/// Turns the events of one watch into keys. Runs on the reflector's task: it only maps and enqueues.
struct Feed {
    inner: Arc<Inner>,
    index: usize,
    mapper: Mapper,
    /// Those of the watch's path, for a watch mapped by selector.
    selectors: Arc<Selectors>,
    /// All that the controller's own objects have, which a `self` watch keeps up to date.
    own: Vec<Arc<Selectors>>,
    custom: Arc<EventMapper>,
}

impl Feed {
    fn take(&self, event: &CacheEvent) {
        match self.mapper.map() {
            KeyMap::Own => self.own.iter().for_each(|own| own.follow(event)),
            KeyMap::Custom if self.mapper.wants(event) => {
                return self.custom.add(self.index, event);
            }
            _ => {}
        }
        for key in self.mapper.keys(event, &self.selectors) {
            self.inner.queue.add(key);
        }
    }
}

async fn work(inner: Arc<Inner>, cancel: CancellationToken) {
    loop {
        let key = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            key = inner.queue.get() => key,
        };
        let Some(key) = key else {
            return;
        };
        inner.shared.metrics.depth(&inner.name, inner.queue.len());
        let span = tracing::debug_span!(
            "reconcile",
            plugin = %inner.name,
            extension_point = "controller/reconcile",
            namespace = %key.namespace,
            name = %key.name,
        );
        reconcile(&inner, key).instrument(span).await;
    }
}

/// One run; the key stays running until the caches have seen what it wrote, but holds up no worker meanwhile.
async fn reconcile(inner: &Arc<Inner>, key: Key) {
    let calls = inner.calls.read().clone();
    let written = Arc::new(Written::default());
    let started = Instant::now();
    let result = written.clone().scope(calls.reconcile(&key)).await;
    let seconds = started.elapsed().as_secs_f64();
    inner
        .shared
        .metrics
        .reconciled(&inner.name, word(&result), seconds);
    let again = again(inner, &key, result);
    let inner = inner.clone();
    let settle = async move {
        if !written.wait().await {
            inner.shared.metrics.behind(&inner.name);
            tracing::warn!(plugin = %inner.name, %key, "the caches are behind what a reconcile wrote");
        }
        calls.settled(&key);
        drop(calls);
        match again {
            Again::No => {}
            Again::At(at) => {
                let delay = at.saturating_duration_since(Instant::now());
                inner.queue.add_after(key.clone(), delay);
            }
            Again::BackOff => inner.queue.add_rate_limited(key.clone()),
        }
        inner.queue.done(&key);
    };
    tokio::spawn(settle);
}

/// Whether and when a key runs again by itself.
enum Again {
    No,
    At(Instant),
    BackOff,
}

fn again(inner: &Inner, key: &Key, result: Result<Outcome, ReconcileError>) -> Again {
    match result {
        Ok(outcome) => {
            inner.queue.forget(key);
            match outcome {
                Outcome::Done => Again::No,
                Outcome::RequeueAfter(delay) => Again::At(Instant::now() + delay),
            }
        }
        Err(ReconcileError::Failed(message)) => {
            // a lost race is ordinary; the run after it sees the new state
            if message.starts_with("Conflict") {
                tracing::debug!(plugin = %inner.name, %key, "reconcile: {message}");
            } else {
                tracing::warn!(plugin = %inner.name, %key, "reconcile failed: {message}");
            }
            Again::BackOff
        }
        Err(ReconcileError::Call(error)) => {
            tracing::warn!(plugin = %inner.name, %key, "{error}");
            Again::BackOff
        }
    }
}

fn word(result: &Result<Outcome, ReconcileError>) -> &'static str {
    match result {
        Ok(Outcome::Done) => "success",
        Ok(Outcome::RequeueAfter(_)) => "requeue",
        Err(ReconcileError::Failed(_)) => "error",
        Err(ReconcileError::Call(_)) => "trap",
    }
}

#[cfg(test)]
mod tests;
