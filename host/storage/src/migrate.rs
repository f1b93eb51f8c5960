//! Copies everything from one engine into another, empty one.
//!
//! Revisions go on upward: every object's `resourceVersion` in the new place is at least the one that it had, what is written
//! there is above everything that was ever seen in the old place, and all before counts as compacted. Leases keep the time that
//! they have left. Values are copied as they lie in storage, encrypted ones without being decrypted.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::try_join_all;

use crate::{
    embedded::NewDirectory,
    encryption::ROOT,
    engine::{KeyValue, Lease, Op, RangeRequest, Result, Revision, Storage, StorageError, Txn},
    snapshot::format::{KeyRecord, LeaseRecord, Record},
};

/// Where everything is.
const ALL: &str = "/registry/";
const PAGE_KEYS: usize = 500;
/// What etcd takes in one transaction, with room to spare.
const TXN_OPS: usize = 100;
const TXN_BYTES: usize = 512 << 10;
/// Revisions that are used up one by one on an engine whose revision cannot be set; more take too long.
const MOST_SKIPPED: u64 = 5_000_000;
const SKIPPERS: u64 = 64;
/// How far above the source's a revision goes on that can be set.
const BUMP: u64 = 1000;

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    pub keys: u64,
    /// The source's revision that was copied.
    pub from: Revision,
    /// The target's revision afterwards.
    pub to: Revision,
    /// Somebody wrote to the source meanwhile; that is not in the target.
    pub source_changed: bool,
}

/// A source, read at one revision.
struct Source<'a> {
    storage: &'a dyn Storage,
    revision: Revision,
    /// Its values may lie under other keys in the target.
    moves: bool,
}

impl Source<'_> {
    /// The pairs from a key on, and where to go on.
    async fn page(&self, start: &str) -> Result<(Vec<KeyValue>, Option<String>)> {
        let request = RangeRequest {
            start: start.to_owned(),
            limit: PAGE_KEYS,
            revision: Some(self.revision),
            ..RangeRequest::prefix(ALL)
        };
        let page = self.storage.range(request).await?;
        if self.moves
            && let Some(bound) = page.kvs.iter().find(|kv| is_bound_to_its_key(&kv.value))
        {
            return Err(StorageError::Invalid(format!(
                "the value of {} is encrypted by a provider that authenticates the whole key with its prefix, and could not be \
                 read under another one: migrate with the same --etcd-prefix, or let identity or secretbox rewrite the values \
                 first",
                bound.key
            )));
        }
        let next = match (page.more, page.kvs.last()) {
            (true, Some(last)) => Some(format!("{}\0", last.key)),
            _ => None,
        };
        Ok((page.kvs, next))
    }

    async fn finish(&self, keys: u64, to: Revision) -> Result<Migrated> {
        Ok(Migrated {
            keys,
            from: self.revision,
            to,
            source_changed: self.storage.current_revision().await? != self.revision,
        })
    }
}

fn is_elsewhere(root: &str) -> bool {
    root.trim_end_matches('/') != ROOT
}

fn is_bound_to_its_key(value: &[u8]) -> bool {
    let providers: [&[u8]; 2] = [b"k8s:enc:aesgcm:", b"k8s:enc:kms:"];
    providers.iter().any(|prefix| value.starts_with(prefix))
}

/// Copies into a new data directory of the embedded engine. `root` is what stands in the source for [`ROOT`].
pub async fn to_directory(source: &dyn Storage, root: &str, dir: &Path) -> Result<Migrated> {
    let source = Source {
        storage: source,
        revision: source.current_revision().await?,
        moves: is_elsewhere(root),
    };
    let mut directory = NewDirectory::make(dir)?;
    let mut leases: HashMap<i64, bool> = HashMap::new();
    let (mut keys, mut next) = (0, Some(ALL.to_owned()));
    while let Some(start) = next {
        let (kvs, after) = source.page(&start).await?;
        next = after;
        for kv in kvs {
            let id = kv.lease.0;
            let lives = match leases.get(&id) {
                _ if id == 0 => true,
                Some(lives) => *lives,
                None => {
                    let left = source.storage.lease_left(kv.lease).await?;
                    if let Some(left) = left {
                        directory.put(Record::Lease(lease_record(id, left)))?;
                    }
                    leases.insert(id, left.is_some());
                    left.is_some()
                }
            };
            if lives {
                keys += 1;
                directory.put(Record::Key(key_record(kv, keys)))?;
            }
        }
    }
    let to = directory.finish(source.revision.0, BUMP)?;
    source.finish(keys, to).await
}

/// `number` tells the changes of one revision apart, of which etcd does not say the order.
fn key_record(kv: KeyValue, number: u64) -> KeyRecord {
    KeyRecord {
        key: kv.key.to_string(),
        create: kv.create_revision.0,
        modified: kv.mod_revision.0,
        sub: number as u32, // of one revision there are few
        version: kv.version,
        lease: kv.lease.0,
        value: kv.value,
    }
}

fn lease_record(id: i64, left: Duration) -> LeaseRecord {
    use crate::embedded::{Clock, SystemClock};
    let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    LeaseRecord {
        id,
        ttl_ms: left_ms,
        expires_ms: SystemClock::default().now_ms().saturating_add(left_ms),
    }
}

/// Copies into an engine that holds nothing below `/registry/`. `root` is what stands
/// there for [`ROOT`].
pub async fn to_storage(
    source: &dyn Storage,
    target: Arc<dyn Storage>,
    root: &str,
) -> Result<Migrated> {
    let source = Source {
        storage: source,
        revision: source.current_revision().await?,
        moves: is_elsewhere(root),
    };
    let first = RangeRequest {
        limit: 1,
        keys_only: true,
        ..RangeRequest::prefix(ALL)
    };
    if let Some(kv) = target.range(first).await?.kvs.first() {
        return Err(StorageError::Invalid(format!(
            "the target is not empty: it holds {}",
            kv.key
        )));
    }
    skip_to(&target, source.revision).await?;
    let mut leases: HashMap<i64, Option<Lease>> = HashMap::new();
    let (mut keys, mut next) = (0, Some(ALL.to_owned()));
    let mut batch = Batch::default();
    while let Some(start) = next {
        let (kvs, after) = source.page(&start).await?;
        next = after;
        for kv in kvs {
            let lease = match leases.get(&kv.lease.0) {
                _ if kv.lease.0 == 0 => Some(Lease(0)),
                Some(lease) => *lease,
                None => {
                    let lease = match source.storage.lease_left(kv.lease).await? {
                        Some(left) => Some(target.grant_lease(left).await?),
                        None => None,
                    };
                    leases.insert(kv.lease.0, lease);
                    lease
                }
            };
            if let Some(lease) = lease {
                keys += 1;
                batch.put(&*target, kv, lease).await?;
            }
        }
    }
    batch.write(&*target).await?;
    let to = target.current_revision().await?;
    target.compact(to).await?;
    source.finish(keys, to).await
}

/// Uses up revisions until the target's is at least this one.
async fn skip_to(target: &Arc<dyn Storage>, revision: Revision) -> Result<()> {
    let current = target.current_revision().await?;
    let missing = revision.0.saturating_sub(current.0);
    if missing > MOST_SKIPPED {
        return Err(StorageError::Invalid(format!(
            "the target is at revision {current}, the source at {revision}: that far only etcd itself can go. Start etcd on what \
             `etcdutl snapshot restore --bump-revision {missing} --mark-compacted` makes of a snapshot of it, then migrate"
        )));
    }
    let left = AtomicU64::new(missing);
    let skip = |number: u64| {
        let (left, target) = (&left, target.clone());
        async move {
            let key = format!("/registry/pilothouse.migration/{number}");
            let take =
                || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
            while take().is_ok() {
                let op = Op::Put {
                    key: key.clone(),
                    value: bytes::Bytes::new(),
                    lease: Lease(0),
                };
                target
                    .txn(Txn {
                        success: vec![op],
                        ..Txn::default()
                    })
                    .await?;
            }
            Ok::<_, StorageError>(Op::Delete { key })
        }
    };
    let used = try_join_all((0..SKIPPERS.min(missing)).map(skip)).await?;
    if !used.is_empty() {
        target
            .txn(Txn {
                success: used,
                ..Txn::default()
            })
            .await?;
    }
    Ok(())
}

/// Puts that wait to be written together.
#[derive(Default)]
struct Batch {
    ops: Vec<Op>,
    bytes: usize,
}

impl Batch {
    async fn put(&mut self, target: &dyn Storage, kv: KeyValue, lease: Lease) -> Result<()> {
        let bytes = kv.key.len() + kv.value.len();
        if self.ops.len() == TXN_OPS || self.bytes + bytes > TXN_BYTES {
            self.write(target).await?;
        }
        self.bytes += bytes;
        self.ops.push(Op::Put {
            key: kv.key.to_string(),
            value: kv.value,
            lease,
        });
        Ok(())
    }

    async fn write(&mut self, target: &dyn Storage) -> Result<()> {
        let ops = std::mem::take(self).ops;
        match ops.is_empty() {
            true => Ok(()),
            false => target
                .txn(Txn {
                    success: ops,
                    ..Txn::default()
                })
                .await
                .map(drop),
        }
    }
}
