//! The embedded engine's data on disk: an LSM database (`fjall`) with two keyspaces, written in atomic, synced batches.
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | `index` | `k` key `00` revision sub | create revision, version, lease |
//! | `index` | `l` lease | time to live, expiry (Unix ms) |
//! | `index` | `m` name | current revision, compacted revision |
//! | `values` | revision sub | the value of that put |
//!
//! Numbers are big-endian. Starting reads `index` only. One commit is one journal entry with a checksum, so a crash leaves all
//! of it or nothing. After an I/O error the database takes no more writes until it is opened again ([`Disk::reopen`]); reads go
//! on meanwhile.
//!
//! Why `fjall`: 64,500 to 84,000 durable 1 kB puts a second against 17,300 to 29,000 with `redb`, half the disk, and a recovery
//! that reads at most 64 MB of journal, 190 ms, whatever the size of the data (`host/ARCHITECTURE.md` has the table).

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use parking_lot::RwLock;

use super::index::{Entry, Version};
use crate::engine::{Result, StorageError};

/// The database's own directory within the data directory.
const DATABASE: &str = "db";
const REVISION: &[u8] = b"mrevision";
const COMPACTED: &[u8] = b"mcompacted";

/// The write buffers are the engine's idle memory; small ones also keep recovery short.
const VALUES_BUFFER_BYTES: u64 = 8 << 20;
const INDEX_BUFFER_BYTES: u64 = 2 << 20;
const JOURNAL_BYTES: u64 = 64 << 20;
const CACHE_BYTES: u64 = 8 << 20;

/// A lease as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredLease {
    pub(super) id: i64,
    pub(super) ttl_ms: u64,
    pub(super) expires_ms: u64,
}

/// Everything that is read at start.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) entries: Vec<Entry>,
    pub(super) leases: Vec<StoredLease>,
    pub(super) revision: u64,
    pub(super) compacted: u64,
}

/// Changes that reach the disk together or not at all.
#[derive(Debug, Default)]
pub(super) struct WriteSet {
    index: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    values: Vec<([u8; 12], Option<Bytes>)>,
}

impl WriteSet {
    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty() && self.values.is_empty()
    }

    pub(super) fn put_entry(&mut self, key: &str, version: &Version, value: &Bytes) {
        let mut meta = Vec::with_capacity(24);
        meta.extend(version.create.to_be_bytes());
        meta.extend(version.version.to_be_bytes());
        meta.extend(version.lease.to_be_bytes());
        self.index.push((entry_key(key, version), Some(meta)));
        if !version.is_deletion() {
            self.values.push((value_key(version), Some(value.clone())));
        }
    }

    pub(super) fn remove_entry(&mut self, key: &str, version: &Version) {
        self.index.push((entry_key(key, version), None));
        if !version.is_deletion() {
            self.values.push((value_key(version), None));
        }
    }

    pub(super) fn set_revision(&mut self, revision: u64) {
        let value = revision.to_be_bytes().to_vec();
        self.index.push((REVISION.to_vec(), Some(value)));
    }

    pub(super) fn set_compacted(&mut self, revision: u64) {
        let value = revision.to_be_bytes().to_vec();
        self.index.push((COMPACTED.to_vec(), Some(value)));
    }

    pub(super) fn put_lease(&mut self, lease: &StoredLease) {
        let mut value = lease.ttl_ms.to_be_bytes().to_vec();
        value.extend(lease.expires_ms.to_be_bytes());
        self.index.push((lease_key(lease.id), Some(value)));
    }

    pub(super) fn remove_lease(&mut self, id: i64) {
        self.index.push((lease_key(id), None));
    }
}

/// The open database and its directory.
pub(super) struct Disk {
    dir: PathBuf,
    reserve_bytes: u64,
    free_space: Arc<super::FreeSpace>,
    open: RwLock<Option<Open>>,
    /// Set by a failed write until the database has been opened again.
    broken: AtomicBool,
    _lock: File,
}

struct Open {
    database: Database,
    index: Keyspace,
    values: Keyspace,
}

impl Disk {
    pub(super) fn open(options: &super::EmbeddedOptions) -> Result<(Self, Loaded)> {
        let dir = &options.dir;
        std::fs::create_dir_all(dir)
            .map_err(|e| io_error(&e, &format!("create {}", dir.display())))?;
        let lock = lock(dir)?;
        let open = open_database(dir)?;
        let loaded = open.load()?;
        let disk = Self {
            dir: dir.clone(),
            reserve_bytes: options.reserve_bytes,
            free_space: options.free_space.clone(),
            open: RwLock::new(Some(open)),
            broken: AtomicBool::new(false),
            _lock: lock,
        };
        Ok((disk, loaded))
    }

    /// Refuses writes while the disk is about to be full, before they can fail half-way.
    pub(super) fn check_space(&self) -> Result<()> {
        match (self.free_space)(&self.dir) {
            Ok(free) if free < self.reserve_bytes => Err(StorageError::NoSpace(format!(
                "{free} bytes are free for {}, and {} are kept in reserve",
                self.dir.display(),
                self.reserve_bytes
            ))),
            Ok(_) => Ok(()),
            Err(e) => Err(io_error(&e, "read the free disk space")),
        }
    }

    /// Writes a set atomically; with `durable` it is on the disk when this returns.
    pub(super) fn commit(&self, set: WriteSet, durable: bool) -> Result<()> {
        let guard = self.open.read();
        let open = guard.as_ref().ok_or_else(closed)?;
        let mode = durable.then_some(PersistMode::SyncData);
        let mut batch = open.database.batch().durability(mode);
        for (key, value) in set.index {
            match value {
                Some(value) => batch.insert(&open.index, key, value),
                None => batch.remove(&open.index, key),
            }
        }
        for (key, value) in set.values {
            match value {
                Some(value) => batch.insert(&open.values, key, &*value),
                None => batch.remove(&open.values, key),
            }
        }
        batch.commit().map_err(|error| {
            self.broken.store(true, Ordering::Release);
            database_error(&error)
        })
    }

    /// The value of a put; `None` once a compaction has removed it.
    pub(super) fn value(&self, version: &Version) -> Result<Option<Bytes>> {
        let guard = self.open.read();
        let open = guard.as_ref().ok_or_else(closed)?;
        let value = open
            .values
            .get(value_key(version))
            .map_err(|e| database_error(&e))?;
        Ok(value.map(|v| Bytes::copy_from_slice(&v)))
    }

    /// Fails while writes would.
    pub(super) fn check_writable(&self) -> Result<()> {
        match self.is_broken() {
            true => Err(StorageError::Unavailable(
                "an earlier write failed; the database is about to be opened again".to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// Whether a write failed since the database was opened.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Opens the database anew after a failed write; what the disk holds is the truth from then on.
    pub(super) fn reopen(&self) -> Result<Loaded> {
        let mut guard = self.open.write();
        *guard = None; // the database must be closed before it can be opened
        let open = open_database(&self.dir)?;
        let loaded = open.load()?;
        *guard = Some(open);
        self.broken.store(false, Ordering::Release);
        Ok(loaded)
    }

    pub(super) fn close(&self) {
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
    fn load(&self) -> Result<Loaded> {
        let mut loaded = Loaded {
            revision: 1, // etcd's first revision; zero means "not there" in comparisons
            ..Loaded::default()
        };
        for item in self.index.iter() {
            let (key, value) = item.into_inner().map_err(|e| database_error(&e))?;
            read_record(&key, &value, &mut loaded)
                .ok_or_else(|| StorageError::Corrupt(format!("unreadable record {:?}", &*key)))?;
        }
        Ok(loaded)
    }
}

/// `None` if the record is none of ours.
fn read_record(key: &[u8], value: &[u8], loaded: &mut Loaded) -> Option<()> {
    match key {
        REVISION => loaded.revision = number(value, 0)?,
        COMPACTED => loaded.compacted = number(value, 0)?,
        [b'l', id @ ..] => loaded.leases.push(StoredLease {
            id: number(id, 0)?.cast_signed(),
            ttl_ms: number(value, 0)?,
            expires_ms: number(value, 8)?,
        }),
        [b'k', rest @ ..] => {
            let (rest, sub) = rest.split_last_chunk::<4>()?;
            let (rest, revision) = rest.split_last_chunk::<8>()?;
            let key = std::str::from_utf8(rest.strip_suffix(&[0])?).ok()?;
            let version = Version {
                revision: u64::from_be_bytes(*revision),
                sub: u32::from_be_bytes(*sub),
                create: number(value, 0)?,
                version: number(value, 8)?,
                lease: number(value, 16)?.cast_signed(),
            };
            let key = match loaded.entries.last() {
                Some((last, _)) if **last == *key => last.clone(),
                _ => key.into(),
            };
            loaded.entries.push((key, version));
        }
        _ => return None,
    }
    Some(())
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_be_bytes(*bytes))
}

fn entry_key(key: &str, version: &Version) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + 14);
    bytes.push(b'k');
    bytes.extend(key.as_bytes());
    bytes.push(0);
    bytes.extend(value_key(version));
    bytes
}

fn value_key(version: &Version) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&version.revision.to_be_bytes());
    bytes[8..].copy_from_slice(&version.sub.to_be_bytes());
    bytes
}

fn lease_key(id: i64) -> Vec<u8> {
    let mut bytes = vec![b'l'];
    bytes.extend(id.to_be_bytes());
    bytes
}

/// Held as long as the engine lives, so that no two processes write the same files.
fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("LOCK");
    let file =
        File::create(&path).map_err(|e| io_error(&e, &format!("create {}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageError::Unavailable(format!(
            "the data directory {} is in use by another process; stop that process or choose another directory",
            dir.display()
        ))),
        Err(TryLockError::Error(e)) => Err(io_error(&e, &format!("lock {}", path.display()))),
    }
}

fn open_database(dir: &Path) -> Result<Open> {
    match try_open(dir) {
        Err(fjall::Error::JournalRecovery(error)) => {
            let dropped = super::torn::drop_torn_entry(&dir.join(DATABASE));
            match dropped.map_err(|e| io_error(&e, "repair the journal"))? {
                true => try_open(dir).map_err(|e| database_error(&e)),
                false => Err(database_error(&fjall::Error::JournalRecovery(error))),
            }
        }
        result => result.map_err(|e| database_error(&e)),
    }
}

fn try_open(dir: &Path) -> fjall::Result<Open> {
    let database = Database::builder(dir.join(DATABASE))
        .cache_size(CACHE_BYTES)
        .max_journaling_size(JOURNAL_BYTES)
        .worker_threads(2) // one flushes while the other compacts
        .open()?;
    let buffered = |bytes| move || KeyspaceCreateOptions::default().max_memtable_size(bytes);
    let index = database.keyspace("index", buffered(INDEX_BUFFER_BYTES))?;
    let values = database.keyspace("values", buffered(VALUES_BUFFER_BYTES))?;
    Ok(Open {
        database,
        index,
        values,
    })
}

fn closed() -> StorageError {
    StorageError::Unavailable("the database is closed".to_owned())
}

fn io_error(error: &io::Error, what: &str) -> StorageError {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => {
            StorageError::NoSpace(format!("cannot {what}: {error}"))
        }
        _ => StorageError::Unavailable(format!("cannot {what}: {error}")),
    }
}

fn database_error(error: &fjall::Error) -> StorageError {
    match error {
        fjall::Error::Io(e) => io_error(e, "write the database"),
        fjall::Error::Storage(fjall::LsmError::Io(e)) => io_error(e, "write the database"),
        fjall::Error::Poisoned => StorageError::Unavailable(
            "an earlier write failed; the database is about to be opened again".to_owned(),
        ),
        fjall::Error::Locked => {
            StorageError::Unavailable("the database is in use by another process".to_owned())
        }
        other => StorageError::Corrupt(other.to_string()),
    }
}
