//! Writers and watchers whose histories are compared with what storage holds in the end, whatever happens to it meanwhile.
//!
//! Every value that is written is a token of its own. A write that was acknowledged must be in the history at the revision that
//! was told; one that was refused must not be there; one whose outcome is unknown at most once. A watcher must see each change
//! once and in order, or be told that it cannot.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use pilothouse_storage::{
    EventKind, Lease, RangeRequest, Revision, Storage, StorageError, Txn, WatchRequest,
};
use tokio::{sync::Notify, task::JoinSet};

use crate::harness::{PATIENCE, text};

const PREFIX: &str = "/registry/history/";
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What a writer was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Written(Revision),
    Refused,
    Unknown,
}

/// One change as a watcher saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    revision: Revision,
    key: String,
    /// `None`: deleted.
    token: Option<String>,
}

/// Everybody's notes.
#[derive(Default)]
struct Notes {
    told: Mutex<HashMap<String, Told>>,
    written: AtomicUsize,
    failed: AtomicUsize,
    moved: Notify,
    stopping: AtomicBool,
}

/// How far a watcher has come.
type Reached = tokio::sync::watch::Receiver<Revision>;

/// Writers and watchers at work.
pub(crate) struct History {
    notes: Arc<Notes>,
    writers: JoinSet<()>,
    watchers: JoinSet<Vec<Seen>>,
    reached: Vec<Reached>,
    storages: Vec<Arc<dyn Storage>>,
    stop_watching: Arc<tokio::sync::watch::Sender<Option<Revision>>>,
    start: Revision,
}

impl History {
    /// On each storage some writers and a watcher.
    pub(crate) async fn start(storages: &[Arc<dyn Storage>]) -> Self {
        let start = storages[0].current_revision().await.expect("revision");
        let notes = Arc::new(Notes::default());
        let stop_watching = Arc::new(tokio::sync::watch::Sender::new(None));
        let (mut writers, mut watchers) = (JoinSet::new(), JoinSet::new());
        let mut reached = Vec::new();
        for (at, storage) in storages.iter().enumerate() {
            for writer in 0..3 {
                let name = format!("{at}-{writer}");
                writers.spawn(write(storage.clone(), name, notes.clone()));
            }
            let progress = tokio::sync::watch::Sender::new(start);
            reached.push(progress.subscribe());
            let until = stop_watching.subscribe();
            watchers.spawn(watch(storage.clone(), progress, until));
        }
        Self {
            notes,
            writers,
            watchers,
            reached,
            storages: storages.to_vec(),
            stop_watching,
            start,
        }
    }

    /// Waits until so many more writes have been acknowledged.
    pub(crate) async fn writes(&self, more: usize) {
        self.reaches(&self.notes.written, more, "acknowledged")
            .await;
    }

    /// Waits until so many more writes have failed.
    pub(crate) async fn failures(&self, more: usize) {
        self.reaches(&self.notes.failed, more, "failed").await;
    }

    /// Waits until every watcher has seen what happened up to a revision.
    pub(crate) async fn watched(&self, revision: Revision) {
        for reached in &self.reached {
            let mut reached = reached.clone();
            let reached = reached.wait_for(|reached| *reached >= revision);
            let reached = tokio::time::timeout(PATIENCE, reached).await;
            reached.expect("a watch hangs").expect("a watcher");
        }
    }

    async fn reaches(&self, counter: &AtomicUsize, more: usize, what: &str) {
        let goal = counter.load(Ordering::Acquire) + more;
        let reached = async {
            loop {
                let moved = self.notes.moved.notified();
                if counter.load(Ordering::Acquire) >= goal {
                    return;
                }
                moved.await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        reached.unwrap_or_else(|_| panic!("no {more} more writes were {what}"));
    }

    /// Ends the work and compares everybody's notes.
    pub(crate) async fn check(mut self) {
        self.notes.stopping.store(true, Ordering::Release);
        while let Some(ended) = self.writers.join_next().await {
            ended.expect("a writer");
        }
        let storage = &self.storages[0];
        let everything = storage.range(RangeRequest::prefix(PREFIX));
        let everything = everything.await.expect("range");
        self.stop_watching.send_replace(Some(everything.revision));
        for storage in &self.storages {
            storage.request_progress(PREFIX, everything.revision);
        }
        let mut histories = Vec::new();
        while let Some(history) = self.watchers.join_next().await {
            histories.push(history.expect("a watcher"));
        }
        for history in &histories[1..] {
            assert_eq!(history, &histories[0], "watchers of several servers differ");
        }
        let seen = &histories[0];
        check_order(seen, self.start);
        check_told(seen, &self.notes.told.lock());

        let mut state: HashMap<&str, &str> = HashMap::new();
        for change in seen {
            match &change.token {
                Some(token) => state.insert(&change.key, token),
                None => state.remove(&*change.key),
            };
        }
        let stored: HashMap<&str, String> = everything
            .kvs
            .iter()
            .map(|kv| (&*kv.key, text(&kv.value)))
            .collect();
        assert_eq!(stored.len(), state.len());
        for (key, token) in state {
            assert_eq!(stored.get(key).map(String::as_str), Some(token), "{key}");
        }
    }
}

/// Revisions rise, and each change of a key is shown once.
fn check_order(seen: &[Seen], start: Revision) {
    let mut last = start;
    for change in seen {
        assert!(change.revision > last, "{change:?} after {last}");
        last = change.revision;
    }
}

fn check_told(seen: &[Seen], told: &HashMap<String, Told>) {
    let mut unseen: HashSet<&str> = told.keys().map(String::as_str).collect();
    for change in seen {
        let Some(token) = &change.token else {
            continue;
        };
        assert!(unseen.remove(token.as_str()), "{token} was written twice");
        match told[token] {
            Told::Written(revision) => assert_eq!(revision, change.revision, "{token}"),
            Told::Refused => panic!("{token} was refused and yet written"),
            Told::Unknown => {}
        }
    }
    for token in unseen {
        let told = told[token];
        assert!(!matches!(told, Told::Written(_)), "{token} was lost");
    }
}

/// Creates keys of its own, deletes some, and takes part in changing one that all share.
async fn write(storage: Arc<dyn Storage>, name: String, notes: Arc<Notes>) {
    let shared = format!("{PREFIX}shared");
    let mut known = Revision(0);
    for n in 0.. {
        if notes.stopping.load(Ordering::Acquire) {
            return;
        }
        let token = format!("{name}-{n}");
        let (key, expected) = match n % 3 {
            0 => (shared.clone(), known),
            _ => (format!("{PREFIX}{token}"), Revision(0)),
        };
        let value = Bytes::from(token.clone());
        let put = storage.txn(Txn::put_if(&key, expected, value, Lease::default()));
        let told = match put.await {
            Ok(response) if response.succeeded => {
                if key == shared {
                    known = response.revision;
                }
                Told::Written(response.revision)
            }
            Ok(response) => {
                assert_eq!(key, shared, "nobody else makes {token}");
                let found = response.gets.into_iter().flatten().next();
                known = found.map_or(Revision(0), |kv| kv.mod_revision);
                Told::Refused
            }
            Err(StorageError::OutcomeUnknown(_)) => Told::Unknown,
            Err(StorageError::Unavailable(_)) => Told::Refused,
            Err(error) => panic!("{error}"),
        };
        notes.told.lock().insert(token, told);
        match told {
            Told::Written(revision) => {
                notes.written.fetch_add(1, Ordering::AcqRel);
                if n % 3 == 1 {
                    // whether it takes place is seen by the watchers; it may do so once at most
                    let deleted = storage.txn(Txn::delete_if(&key, revision)).await;
                    drop(deleted);
                }
            }
            _ if key == shared && known.0 > 0 => {}
            _ => {
                notes.failed.fetch_add(1, Ordering::AcqRel);
            }
        }
        notes.moved.notify_waiters();
    }
}

/// Notes every change until the last revision; goes on from where it was when its watch ends.
async fn watch(
    storage: Arc<dyn Storage>,
    progress: tokio::sync::watch::Sender<Revision>,
    mut until: tokio::sync::watch::Receiver<Option<Revision>>,
) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut reached = *progress.borrow();
    loop {
        let request = WatchRequest::new(PREFIX, reached);
        let Ok(mut batches) = storage.watch(request).await else {
            tokio::time::sleep(Duration::from_millis(20)).await; // etcd is down
            continue;
        };
        loop {
            let last = *until.borrow_and_update();
            if last.is_some_and(|last| reached >= last) {
                return seen;
            }
            if let Some(last) = last {
                storage.request_progress(PREFIX, last);
            }
            let batch = tokio::select! {
                batch = batches.next() => batch,
                _ = until.changed() => continue,
                // who waits for progress asks again, since it is not asked for on his behalf for ever
                () = tokio::time::sleep(ASK_AGAIN), if last.is_some() => continue,
            };
            let batch = match batch {
                Some(Ok(batch)) => batch,
                Some(Err(StorageError::Unavailable(_))) | None => break,
                Some(Err(error)) => panic!("{error}"),
            };
            reached = batch.revision;
            progress.send_replace(reached);
            seen.extend(batch.events.into_iter().map(|event| Seen {
                revision: event.kv.mod_revision,
                key: event.kv.key.to_string(),
                token: match event.kind {
                    EventKind::Put => Some(text(&event.kv.value)),
                    EventKind::Delete => None,
                },
            }));
        }
    }
}
