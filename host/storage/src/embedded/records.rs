//! The embedded engine's records: what is written together, and how it is encoded.
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | `index` | `k` key `00` revision sub | create revision, version, lease, size of the value (u32) |
//! | `index` | `l` lease | time to live, expiry (Unix ms) |
//! | `index` | `m` name | current revision, compacted revision, last lease |
//! | `values` | revision sub | the value of that put |
//!
//! Numbers are big-endian.

use bytes::Bytes;

use super::index::{Entry, Version};

pub(super) const REVISION: &[u8] = b"mrevision";
const COMPACTED: &[u8] = b"mcompacted";
const LAST_LEASE: &[u8] = b"mlease";

/// A lease as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredLease {
    pub(super) id: i64,
    pub(super) ttl_ms: u64,
    pub(super) expires_ms: u64,
}

/// Everything that is read at start.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) entries: Vec<Entry>,
    pub(super) leases: Vec<StoredLease>,
    pub(super) revision: u64,
    pub(super) compacted: u64,
    /// The lease that was granted last; zero if none ever was.
    pub(super) last_lease: i64,
}

impl Default for Loaded {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            leases: Vec::new(),
            revision: 1, // etcd's first revision; zero means "not there" in comparisons
            compacted: 0,
            last_lease: 0,
        }
    }
}

/// Changes that reach the disk together or not at all.
#[derive(Debug, Default)]
pub(super) struct WriteSet {
    pub(super) index: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(super) values: Vec<([u8; 12], Bytes)>,
}

impl WriteSet {
    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty() && self.values.is_empty()
    }

    pub(super) fn put_entry(&mut self, key: &str, version: &Version, value: &Bytes) {
        let mut meta = Vec::with_capacity(28);
        meta.extend(version.create.to_be_bytes());
        meta.extend(version.version.to_be_bytes());
        meta.extend(version.lease.to_be_bytes());
        meta.extend(version.size.to_be_bytes());
        self.index.push((entry_key(key, version), Some(meta)));
        if !version.is_deletion() {
            self.values.push((value_key(version), value.clone()));
        }
    }

    /// The value goes when the disk is freed (`reclaim.rs`).
    pub(super) fn remove_entry(&mut self, key: &str, version: &Version) {
        self.index.push((entry_key(key, version), None));
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
        let last = lease.id.to_be_bytes().to_vec();
        self.index.push((LAST_LEASE.to_vec(), Some(last)));
    }

    pub(super) fn remove_lease(&mut self, id: i64) {
        self.index.push((lease_key(id), None));
    }
}

/// Takes a record over; `None` if it is none of ours.
pub(super) fn read_record(key: &[u8], value: &[u8], loaded: &mut Loaded) -> Option<()> {
    match key {
        REVISION => loaded.revision = number(value, 0)?,
        COMPACTED => loaded.compacted = number(value, 0)?,
        LAST_LEASE => loaded.last_lease = number(value, 0)?.cast_signed(),
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
                size: u32::from_be_bytes(*value.get(24..)?.first_chunk()?),
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

pub(super) fn number(bytes: &[u8], at: usize) -> Option<u64> {
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

pub(super) fn value_key(version: &Version) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&version.revision.to_be_bytes());
    bytes[8..].copy_from_slice(&version.sub.to_be_bytes());
    bytes
}

/// Revision and sub of a value; `None` if it is no key of one.
pub(super) fn read_value_key(key: &[u8]) -> Option<(u64, u32)> {
    let (revision, sub) = key.split_first_chunk::<8>()?;
    let sub = sub.try_into().ok()?;
    Some((u64::from_be_bytes(*revision), u32::from_be_bytes(sub)))
}

pub(super) fn lease_key(id: i64) -> Vec<u8> {
    let mut bytes = vec![b'l'];
    bytes.extend(id.to_be_bytes());
    bytes
}
