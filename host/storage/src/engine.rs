//! The `Storage` trait: what an engine promises. Source of the semantics: <https://etcd.io/docs/v3.5/learning/api/>

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::Stream;
pub use pilothouse_api::Revision;

/// A boxed, sendable future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The engine's result.
pub type Result<T, E = StorageError> = std::result::Result<T, E>;

/// What an engine can fail with.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StorageError {
    /// The revision asked for is older than what is kept.
    #[error("revision {asked} has been compacted; the oldest kept is {oldest}")]
    Compacted { asked: Revision, oldest: Revision },
    /// The revision asked for does not exist yet.
    #[error("revision {asked} is in the future; the current one is {current}")]
    FutureRevision { asked: Revision, current: Revision },
    /// The disk or the quota is full. Reads go on; writes succeed again once space is freed.
    #[error("no space left for writes: {0}")]
    NoSpace(String),
    /// The request contradicts itself, such as two puts of one key in a transaction.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// The lease is unknown or has expired.
    #[error("lease {0} not found")]
    LeaseNotFound(Lease),
    /// The data on disk is damaged beyond the torn tail of a crash.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// No writes are taken until an operator acts; reads go on.
    #[error("storage is read-only: {0}")]
    ReadOnly(String),
    /// A value is there but cannot be decrypted or decoded; whoever can read it or remove it has to. Names the key.
    #[error("unable to read the value of {key:?}: {why}")]
    Unreadable { key: Arc<str>, why: Arc<str> },
    /// The engine cannot be reached or is closing, and nothing was written; a retry may succeed.
    #[error("storage unavailable: {0}")]
    Unavailable(String),
    /// The engine did not say whether the write took place. Doing it again without a look may do it twice.
    #[error("the outcome of the write is unknown: {0}")]
    OutcomeUnknown(String),
}

/// A lease (TTL) identifier. Zero is no lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lease(pub i64);

impl std::fmt::Display for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A key and its value with its revisions, as etcd keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Arc<str>,
    pub value: Bytes,
    pub create_revision: Revision,
    pub mod_revision: Revision,
    pub version: u64,
    pub lease: Lease,
    pub at_rest: AtRest,
}

/// What encryption at rest found; engines know of nothing and say `Fresh`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AtRest {
    /// As a write would keep it now.
    #[default]
    Fresh,
    /// Not by the provider and key that write now: a write must be made even if it changes nothing.
    Stale,
    /// The value is empty, because it could not be decrypted; why.
    Unreadable(Arc<str>),
}

/// What every encrypted value begins with.
pub(crate) const ENCRYPTED_PREFIX: &[u8] = b"k8s:enc:";

impl KeyValue {
    /// The value, unless it is `Unreadable`: also one that is encrypted where nothing can decrypt it.
    pub fn readable(&self) -> Result<&Bytes> {
        let why = match &self.at_rest {
            AtRest::Unreadable(why) => why.clone(),
            _ => match crate::encryption::written_by(&self.value) {
                None => return Ok(&self.value),
                Some(by) => {
                    format!("it was encrypted {by}, and no --encryption-provider-config is given")
                        .into()
                }
            },
        };
        Err(StorageError::Unreadable {
            key: self.key.clone(),
            why,
        })
    }
}

/// The answer to `get`.
#[derive(Clone, Debug)]
pub struct GetResponse {
    /// The current revision when the read was served.
    pub revision: Revision,
    pub kv: Option<KeyValue>,
}

/// A range read of keys in `start..end`, ordered.
#[derive(Clone, Debug, Default)]
pub struct RangeRequest {
    pub start: String,
    /// Exclusive. For all keys below a prefix see [`RangeRequest::prefix`].
    pub end: String,
    /// Zero: no limit.
    pub limit: usize,
    /// `None` or zero: now, linearizable.
    pub revision: Option<Revision>,
    /// Values are left empty.
    pub keys_only: bool,
}

impl RangeRequest {
    /// Everything below a prefix, which should end in `/`.
    pub fn prefix(prefix: &str) -> Self {
        Self {
            start: prefix.to_owned(),
            end: prefix_end(prefix),
            ..Self::default()
        }
    }
}

/// The first key after all keys that start with `prefix`.
pub fn prefix_end(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    match end.pop() {
        Some(last) => end.push(char::from_u32(last as u32 + 1).unwrap_or(char::MAX)),
        None => end.push(char::MAX),
    }
    end
}

/// The answer to `range`.
#[derive(Clone, Debug)]
pub struct RangeResponse {
    /// The revision of this read: the asked one, or the current one.
    pub revision: Revision,
    pub kvs: Vec<KeyValue>,
    /// More keys remain beyond `limit`.
    pub more: bool,
    /// How many keys the range holds in all.
    pub count: usize,
}

/// A condition on one key.
#[derive(Clone, Debug)]
pub enum Compare {
    /// The key's `mod_revision` equals this; zero means that the key does not exist.
    ModRevision(String, Revision),
}

/// A step of a transaction.
#[derive(Clone, Debug)]
pub enum Op {
    Put {
        key: String,
        value: Bytes,
        lease: Lease,
    },
    Delete {
        key: String,
    },
    /// Reads one key, usually in `failure`, to learn what is there.
    Get {
        key: String,
    },
}

/// If all compares hold then `success`, else `failure`, atomically.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    pub compares: Vec<Compare>,
    pub success: Vec<Op>,
    pub failure: Vec<Op>,
}

impl Txn {
    /// Puts if the key's revision is `expected` (zero: absent); otherwise reads it.
    pub fn put_if(key: &str, expected: Revision, value: Bytes, lease: Lease) -> Self {
        Self {
            compares: vec![Compare::ModRevision(key.to_owned(), expected)],
            success: vec![Op::Put {
                key: key.to_owned(),
                value,
                lease,
            }],
            failure: vec![Op::Get {
                key: key.to_owned(),
            }],
        }
    }

    /// Deletes if the key's revision is `expected`; otherwise reads it.
    pub fn delete_if(key: &str, expected: Revision) -> Self {
        Self {
            compares: vec![Compare::ModRevision(key.to_owned(), expected)],
            success: vec![Op::Delete {
                key: key.to_owned(),
            }],
            failure: vec![Op::Get {
                key: key.to_owned(),
            }],
        }
    }
}

/// The answer to `txn`.
#[derive(Clone, Debug)]
pub struct TxnResponse {
    /// The revision of the write, or the current one if nothing was written.
    pub revision: Revision,
    pub succeeded: bool,
    /// The results of the `Get` steps that ran, in order.
    pub gets: Vec<Option<KeyValue>>,
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Put,
    Delete,
}

/// One change. For a delete, `kv.value` is empty, `kv.mod_revision` is the deletion's revision and the other numbers are zero.
#[derive(Clone, Debug)]
pub struct Event {
    pub kind: EventKind,
    pub kv: KeyValue,
    /// The pair before the change, if there was one and the watch asked for it.
    pub previous: Option<KeyValue>,
}

/// What to watch.
#[derive(Clone, Debug, Default)]
pub struct WatchRequest {
    /// Keys that start with this; empty for all.
    pub prefix: String,
    /// Changes after this revision. An engine starts at revision 1, so zero is everything that ever happened.
    pub after: Revision,
    /// Fill [`Event::previous`]; costs a read for each event.
    pub previous: bool,
}

impl WatchRequest {
    /// Changes below `prefix` after a revision, without the previous pairs.
    pub fn new(prefix: &str, after: Revision) -> Self {
        Self {
            prefix: prefix.to_owned(),
            after,
            previous: false,
        }
    }
}

/// Events in revision order; never half of a revision. An empty batch is progress: nothing up to `revision` is missing.
#[derive(Clone, Debug)]
pub struct WatchBatch {
    pub revision: Revision,
    pub events: Vec<Event>,
}

/// Ends with an error (`Compacted`, `Unavailable`) when the watch cannot go on; the consumer lists again.
pub type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchBatch>> + Send>>;

/// What the data takes, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub on_disk: u64,
    /// Without what compaction has freed already.
    pub in_use: u64,
    /// How much there may be on disk before writes are refused, if the engine says so.
    pub quota: Option<u64>,
    /// What the engine calls for help about, in its words.
    pub alarms: Vec<String>,
}

/// The bytes of a snapshot file, in order; whole only if it ends without an error.
pub type SnapshotStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// An ordered, versioned key-value store. Object-safe; shared as `Arc<dyn Storage>`.
pub trait Storage: Send + Sync + 'static {
    /// One key, now (linearizable; `None` or zero) or at a revision.
    fn get<'a>(&'a self, key: &'a str, at: Option<Revision>) -> BoxFuture<'a, Result<GetResponse>>;

    /// Keys of a range in order.
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>>;

    /// The only way to write. Durable when answered.
    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse>>;

    /// All changes below a prefix after a revision. Fails with `Compacted`, here or in the stream, when `after` is no longer kept.
    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream>>;

    /// Asks the watches of exactly this prefix to report progress as soon as they have delivered all up to `revision`.
    /// Without it a watch reports only batches with events, so that a write wakes nobody whom it does not concern.
    fn request_progress(&self, prefix: &str, revision: Revision);

    /// The current revision, linearizable: no answered write is above it.
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision>>;

    /// Forgets what is older than `revision`.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>>;

    /// A lease of so long; its keys are deleted when it runs out.
    fn grant_lease(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease>>;

    /// Ends a lease and deletes its keys.
    fn revoke_lease(&self, lease: Lease) -> BoxFuture<'_, Result<()>>;

    /// How long a lease has left; `None` if there is no such lease.
    fn lease_left(&self, lease: Lease) -> BoxFuture<'_, Result<Option<Duration>>> {
        Box::pin(async move { Err(StorageError::LeaseNotFound(lease)) })
    }

    /// Everything that is stored at one moment, as the contents of a file (see [`crate::snapshot`]). Holds up nobody.
    fn snapshot(&self) -> BoxFuture<'_, Result<SnapshotStream>> {
        Box::pin(async {
            Err(StorageError::Invalid(
                "this storage takes no snapshots".to_owned(),
            ))
        })
    }

    /// Whether it can serve, with the reason if it cannot. For `/readyz`.
    fn health(&self) -> BoxFuture<'_, Result<()>>;

    /// How much the data takes. For metrics.
    fn size(&self) -> BoxFuture<'_, Result<Size>> {
        Box::pin(std::future::ready(Ok(Size::default())))
    }
}
