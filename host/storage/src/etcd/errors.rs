//! etcd's errors in the engine's words. etcd says which revision was compacted, or is current, only to those who ask again.

use std::{error::Error, time::Duration};

use super::{Shared, pump};
use crate::engine::{Lease, Revision, StorageError};

/// Why a request to a member failed.
#[derive(Debug)]
pub(super) struct CallError {
    endpoint: String,
    cause: Cause,
    /// It failed before anything was sent.
    unsent: bool,
}

#[derive(Debug)]
enum Cause {
    Etcd(etcd_client::Error),
    Late(Duration),
}

/// What a failure means for a further attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The member was not reached: nothing was sent.
    Unreached,
    /// The member cannot serve now and has not proposed anything.
    Refused,
    /// It may or may not have happened.
    Unknown,
    /// Etcd has answered, and would answer the same again.
    Final,
}

/// What the request was about, for the error's text and numbers.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    revision: Revision,
    lease: Lease,
    writes: bool,
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

    /// A failure leaves it open whether the write took place.
    pub(super) fn writing(self) -> Self {
        Self {
            writes: true,
            ..self
        }
    }
}

/// What etcd's message means; the messages are part of its API (`rpctypes`).
enum Meaning {
    Compacted,
    Future,
    NoSpace,
    Corrupt,
    NoLease,
    Invalid,
    Unavailable,
}

impl CallError {
    pub(super) fn new(endpoint: &str, error: etcd_client::Error) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            cause: Cause::Etcd(error),
            unsent: false,
        }
    }

    pub(super) fn late(endpoint: &str, after: Duration) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            cause: Cause::Late(after),
            unsent: false,
        }
    }

    pub(super) fn before_sending(self) -> Self {
        Self {
            unsent: true,
            ..self
        }
    }

    /// What may be done about it.
    pub(super) fn failure(&self) -> Failure {
        use etcd_client::Error as Etcd;
        match &self.cause {
            Cause::Etcd(Etcd::GRpcStatus(status)) => match kind_of(status) {
                Failure::Unknown if self.unsent => Failure::Unreached,
                failure => failure,
            },
            Cause::Etcd(Etcd::InvalidArgs(_) | Etcd::InvalidUri(_)) => Failure::Final,
            _ if self.unsent => Failure::Unreached,
            _ => Failure::Unknown,
        }
    }

    /// The engine's error where it does not matter what was asked.
    pub(super) fn without_context(self) -> StorageError {
        match self.meaning() {
            Meaning::NoSpace => StorageError::NoSpace(self.text()),
            Meaning::Corrupt => StorageError::Corrupt(self.text()),
            Meaning::Invalid => StorageError::Invalid(self.text()),
            _ => StorageError::Unavailable(self.text()),
        }
    }

    fn meaning(&self) -> Meaning {
        let Cause::Etcd(etcd_client::Error::GRpcStatus(status)) = &self.cause else {
            return Meaning::Unavailable;
        };
        let has = |text| status.message().contains(text);
        if has("required revision has been compacted") {
            Meaning::Compacted
        } else if has("required revision is a future revision") {
            Meaning::Future
        } else if has("database space exceeded") {
            Meaning::NoSpace
        } else if has("corrupt cluster") {
            Meaning::Corrupt
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
        let endpoint = &self.endpoint;
        match &self.cause {
            Cause::Etcd(etcd_client::Error::GRpcStatus(status)) => {
                let source = innermost(status);
                format!(
                    "etcd at {endpoint}: {}: {}{source}",
                    status.code(),
                    status.message()
                )
            }
            Cause::Etcd(error) => format!("etcd at {endpoint}: {error}"),
            Cause::Late(after) => format!("etcd at {endpoint}: no answer in {after:.1?}"),
        }
    }
}

fn kind_of(status: &tonic::Status) -> Failure {
    use tonic::Code;
    let has = |text| status.message().contains(text);
    if sources(status).any(|source| source.is::<tonic::ConnectError>()) {
        return Failure::Unreached;
    }
    if has("etcdserver: no leader")
        || has("etcdserver: too many requests")
        || has("etcdserver: not capable")
        || has("etcdserver: rpc not supported for learner")
    {
        return Failure::Refused;
    }
    match status.code() {
        Code::Unavailable
        | Code::Unknown
        | Code::Internal
        | Code::Cancelled
        | Code::Aborted
        | Code::DeadlineExceeded => Failure::Unknown,
        _ => Failure::Final,
    }
}

fn sources(error: &dyn Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let mut next = error.source();
    std::iter::from_fn(move || {
        let source = next?;
        next = source.source();
        Some(source)
    })
}

/// What lies at the bottom of a failed connection: `: Connection refused (os error 111)`.
fn innermost(status: &tonic::Status) -> String {
    sources(status)
        .last()
        .map(|source| format!(": {source}"))
        .unwrap_or_default()
}

impl Shared {
    /// The engine's error for a failed request.
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
            Meaning::Unavailable if asked.writes && error.failure() == Failure::Unknown => {
                StorageError::OutcomeUnknown(error.text())
            }
            _ => error.without_context(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_happened_is_told_from_what_did_not() {
        use tonic::{Code, Status};
        let refused = || Status::from_error(Box::new(tonic::ConnectError("refused".into())));
        // the status, what it means for a further attempt
        let cases: [(Status, Failure); 9] = [
            (refused(), Failure::Unreached),
            (
                Status::unavailable("etcdserver: no leader"),
                Failure::Refused,
            ),
            (
                Status::resource_exhausted("etcdserver: too many requests"),
                Failure::Refused,
            ),
            (
                Status::unavailable("etcdserver: leader changed"),
                Failure::Unknown,
            ),
            (
                Status::unavailable("etcdserver: request timed out"),
                Failure::Unknown,
            ),
            (
                Status::unknown("transport error: broken pipe"),
                Failure::Unknown,
            ),
            (
                Status::cancelled("operation was canceled"),
                Failure::Unknown,
            ),
            (
                Status::out_of_range("etcdserver: mvcc: required revision has been compacted"),
                Failure::Final,
            ),
            (
                Status::new(Code::PermissionDenied, "etcdserver: permission denied"),
                Failure::Final,
            ),
        ];
        for (status, expected) in cases {
            let text = status.to_string();
            let error = CallError::new("http://e", etcd_client::Error::GRpcStatus(status));
            assert_eq!(error.failure(), expected, "{text}");
        }
        let late = CallError::late("http://e", Duration::from_secs(1));
        assert_eq!(late.failure(), Failure::Unknown);
        assert_eq!(late.before_sending().failure(), Failure::Unreached);
    }
}
