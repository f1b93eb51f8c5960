//! Why a reconcile failed; the host retries it with back-off.

use std::fmt;

use crate::cluster::Status;

/// A refused request, or any other reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    Refused(Status),
    Other(String),
}

impl Error {
    /// Any other reason.
    pub fn other(message: impl fmt::Display) -> Self {
        Self::Other(message.to_string())
    }

    /// Whether a write lost against another one: an ordinary thing, the retry sees the new state.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Error::Refused(status) if status.is_conflict())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(status) => write!(f, "{}: {status}", status.reason),
            Error::Other(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Error::Refused(status)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Error::Other(error.to_string())
    }
}
