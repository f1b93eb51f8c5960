//! The embedded engine's data on disk: an LSM database (`fjall`) with two keyspaces, written in atomic, synced batches.
//! `records.rs` says what is in them.
//!
//! Starting reads the keyspace `index` only. One commit is one journal entry with a checksum, so a crash leaves all of it or
//! nothing, and it is synced before the next is written.
//!
//! ```text
//!            a write fails                      the disk works again, and the tables are whole
//! serving ───────────────────► broken ──────────────────────────────────────────────────────► serving
//!    │                            │ the tables are damaged
//!    └─ damage is found ──────────┴──────────────────────────────────────────────────────────► read-only
//! ```
//!
//! In every state reads go on. What a failed write left on disk is found out by opening the database again ([`Disk::reopen`]),
//! which is not tried before the disk takes a write.
//!
//! Why `fjall`: 64,500 to 84,000 durable 1 kB puts a second against 17,300 to 29,000 with `redb`, half the disk, and a recovery
//! that reads at most 64 MB of journal, 190 ms, whatever the size of the data (`host/ARCHITECTURE.md` has the table).

use std::{
    collections::HashMap,
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use fjall::{
    AbstractTree, Database, DatabaseBuilder, Keyspace, KeyspaceCreateOptions, PersistMode,
};
use parking_lot::{Mutex, RwLock};

use super::{
    damage::{self, Damage},
    index::Version,
    journal,
    reclaim::Reclaimer,
    records::{Loaded, WriteSet, read_record, value_key},
    salvage::Salvage,
};
use crate::engine::{Result, Revision, StorageError};

/// The database's own directory within the data directory.
const DATABASE: &str = "db";
/// Made beside it once the database is whole.
const MADE: &str = "MADE";
/// What a disk has to take before a database that failed is opened again.
const PROBE_BYTES: usize = 256 << 10;

/// The write buffers are the engine's idle memory; small ones also keep recovery short.
const VALUES_BUFFER_BYTES: u64 = 8 << 20;
const INDEX_BUFFER_BYTES: u64 = 2 << 20;
const JOURNAL_BYTES: u64 = 64 << 20;
const CACHE_BYTES: u64 = 8 << 20;
/// Threads that write tables and compact them. With more than one, the first waits in a busy loop while another compacts (it
/// takes the request and puts it back): 11,000 to 25,000 durable puts of 2 kB a second by 64 writers on 2 cores, 40,000 with one.
const WORKERS: usize = 1;
/// `fjall` stops a writer at 4 full buffers or 30 tables, and for good if the thread that would write them has ended.
const MOST_BUFFERS: usize = 2;
const MOST_TABLES: usize = 20;

/// The open database and its directory.
pub(super) struct Disk {
    dir: PathBuf,
    reserve_bytes: u64,
    free_space: Arc<super::FreeSpace>,
    open: RwLock<Option<Open>>,
    state: Arc<Mutex<State>>,
    reclaimer: Reclaimer,
    _lock: Option<Lock>,
}

/// Held as long as the engine lives, so that no two processes write the same files. Given back by name: a process that is being
/// started at that moment has the file open too.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "storage: the data directory could not be unlocked");
        }
    }
}

/// Whether writes are taken.
enum State {
    Serving,
    /// A write failed. Holds what the last attempt to go on failed with, and whether a thread of the database ended, whose reason is
    /// not known.
    Broken(StorageError, bool),
    /// Until the next start.
    ReadOnly(StorageError),
}

pub(super) struct Open {
    pub(super) database: Database,
    pub(super) index: Keyspace,
    pub(super) values: Keyspace,
    /// Of the snapshots that are being taken.
    pub(super) snapshots: Mutex<Snapshots>,
    /// What is removed once the database is closed.
    _copy: Option<Salvage>,
}

/// The database's snapshots that are held.
#[derive(Default)]
pub(super) struct Snapshots {
    open: HashMap<u64, fjall::Snapshot>,
    last: u64,
}

impl Snapshots {
    /// A snapshot and its number, which no other has, also of the database when it was or will be open another time.
    pub(super) fn begin(&mut self, database: &Database) -> (u64, fjall::Snapshot) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        self.last = NEXT.fetch_add(1, Ordering::Relaxed);
        let snapshot = database.snapshot();
        self.open.insert(self.last, snapshot.clone());
        (self.last, snapshot)
    }

    pub(super) fn get(&self, id: u64) -> Option<&fjall::Snapshot> {
        self.open.get(&id)
    }

    pub(super) fn end(&mut self, id: u64) {
        self.open.remove(&id);
    }

    /// The number of the last one, unless one is open.
    pub(super) fn last_if_none_is_open(&self) -> Option<u64> {
        self.open.is_empty().then_some(self.last)
    }
}

impl Disk {
    pub(super) fn open(options: &super::EmbeddedOptions) -> Result<(Self, Loaded)> {
        let dir = &options.dir;
        let path = dir.join(DATABASE);
        let reclaimer = Reclaimer::default();
        let (lock, open, loaded, state) = if options.read_only {
            let lock = lock_if_there(dir)?;
            let (open, loaded) = super::salvage::open(&path)?;
            let why = "it was started with --storage-read-only; start it again without that to write, and restore a snapshot \
                       into a new data directory first if this one is damaged";
            let why = StorageError::ReadOnly(why.to_owned());
            (lock, open, loaded, State::ReadOnly(why))
        } else {
            fs::create_dir_all(dir)
                .map_err(|e| io_error(&e, &format!("create {}", dir.display())))?;
            let lock = lock(dir)?;
            let (open, loaded) = open_checked(&path, &reclaimer)?;
            (Some(lock), open, loaded, State::Serving)
        };
        let disk = Self {
            dir: dir.clone(),
            reserve_bytes: options.reserve_bytes,
            free_space: options.free_space.clone(),
            open: RwLock::new(Some(open)),
            state: Arc::new(Mutex::new(state)),
            reclaimer,
            _lock: lock,
        };
        Ok((disk, loaded))
    }

    /// Refuses writes while the disk is about to be full, before they can fail half-way.
    pub(super) fn check_space(&self) -> Result<()> {
        self.check_room(0)
    }

    /// The same for what takes so many bytes more.
    pub(super) fn check_room(&self, bytes: u64) -> Result<()> {
        match (self.free_space)(&self.dir) {
            Ok(free) if free < self.reserve_bytes.saturating_add(bytes) => {
                Err(StorageError::NoSpace(format!(
                    "{free} bytes are free for {}, and {} are kept in reserve",
                    self.dir.display(),
                    self.reserve_bytes
                )))
            }
            Ok(_) => Ok(()),
            Err(e) => Err(io_error(&e, "read the free disk space")),
        }
    }

    /// Writes a set atomically; it is on the disk when this returns.
    pub(super) fn commit(&self, set: WriteSet) -> Result<()> {
        let guard = self.open.read();
        let open = guard.as_ref().ok_or_else(closed)?;
        let ended = |error: &fjall::Error| matches!(error, fjall::Error::Poisoned);
        open.make_room(self.reclaimer.is_merging())
            .map_err(|error| self.broke(database_error(&error), ended(&error)))?;
        open.commit(set).map_err(|error| {
            let why = self.broke(database_error(&error), ended(&error));
            match why {
                // The bytes may have reached the disk; what the disk holds is found out later.
                StorageError::Unavailable(why) if !ended(&error) => {
                    StorageError::OutcomeUnknown(why)
                }
                other => other,
            }
        })
    }

    fn broke(&self, error: StorageError, ended: bool) -> StorageError {
        let mut state = self.state.lock();
        match &mut *state {
            State::Serving => *state = State::Broken(error.clone(), ended),
            State::Broken(last, _) => *last = error.clone(),
            State::ReadOnly(_) => {}
        }
        error
    }

    /// Looks into the open database, which stays open meanwhile.
    pub(super) fn with<T>(&self, look: impl FnOnce(&Open) -> Result<T>) -> Result<T> {
        look(self.open.read().as_ref().ok_or_else(closed)?)
    }

    /// The value of a put; `None` once a compaction has removed it.
    pub(super) fn value(&self, version: &Version) -> Result<Option<Bytes>> {
        let guard = self.open.read();
        let open = guard.as_ref().ok_or_else(closed)?;
        let value = open.value(version).inspect_err(|error| {
            if matches!(error, StorageError::Corrupt(_)) {
                self.found_damage(error);
            }
        })?;
        Ok(value)
    }

    /// Ends writes at once, and finds out meanwhile which files are damaged.
    pub(super) fn found_damage(&self, error: &StorageError) {
        let mut state = self.state.lock();
        if matches!(*state, State::ReadOnly(_)) {
            return;
        }
        *state = State::ReadOnly(StorageError::ReadOnly(error.to_string()));
        drop(state);
        let (state, path, error) = (self.state.clone(), self.path(), error.clone());
        std::thread::spawn(move || {
            let damages = damage::read_tables(&path).unwrap_or_default();
            become_read_only(&state, &path, &damages, &error);
        });
    }

    pub(super) fn reclaimer(&self) -> &Reclaimer {
        &self.reclaimer
    }

    fn path(&self) -> PathBuf {
        self.dir.join(DATABASE)
    }

    /// The error for an index that lacks a revision.
    pub(super) fn incomplete(&self, revision: Revision) -> StorageError {
        let what = format!(
            "the changes of revision {revision} are missing; a journal may have been removed"
        );
        damage::refusal(&[Damage::new(&self.path(), what)])
    }

    /// Fails while writes would.
    pub(super) fn check_writable(&self) -> Result<()> {
        match &*self.state.lock() {
            State::Serving => Ok(()),
            State::Broken(error, _) | State::ReadOnly(error) => Err(error.clone()),
        }
    }

    /// Whether a write failed since the database was opened, so that it has to be opened again.
    pub(super) fn is_broken(&self) -> bool {
        matches!(*self.state.lock(), State::Broken(..))
    }

    /// Whether nothing will be written until the next start.
    pub(super) fn is_read_only(&self) -> bool {
        matches!(*self.state.lock(), State::ReadOnly(_))
    }

    /// Opens the database anew after a failed write; what the disk holds is the truth from then on. Until the disk takes a write,
    /// the old one is kept for reads.
    pub(super) fn reopen(&self) -> Result<Loaded> {
        let path = self.path();
        let failed = |what| move |e: io::Error| self.broke(io_error(&e, what), false);
        self.probe().map_err(failed("write to the disk"))?;
        if matches!(*self.state.lock(), State::Broken(_, true)) {
            let damages = damage::read_tables(&path).map_err(failed("read the tables"))?;
            if !damages.is_empty() {
                let error = damage::refusal(&damages);
                return Err(become_read_only(&self.state, &path, &damages, &error));
            }
        }
        self.reclaimer.stop();
        let mut guard = self.open.write();
        *guard = None; // the database must be closed before it can be opened
        self.reclaimer.go_on();
        let rewritten = journal::rewrite_newest(&path).and_then(|()| sync_folders(&path));
        rewritten.map_err(failed("write the journal anew"))?;
        let opened = open_checked(&path, &self.reclaimer);
        let (open, loaded) = opened.map_err(|e| self.broke(e, false))?;
        *guard = Some(open);
        *self.state.lock() = State::Serving;
        Ok(loaded)
    }

    /// Whether the disk takes and keeps bytes.
    fn probe(&self) -> io::Result<()> {
        let path = self.dir.join("probe");
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(&[0x55; PROBE_BYTES])?;
            file.sync_all()
        });
        let removed = fs::remove_file(&path);
        written.and(removed)
    }

    pub(super) fn close(&self) {
        self.reclaimer.stop();
        *self.open.write() = None;
    }

    /// Bytes on disk.
    pub(super) fn size(&self) -> Result<u64> {
        let guard = self.open.read();
        let open = guard.as_ref().ok_or_else(closed)?;
        open.database.disk_space().map_err(|e| database_error(&e))
    }
}

impl Open {
    /// A copy that nothing is written to.
    pub(super) fn copy(path: &Path, copy: Salvage) -> fjall::Result<Self> {
        Self::from(Self::builder(path).worker_threads_unchecked(0), Some(copy))
    }

    /// Opens a database, or makes it.
    fn at(path: &Path, reclaimer: &Reclaimer) -> fjall::Result<Self> {
        let filters: HashMap<&str, _> = ["index", "values"]
            .map(|keyspace| (keyspace, reclaimer.filter(keyspace)))
            .into();
        let builder = Self::builder(path)
            .worker_threads_unchecked(WORKERS)
            .with_compaction_filter_factories(Arc::new(move |keyspace| {
                filters.get(keyspace).cloned()
            }));
        Self::from(builder, None)
    }

    fn builder(path: &Path) -> DatabaseBuilder<Database> {
        Database::builder(path)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES)
    }

    fn from(builder: DatabaseBuilder<Database>, copy: Option<Salvage>) -> fjall::Result<Self> {
        let database = builder.open()?;
        let buffered = |bytes| move || KeyspaceCreateOptions::default().max_memtable_size(bytes);
        let index = database.keyspace("index", buffered(INDEX_BUFFER_BYTES))?;
        let values = database.keyspace("values", buffered(VALUES_BUFFER_BYTES))?;
        Ok(Self {
            database,
            index,
            values,
            snapshots: Mutex::default(),
            _copy: copy,
        })
    }

    /// Reads the index whole.
    fn load(&self) -> Result<Loaded> {
        let mut loaded = Loaded::default();
        for item in self.index.iter() {
            let (key, value) = item.into_inner().map_err(|e| database_error(&e))?;
            read_record(&key, &value, &mut loaded)
                .ok_or_else(|| StorageError::Corrupt(format!("unreadable record {:?}", &*key)))?;
        }
        Ok(loaded)
    }

    pub(super) fn value(&self, version: &Version) -> Result<Option<Bytes>> {
        let value = self.values.get(value_key(version));
        let value = value.map_err(|e| database_error(&e))?;
        Ok(value.map(|v| Bytes::copy_from_slice(&v)))
    }

    /// Waits until buffers have been written; fails once nobody will. While tables are written anew, which the database's thread
    /// may have to wait for, it is done here.
    fn make_room(&self, by_hand: bool) -> fjall::Result<()> {
        if by_hand {
            self.flush(&self.index, INDEX_BUFFER_BYTES)?;
            self.flush(&self.values, VALUES_BUFFER_BYTES)?;
        }
        let full = |keyspace: &Keyspace| {
            keyspace.sealed_memtable_count() >= MOST_BUFFERS
                || keyspace.l0_table_count() >= MOST_TABLES
        };
        while full(&self.index) || full(&self.values) {
            self.database.persist(PersistMode::Buffer)?; // an error if a thread of the database failed
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Writes the buffers that are full, or have been set aside, as tables.
    fn flush(&self, keyspace: &Keyspace, buffer_bytes: u64) -> fjall::Result<()> {
        if keyspace.tree.active_memtable().size() > buffer_bytes {
            keyspace.rotate_memtable()?;
        }
        if keyspace.sealed_memtable_count() > 0 {
            let lock = keyspace.tree.get_flush_lock();
            keyspace.tree.flush(&lock, 0)?;
        }
        Ok(())
    }

    fn commit(&self, set: WriteSet) -> fjall::Result<()> {
        let mut batch = self
            .database
            .batch()
            .durability(Some(PersistMode::SyncData));
        for (key, value) in set.index {
            match value {
                Some(value) => batch.insert(&self.index, key, value),
                None => batch.remove(&self.index, key),
            }
        }
        for (key, value) in set.values {
            batch.insert(&self.values, key, &*value);
        }
        batch.commit()
    }
}

/// Opens a database after what a crash left has been removed. If something is damaged nothing is changed.
fn open_checked(path: &Path, reclaimer: &Reclaimer) -> Result<(Open, Loaded)> {
    let made = path.with_file_name(MADE);
    let recovered = made
        .try_exists()
        .and_then(|made| damage::recover(path, made));
    let damages = recovered.map_err(|e| io_error(&e, "read the data directory"))?;
    if !damages.is_empty() {
        return Err(damage::refusal(&damages));
    }
    let opened = open_whole(path, reclaimer)?;
    mark_as_made(&made).map_err(|e| io_error(&e, &format!("create {}", made.display())))?;
    Ok(opened)
}

/// From now on an empty database is damage.
fn mark_as_made(made: &Path) -> io::Result<()> {
    if made.try_exists()? {
        return Ok(());
    }
    File::create(made)?.sync_all()?;
    File::open(made.parent().unwrap_or(Path::new(".")))?.sync_all()
}

fn open_whole(path: &Path, reclaimer: &Reclaimer) -> Result<(Open, Loaded)> {
    let opened = Open::at(path, reclaimer).map_err(|e| database_error(&e));
    let loaded = opened.and_then(|open| open.load().map(|loaded| (open, loaded)));
    loaded.map_err(|error| match error {
        StorageError::Corrupt(_) => match damage::read_tables(path) {
            Ok(damages) if !damages.is_empty() => damage::refusal(&damages),
            _ => damage::refusal(&[Damage::new(path, error.to_string())]),
        },
        other => other,
    })
}

/// Ends writes until the next start.
fn become_read_only(
    state: &Mutex<State>,
    database: &Path,
    damages: &[Damage],
    error: &StorageError,
) -> StorageError {
    let error = match damages {
        [] => damage::refusal(&[Damage::new(database, error.to_string())]),
        damages => damage::refusal(damages),
    };
    tracing::error!(%error, "storage: damage was found; no more writes are taken, reads go on");
    let error = StorageError::ReadOnly(error.to_string());
    *state.lock() = State::ReadOnly(error.clone());
    error
}

/// After a failed sync of a folder it is not known which of its files a power failure would keep.
fn sync_folders(database: &Path) -> io::Result<()> {
    let sync = |path: &Path| File::open(path)?.sync_all();
    for tree in fs::read_dir(database.join("keyspaces"))? {
        let tree = tree?.path();
        for part in [tree.join("tables"), tree.join("current"), tree] {
            if part.try_exists()? {
                sync(&part)?;
            }
        }
    }
    sync(database)
}

fn lock(dir: &Path) -> Result<Lock> {
    let path = dir.join("LOCK");
    let file =
        File::create(&path).map_err(|e| io_error(&e, &format!("create {}", path.display())))?;
    take_lock(file, dir)
}

/// The same without changing anything.
fn lock_if_there(dir: &Path) -> Result<Option<Lock>> {
    match File::open(dir.join("LOCK")) {
        Ok(file) => take_lock(file, dir).map(Some),
        Err(_) => Ok(None),
    }
}

fn take_lock(file: File, dir: &Path) -> Result<Lock> {
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => Err(StorageError::Unavailable(format!(
            "the data directory {} is in use by another process; stop that process or choose another directory",
            dir.display()
        ))),
        Err(TryLockError::Error(e)) => Err(io_error(&e, &format!("lock {}", dir.display()))),
    }
}

fn closed() -> StorageError {
    StorageError::Unavailable("the database is being opened again".to_owned())
}

pub(super) fn io_error(error: &io::Error, what: &str) -> StorageError {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => {
            StorageError::NoSpace(format!("cannot {what}: {error}"))
        }
        _ => StorageError::Unavailable(format!("cannot {what}: {error}")),
    }
}

pub(super) fn database_error(error: &fjall::Error) -> StorageError {
    match error {
        fjall::Error::Io(e) | fjall::Error::Storage(fjall::LsmError::Io(e))
            if e.kind() == io::ErrorKind::UnexpectedEof =>
        {
            StorageError::Corrupt(format!("a file is too short: {e}"))
        }
        fjall::Error::Io(e) | fjall::Error::Storage(fjall::LsmError::Io(e)) => {
            io_error(e, "access the database")
        }
        fjall::Error::Poisoned => StorageError::Unavailable(
            "an earlier write failed; the database is about to be opened again".to_owned(),
        ),
        fjall::Error::Locked => {
            StorageError::Unavailable("the database is in use by another process".to_owned())
        }
        other => StorageError::Corrupt(other.to_string()),
    }
}
