//! The embedded engine's snapshot file.
//!
//! ```text
//! "pilothouse snapshot 1\n"  revision  taken (Unix ms)
//! 'k' create  modified  sub (u32)  version  lease  key length (u32)  value length (u32)  key  value     for every key, in order
//! 'l' lease  time to live (ms)  expiry (Unix ms)                                                         for every lease
//! 'e' number of keys  SHA-256 of everything before it
//! ```
//!
//! Numbers are big-endian, of 8 bytes unless said otherwise. A file that was cut off has no end and is refused.

use std::io::{self, Read};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{SnapshotKind, SnapshotStatus};
use crate::engine::{Result, Revision, StorageError};

pub(super) const MAGIC: &[u8; 22] = b"pilothouse snapshot 1\n";
const HASH_BYTES: usize = 32;
/// Longer keys and values are none of ours.
const LONGEST: u32 = 256 << 20;

/// A key as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRecord {
    pub(crate) key: String,
    pub(crate) create: u64,
    pub(crate) modified: u64,
    pub(crate) sub: u32,
    pub(crate) version: u64,
    pub(crate) lease: i64,
    pub(crate) value: Bytes,
}

/// A lease as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    pub(crate) id: i64,
    pub(crate) ttl_ms: u64,
    pub(crate) expires_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Key(KeyRecord),
    Lease(LeaseRecord),
}

/// Makes a file, part by part.
pub(crate) struct Writer {
    hash: Sha256,
    keys: u64,
    pending: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(revision: u64, taken_ms: u64) -> Self {
        let mut pending = MAGIC.to_vec();
        pending.extend(revision.to_be_bytes());
        pending.extend(taken_ms.to_be_bytes());
        Self {
            hash: Sha256::new(),
            keys: 0,
            pending,
        }
    }

    pub(crate) fn key(&mut self, record: &KeyRecord) -> Result<()> {
        let length = |bytes: &[u8]| {
            let length = u32::try_from(bytes.len()).ok().filter(|l| *l <= LONGEST);
            length.ok_or_else(|| StorageError::Corrupt(format!("{} is too long", record.key)))
        };
        let (key, value) = (record.key.as_bytes(), &record.value[..]);
        let lengths = (length(key)?, length(value)?);
        self.keys += 1;
        self.pending.push(b'k');
        self.pending.extend(record.create.to_be_bytes());
        self.pending.extend(record.modified.to_be_bytes());
        self.pending.extend(record.sub.to_be_bytes());
        self.pending.extend(record.version.to_be_bytes());
        self.pending.extend(record.lease.to_be_bytes());
        self.pending.extend(lengths.0.to_be_bytes());
        self.pending.extend(lengths.1.to_be_bytes());
        self.pending.extend(key);
        self.pending.extend(value);
        Ok(())
    }

    pub(crate) fn lease(&mut self, record: &LeaseRecord) {
        self.pending.push(b'l');
        self.pending.extend(record.id.to_be_bytes());
        self.pending.extend(record.ttl_ms.to_be_bytes());
        self.pending.extend(record.expires_ms.to_be_bytes());
    }

    /// How much [`Self::take`] would give.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// What has been made since the last call.
    pub(crate) fn take(&mut self) -> Bytes {
        self.hash.update(&self.pending);
        std::mem::take(&mut self.pending).into()
    }

    /// The rest of the file.
    pub(crate) fn end(mut self) -> Bytes {
        self.pending.push(b'e');
        self.pending.extend(self.keys.to_be_bytes());
        self.hash.update(&self.pending);
        self.pending.extend(self.hash.finalize());
        self.pending.into()
    }
}

/// Reads a file. What it has given may be believed only once the end has come.
pub(crate) struct Reader<R> {
    source: R,
    hash: Sha256,
    revision: u64,
    keys: u64,
    bytes: u64,
    ended: Option<[u8; HASH_BYTES]>,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(source: R) -> Result<Self> {
        let mut reader = Self {
            source,
            hash: Sha256::new(),
            revision: 0,
            keys: 0,
            bytes: 0,
            ended: None,
        };
        if reader.array()? != *MAGIC {
            return Err(StorageError::Corrupt("this is no snapshot".to_owned()));
        }
        reader.revision = reader.number()?;
        let _taken_ms = reader.number()?;
        Ok(reader)
    }

    /// The revision at which the snapshot was taken.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The next record; `None` at the end, which has been checked.
    pub(crate) fn next(&mut self) -> Result<Option<Record>> {
        if self.ended.is_some() {
            return Ok(None);
        }
        match self.array()? {
            [b'k'] => {
                self.keys += 1;
                let (create, modified) = (self.number()?, self.number()?);
                let sub = u32::from_be_bytes(self.array()?);
                let (version, lease) = (self.number()?, self.number()?.cast_signed());
                let (key, value) = (self.array()?, self.array()?);
                let key = self.bytes(u32::from_be_bytes(key))?;
                Ok(Some(Record::Key(KeyRecord {
                    key: String::from_utf8(key).map_err(|_| changed())?,
                    create,
                    modified,
                    sub,
                    version,
                    lease,
                    value: self.bytes(u32::from_be_bytes(value))?.into(),
                })))
            }
            [b'l'] => Ok(Some(Record::Lease(LeaseRecord {
                id: self.number()?.cast_signed(),
                ttl_ms: self.number()?,
                expires_ms: self.number()?,
            }))),
            [b'e'] => {
                let keys = self.number()?;
                let hash: [u8; HASH_BYTES] = self.hash.clone().finalize().into();
                if self.array()? != hash || keys != self.keys {
                    return Err(changed());
                }
                if self.source.read(&mut [0]).map_err(unread)? > 0 {
                    return Err(changed()); // something follows
                }
                self.ended = Some(hash);
                Ok(None)
            }
            _ => Err(changed()),
        }
    }

    /// Reads to the end.
    pub(crate) fn status(mut self) -> Result<SnapshotStatus> {
        while self.next()?.is_some() {}
        let hash = self.ended.unwrap_or_default();
        Ok(SnapshotStatus {
            kind: SnapshotKind::Embedded,
            hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            revision: Revision(self.revision),
            keys: self.keys,
            size: self.bytes,
        })
    }

    fn number(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes).map_err(unread)?;
        self.hash.update(bytes);
        self.bytes += N as u64;
        Ok(bytes)
    }

    fn bytes(&mut self, length: u32) -> Result<Vec<u8>> {
        if length > LONGEST {
            return Err(changed());
        }
        let mut bytes = Vec::new(); // grows with what is there, whatever the length says
        let mut limited = (&mut self.source).take(u64::from(length));
        let read = limited.read_to_end(&mut bytes).map_err(unread)?;
        if read < length as usize {
            return Err(cut_off());
        }
        self.hash.update(&bytes);
        self.bytes += u64::from(length);
        Ok(bytes)
    }
}

fn unread(error: io::Error) -> StorageError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => cut_off(),
        _ => StorageError::Unavailable(format!("cannot read the snapshot: {error}")),
    }
}

fn cut_off() -> StorageError {
    StorageError::Corrupt("the snapshot is cut off; take another one".to_owned())
}

fn changed() -> StorageError {
    StorageError::Corrupt(
        "the snapshot was changed after it was taken: its hash does not match; use another one"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let mut writer = Writer::new(7, 1);
        let record = |key: &str, value: &'static str| KeyRecord {
            key: key.to_owned(),
            create: 3,
            modified: 5,
            sub: 1,
            version: 2,
            lease: -9,
            value: value.into(),
        };
        writer.key(&record("/registry/a", "one")).unwrap();
        let mut file = writer.take().to_vec();
        writer.key(&record("/registry/b", "")).unwrap();
        writer.lease(&LeaseRecord {
            id: -9,
            ttl_ms: 1000,
            expires_ms: 2000,
        });
        file.extend(writer.end());
        file
    }

    #[test]
    fn what_was_written_is_read_back() {
        let file = file();
        let mut reader = Reader::new(&*file).unwrap();
        assert_eq!(reader.revision(), 7);
        let mut seen = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            seen.push(match record {
                Record::Key(k) => format!(
                    "{} {:?} {}/{}.{} v{} {}",
                    k.key, k.value, k.create, k.modified, k.sub, k.version, k.lease
                ),
                Record::Lease(l) => format!("{} {} {}", l.id, l.ttl_ms, l.expires_ms),
            });
        }
        assert_eq!(
            seen,
            [
                r#"/registry/a b"one" 3/5.1 v2 -9"#,
                r#"/registry/b b"" 3/5.1 v2 -9"#,
                "-9 1000 2000"
            ]
        );
        let status = Reader::new(&*file).unwrap().status().unwrap();
        assert_eq!(
            (status.revision, status.keys, status.size),
            (Revision(7), 2, file.len() as u64)
        );
    }

    #[test]
    fn no_byte_may_be_missing_changed_or_added() {
        let file = file();
        let read = |bytes: &[u8]| Reader::new(bytes).and_then(Reader::status);
        for length in 0..file.len() {
            assert!(read(&file[..length]).is_err(), "cut off at {length}");
        }
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert!(
                matches!(read(&changed), Err(StorageError::Corrupt(_))),
                "changed at {at}"
            );
        }
        assert!(read(&[&*file, b"\n"].concat()).is_err());
    }
}
