//! Ordered bytes with etcd's semantics behind one trait, two engines, and the watch cache above them.
//!
//! Invariants, held by every engine and checked by one conformance suite:
//! 1. There is one monotonic revision; every successful transaction that writes takes exactly one.
//! 2. A write is answered only after it is durable; what was answered survives `kill -9`.
//! 3. Revision order equals commit order; a watch sees every event once, in that order, without gaps.
//! 4. A read at a revision sees exactly the state after that revision, or fails with `Compacted`.
//! 5. A slow watcher never delays a writer.

pub mod embedded;
pub mod engine;
pub mod etcd;
mod hub;
pub mod watch_cache;

pub use embedded::{Embedded, EmbeddedOptions};
pub use engine::{
    BoxFuture, Compare, Event, EventKind, GetResponse, KeyValue, Lease, Op, RangeRequest,
    RangeResponse, Result, Size, Storage, StorageError, Txn, TxnResponse, WatchBatch, WatchRequest,
    WatchStream,
};
pub use etcd::{Etcd, EtcdOptions};
pub use pilothouse_api::Revision;
pub use watch_cache::{CacheError, CacheEvent, CacheList, CacheWatch, EventType, WatchCache};
