//! Snapshots of the embedded engine: taken from the database's own snapshot, so that nobody waits; restored into a new
//! directory.
//!
//! The database's snapshot lies with the open database and goes with it: after a failed write the database can be opened again
//! at once, and a snapshot that was being taken ends with an error.

use std::{
    fs,
    io::BufReader,
    ops::Bound,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use fjall::Readable;

use super::{
    EmbeddedOptions, Shared,
    disk::{self, Disk, Open},
    index::{Entry, Version},
    records::{self, Loaded, StoredLease, WriteSet},
};
use crate::{
    engine::{Result, Revision, SnapshotStream, StorageError},
    snapshot::{
        self, SnapshotKind, SnapshotStatus,
        format::{KeyRecord, LeaseRecord, Reader, Record, Writer},
    },
};

/// A part of the stream is about so long.
const PART_BYTES: usize = 1 << 20;
/// Written into a new directory with one sync.
const COMMIT_BYTES: usize = 8 << 20;
/// Records of the index looked at for one part, so that it ends also where nothing lives.
const PART_RECORDS: usize = 16_384;

/// A snapshot that is being taken.
struct Taking {
    shared: Arc<Shared>,
    id: u64,
    /// Where in the index to go on.
    next: Option<Bound<Vec<u8>>>,
    /// The last version of a key that may have more.
    last: Option<Entry>,
    writer: Option<Writer>,
}

/// The bytes of a snapshot of this moment.
pub(super) fn take(shared: Arc<Shared>) -> Result<SnapshotStream> {
    let (id, revision) = shared.disk.with(|open| {
        let (id, view) = open.snapshots.lock().begin(&open.database);
        let revision = view.get(&open.index, records::REVISION);
        let revision = revision.map_err(|error| disk::database_error(&error))?;
        let revision = revision.and_then(|value| records::number(&value, 0));
        Ok((id, revision.unwrap_or(1)))
    })?;
    let taking = Taking {
        writer: Some(Writer::new(revision, shared.now_ms())),
        shared,
        id,
        next: Some(Bound::Unbounded),
        last: None,
    };
    Ok(Box::pin(futures::stream::try_unfold(
        taking,
        |mut taking| async move {
            let part = tokio::task::spawn_blocking(move || (taking.part(), taking));
            let (part, taking) = part
                .await
                .map_err(|error| StorageError::Unavailable(error.to_string()))?;
            Ok(part?.map(|part| (part, taking)))
        },
    )))
}

impl Taking {
    /// The next part of the file.
    fn part(&mut self) -> Result<Option<Bytes>> {
        let Some(mut writer) = self.writer.take() else {
            return Ok(None);
        };
        let Some(from) = self.next.take() else {
            return Ok(Some(writer.end()));
        };
        let (shared, id) = (self.shared.clone(), self.id);
        shared.disk.with(|open| {
            let snapshots = open.snapshots.lock();
            let view = snapshots.get(id).ok_or_else(interrupted)?.clone();
            drop(snapshots);
            self.read(open, &view, from, &mut writer)
        })?;
        let part = writer.take();
        self.writer = Some(writer);
        Ok(Some(part))
    }

    fn read(
        &mut self,
        open: &Open,
        view: &fjall::Snapshot,
        from: Bound<Vec<u8>>,
        writer: &mut Writer,
    ) -> Result<()> {
        let records = view.range(&open.index, (from, Bound::Unbounded));
        for (number, record) in records.enumerate() {
            let record = record.into_inner();
            let (name, value) = record.map_err(|error| disk::database_error(&error))?;
            let mut loaded = Loaded::default();
            records::read_record(&name, &value, &mut loaded)
                .ok_or_else(|| StorageError::Corrupt(format!("unreadable record {:?}", &*name)))?;
            for entry in loaded.entries {
                let same = self.last.as_ref().is_some_and(|(key, _)| *key == entry.0);
                if !same {
                    self.write_last(open, view, writer)?;
                }
                self.last = Some(entry);
            }
            for lease in loaded.leases {
                writer.lease(&LeaseRecord {
                    id: lease.id,
                    ttl_ms: lease.ttl_ms,
                    expires_ms: lease.expires_ms,
                });
            }
            if writer.pending_bytes() >= PART_BYTES || number >= PART_RECORDS {
                self.next = Some(Bound::Excluded(name.to_vec()));
                return Ok(());
            }
        }
        self.write_last(open, view, writer)
    }

    /// Of a key's versions the last one counts, unless it is its deletion.
    fn write_last(
        &mut self,
        open: &Open,
        view: &fjall::Snapshot,
        writer: &mut Writer,
    ) -> Result<()> {
        let Some((key, version)) = self.last.take().filter(|(_, v)| !v.is_deletion()) else {
            return Ok(());
        };
        let value = view.get(&open.values, records::value_key(&version));
        let value = value.map_err(|error| disk::database_error(&error))?;
        let value = value.ok_or_else(|| super::draft::missing(&key))?;
        writer.key(&KeyRecord {
            key: key.to_string(),
            create: version.create,
            modified: version.revision,
            sub: version.sub,
            version: version.version,
            lease: version.lease,
            value: Bytes::copy_from_slice(&value),
        })
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        let forget = |open: &Open| {
            open.snapshots.lock().end(self.id);
            Ok(())
        };
        drop(self.shared.disk.with(forget)); // a closed database has forgotten it already
    }
}

fn interrupted() -> StorageError {
    StorageError::Unavailable(
        "a write failed while the snapshot was taken; take it again".to_owned(),
    )
}

/// Makes a data directory of the embedded engine from a snapshot file.
///
/// The revision goes on `bump` above the snapshot's, and everything before it counts as compacted: who watched or listed
/// before learns that it is too old, also of revisions that were made after the snapshot. `bump` must be above the number of
/// writes that may have been made since.
///
/// Refuses a directory with anything in it, and a file that is not whole; a restore that fails leaves no directory behind.
pub fn restore(file: &Path, dir: &Path, bump: u64) -> Result<SnapshotStatus> {
    let status = snapshot::status(file)?;
    if status.kind == SnapshotKind::Etcd {
        return Err(StorageError::Invalid(format!(
            "{} is a snapshot of etcd: restore it with `etcdutl snapshot restore --bump-revision {bump} --mark-compacted`",
            file.display()
        )));
    }
    let mut directory = NewDirectory::make(dir)?;
    let source = BufReader::with_capacity(PART_BYTES, snapshot::open(file)?);
    let mut reader = Reader::new(source)?;
    while let Some(record) = reader.next()? {
        directory.put(record)?;
    }
    directory.finish(reader.revision(), bump)?;
    Ok(status)
}

/// A data directory in the making: under another name until it is whole, and gone if that does not come about.
pub(crate) struct NewDirectory {
    dir: PathBuf,
    unfinished: PathBuf,
    disk: Option<Disk>,
    set: WriteSet,
    bytes: usize,
}

impl NewDirectory {
    /// Refuses a directory with anything in it.
    pub(crate) fn make(dir: &Path) -> Result<Self> {
        refuse_non_empty(dir)?;
        let unfinished = snapshot::with_suffix(dir, ".restoring");
        if unfinished.exists() {
            // an earlier attempt's
            fs::remove_dir_all(&unfinished)
                .map_err(|error| snapshot::io_error("remove", &unfinished, &error))?;
        }
        let (disk, _) = Disk::open(&EmbeddedOptions::new(&unfinished))?;
        Ok(Self {
            dir: dir.to_owned(),
            unfinished,
            disk: Some(disk),
            set: WriteSet::default(),
            bytes: 0,
        })
    }

    pub(crate) fn put(&mut self, record: Record) -> Result<()> {
        match record {
            Record::Key(record) => {
                let version = Version {
                    revision: record.modified,
                    sub: record.sub,
                    create: record.create,
                    version: record.version,
                    lease: record.lease,
                    size: u32::try_from(record.value.len()).unwrap_or(u32::MAX),
                };
                self.bytes += record.key.len() + record.value.len();
                self.set.put_entry(&record.key, &version, &record.value);
            }
            Record::Lease(lease) => self.set.put_lease(&StoredLease {
                id: lease.id,
                ttl_ms: lease.ttl_ms,
                expires_ms: lease.expires_ms,
            }),
        }
        if self.bytes >= COMMIT_BYTES {
            self.bytes = 0;
            self.commit()?;
        }
        Ok(())
    }

    /// Puts the directory into its place, to go on `bump` above a revision; everything before counts as compacted.
    pub(crate) fn finish(mut self, revision: u64, bump: u64) -> Result<Revision> {
        let next = revision
            .checked_add(bump)
            .filter(|r| i64::try_from(*r).is_ok());
        let next = next.ok_or_else(|| {
            StorageError::Invalid(format!("there is no revision {bump} above {revision}"))
        })?;
        self.set.set_revision(next);
        self.set.set_compacted(next);
        self.commit()?;
        if let Some(disk) = self.disk.take() {
            disk.close();
        }
        fs::rename(&self.unfinished, &self.dir)
            .map_err(|error| snapshot::io_error("make", &self.dir, &error))?;
        snapshot::sync_parent(&self.dir)?;
        Ok(Revision(next))
    }

    fn commit(&mut self) -> Result<()> {
        match &self.disk {
            Some(disk) => disk.commit(std::mem::take(&mut self.set)),
            None => Ok(()),
        }
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if let Some(disk) = self.disk.take() {
            disk.close();
            drop(disk);
            drop(fs::remove_dir_all(&self.unfinished)); // the error that led here says more
        }
    }
}

fn refuse_non_empty(dir: &Path) -> Result<()> {
    let mut files = match fs::read_dir(dir) {
        Ok(files) => files,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(snapshot::io_error("read", dir, &error)),
    };
    match files.next() {
        None => Ok(()),
        Some(_) => Err(StorageError::Invalid(format!(
            "{} is not empty: move it away, or choose another directory",
            dir.display()
        ))),
    }
}

/// How long a lease has left, as the disk has it; `None` if there is no such lease, or it has run out.
pub(super) fn lease_left(shared: &Shared, id: i64) -> Result<Option<Duration>> {
    let found = shared.disk.with(|open| {
        let found = open.index.get(records::lease_key(id));
        found.map_err(|error| disk::database_error(&error))
    })?;
    let expires_ms = found.and_then(|value| records::number(&value, 8));
    let left = expires_ms.and_then(|expires| expires.checked_sub(shared.now_ms()));
    Ok(left.filter(|left| *left > 0).map(Duration::from_millis))
}
