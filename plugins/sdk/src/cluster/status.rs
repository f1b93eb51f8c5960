//! A refusal by the API server or the host, as `metav1.Status` has it.

use std::fmt;

/// Branch on `reason`: `NotFound`, `Conflict`, `AlreadyExists`, `Forbidden`, `Invalid` …
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub code: u16,
    pub reason: String,
    pub message: String,
}

impl Status {
    /// Any code and reason.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound"
    }

    /// The written object was not the latest one, or another uid or owner was asked for.
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    pub fn is_forbidden(&self) -> bool {
        self.reason == "Forbidden"
    }

    pub fn is_invalid(&self) -> bool {
        self.reason == "Invalid"
    }

    pub fn is_too_many_requests(&self) -> bool {
        self.reason == "TooManyRequests"
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.as_str() {
            "" => f.write_str(&self.reason),
            message => f.write_str(message),
        }
    }
}

impl std::error::Error for Status {}
