//! What storage fails with, as clients see it. The one place where the two meet.

use pilothouse_api::Status;
use pilothouse_storage::{CacheError, StorageError};

/// A failed read or write.
pub(crate) fn from_storage(error: StorageError) -> Status {
    match error {
        StorageError::Compacted { asked, oldest } => Status::expired(format!(
            "The provided resource version is too old: {asked} (the oldest kept is {oldest})"
        )),
        StorageError::FutureRevision { asked, current } => too_large_revision(asked.0, current.0),
        // no Retry-After: whoever asks is told what is wrong, instead of being kept waiting by clients that repeat ten times
        StorageError::Unavailable(why) => Status::new(
            503,
            "ServiceUnavailable",
            format!("storage is unavailable: {why}"),
        ),
        // no Retry-After: clients that follow it would create a second object
        StorageError::OutcomeUnknown(why) => Status::new(
            504,
            "Timeout",
            format!("storage did not say whether the write took place: {why}"),
        ),
        // Upstream answers 500, which says nothing, and 429 would be taken for a disruption budget by whoever evicts pods and be
        // repeated by every client. This is repeated by nobody at once and says what it is.
        error @ StorageError::NoSpace(_) => {
            Status::new(507, "InsufficientStorage", error.to_string())
        }
        error @ StorageError::ReadOnly(_) => {
            Status::new(503, "ServiceUnavailable", error.to_string())
        }
        error @ (StorageError::Invalid(_)
        | StorageError::LeaseNotFound(_)
        | StorageError::Corrupt(_)
        | StorageError::Unreadable { .. }) => {
            tracing::error!(%error, "storage failed");
            Status::internal(error)
        }
    }
}

/// 504 with the cause by which clients know that waiting helps.
pub(crate) fn too_large_revision(asked: u64, current: u64) -> Status {
    Status::timeout(
        format!("Too large resource version: {asked}, current: {current}"),
        1,
    )
    .with_cause(pilothouse_api::Cause {
        reason: "ResourceVersionTooLarge".to_owned(),
        message: "Too large resource version".to_owned(),
        field: String::new(),
    })
}

/// What a cache could not answer.
pub(crate) fn from_cache(error: CacheError) -> Status {
    match error {
        CacheError::NotReady(_) => Status::too_many_requests("storage is (re)initializing", 1),
        CacheError::Expired { .. } => Status::expired(error.to_string()),
        CacheError::Behind { asked, current } => too_large_revision(asked.0, current.0),
        CacheError::Closed => {
            Status::new(503, "ServiceUnavailable", "the server is shutting down").retry_after(1)
        }
        CacheError::Storage(error) => from_storage(error),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_api::Revision;

    use super::*;

    #[test]
    fn caches_fail_in_the_words_of_the_api() {
        let (asked, other) = (Revision(7), Revision(9));
        // the error, code, reason, seconds to wait
        for (error, code, reason, retry) in [
            (
                CacheError::NotReady("pods".to_owned()),
                429,
                "TooManyRequests",
                1,
            ),
            (
                CacheError::Expired {
                    asked,
                    oldest: other,
                },
                410,
                "Expired",
                0,
            ),
            (
                CacheError::Behind {
                    asked,
                    current: other,
                },
                504,
                "Timeout",
                1,
            ),
            (CacheError::Closed, 503, "ServiceUnavailable", 1),
        ] {
            let status = from_cache(error);
            assert_eq!((status.code, status.reason.as_str()), (code, reason));
            let details = status.details.unwrap_or_default();
            assert_eq!(details.retry_after_seconds, retry, "{reason}");
        }
    }
}
