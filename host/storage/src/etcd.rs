//! The etcd engine: for more than one machine, and for data that other API servers read and write.
//!
//! Each prefix that is watched has one watch of etcd (see [`feeds`]), whose progress is asked for when somebody waits for a
//! revision. Requests go to one member until it fails (see [`members`]).
//!
//! The user must be allowed to read and write the keys below the prefix, and `compact_rev_key`; before etcd 3.4.25 and 3.5.8
//! all keys. Values may come from other
//! writers; nothing is assumed about them.

mod compactor;
mod convert;
mod errors;
mod feeds;
mod health;
mod members;
mod options;
mod pump;
mod snapshot;

use std::{sync::Arc, time::Duration};

use etcd_client::{Client, CompactionOptions, GetOptions, KvClient};
use futures::stream::BoxStream;

use crate::{
    engine::{
        BoxFuture, GetResponse, KeyValue, Lease, Op, RangeRequest, RangeResponse, Result, Revision,
        Size, SnapshotStream, Storage, StorageError, Txn, TxnResponse, WatchBatch, WatchRequest,
        WatchStream,
    },
    hub::Source,
};
use convert::Keys;
use errors::{Asked, CallError};
use feeds::Feeds;
use members::{Effect, Members};
pub use options::EtcdOptions;

/// What requests and the background tasks share.
struct Shared {
    members: Members,
    keys: Keys,
    /// Whether etcd's answers about the progress of watches can be believed.
    has_progress: bool,
}

/// The etcd engine. Dropping it ends its watches.
pub struct Etcd {
    shared: Arc<Shared>,
    feeds: Feeds,
    compactor: Option<tokio::task::AbortHandle>,
}

impl Etcd {
    /// Reaches one of the members, fails if the user may not read what has to be read, and starts taking part in compaction on the
    /// current tokio runtime.
    pub async fn connect(options: EtcdOptions) -> Result<Self> {
        let connector = options.connector().await?;
        let members = Members::new(options.endpoints, connector, options.timeout);
        let version_says = health::has_progress(&members).await?;
        let has_progress = options.reliable_progress.unwrap_or(version_says);
        let shared = Arc::new(Shared {
            members,
            keys: Keys::new(&options.prefix),
            has_progress,
        });
        shared.check_access().await?;
        let compactor = options
            .compaction_interval
            .map(|interval| tokio::spawn(compactor::run(shared.clone(), interval)).abort_handle());
        Ok(Self {
            shared,
            feeds: Feeds::new(has_progress),
            compactor,
        })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        if let Some(compactor) = &self.compactor {
            compactor.abort();
        }
        let closing = StorageError::Unavailable("the engine is closing".to_owned());
        self.feeds.close(&closing);
    }
}

impl Shared {
    /// A linearizable read of nothing.
    async fn current_revision(&self) -> Result<Revision> {
        let read = |mut kv: KvClient| {
            let key = self.keys.nothing();
            async move {
                let options = GetOptions::new().with_count_only();
                kv.get(key, Some(options)).await
            }
        };
        let response = self.members.kv(Effect::Reads, read).await;
        let response = response.map_err(CallError::without_context)?;
        Ok(convert::revision(response.header()))
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<GetResponse> {
        let key = self.keys.outer(key)?;
        let options = at.map(|at| GetOptions::new().with_revision(convert::number(at)));
        let read = |mut kv: KvClient| {
            let (key, options) = (key.clone(), options.clone());
            async move { kv.get(key, options).await }
        };
        let mut response = match self.members.kv(Effect::Reads, read).await {
            Ok(response) => response,
            Err(error) => return Err(self.explain(error, Asked::revision(at)).await),
        };
        let kv = response.take_kvs().into_iter().next();
        Ok(GetResponse {
            revision: convert::revision(response.header()),
            kv: kv.and_then(|kv| self.keys.key_value(kv)),
        })
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse> {
        let start = self.keys.bound(&request.start);
        let end = self.keys.bound(&request.end);
        if start >= end {
            return Ok(RangeResponse {
                revision: self.range_revision(request.revision).await?,
                kvs: Vec::new(),
                more: false,
                count: 0,
            });
        }
        let mut options = GetOptions::new()
            .with_range(end)
            .with_limit(i64::try_from(request.limit).unwrap_or(i64::MAX));
        if let Some(at) = request.revision {
            options = options.with_revision(convert::number(at));
        }
        if request.keys_only {
            options = options.with_keys_only();
        }
        let read = |mut kv: KvClient| {
            let (start, options) = (start.clone(), options.clone());
            async move { kv.get(start, Some(options)).await }
        };
        let mut response = match self.members.kv(Effect::Reads, read).await {
            Ok(response) => response,
            Err(error) => return Err(self.explain(error, Asked::revision(request.revision)).await),
        };
        let asked = request.revision.filter(|r| r.0 > 0);
        let kvs = response.take_kvs().into_iter();
        Ok(RangeResponse {
            revision: asked.unwrap_or_else(|| convert::revision(response.header())),
            more: response.more(),
            count: usize::try_from(response.count()).unwrap_or(0),
            kvs: kvs.filter_map(|kv| self.keys.key_value(kv)).collect(),
        })
    }

    async fn range_revision(&self, asked: Option<Revision>) -> Result<Revision> {
        match asked.filter(|r| r.0 > 0) {
            Some(asked) => Ok(asked),
            None => self.current_revision().await,
        }
    }

    async fn txn(&self, txn: Txn) -> Result<TxnResponse> {
        let mut asked = Asked::lease(txn.success.iter().chain(&txn.failure).find_map(leased));
        if txn.success.iter().chain(&txn.failure).any(writes) {
            asked = asked.writing();
        }
        let txn = self.keys.txn(txn)?;
        let commit = |mut kv: KvClient| {
            let txn = txn.clone();
            async move { kv.txn(txn).await }
        };
        match self.members.kv(Effect::Writes, commit).await {
            Ok(response) => Ok(self.keys.txn_response(&response)),
            Err(error) => Err(self.explain(error, asked).await),
        }
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        let compact = |mut kv: KvClient| async move {
            let options = None::<CompactionOptions>;
            kv.compact(convert::number(revision), options).await
        };
        // compacting twice is compacting once
        match self.members.kv(Effect::Reads, compact).await {
            Ok(_) => Ok(()),
            Err(error) => match self.explain(error, Asked::revision(Some(revision))).await {
                StorageError::Compacted { .. } => Ok(()), // somebody was quicker
                error => Err(error),
            },
        }
    }

    async fn grant(&self, ttl: Duration) -> Result<Lease> {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let seconds = i64::try_from(seconds.max(1)).unwrap_or(i64::MAX);
        let grant =
            |client: Client| async move { client.lease_client().grant(seconds, None).await };
        // a lease that nobody learns of has no keys and runs out
        let response = self.members.call(Effect::Reads, grant).await;
        Ok(Lease(response.map_err(CallError::without_context)?.id()))
    }

    async fn revoke(&self, lease: Lease) -> Result<()> {
        let revoke = |client: Client| async move { client.lease_client().revoke(lease.0).await };
        match self.members.call(Effect::Writes, revoke).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let asked = Asked::lease(Some(lease)).writing();
                Err(self.explain(error, asked).await)
            }
        }
    }
}

fn writes(op: &Op) -> bool {
    !matches!(op, Op::Get { .. })
}

fn leased(op: &Op) -> Option<Lease> {
    match op {
        Op::Put { lease, .. } if lease.0 != 0 => Some(*lease),
        _ => None,
    }
}

impl Source for Shared {
    fn replay(
        self: Arc<Self>,
        prefix: Arc<str>,
        after: Revision,
        upto: Revision,
    ) -> BoxStream<'static, Result<WatchBatch>> {
        pump::replay(self, prefix, after, upto)
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
                _ => Ok(self.get(key, Some(before)).await?.kv),
            }
        })
    }
}

impl Storage for Etcd {
    fn get<'a>(&'a self, key: &'a str, at: Option<Revision>) -> BoxFuture<'a, Result<GetResponse>> {
        Box::pin(self.shared.get(key, at))
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>> {
        Box::pin(self.shared.range(request))
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse>> {
        Box::pin(self.shared.txn(txn))
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream>> {
        Box::pin(self.feeds.watch(&self.shared, request))
    }

    fn request_progress(&self, prefix: &str, revision: Revision) {
        self.feeds.request_progress(prefix, revision);
    }

    fn current_revision(&self) -> BoxFuture<'_, Result<Revision>> {
        Box::pin(self.shared.current_revision())
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.shared.compact(revision))
    }

    fn grant_lease(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease>> {
        Box::pin(self.shared.grant(ttl))
    }

    fn revoke_lease(&self, lease: Lease) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.shared.revoke(lease))
    }

    fn lease_left(&self, lease: Lease) -> BoxFuture<'_, Result<Option<Duration>>> {
        Box::pin(snapshot::lease_left(&self.shared, lease))
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<SnapshotStream>> {
        Box::pin(snapshot::take(self.shared.clone()))
    }

    fn health(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.shared.health())
    }

    fn size(&self) -> BoxFuture<'_, Result<Size>> {
        Box::pin(self.shared.size())
    }
}
