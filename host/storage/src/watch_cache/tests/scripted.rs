//! A storage that does what a test tells it.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::key;
use crate::engine::*;

#[derive(Default)]
pub(super) struct Scripted {
    script: Mutex<Script>,
}

#[derive(Default)]
struct Script {
    revision: u64,
    compacted: u64,
    pairs: BTreeMap<String, KeyValue>,
    watch: Option<UnboundedSender<Result<WatchBatch>>>,
    refuse_lists: bool,
}

impl Scripted {
    pub(super) fn new() -> std::sync::Arc<Self> {
        let scripted = Self::default();
        scripted.script.lock().revision = 10;
        scripted.into()
    }

    /// Writes pods and tells the watch, all in one revision.
    pub(super) fn put_all(&self, pods: &[(&str, String)]) -> Revision {
        let mut script = self.script.lock();
        script.revision += 1;
        let revision = Revision(script.revision);
        let events = pods
            .iter()
            .map(|(name, json)| script.put(name, json))
            .collect();
        script.tell(Ok(WatchBatch { revision, events }));
        revision
    }

    pub(super) fn put(&self, name: &str, json: String) -> Revision {
        self.put_all(&[(name, json)])
    }

    pub(super) fn delete(&self, name: &str) -> Revision {
        let mut script = self.script.lock();
        script.revision += 1;
        let revision = Revision(script.revision);
        let event = script.delete(name);
        script.tell(Ok(WatchBatch {
            revision,
            events: vec![event],
        }));
        revision
    }

    /// Many revisions in one batch.
    pub(super) fn put_batch(&self, pods: &[(&str, String)], per_revision: usize) -> Revision {
        let mut script = self.script.lock();
        let mut events = Vec::new();
        for same in pods.chunks(per_revision) {
            script.revision += 1;
            events.extend(
                same.iter()
                    .map(|(name, json)| script.put(name, json))
                    .collect::<Vec<_>>(),
            );
        }
        let revision = Revision(script.revision);
        script.tell(Ok(WatchBatch { revision, events }));
        revision
    }

    /// Changes that the watch is never told of; afterwards the history is gone and the watch ends.
    pub(super) fn lose(&self, puts: &[(&str, String)], deletes: &[&str]) -> Revision {
        let mut script = self.script.lock();
        for (name, json) in puts {
            script.revision += 1;
            script.put(name, json);
        }
        for name in deletes {
            script.revision += 1;
            script.delete(name);
        }
        script.compacted = script.revision;
        let error = StorageError::Compacted {
            asked: Revision(0),
            oldest: Revision(script.compacted),
        };
        script.tell(Err(error));
        script.watch = None;
        Revision(script.revision)
    }

    /// The watch breaks off, nothing is lost.
    pub(super) fn break_watch(&self) {
        let mut script = self.script.lock();
        script.tell(Err(StorageError::Unavailable("broken".to_owned())));
        script.watch = None;
    }

    /// A backup is restored.
    pub(super) fn set_back(&self, revision: u64) {
        let mut script = self.script.lock();
        script.revision = revision;
        script.compacted = u64::MAX; // no watch can go on
        script.pairs.clear();
        script.tell(Err(StorageError::Compacted {
            asked: Revision(0),
            oldest: Revision(0),
        }));
        script.watch = None;
    }

    pub(super) fn allow_watches(&self) {
        self.script.lock().compacted = 0;
    }

    /// Another resource is written.
    pub(super) fn write_elsewhere(&self) -> Revision {
        let mut script = self.script.lock();
        script.revision += 1;
        Revision(script.revision)
    }

    pub(super) fn refuse_lists(&self, refuse: bool) {
        self.script.lock().refuse_lists = refuse;
    }
}

impl Script {
    fn put(&mut self, name: &str, json: &str) -> Event {
        let key = key(name);
        let old = self.pairs.get(&key);
        let revision = Revision(self.revision);
        let kv = KeyValue {
            key: key.as_str().into(),
            value: Bytes::from(json.to_owned()),
            create_revision: old.map_or(revision, |kv| kv.create_revision),
            mod_revision: revision,
            version: old.map_or(1, |kv| kv.version + 1),
            lease: Lease(0),
            at_rest: AtRest::Fresh,
        };
        self.pairs.insert(key, kv.clone());
        Event {
            kind: EventKind::Put,
            kv,
            previous: None,
        }
    }

    fn delete(&mut self, name: &str) -> Event {
        let old = self.pairs.remove(&key(name)).expect("is there");
        Event {
            kind: EventKind::Delete,
            kv: KeyValue {
                value: Bytes::new(),
                mod_revision: Revision(self.revision),
                create_revision: Revision(0),
                version: 0,
                ..old
            },
            previous: None,
        }
    }

    fn tell(&self, batch: Result<WatchBatch>) {
        if let Some(watch) = &self.watch {
            let _ended = watch.send(batch);
        }
    }
}

impl Storage for Scripted {
    fn get<'a>(&'a self, key: &'a str, _: Option<Revision>) -> BoxFuture<'a, Result<GetResponse>> {
        let script = self.script.lock();
        let response = GetResponse {
            revision: Revision(script.revision),
            kv: script.pairs.get(key).cloned(),
        };
        Box::pin(async { Ok(response) })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>> {
        let script = self.script.lock();
        let kvs: Vec<KeyValue> = script
            .pairs
            .range(request.start..request.end)
            .map(|(_, kv)| kv.clone())
            .collect();
        let result = match script.refuse_lists {
            true => Err(StorageError::Unavailable("not now".to_owned())),
            false => Ok(RangeResponse {
                revision: Revision(script.revision),
                more: kvs.len() > request.limit,
                count: kvs.len(),
                kvs: kvs.into_iter().take(request.limit).collect(),
            }),
        };
        Box::pin(async { result })
    }

    fn txn(&self, _: Txn) -> BoxFuture<'_, Result<TxnResponse>> {
        Box::pin(async { Err(StorageError::Invalid("scripted".to_owned())) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream>> {
        let mut script = self.script.lock();
        let result = if request.after.0 < script.compacted {
            Err(StorageError::Compacted {
                asked: request.after,
                oldest: Revision(script.compacted),
            })
        } else {
            let (sender, mut receiver) = unbounded_channel();
            script.watch = Some(sender);
            let stream = futures::stream::poll_fn(move |cx| receiver.poll_recv(cx));
            Ok(stream.boxed() as WatchStream)
        };
        Box::pin(async { result })
    }

    fn request_progress(&self, _: &str, revision: Revision) {
        let script = self.script.lock();
        if revision.0 <= script.revision {
            script.tell(Ok(WatchBatch {
                revision: Revision(script.revision),
                events: Vec::new(),
            }));
        }
    }

    fn current_revision(&self) -> BoxFuture<'_, Result<Revision>> {
        let revision = Revision(self.script.lock().revision);
        Box::pin(async move { Ok(revision) })
    }

    fn compact(&self, _: Revision) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn grant_lease(&self, _: std::time::Duration) -> BoxFuture<'_, Result<Lease>> {
        Box::pin(async { Ok(Lease(1)) })
    }

    fn revoke_lease(&self, _: Lease) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn health(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}
