//! Reads of the embedded engine: points, ranges, and the history for watches that are behind.
//!
//! A read takes versions from the index under its lock, in parts so that the committer never waits long, and the values from
//! disk afterwards. A compaction between the two shows as a missing value: a read of the present starts anew, one of a
//! revision fails with `Compacted`.

use std::sync::Arc;

use futures::stream::BoxStream;

use super::{
    Shared,
    draft::{event, key_value, missing},
    index::{Entry, Version},
};
use crate::{
    engine::{
        BoxFuture, Event, GetResponse, KeyValue, RangeRequest, RangeResponse, Result, Revision,
        StorageError, WatchBatch,
    },
    hub::Source,
};

/// Keys looked at under one lock.
const EXAMINE: usize = 2048;
/// Events of one part of the history.
const REPLAY_EVENTS: usize = 512;
/// Values that may be read on an async thread; more go to a blocking one.
const FEW_VALUES: usize = 16;
/// A present-time read that meets a compaction this often gives up.
const ATTEMPTS: usize = 5;

impl Shared {
    /// Fails if a watch or read at this revision would miss something.
    pub(super) fn check_kept(&self, revision: Revision) -> Result<()> {
        let oldest = self.index.read().compacted();
        match revision.0 < oldest {
            true => Err(StorageError::Compacted {
                asked: revision,
                oldest: Revision(oldest),
            }),
            false => Ok(()),
        }
    }

    pub(super) fn get(&self, key: &str, at: Option<Revision>) -> Result<GetResponse> {
        for _ in 0..ATTEMPTS {
            let (revision, current) = self.read_revision(at)?;
            let found = {
                let index = self.index.read();
                index.at(key, revision).map(|(k, v)| (k.clone(), *v))
            };
            let kv = match found {
                None => None,
                Some((key, version)) => match self.disk.value(&version)? {
                    Some(value) => Some(key_value(key, &version, value)),
                    None => continue,
                },
            };
            self.check_kept(Revision(revision))?;
            return Ok(GetResponse {
                revision: Revision(current),
                kv,
            });
        }
        Err(missing(key))
    }

    /// The revision to read at and the current one.
    fn read_revision(&self, at: Option<Revision>) -> Result<(u64, u64)> {
        let index = self.index.read();
        let current = index.revision();
        match at.map_or(0, |r| r.0) {
            0 => Ok((current, current)),
            asked if asked > current => Err(StorageError::FutureRevision {
                asked: Revision(asked),
                current: Revision(current),
            }),
            asked if asked < index.compacted() => Err(StorageError::Compacted {
                asked: Revision(asked),
                oldest: Revision(index.compacted()),
            }),
            asked => Ok((asked, current)),
        }
    }

    pub(super) async fn range(self: Arc<Self>, request: RangeRequest) -> Result<RangeResponse> {
        let now = request.revision.is_none_or(|r| r.0 == 0);
        let mut attempts = 0;
        loop {
            let result = self.clone().range_once(&request).await;
            attempts += 1;
            match result {
                Err(StorageError::Compacted { .. }) if now && attempts < ATTEMPTS => {}
                other => return other,
            }
        }
    }

    async fn range_once(self: Arc<Self>, request: &RangeRequest) -> Result<RangeResponse> {
        let (revision, _) = self.read_revision(request.revision)?;
        let (entries, count) = self.versions(request, revision)?;
        let more = count > entries.len();
        let kvs = match request.keys_only {
            true => entries
                .into_iter()
                .map(|(key, version)| key_value(key, &version, bytes::Bytes::new()))
                .collect(),
            false => self.clone().values(entries, Revision(revision)).await?,
        };
        Ok(RangeResponse {
            revision: Revision(revision),
            kvs,
            more,
            count,
        })
    }

    /// The versions of a range, and how many there are beyond the limit.
    fn versions(&self, request: &RangeRequest, revision: u64) -> Result<(Vec<Entry>, usize)> {
        let limit = match request.limit {
            0 => usize::MAX,
            limit => limit,
        };
        let mut entries = Vec::new();
        let mut count = 0;
        let mut next: Option<Arc<str>> = Some(request.start.as_str().into());
        while let Some(start) = next {
            let left = limit - entries.len();
            let index = self.index.read();
            if revision < index.compacted() {
                return Err(StorageError::Compacted {
                    asked: Revision(revision),
                    oldest: Revision(index.compacted()),
                });
            }
            let mut chunk = index.range(&start, &request.end, revision, left, EXAMINE);
            drop(index);
            entries.append(&mut chunk.entries);
            count += chunk.count;
            next = chunk.next;
        }
        Ok((entries, count))
    }

    async fn values(self: Arc<Self>, entries: Vec<Entry>, at: Revision) -> Result<Vec<KeyValue>> {
        if entries.len() <= FEW_VALUES {
            return self.read_values(entries, at);
        }
        let read = tokio::task::spawn_blocking(move || self.read_values(entries, at));
        read.await
            .unwrap_or_else(|e| Err(StorageError::Unavailable(e.to_string())))
    }

    /// In the order of revisions, which is the order on disk.
    fn read_values(&self, entries: Vec<Entry>, at: Revision) -> Result<Vec<KeyValue>> {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_unstable_by_key(|i| (entries[*i].1.revision, entries[*i].1.sub));
        let mut kvs: Vec<Option<KeyValue>> = vec![None; entries.len()];
        for at_index in order {
            let (key, version) = &entries[at_index];
            let value = match self.disk.value(version)? {
                Some(value) => value,
                None => {
                    self.check_kept(at)?;
                    return Err(missing(key));
                }
            };
            kvs[at_index] = Some(key_value(key.clone(), version, value));
        }
        Ok(kvs.into_iter().flatten().collect())
    }

    /// Changes of the index with their values.
    pub(super) fn events(&self, entries: Vec<Entry>) -> Result<Vec<Event>> {
        let value = |version: &Version| match version.is_deletion() {
            true => Ok(Some(bytes::Bytes::new())),
            false => self.disk.value(version),
        };
        entries
            .into_iter()
            .map(|(key, version)| {
                let value = value(&version)?.ok_or_else(|| missing(&key))?;
                Ok(event(key, &version, value))
            })
            .collect()
    }

    /// One part of the history and the revision up to which it is complete.
    fn replay_part(&self, prefix: &str, after: u64, upto: u64) -> Result<(Vec<Event>, u64)> {
        let (entries, reached) = {
            let index = self.index.read();
            if after < index.compacted() {
                return Err(StorageError::Compacted {
                    asked: Revision(after),
                    oldest: Revision(index.compacted()),
                });
            }
            index.changes(prefix, after, upto, REPLAY_EVENTS, EXAMINE)
        };
        match self.events(entries) {
            Err(StorageError::Corrupt(reason)) => {
                self.check_kept(Revision(after))?; // compacted meanwhile
                Err(StorageError::Corrupt(reason))
            }
            events => Ok((events?, reached)),
        }
    }
}

impl Source for Shared {
    fn replay(
        self: Arc<Self>,
        prefix: Arc<str>,
        after: Revision,
        upto: Revision,
    ) -> BoxStream<'static, Result<WatchBatch>> {
        Box::pin(futures::stream::try_unfold(after.0, move |after| {
            let (shared, prefix) = (self.clone(), prefix.clone());
            async move {
                let mut after = after;
                while after < upto.0 {
                    let (shared, prefix) = (shared.clone(), prefix.clone());
                    let part = tokio::task::spawn_blocking(move || {
                        shared.replay_part(&prefix, after, upto.0)
                    });
                    let (events, reached) = part
                        .await
                        .unwrap_or_else(|e| Err(StorageError::Unavailable(e.to_string())))?;
                    if !events.is_empty() {
                        let revision = Revision(reached);
                        return Ok(Some((WatchBatch { revision, events }, reached)));
                    }
                    after = reached;
                }
                Ok(None)
            }
        }))
    }

    fn before<'a>(
        &'a self,
        key: &'a str,
        revision: Revision,
    ) -> BoxFuture<'a, Result<Option<KeyValue>>> {
        Box::pin(async move {
            let before = Revision(revision.0.saturating_sub(1));
            match before.0 {
                0 => Ok(None),
                _ => Ok(self.get(key, Some(before))?.kv),
            }
        })
    }
}
