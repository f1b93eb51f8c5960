//! The `scheduler` section.

use serde::{Deserialize, Serialize};

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
    /// Data that it wants to see: `labels`, `taints`, `allocatable`, `images`, `pods`, `pod-labels`, `pod-json`, `node-json`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Changes that may let a pod be scheduled that it turned down; absent: all.
    #[serde(default)]
    pub events: Vec<String>,
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
