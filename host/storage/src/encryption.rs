//! Encryption at rest: a storage in front of another one that keeps the values of some resources encrypted.
//!
//! Keys, revisions and leases stay as they are, so everything above and below works as before. Values look exactly as upstream's
//! API server writes them, the authenticated storage key included, so that both can share one etcd.
//! Source: <https://kubernetes.io/docs/tasks/administer-cluster/encrypt-data/>
//!
//! Invariants:
//! 1. Writes use the first provider of the value's resource; reads try all of them, and mark what another than the first has
//!    written as stale, so that the next write replaces it even if it changes nothing.
//! 2. A value that cannot be read is marked, never dropped and never shown; its neighbours are not affected.

mod cipher;
mod config;
mod providers;
mod rules;

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use parking_lot::RwLock;

use crate::engine::{
    AtRest, BoxFuture, EventKind, GetResponse, KeyValue, Lease, Op, RangeRequest, RangeResponse,
    Result, Revision, Size, SnapshotStream, Storage, StorageError, Txn, TxnResponse, WatchBatch,
    WatchRequest, WatchStream,
};
pub use config::{ConfigError, EncryptionConfig};
pub(crate) use providers::written_by;
pub use rules::KeyLayout;
use rules::Rules;

/// What keys begin with here and, unless told otherwise, in etcd.
pub const ROOT: &str = "/registry";

/// Ranges with more bytes than this are decrypted on a blocking thread.
const MANY_BYTES: usize = 256 << 10;

/// A storage whose values are encrypted as a configuration says.
pub struct Encrypted {
    inner: Arc<dyn Storage>,
    at_rest: Arc<Translator>,
}

impl Encrypted {
    /// In front of `inner`. `root` is what stands in etcd for the `/registry` that keys begin with: authenticated is the whole
    /// key as it is there.
    pub fn new(
        inner: Arc<dyn Storage>,
        config: EncryptionConfig,
        layout: KeyLayout,
        root: &str,
    ) -> Self {
        Self {
            inner,
            at_rest: Arc::new(Translator {
                rules: RwLock::new(Arc::new(config.rules)),
                layout,
                root: root.trim_end_matches('/').to_owned(),
            }),
        }
    }

    /// Goes on with another configuration: what is read and written from now on.
    pub fn reload(&self, config: EncryptionConfig) {
        *self.at_rest.rules.write() = Arc::new(config.rules);
    }
}

/// Between values as they are and values at rest.
struct Translator {
    rules: RwLock<Arc<Rules>>,
    layout: KeyLayout,
    root: String,
}

impl Translator {
    fn rules(&self) -> Arc<Rules> {
        self.rules.read().clone()
    }

    fn seal(&self, ops: &mut [Op]) -> Result<()> {
        let rules = self.rules();
        for op in ops {
            if let Op::Put { key, value, .. } = op {
                let providers = rules.providers(&self.layout, key);
                let sealed = providers.seal(value, &self.outer(key));
                *value = sealed.map_err(|why| {
                    StorageError::Unavailable(format!("encrypting the value of {key}: {why}"))
                })?;
            }
        }
        Ok(())
    }

    fn open(&self, rules: &Rules, kv: &mut KeyValue) {
        let providers = rules.providers(&self.layout, &kv.key);
        match providers.open(&kv.value, &self.outer(&kv.key)) {
            Ok(opened) => {
                kv.value = opened.value;
                kv.at_rest = match opened.stale {
                    true => AtRest::Stale,
                    false => AtRest::Fresh,
                };
            }
            Err(why) => {
                kv.value = bytes::Bytes::new();
                kv.at_rest = AtRest::Unreadable(why.into());
            }
        }
    }

    fn open_all<'a>(&self, kvs: impl IntoIterator<Item = &'a mut KeyValue>) {
        let rules = self.rules();
        for kv in kvs {
            self.open(&rules, kv);
        }
    }

    fn open_batch(&self, batch: &mut WatchBatch) {
        let rules = self.rules();
        for event in &mut batch.events {
            if event.kind == EventKind::Put {
                self.open(&rules, &mut event.kv);
            }
            if let Some(previous) = &mut event.previous {
                self.open(&rules, previous);
            }
        }
    }

    fn outer(&self, key: &str) -> String {
        match key.strip_prefix(ROOT) {
            Some(path) => format!("{}{path}", self.root),
            None => key.to_owned(),
        }
    }
}

impl Storage for Encrypted {
    fn get<'a>(&'a self, key: &'a str, at: Option<Revision>) -> BoxFuture<'a, Result<GetResponse>> {
        Box::pin(async move {
            let mut response = self.inner.get(key, at).await?;
            self.at_rest.open_all(&mut response.kv);
            Ok(response)
        })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>> {
        Box::pin(async move {
            let keys_only = request.keys_only;
            let mut response = self.inner.range(request).await?;
            if keys_only {
                return Ok(response);
            }
            let bytes: usize = response.kvs.iter().map(|kv| kv.value.len()).sum();
            if bytes <= MANY_BYTES {
                self.at_rest.open_all(&mut response.kvs);
                return Ok(response);
            }
            let at_rest = self.at_rest.clone();
            let opened = tokio::task::spawn_blocking(move || {
                at_rest.open_all(&mut response.kvs);
                response
            });
            opened
                .await
                .map_err(|error| StorageError::Unavailable(error.to_string()))
        })
    }

    fn txn(&self, mut txn: Txn) -> BoxFuture<'_, Result<TxnResponse>> {
        Box::pin(async move {
            self.at_rest.seal(&mut txn.success)?;
            self.at_rest.seal(&mut txn.failure)?;
            let mut response = self.inner.txn(txn).await?;
            self.at_rest.open_all(response.gets.iter_mut().flatten());
            Ok(response)
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream>> {
        Box::pin(async move {
            let at_rest = self.at_rest.clone();
            let batches = self.inner.watch(request).await?;
            let opened = batches.map(move |batch| {
                batch.map(|mut batch| {
                    at_rest.open_batch(&mut batch);
                    batch
                })
            });
            Ok(Box::pin(opened) as WatchStream)
        })
    }

    fn request_progress(&self, prefix: &str, revision: Revision) {
        self.inner.request_progress(prefix, revision);
    }

    fn current_revision(&self) -> BoxFuture<'_, Result<Revision>> {
        self.inner.current_revision()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        self.inner.compact(revision)
    }

    fn grant_lease(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease>> {
        self.inner.grant_lease(ttl)
    }

    fn revoke_lease(&self, lease: Lease) -> BoxFuture<'_, Result<()>> {
        self.inner.revoke_lease(lease)
    }

    fn lease_left(&self, lease: Lease) -> BoxFuture<'_, Result<Option<Duration>>> {
        self.inner.lease_left(lease)
    }

    /// As it lies in storage, encrypted.
    fn snapshot(&self) -> BoxFuture<'_, Result<SnapshotStream>> {
        self.inner.snapshot()
    }

    fn size(&self) -> BoxFuture<'_, Result<Size>> {
        self.inner.size()
    }

    fn health(&self) -> BoxFuture<'_, Result<()>> {
        self.inner.health()
    }
}

#[cfg(test)]
mod tests;
