//! The `scheduler` section.

use serde::{Deserialize, Serialize};

use crate::{
    interfaces::Interface,
    scheduler::{ClusterEvent, EventSet, Need},
};

/// How a scheduler plugin takes part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SchedulerSettings {
    /// The extension points; the component must export their interfaces.
    pub interfaces: Vec<ExtensionPoint>,
    /// Of its scores, unless the profile says otherwise.
    #[serde(default = "default_weight")]
    pub weight: u32,
    #[serde(default)]
    pub normalize: Normalize,
    #[serde(default)]
    pub failure_policy: super::FailurePolicy,
    /// Lower runs first; those that ship use -1000 to -1.
    #[serde(default)]
    pub order: i32,
    /// Data that it wants to see.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Changes that may let a pod be scheduled that it turned down; empty: all.
    #[serde(default)]
    pub events: Vec<ClusterEvent>,
    /// What its owner says of single interfaces, by `scheduler/filter` and the like.
    #[serde(skip)]
    pub chosen_policies: super::ChosenPolicies,
}

impl SchedulerSettings {
    /// Whether the plugin takes part there.
    pub fn has(&self, point: ExtensionPoint) -> bool {
        self.interfaces.contains(&point)
    }

    /// What a failure there means.
    pub fn failure_policy_at(&self, point: ExtensionPoint) -> super::FailurePolicy {
        let chosen = self.chosen_policies.iter().find(|(name, _)| {
            let name = name.strip_prefix("scheduler/");
            name == Some(point.interface())
        });
        chosen.map_or(self.failure_policy, |(_, policy)| *policy)
    }

    /// Whether it knows the pod's cycle.
    pub fn has_cycle(&self) -> bool {
        use ExtensionPoint::{Cycle, Filter, Normalize, Reserve, Score};
        [Cycle, Filter, Score, Normalize, Reserve]
            .into_iter()
            .any(|point| self.has(point))
    }

    /// The changes that may let a pod be scheduled that it turned down.
    pub fn events(&self) -> EventSet {
        match self.events.as_slice() {
            [] => EventSet::ALL,
            events => events.iter().copied().collect(),
        }
    }

    /// Checks that the component exports what the extension points need.
    pub(super) fn check(&self, plugin: &str, interfaces: &[Interface]) -> Result<(), String> {
        let exports = |name: &str| {
            interfaces
                .iter()
                .any(|i| i.family() == "scheduler" && i.name == name)
        };
        let cycle = self.has_cycle().then_some(ExtensionPoint::Cycle);
        for point in self.interfaces.iter().copied().chain(cycle) {
            if !exports(point.interface()) {
                let name = point.interface();
                return Err(format!(
                    "plugin {plugin} takes part in scheduler/{name}, but the component does not export it"
                ));
            }
        }
        match self.interfaces.is_empty() {
            true => Err(format!(
                "plugin {plugin} takes part in no interface of the scheduler"
            )),
            false => Ok(()),
        }
    }
}

impl ExtensionPoint {
    /// `pre-bind`.
    pub fn interface(self) -> &'static str {
        match self {
            Self::Cycle => "cycle",
            Self::Filter => "filter",
            Self::Score => "score",
            Self::Normalize => "normalize",
            Self::Reserve => "reserve",
            Self::PreBind => "pre-bind",
            Self::Bind => "bind",
            Self::PostBind => "post-bind",
        }
    }
}

fn default_weight() -> u32 {
    1
}

/// An extension point, by the name of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExtensionPoint {
    Cycle,
    Filter,
    Score,
    Normalize,
    Reserve,
    PreBind,
    Bind,
    PostBind,
}

/// How the host brings scores to 0 to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Normalize {
    /// They are in those bounds already.
    #[default]
    None,
    /// The highest becomes 100, the others in proportion.
    Highest,
    /// The highest becomes 0, and 0 becomes 100.
    Reverse,
}
