//! What every case gets: an engine, a prefix of its own, and a way to let leases run out.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::StreamExt;
use pilothouse_storage::{
    BoxFuture, Event, Lease, Op, RangeRequest, RangeResponse, Revision, Storage, StorageError, Txn,
    TxnResponse, WatchBatch, WatchRequest, WatchStream,
};

/// Makes the engine under test.
pub(crate) trait Engine {
    fn storage(&self) -> Arc<dyn Storage>;

    /// Makes leases of up to this long run out, or at least starts what does.
    fn pass_time<'a>(&'a self, time: Duration) -> BoxFuture<'a, ()>;
}

/// So that a hang becomes a failure. Far beyond what anything takes, for a case of some hundred syncs on a disk that is slow and
/// shared is slow as well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// One case's view of an engine.
pub(crate) struct Case {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) prefix: String,
}

impl Case {
    pub(crate) fn new(engine: Box<dyn Engine>, name: &str) -> Self {
        Self {
            storage: engine.storage(),
            engine,
            prefix: format!("/registry/conformance.example/{name}/"),
        }
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(crate) async fn txn(&self, txn: Txn) -> TxnResponse {
        self.storage.txn(txn).await.expect("transaction")
    }

    /// Puts whatever is there, and returns the revision.
    pub(crate) async fn put(&self, name: &str, value: &str) -> Revision {
        self.put_leased(name, value, Lease::default()).await
    }

    pub(crate) async fn put_leased(&self, name: &str, value: &str, lease: Lease) -> Revision {
        let put = self.op_put(name, value, lease);
        self.txn(just(vec![put])).await.revision
    }

    pub(crate) async fn delete(&self, name: &str) -> Revision {
        let key = self.key(name);
        self.txn(just(vec![Op::Delete { key }])).await.revision
    }

    pub(crate) fn op_put(&self, name: &str, value: &str, lease: Lease) -> Op {
        Op::Put {
            key: self.key(name),
            value: Bytes::from(value.to_owned()),
            lease,
        }
    }

    /// The value of a key now or at a revision.
    pub(crate) async fn value(&self, name: &str, at: Option<Revision>) -> Option<String> {
        let response = self.storage.get(&self.key(name), at).await.expect("get");
        response.kv.map(|kv| text(&kv.value))
    }

    pub(crate) async fn range(&self, request: RangeRequest) -> RangeResponse {
        self.storage.range(request).await.expect("range")
    }

    /// All of the case's keys with values, as `name=value`.
    pub(crate) async fn all(&self, at: Option<Revision>) -> Vec<String> {
        let request = RangeRequest {
            revision: at,
            ..RangeRequest::prefix(&self.prefix)
        };
        self.pairs(&self.range(request).await)
    }

    pub(crate) fn pairs(&self, response: &RangeResponse) -> Vec<String> {
        let pair = |kv: &pilothouse_storage::KeyValue| {
            let name = kv.key.strip_prefix(&self.prefix).unwrap_or(&kv.key);
            format!("{name}={}", text(&kv.value))
        };
        response.kvs.iter().map(pair).collect()
    }

    pub(crate) async fn watch(&self, after: Revision) -> Watched {
        self.watch_with(WatchRequest::new(&self.prefix, after))
            .await
    }

    pub(crate) async fn watch_with(&self, request: WatchRequest) -> Watched {
        Watched::of(&*self.storage, request).await
    }

    pub(crate) async fn current(&self) -> Revision {
        self.storage
            .current_revision()
            .await
            .expect("current revision")
    }
}

/// A transaction without conditions.
pub(crate) fn just(success: Vec<Op>) -> Txn {
    Txn {
        success,
        ..Txn::default()
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A watch that does not wait for ever.
pub(crate) struct Watched {
    stream: WatchStream,
}

impl From<WatchStream> for Watched {
    fn from(stream: WatchStream) -> Self {
        Self { stream }
    }
}

impl Watched {
    pub(crate) async fn of(storage: &dyn Storage, request: WatchRequest) -> Self {
        let stream = storage.watch(request).await.expect("watch");
        Self { stream }
    }

    pub(crate) async fn next(&mut self) -> Result<WatchBatch, StorageError> {
        let next = tokio::time::timeout(PATIENCE, self.stream.next());
        let batch = next.await.expect("a watch hangs");
        batch.expect("a watch ends with an error")
    }

    /// Makes the watch begin; whether there is nothing for it yet.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        futures::poll!(self.stream.next()).is_pending()
    }

    /// The next events, at least so many; checks that batches are ordered and whole.
    pub(crate) async fn events(&mut self, at_least: usize) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        let mut position = Revision(0);
        while events.len() < at_least {
            let batch = self.next().await.expect("watch");
            assert!(batch.revision >= position, "batches go backwards");
            for event in &batch.events {
                assert!(event.kv.mod_revision > position, "a revision was split");
            }
            let revisions: Vec<Revision> = batch.events.iter().map(|e| e.kv.mod_revision).collect();
            assert!(revisions.is_sorted(), "events out of order: {revisions:?}");
            if let Some(last) = revisions.last() {
                assert!(
                    *last <= batch.revision,
                    "an event above its batch's revision"
                );
            }
            position = batch.revision;
            events.extend(batch.events);
        }
        events
    }

    /// The revision of the next event, which comes alone. Its batch may tell of a later one: of nothing up to there being missing.
    pub(crate) async fn revision(&mut self) -> Revision {
        let events = self.events(1).await;
        assert_eq!(events.len(), 1, "{events:?}");
        events[0].kv.mod_revision
    }

    /// The next empty batch.
    pub(crate) async fn progress(&mut self) -> Revision {
        let batch = self.next().await.expect("watch");
        assert!(batch.events.is_empty(), "unexpected events: {batch:?}");
        batch.revision
    }
}
