//! Decides a group of transactions against the index without changing it; the committer makes the result durable and then true.
//!
//! Invariant: every decision sees the index plus the changes that the draft made before it, in the order of arrival, so that
//! the order of decisions is the order of revisions.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;

use super::{
    disk::Disk,
    index::{Entry, Index, Version},
    leases::Leases,
    records::WriteSet,
};
use crate::engine::{
    AtRest, Compare, Event, EventKind, KeyValue, Lease, Op, Result, Revision, StorageError, Txn,
    TxnResponse,
};

/// The database's keys are shorter than 64 KiB; no resource's come near.
const KEY_BYTES: usize = 32 << 10;

/// One change that is decided but not durable yet.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) key: Arc<str>,
    pub(super) version: Version,
    pub(super) value: Bytes,
    /// The lease that held the key before.
    pub(super) released: i64,
}

/// A group of decided transactions.
pub(super) struct Draft<'a> {
    index: &'a Index,
    disk: &'a Disk,
    leases: &'a Leases,
    changes: Vec<Change>,
    /// The last change of each changed key.
    newest: HashMap<Arc<str>, usize>,
    revision: u64,
    bytes: usize,
}

impl<'a> Draft<'a> {
    pub(super) fn new(index: &'a Index, disk: &'a Disk, leases: &'a Leases) -> Self {
        Self {
            index,
            disk,
            leases,
            changes: Vec::new(),
            newest: HashMap::new(),
            revision: index.revision(),
            bytes: 0,
        }
    }

    pub(super) fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// Bytes of values so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn txn(&mut self, txn: Txn) -> Result<TxnResponse> {
        let succeeded = txn.compares.iter().all(|c| self.holds(c));
        let ops = match succeeded {
            true => txn.success,
            false => txn.failure,
        };
        self.check(&ops)?;
        let mut writer = Step {
            revision: self.revision + 1,
            sub: 0,
        };
        let mut gets = Vec::new();
        for op in ops {
            match op {
                Op::Put { key, value, lease } => self.put(&mut writer, &key, value, lease),
                Op::Delete { key } => self.delete(&mut writer, &key),
                Op::Get { key } => gets.push(self.get(&key)?),
            }
        }
        if writer.sub > 0 {
            self.revision = writer.revision;
        }
        Ok(TxnResponse {
            revision: Revision(self.revision),
            succeeded,
            gets,
        })
    }

    /// Deletes keys in one revision.
    pub(super) fn delete_all(&mut self, keys: &[Arc<str>]) {
        let mut writer = Step {
            revision: self.revision + 1,
            sub: 0,
        };
        for key in keys {
            self.delete(&mut writer, key);
        }
        if writer.sub > 0 {
            self.revision = writer.revision;
        }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let Compare::ModRevision(key, expected) = compare;
        let actual = self.current(key).map_or(0, |(_, version)| version.revision);
        actual == expected.0
    }

    /// Everything that can be wrong is found before the first change.
    fn check(&self, ops: &[Op]) -> Result<()> {
        let mut written = HashSet::new();
        for op in ops {
            match op {
                Op::Put { key, .. } if key.is_empty() || key.len() > KEY_BYTES => {
                    return Err(StorageError::Invalid(format!(
                        "a key of {} bytes; 1 to {KEY_BYTES} are allowed",
                        key.len()
                    )));
                }
                Op::Put { lease, .. } if lease.0 != 0 && !self.leases.contains(lease.0) => {
                    return Err(StorageError::LeaseNotFound(*lease));
                }
                Op::Put { key, .. } | Op::Delete { key } if !written.insert(key.as_str()) => {
                    return Err(StorageError::Invalid(format!(
                        "{key} is written twice in one transaction"
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn current(&self, key: &str) -> Option<(&Arc<str>, &Version)> {
        match self.newest.get(key).and_then(|at| self.changes.get(*at)) {
            Some(change) if change.version.is_deletion() => None,
            Some(change) => Some((&change.key, &change.version)),
            None => self.index.current(key),
        }
    }

    fn get(&self, key: &str) -> Result<Option<KeyValue>> {
        let Some((shared, version)) = self.current(key) else {
            return Ok(None);
        };
        let value = match self.newest.get(key).and_then(|at| self.changes.get(*at)) {
            Some(change) => change.value.clone(),
            None => self.disk.value(version)?.ok_or_else(|| missing(key))?,
        };
        Ok(Some(key_value(shared.clone(), version, value)))
    }

    fn put(&mut self, step: &mut Step, key: &str, value: Bytes, lease: Lease) {
        let (key, create, version, released) = match self.current(key) {
            Some((key, v)) => (key.clone(), v.create, v.version + 1, v.lease),
            None => (self.share(key), step.revision, 1, 0),
        };
        self.bytes += value.len();
        let version = Version {
            revision: step.revision,
            sub: step.next(),
            create,
            version,
            lease: lease.0,
            size: value.len() as u32,
        };
        self.push(Change {
            key,
            version,
            value,
            released,
        });
    }

    fn delete(&mut self, step: &mut Step, key: &str) {
        let Some((key, current)) = self.current(key) else {
            return;
        };
        let change = Change {
            key: key.clone(),
            version: Version {
                revision: step.revision,
                sub: step.next(),
                ..Version::default()
            },
            value: Bytes::new(),
            released: current.lease,
        };
        self.push(change);
    }

    fn share(&self, key: &str) -> Arc<str> {
        let changed = self.newest.get_key_value(key).map(|(k, _)| k.clone());
        changed
            .or_else(|| self.index.shared_key(key))
            .unwrap_or_else(|| key.into())
    }

    fn push(&mut self, change: Change) {
        self.newest.insert(change.key.clone(), self.changes.len());
        self.changes.push(change);
    }
}

/// Numbers the changes of one revision.
struct Step {
    revision: u64,
    sub: u32,
}

impl Step {
    fn next(&mut self) -> u32 {
        self.sub += 1;
        self.sub - 1
    }
}

impl Change {
    pub(super) fn entry(&self) -> Entry {
        (self.key.clone(), self.version)
    }

    pub(super) fn event(&self) -> Event {
        event(self.key.clone(), &self.version, self.value.clone())
    }

    pub(super) fn write(&self, set: &mut WriteSet) {
        set.put_entry(&self.key, &self.version, &self.value);
    }
}

/// A change as watches see it.
pub(super) fn event(key: Arc<str>, version: &Version, value: Bytes) -> Event {
    Event {
        kind: match version.is_deletion() {
            true => EventKind::Delete,
            false => EventKind::Put,
        },
        kv: key_value(key, version, value),
        previous: None,
    }
}

pub(super) fn key_value(key: Arc<str>, version: &Version, value: Bytes) -> KeyValue {
    KeyValue {
        key,
        value,
        create_revision: Revision(version.create),
        mod_revision: Revision(version.revision),
        version: version.version,
        lease: Lease(version.lease),
        at_rest: AtRest::Fresh,
    }
}

pub(super) fn missing(key: &str) -> StorageError {
    StorageError::Corrupt(format!("the value of {key} is missing"))
}
