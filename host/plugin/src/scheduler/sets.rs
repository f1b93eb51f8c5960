//! Words of the `scheduler` section that come in sets: what a component wants to see, and the events that may help a pod.

use serde::{Deserialize, Serialize};

/// What a component wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    Labels,
    Taints,
    Allocatable,
    Images,
    Pods,
    PodLabels,
    PodJson,
    NodeJson,
}

/// A set of [`Need`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Needs(u8);

impl Needs {
    /// Whether it is among them.
    pub fn has(self, need: Need) -> bool {
        self.0 & 1 << need as u8 != 0
    }
}

impl FromIterator<Need> for Needs {
    fn from_iter<T: IntoIterator<Item = Need>>(needs: T) -> Self {
        Self(needs.into_iter().fold(0, |set, need| set | 1 << need as u8))
    }
}

/// A change that may let a pod be scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterEvent {
    NodeAdd,
    NodeUpdateAllocatable,
    NodeUpdateLabels,
    NodeUpdateTaints,
    NodeUpdateUnschedulable,
    NodeUpdateOther,
    PodRelease,
    PodAssign,
}

impl ClusterEvent {
    /// Each of them.
    pub const ALL: [Self; 8] = [
        Self::NodeAdd,
        Self::NodeUpdateAllocatable,
        Self::NodeUpdateLabels,
        Self::NodeUpdateTaints,
        Self::NodeUpdateUnschedulable,
        Self::NodeUpdateOther,
        Self::PodRelease,
        Self::PodAssign,
    ];
}

/// A set of [`ClusterEvent`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventSet(u8);

impl EventSet {
    /// No change.
    pub const NONE: Self = Self(0);
    /// Any change.
    pub const ALL: Self = Self(u8::MAX);

    /// Whether they have one in common.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Those of both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds one.
    pub fn insert(&mut self, event: ClusterEvent) {
        self.0 |= 1 << event as u8;
    }
}

impl From<ClusterEvent> for EventSet {
    fn from(event: ClusterEvent) -> Self {
        Self(1 << event as u8)
    }
}

impl FromIterator<ClusterEvent> for EventSet {
    fn from_iter<T: IntoIterator<Item = ClusterEvent>>(events: T) -> Self {
        let mut set = Self::NONE;
        events.into_iter().for_each(|event| set.insert(event));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_keep_members_apart() {
        let set: EventSet = [ClusterEvent::NodeAdd, ClusterEvent::PodAssign]
            .into_iter()
            .collect();
        assert!(set.meets(ClusterEvent::NodeAdd.into()));
        assert!(!set.meets(ClusterEvent::PodRelease.into()));
        let needs: Needs = [Need::Labels, Need::NodeJson].into_iter().collect();
        assert!(needs.has(Need::NodeJson) && !needs.has(Need::Taints));
    }
}
