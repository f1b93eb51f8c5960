//! The multi-version index of the embedded engine: which revisions every key has, without the values.
//!
//! Invariants:
//! 1. A key's versions are in ascending revision order; at most one per revision.
//! 2. `history` holds the changes after `compacted`, in commit order; each names a version that the key still has.
//! 3. Reads at a revision from `compacted` on are exact.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use smallvec::SmallVec;

/// One change of a key. `version` zero is a deletion, then `create` and `lease` are zero too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) revision: u64,
    /// The position among the changes of the revision.
    pub(super) sub: u32,
    pub(super) create: u64,
    pub(super) version: u64,
    pub(super) lease: i64,
    /// Bytes of the value.
    pub(super) size: u32,
}

impl Version {
    pub(super) fn is_deletion(&self) -> bool {
        self.version == 0
    }
}

/// A key's change as the disk keeps it.
pub(super) type Entry = (Arc<str>, Version);

type Versions = SmallVec<[Version; 1]>;

/// All keys with the versions that are kept.
#[derive(Debug, Default)]
pub(super) struct Index {
    keys: BTreeMap<Arc<str>, Versions>,
    history: VecDeque<Change>,
    /// The sizes in `history`, summed.
    history_bytes: u64,
    kept: KeptBytes,
    revision: u64,
    compacted: u64,
}

/// What is kept takes so much on disk, more or less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptBytes {
    pub(super) index: u64,
    pub(super) values: u64,
}

/// What a record takes on disk besides its key and value: numbers, lengths, its part of filters.
const RECORD_BYTES: u64 = 24;

impl KeptBytes {
    fn of(key: &str, version: &Version) -> Self {
        let value = match version.is_deletion() {
            true => 0,
            false => u64::from(version.size) + 12 + RECORD_BYTES,
        };
        Self {
            index: key.len() as u64 + 14 + 28 + RECORD_BYTES,
            values: value,
        }
    }

    fn add(&mut self, key: &str, version: &Version) {
        let Self { index, values } = Self::of(key, version);
        self.index += index;
        self.values += values;
    }

    fn remove(&mut self, key: &str, version: &Version) {
        let Self { index, values } = Self::of(key, version);
        self.index -= index;
        self.values -= values;
    }
}

/// A change that watches can still ask for.
#[derive(Debug)]
struct Change {
    revision: u64,
    /// Of its value and key.
    bytes: u32,
    key: Arc<str>,
}

impl Change {
    fn new(key: Arc<str>, version: &Version) -> Self {
        Self {
            revision: version.revision,
            bytes: version.size.saturating_add(key.len() as u32),
            key,
        }
    }
}

/// A part of a range read.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) entries: Vec<Entry>,
    /// Live keys seen, with those beyond the limit.
    pub(super) count: usize,
    /// Where the next part starts, if there is one.
    pub(super) next: Option<Arc<str>>,
}

impl Index {
    /// From the entries on disk in any order. Returns what a compaction had begun to remove as well.
    pub(super) fn load(entries: Vec<Entry>, revision: u64, compacted: u64) -> (Self, Vec<Entry>) {
        let mut keys: BTreeMap<Arc<str>, Versions> = BTreeMap::new();
        let mut last: Option<(Arc<str>, Versions)> = None;
        for (key, version) in entries {
            match &mut last {
                Some((k, versions)) if **k == *key => versions.push(version),
                _ => {
                    if let Some((k, versions)) = last.replace((key, SmallVec::from([version]))) {
                        keys.entry(k).or_default().extend(versions);
                    }
                }
            }
        }
        if let Some((k, versions)) = last {
            keys.entry(k).or_default().extend(versions);
        }
        let mut history = Vec::new();
        let mut garbage = Vec::new();
        let mut kept = KeptBytes::default();
        keys.retain(|key, versions| {
            versions.sort_unstable_by_key(|v| v.revision);
            forget(key, versions, compacted, &mut garbage);
            versions.iter().for_each(|v| kept.add(key, v));
            history.extend(
                versions
                    .iter()
                    .filter(|v| v.revision > compacted)
                    .map(|v| (v.sub, Change::new(key.clone(), v))),
            );
            !versions.is_empty()
        });
        history.sort_unstable_by_key(|(sub, change): &(u32, Change)| (change.revision, *sub));
        let history: VecDeque<Change> = history.into_iter().map(|(_, change)| change).collect();
        let index = Self {
            keys,
            history_bytes: history.iter().map(|change| u64::from(change.bytes)).sum(),
            history,
            kept,
            revision,
            compacted,
        };
        (index, garbage)
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn kept_bytes(&self) -> KeptBytes {
        self.kept
    }

    /// Adds revision and sub of every value that the keys from `start` on have, of `examine` keys; returns where to go on.
    pub(super) fn values_from(
        &self,
        start: &str,
        examine: usize,
        values: &mut Vec<(u64, u32)>,
    ) -> Option<Arc<str>> {
        let bounds = (Bound::Included(start), Bound::Unbounded);
        let mut keys = self.keys.range::<str, _>(bounds);
        for (_, versions) in keys.by_ref().take(examine) {
            let puts = versions.iter().filter(|v| !v.is_deletion());
            values.extend(puts.map(|v| (v.revision, v.sub)));
        }
        keys.next().map(|(key, _)| key.clone())
    }

    /// A revision that should be in the history and is not: every revision changed something.
    pub(super) fn missing_revision(&self) -> Option<u64> {
        let mut last = self.compacted.max(1);
        for change in &self.history {
            if change.revision > last + 1 {
                return Some(last + 1);
            }
            last = change.revision;
        }
        (last != self.revision.max(self.compacted)).then_some(last + 1)
    }

    /// The revision up to which the history has to go, so that it has at most so many changes and bytes.
    pub(super) fn history_beyond(&self, changes: usize, bytes: u64) -> Option<u64> {
        let (mut length, mut left) = (self.history.len(), self.history_bytes);
        let mut last = None;
        for change in &self.history {
            if length <= changes && left <= bytes {
                break;
            }
            (length, left) = (length - 1, left - u64::from(change.bytes));
            last = Some(change.revision);
        }
        last
    }

    /// The newest version of a key, unless it is deleted, with the shared key.
    pub(super) fn current(&self, key: &str) -> Option<(&Arc<str>, &Version)> {
        let (key, versions) = self.keys.get_key_value(key)?;
        let last = versions.last().filter(|v| !v.is_deletion())?;
        Some((key, last))
    }

    /// The key as the index shares it.
    pub(super) fn shared_key(&self, key: &str) -> Option<Arc<str>> {
        self.keys.get_key_value(key).map(|(k, _)| k.clone())
    }

    /// The version of a key at a revision, unless it did not exist then.
    pub(super) fn at(&self, key: &str, revision: u64) -> Option<(&Arc<str>, &Version)> {
        let (key, versions) = self.keys.get_key_value(key)?;
        Some((key, visible(versions, revision)?))
    }

    /// Live keys of `start..end` at a revision, at most `examine` of them; entries stop at `limit`.
    pub(super) fn range(
        &self,
        start: &str,
        end: &str,
        revision: u64,
        limit: usize,
        examine: usize,
    ) -> Chunk {
        let mut chunk = Chunk::default();
        if start >= end {
            return chunk;
        }
        let bounds = (Bound::Included(start), Bound::Excluded(end));
        for (examined, (key, versions)) in self.keys.range::<str, _>(bounds).enumerate() {
            if examined == examine {
                chunk.next = Some(key.clone());
                break;
            }
            if let Some(version) = visible(versions, revision) {
                chunk.count += 1;
                if chunk.entries.len() < limit {
                    chunk.entries.push((key.clone(), *version));
                }
            }
        }
        chunk
    }

    /// Every live key.
    pub(super) fn live(&self) -> impl Iterator<Item = Entry> {
        self.keys.iter().filter_map(|(key, versions)| {
            let last = versions.last().filter(|v| !v.is_deletion())?;
            Some((key.clone(), *last))
        })
    }

    /// Every live key with a lease.
    pub(super) fn leased(&self) -> impl Iterator<Item = (&Arc<str>, i64)> {
        self.keys.iter().filter_map(|(key, versions)| {
            let last = versions.last()?;
            (last.lease != 0).then_some((key, last.lease))
        })
    }

    /// How many keys have versions.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Changes after a revision below a prefix, at most about `limit`, looking at no more than `examine`; never half of a
    /// revision. Returns the revision up to which nothing is missing.
    pub(super) fn changes(
        &self,
        prefix: &str,
        after: u64,
        upto: u64,
        limit: usize,
        examine: usize,
    ) -> (Vec<Entry>, u64) {
        let start = self
            .history
            .partition_point(|change| change.revision <= after);
        let mut found = Vec::new();
        let mut reached = after;
        for (examined, change) in self.history.range(start..).enumerate() {
            let Change { revision, key, .. } = change;
            if *revision > upto {
                break;
            }
            if *revision != reached && (found.len() >= limit || examined >= examine) {
                return (found, reached);
            }
            reached = *revision;
            if key.starts_with(prefix) {
                let exact = self.keys.get(key).and_then(|versions| {
                    let at = versions
                        .binary_search_by_key(revision, |v| v.revision)
                        .ok()?;
                    versions.get(at)
                });
                found.extend(exact.map(|version| (key.clone(), *version)));
            }
        }
        (found, upto)
    }

    /// Takes over committed changes in commit order.
    pub(super) fn apply(&mut self, entries: impl Iterator<Item = Entry>) {
        for (key, version) in entries {
            self.revision = version.revision;
            let change = Change::new(key.clone(), &version);
            self.history_bytes += u64::from(change.bytes);
            self.history.push_back(change);
            self.kept.add(&key, &version);
            self.keys.entry(key).or_default().push(version);
        }
    }

    /// From now on reads before `revision` are refused.
    pub(super) fn set_compacted(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision);
    }

    /// Forgets the next few changes up to the compacted revision; returns what can be removed, or `None` when all is done.
    pub(super) fn forget_some(&mut self, limit: usize) -> Option<Vec<Entry>> {
        let mut garbage = Vec::new();
        for step in 0..limit {
            match self.history.front() {
                Some(change) if change.revision <= self.compacted => {}
                _ if step == 0 => return None,
                _ => break,
            }
            let Some(Change { key, bytes, .. }) = self.history.pop_front() else {
                break;
            };
            self.history_bytes -= u64::from(bytes);
            if let Some(versions) = self.keys.get_mut(&key) {
                let before = garbage.len();
                forget(&key, versions, self.compacted, &mut garbage);
                let forgotten = &garbage[before..];
                forgotten
                    .iter()
                    .for_each(|(key, v)| self.kept.remove(key, v));
                if versions.is_empty() {
                    self.keys.remove(&key);
                }
            }
        }
        Some(garbage)
    }
}

/// The version that a read at `revision` sees.
fn visible(versions: &[Version], revision: u64) -> Option<&Version> {
    let after = match versions {
        [only] => usize::from(only.revision <= revision),
        many => many.partition_point(|v| v.revision <= revision),
    };
    versions
        .get(after.checked_sub(1)?)
        .filter(|v| !v.is_deletion())
}

/// Drops the versions that no read at or after `compacted` sees.
fn forget(key: &Arc<str>, versions: &mut Versions, compacted: u64, garbage: &mut Vec<Entry>) {
    let kept_from = versions.partition_point(|v| v.revision <= compacted);
    let Some(newest) = kept_from.checked_sub(1) else {
        return;
    };
    let dead = newest + usize::from(versions[newest].is_deletion());
    garbage.extend(versions.drain(..dead).map(|version| (key.clone(), version)));
    if dead > 0 {
        versions.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests;
