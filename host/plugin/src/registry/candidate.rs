//! A version beside the one that serves. With a weight of 0 it is asked what the other one is asked, and its answers are only
//! compared; with a higher one it decides that share of the calls. Its owner promotes or withdraws it.
//!
//! ```text
//!   put_candidate ──► trial ──► Shadow | Weighted ── fails too often ──► Withdrawn, until another one is put
//!                       └ failed ──► Failed
//! ```
//!
//! Invariants: what serves does not depend on it; where it fails, what serves answers instead.

use std::sync::Arc;

use super::storm::Storm;
use crate::{
    error::LoadError,
    revision::{Digest, Home, Revision, Serial, Settings},
    shadow::ShadowFigures,
    stats::Figures,
};

/// A candidate that takes part.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub revision: Arc<Revision>,
    /// Of a hundred calls, those that it decides; 0: its answers do not act.
    pub weight: u8,
}

/// Whether a key is in the share of so many in a hundred: the same for every process and every attempt. FNV-1a, since what is
/// chosen must not depend on the build.
pub fn weighs(weight: u8, key: &[&str]) -> bool {
    if weight == 0 || weight >= 100 {
        return weight >= 100;
    }
    let bytes = key.iter().flat_map(|part| part.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) % 100 < u64::from(weight)
}

/// A word for a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateState {
    /// Its answers are compared and do not act.
    Shadow,
    /// It decides its share.
    Weighted,
    /// It failed too often and is not called any more.
    Withdrawn,
    /// It could not be loaded.
    Failed,
}

impl CandidateState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shadow => "Shadow",
            Self::Weighted => "Weighted",
            Self::Withdrawn => "Withdrawn",
            Self::Failed => "Failed",
        }
    }
}

/// A candidate at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateStatus {
    pub digest: Option<Digest>,
    pub weight: u8,
    pub state: CandidateState,
    /// Why it is not called, in one sentence.
    pub message: String,
    /// Of its own calls alone.
    pub figures: Figures,
    pub shadow: ShadowFigures,
}

/// What makes two wishes for a candidate the same.
#[derive(Clone, PartialEq)]
pub(super) struct Wanted {
    pub(super) digest: Option<Digest>,
    pub(super) settings: Settings,
    pub(super) weight: u8,
}

/// The candidate of a slot.
pub(super) struct Beside {
    pub(super) wanted: Wanted,
    home: Home,
    revision: Option<Arc<Revision>>,
    storm: Storm,
    /// Empty while it is called.
    message: String,
}

impl Beside {
    pub(super) fn new(
        wanted: Wanted,
        home: Home,
        loaded: Result<Revision, LoadError>,
        storm: Storm,
    ) -> Self {
        let (revision, message) = match loaded {
            Ok(revision) => (Some(Arc::new(revision)), String::new()),
            Err(error) => (None, error.to_string()),
        };
        Self {
            wanted,
            home,
            revision,
            storm,
            message,
        }
    }

    /// If it is to be called.
    pub(super) fn active(&self) -> Option<Candidate> {
        let revision = self.revision.as_ref().filter(|_| self.message.is_empty())?;
        Some(Candidate {
            revision: Arc::clone(revision),
            weight: self.wanted.weight,
        })
    }

    pub(super) fn is(&self, serial: Serial) -> bool {
        let revision = self.revision.as_ref();
        revision.is_some_and(|revision| revision.serial() == serial)
    }

    /// Counts a failure. Answers whether it is called no more from now on.
    pub(super) fn trapped(&mut self, now: std::time::Duration) -> bool {
        if !self.message.is_empty() || !self.storm.strike(now) {
            return false;
        }
        self.message = format!("it failed {} and was withdrawn", self.storm.describe());
        true
    }

    pub(super) fn status(&self) -> CandidateStatus {
        let shadow = self
            .revision
            .as_ref()
            .and_then(|revision| revision.shadow());
        CandidateStatus {
            digest: self.wanted.digest,
            weight: self.wanted.weight,
            state: match (&self.revision, self.message.as_str(), self.wanted.weight) {
                (None, ..) => CandidateState::Failed,
                (_, "", 0) => CandidateState::Shadow,
                (_, "", _) => CandidateState::Weighted,
                _ => CandidateState::Withdrawn,
            },
            message: self.message.clone(),
            figures: self.home.stats.figures(),
            shadow: shadow.map(|shadow| shadow.figures()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_as_asked_and_the_same_key_is_always_on_the_same_side() {
        let count = |weight| {
            let names = (0..10_000).map(|n| format!("pod-{n}"));
            names
                .filter(|name| weighs(weight, &["pods", "default", name]))
                .count()
        };
        for (weight, at_least, at_most) in [
            (0, 0, 0),
            (1, 50, 150),
            (10, 850, 1150),
            (50, 4_700, 5_300),
            (100, 10_000, 10_000),
        ] {
            let found = count(weight);
            assert!((at_least..=at_most).contains(&found), "{weight} %: {found}");
        }
        assert!(
            weighs(30, &["pods", "default", "pod-1"]) <= weighs(60, &["pods", "default", "pod-1"])
        );
    }
}
