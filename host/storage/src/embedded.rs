//! The embedded engine: one directory, nothing to install, one process.
//!
//! An in-memory index knows every key's revisions; values and the index itself live in an LSM database on disk. One committer
//! thread writes; everybody may read at any time.
//!
//! Invariants: the index never shows what is not durable; it is ahead of or equal to what watches have been told; only the
//! committer changes it.

mod clock;
mod committer;
mod damage;
mod disk;
mod draft;
mod index;
mod journal;
mod leases;
mod reads;
mod reclaim;
mod records;
mod salvage;
mod snapshot;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

pub use clock::{Clock, SystemClock};
use committer::{Committer, Reply, Request};
use disk::Disk;
use index::Index;
use leases::Leases;
use parking_lot::RwLock;
pub(crate) use snapshot::NewDirectory;
pub use snapshot::restore;
use tokio::sync::oneshot;

use crate::{
    engine::{
        BoxFuture, GetResponse, Lease, RangeRequest, RangeResponse, Result, Revision,
        SnapshotStream, Storage, StorageError, Txn, TxnResponse, WatchRequest, WatchStream,
    },
    hub::Hub,
};

/// Reads the free bytes of the file system that holds a path.
pub type FreeSpace = dyn Fn(&Path) -> io::Result<u64> + Send + Sync;

/// How the embedded engine runs.
#[derive(Clone)]
pub struct EmbeddedOptions {
    /// Created if it does not exist. One process at a time.
    pub dir: PathBuf,
    /// How long old revisions can be read and watched from.
    pub history: Duration,
    /// At most about so many changes are kept, however young they are; bounds memory.
    pub history_events: usize,
    /// At most about so many bytes of changes are kept; bounds the disk.
    pub history_bytes: u64,
    /// So many bytes besides twice of what is kept may lie on the disk, and the journals, which are at most 128 MB.
    pub slack_bytes: u64,
    /// Writes are refused with `NoSpace` while less is free, so that none fails half-way.
    pub reserve_bytes: u64,
    /// Changes nothing in `dir` and takes no writes; reads what can be read, damaged or not.
    pub read_only: bool,
    pub clock: Arc<dyn Clock>,
    pub free_space: Arc<FreeSpace>,
}

impl EmbeddedOptions {
    /// The defaults in a directory: five minutes of history, 200,000 changes and 256 MiB at most, 32 MiB slack, 64 MiB reserve.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            history: Duration::from_secs(300),
            history_events: 200_000,
            history_bytes: 256 << 20,
            slack_bytes: 32 << 20,
            reserve_bytes: 64 << 20,
            read_only: false,
            clock: Arc::new(SystemClock::default()),
            free_space: Arc::new(free_space),
        }
    }
}

fn free_space(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// What the committer and the readers share.
struct Shared {
    options: EmbeddedOptions,
    index: RwLock<Index>,
    disk: Disk,
    hub: Arc<Hub>,
}

impl Shared {
    fn now_ms(&self) -> u64 {
        self.options.clock.now_ms()
    }
}

/// The embedded engine. Dropping it ends its watches and closes the files.
pub struct Embedded {
    shared: Arc<Shared>,
    requests: Option<Sender<Request>>,
    committer: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Opens or creates the data directory. Fails at once with `Unavailable` if another process has it open, and with `Corrupt`
    /// if it is damaged beyond the unfinished write of a crash: then a start with `read_only` shows what can still be read.
    pub fn open(options: EmbeddedOptions) -> Result<Self> {
        let (disk, loaded) = Disk::open(&options)?;
        let (index, garbage) = Index::load(loaded.entries, loaded.revision, loaded.compacted);
        if let Some(revision) = index.missing_revision() {
            return Err(disk.incomplete(Revision(revision)));
        }
        let now_ms = options.clock.now_ms();
        let leased = index.leased();
        let leases = Leases::load(&loaded.leases, loaded.last_lease, leased, now_ms);
        let hub = Arc::new(Hub::new(Revision(index.revision())));
        let shared = Arc::new(Shared {
            options,
            index: RwLock::new(index),
            disk,
            hub,
        });
        let (requests, queue) = mpsc::channel();
        let committer = Committer::new(shared.clone(), queue, leases, garbage);
        let thread = std::thread::Builder::new().name("storage-commit".to_owned());
        let committer = thread
            .spawn(move || committer.run())
            .map_err(|e| StorageError::Unavailable(format!("cannot start a thread: {e}")))?;
        Ok(Self {
            shared,
            requests: Some(requests),
            committer: Some(committer),
        })
    }

    /// Does now what the clock asks for: ends leases, compacts the history. Time-driven upkeep calls it every second by itself.
    pub async fn tick(&self) -> Result<()> {
        self.ask(Request::Tick).await
    }

    /// Frees the disk of what is not kept any more, if it is worth it, and returns when that is done. The engine does so by itself
    /// in the background.
    pub async fn reclaim(&self) -> Result<()> {
        let shared = self.shared.clone();
        let reclaimed = tokio::task::spawn_blocking(move || shared.reclaim()).await;
        reclaimed.unwrap_or_else(|e| Err(StorageError::Unavailable(e.to_string())))
    }

    /// Bytes on disk.
    pub fn disk_bytes(&self) -> Result<u64> {
        self.shared.disk.size()
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.as_ref().map(|r| r.send(request(reply)));
        match sent {
            Some(Ok(())) => answer.await.unwrap_or_else(|_| Err(closing())),
            _ => Err(closing()),
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(committer) = self.committer.take()
            && committer.join().is_err()
        {
            tracing::error!("storage: the committer panicked");
        }
        self.shared.hub.close(&closing());
        self.shared.disk.close();
    }
}

impl Storage for Embedded {
    fn get<'a>(&'a self, key: &'a str, at: Option<Revision>) -> BoxFuture<'a, Result<GetResponse>> {
        Box::pin(async move { self.shared.get(key, at) })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>> {
        Box::pin(self.shared.clone().range(request))
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse>> {
        Box::pin(self.ask(|reply| Request::Txn(txn, reply)))
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream>> {
        Box::pin(async move {
            self.shared.check_kept(request.after)?;
            Ok(self.shared.hub.watch(self.shared.clone(), request))
        })
    }

    fn request_progress(&self, prefix: &str, revision: Revision) {
        self.shared.hub.request_progress(prefix, revision);
    }

    fn current_revision(&self) -> BoxFuture<'_, Result<Revision>> {
        Box::pin(async move { Ok(Revision(self.shared.index.read().revision())) })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.ask(move |reply| Request::Compact(revision, reply)))
    }

    fn grant_lease(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease>> {
        Box::pin(self.ask(move |reply| Request::Grant(ttl, reply)))
    }

    fn revoke_lease(&self, lease: Lease) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.ask(move |reply| Request::Revoke(lease, reply)))
    }

    fn lease_left(&self, lease: Lease) -> BoxFuture<'_, Result<Option<Duration>>> {
        Box::pin(async move { snapshot::lease_left(&self.shared, lease.0) })
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<SnapshotStream>> {
        Box::pin(async { snapshot::take(self.shared.clone()) })
    }

    fn health(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.shared.disk.check_writable()?;
            self.shared.disk.check_space()
        })
    }
}

fn closing() -> StorageError {
    StorageError::Unavailable("the engine is closing".to_owned())
}
