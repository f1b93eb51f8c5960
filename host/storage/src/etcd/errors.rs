//! etcd's errors in the engine's words. etcd says which revision was compacted, or is current, only to those who ask again.

use std::{future::Future, time::Duration};

use super::{Shared, pump};
use crate::engine::{Lease, Revision, StorageError};

/// Why a call failed.
#[derive(Debug)]
pub(super) enum CallError {
    Etcd(etcd_client::Error),
    TimedOut(Duration),
}

/// What the call was about, for the error's text and numbers.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    revision: Revision,
    lease: Lease,
}

impl Asked {
    pub(super) fn revision(revision: Option<Revision>) -> Self {
        Self {
            revision: revision.unwrap_or_default(),
            ..Self::default()
        }
    }

    pub(super) fn lease(lease: Option<Lease>) -> Self {
        Self {
            lease: lease.unwrap_or_default(),
            ..Self::default()
        }
    }
}

/// Bounds a call's time.
pub(super) async fn call<T>(
    timeout: Duration,
    call: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(timeout, call).await {
        Ok(result) => result.map_err(CallError::Etcd),
        Err(_) => Err(CallError::TimedOut(timeout)),
    }
}

/// What etcd's message means; the messages are part of its API (`rpctypes`).
enum Meaning {
    Compacted,
    Future,
    NoSpace,
    NoLease,
    Invalid,
    Unavailable,
}

impl CallError {
    pub(super) fn without_context(self) -> StorageError {
        match self.meaning() {
            Meaning::NoSpace => StorageError::NoSpace(self.text()),
            Meaning::Invalid => StorageError::Invalid(self.text()),
            _ => StorageError::Unavailable(self.text()),
        }
    }

    fn meaning(&self) -> Meaning {
        let Self::Etcd(etcd_client::Error::GRpcStatus(status)) = self else {
            return Meaning::Unavailable;
        };
        let has = |text| status.message().contains(text);
        if has("required revision has been compacted") {
            Meaning::Compacted
        } else if has("required revision is a future revision") {
            Meaning::Future
        } else if has("database space exceeded") {
            Meaning::NoSpace
        } else if has("requested lease not found") {
            Meaning::NoLease
        } else if has("duplicate key given in txn request")
            || has("request is too large")
            || has("too many operations in txn request")
            || has("key is not provided")
        {
            Meaning::Invalid
        } else {
            Meaning::Unavailable
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Etcd(etcd_client::Error::GRpcStatus(status)) => {
                format!("etcd: {}: {}", status.code(), status.message())
            }
            Self::Etcd(error) => format!("etcd: {error}"),
            Self::TimedOut(after) => format!("etcd: no answer in {after:?}"),
        }
    }
}

impl Shared {
    /// The engine's error for a failed call.
    pub(super) async fn explain(&self, error: CallError, asked: Asked) -> StorageError {
        match error.meaning() {
            Meaning::Compacted => {
                // Unless etcd says better, at least this one is gone.
                let oldest = pump::compacted(self, asked.revision).await;
                StorageError::Compacted {
                    asked: asked.revision,
                    oldest: oldest.unwrap_or(Revision(asked.revision.0 + 1)),
                }
            }
            Meaning::Future => match self.current_revision().await {
                Ok(current) => StorageError::FutureRevision {
                    asked: asked.revision,
                    current,
                },
                Err(error) => error,
            },
            Meaning::NoLease => StorageError::LeaseNotFound(asked.lease),
            _ => error.without_context(),
        }
    }
}
