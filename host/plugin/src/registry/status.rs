//! What the registry says about a component.

use std::sync::Arc;

use super::{CandidateStatus, Source};
use crate::{clock::Clock, revision::Digest, shadow::ShadowFigures, stats::Figures};

/// One component at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginStatus {
    pub name: Arc<str>,
    pub source: Source,
    /// What serves is what ships with the host.
    pub built_in: bool,
    pub state: PluginState,
    /// Of what serves.
    pub digest: Option<Digest>,
    /// What a rollback would go back to.
    pub previous: Option<Digest>,
    /// `pilothouse:admission/mutate@0.1.0`.
    pub interfaces: Vec<String>,
    /// The names in its manifest.
    pub plugins: Vec<String>,
    /// Digests of the versions that are kept, the one that was active last first; empty for what ships with the host.
    pub history: Vec<String>,
    pub conditions: Vec<Condition>,
    pub figures: Figures,
    /// How what is active has fared if its answers do not act.
    pub shadow: Option<ShadowFigures>,
    pub candidate: Option<CandidateStatus>,
}

/// A word for lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginState {
    Serving,
    /// It is asked, but its answers do not act.
    Shadow,
    /// An earlier version than the wanted one serves.
    Degraded,
    /// The wanted one failed too often; the one before serves.
    RolledBack,
    /// It failed too often and is not called for a while.
    Quarantined,
    /// Nothing serves under this name.
    Failed,
    /// Its owner has forbidden that it is called.
    Disabled,
}

impl PluginState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Serving => "Serving",
            Self::Shadow => "Shadow",
            Self::Degraded => "Degraded",
            Self::RolledBack => "RolledBack",
            Self::Quarantined => "Quarantined",
            Self::Failed => "Failed",
            Self::Disabled => "Disabled",
        }
    }
}

/// The types of conditions, in the order of a load's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionType {
    Compiled,
    ContractPassed,
    Ready,
    Degraded,
}

impl ConditionType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compiled => "Compiled",
            Self::ContractPassed => "ContractPassed",
            Self::Ready => "Ready",
            Self::Degraded => "Degraded",
        }
    }

    /// Whether `true` is the good news.
    fn good(self, status: bool) -> bool {
        status != (self == Self::Degraded)
    }
}

/// As `metav1.Condition`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    pub condition_type: ConditionType,
    pub status: bool,
    pub reason: &'static str,
    /// One sentence, or empty if all is well.
    pub message: String,
    /// Milliseconds since the Unix epoch, of the last change of `status`.
    pub last_transition_ms: u64,
}

impl Condition {
    /// Whether it says that something is wrong.
    pub fn is_bad(&self) -> bool {
        !self.condition_type.good(self.status)
    }
}

/// The conditions of one component, at most one of each type.
pub(super) struct Conditions {
    list: Vec<Condition>,
    clock: Arc<dyn Clock>,
}

impl Conditions {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            list: Vec::new(),
            clock,
        }
    }

    pub(super) fn set(
        &mut self,
        condition_type: ConditionType,
        status: bool,
        reason: &'static str,
        message: String,
    ) {
        let now = self.clock.now_ms();
        let old = self
            .list
            .iter()
            .position(|c| c.condition_type == condition_type);
        let since = old
            .map(|at| self.list.remove(at))
            .filter(|old| old.status == status)
            .map_or(now, |old| old.last_transition_ms);
        self.list.push(Condition {
            condition_type,
            status,
            reason,
            message,
            last_transition_ms: since,
        });
        self.list.sort_by_key(|c| c.condition_type as u8);
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    pub(super) fn is(&self, condition_type: ConditionType) -> bool {
        self.list
            .iter()
            .any(|c| c.condition_type == condition_type && c.status)
    }

    pub(super) fn list(&self) -> impl Iterator<Item = &Condition> {
        self.list.iter()
    }

    /// The message of the first condition that is bad news.
    pub(super) fn first_failure(&self) -> String {
        let bad = self.list.iter().find(|condition| condition.is_bad());
        bad.map(|c| c.message.clone()).unwrap_or_default()
    }
}
