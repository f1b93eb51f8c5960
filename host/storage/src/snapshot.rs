//! Snapshot files: everything that is stored at one moment.
//!
//! The embedded engine has a format of its own ([`format`]); on etcd the file is etcd's own, which `etcdutl` restores. Values
//! are as they lie in storage, so what is encrypted at rest stays encrypted in the file.

mod etcd_file;
pub(crate) mod format;

use std::{
    fmt,
    fs::{self, File},
    io::{self, BufReader, Read, Seek},
    path::{Path, PathBuf},
};

use futures::StreamExt;
use tokio::io::AsyncWriteExt;

use crate::engine::{Result, Revision, SnapshotStream, StorageError};

/// Of which engine a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotKind {
    Embedded,
    Etcd,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotStatus {
    pub kind: SnapshotKind,
    /// Of the embedded engine the SHA-256 of the file, of etcd what `etcdutl snapshot status` prints.
    pub hash: String,
    pub revision: Revision,
    /// Keys that exist; in etcd's files all records, as `etcdutl` counts them.
    pub keys: u64,
    /// Bytes of data.
    pub size: u64,
}

impl fmt::Display for SnapshotStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            SnapshotKind::Embedded => "embedded",
            SnapshotKind::Etcd => "etcd",
        };
        writeln!(f, "engine    {kind}")?;
        writeln!(f, "hash      {}", self.hash)?;
        writeln!(f, "revision  {}", self.revision)?;
        writeln!(f, "keys      {}", self.keys)?;
        write!(f, "size      {} bytes", self.size)
    }
}

/// Reads a whole file and checks it: `Corrupt` if it is cut off, changed, or no snapshot.
pub fn status(path: &Path) -> Result<SnapshotStatus> {
    let mut file = open(path)?;
    let mut first = [0; format::MAGIC.len()];
    let is_ours = match file.read_exact(&mut first) {
        Ok(()) => first == *format::MAGIC,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
        Err(error) => return Err(io_error("read", path, &error)),
    };
    file.rewind()
        .map_err(|error| io_error("read", path, &error))?;
    match is_ours {
        true => format::Reader::new(BufReader::new(file))?.status(),
        false => etcd_file::status(&file),
    }
}

pub(crate) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| io_error("open", path, &error))
}

/// Writes a snapshot into a file that is not there before it is whole, checked and on the disk.
pub async fn write_file(mut parts: SnapshotStream, path: &Path) -> Result<SnapshotStatus> {
    let partial = with_suffix(path, ".partial");
    let written = async {
        let fail = |error: io::Error| io_error("write", &partial, &error);
        let mut options = tokio::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        options.mode(0o600); // Secrets are in it
        let mut file = options.open(&partial).await.map_err(fail)?;
        while let Some(part) = parts.next().await {
            file.write_all(&part?).await.map_err(fail)?;
        }
        file.flush().await.map_err(fail)?;
        file.sync_all().await.map_err(fail)?;
        let (partial, path) = (partial.clone(), path.to_owned());
        let finish = tokio::task::spawn_blocking(move || {
            let status = status(&partial)?;
            fs::rename(&partial, &path).map_err(|error| io_error("rename", &path, &error))?;
            sync_parent(&path)?;
            Ok(status)
        });
        finish
            .await
            .unwrap_or_else(|error| Err(StorageError::Unavailable(error.to_string())))
    };
    let written = written.await;
    if written.is_err() {
        drop(tokio::fs::remove_file(&partial).await); // what could not be written may not be there
    }
    written
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Makes the name of a file or directory durable.
pub(crate) fn sync_parent(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let parent = parent.unwrap_or(Path::new("."));
    let synced = File::open(parent).and_then(|directory| directory.sync_all());
    synced.map_err(|error| io_error("sync", parent, &error))
}

pub(crate) fn io_error(what: &str, path: &Path, error: &io::Error) -> StorageError {
    let text = format!("cannot {what} {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StorageError::NoSpace(text),
        _ => StorageError::Unavailable(text),
    }
}
