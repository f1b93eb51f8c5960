//! What a scheduler plugin implements.

use serde::Serialize;
use serde_json::Value;

use crate::manifest::Capability;

use super::{
    bindings::{
        BindFailure, BindOutcome,
        types::{AssignedPod, Binding, Pod, Refusal, RefusalKind},
    },
    nodes::{NodeInfo, Nodes},
};

/// An interface through which a plugin takes part; the component must export it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// PreFilter alone. Comes with `Filter`, `Score` and `Reserve` by itself.
    Cycle,
    Filter,
    Score,
    Normalize,
    Reserve,
    PreBind,
    Bind,
    PostBind,
}

/// How the host brings scores to 0..=100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Normalize {
    /// They are in those bounds already.
    None,
    /// The highest becomes 100, the others in proportion.
    Highest,
    /// The highest becomes 0, and 0 becomes 100.
    Reverse,
}

/// Data that a plugin wants to see; everything else stays away from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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

/// A change that may let a pod be scheduled that this plugin turned down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterEvent {
    NodeAdd,
    NodeUpdateAllocatable,
    NodeUpdateLabels,
    NodeUpdateTaints,
    NodeUpdateUnschedulable,
    /// Anything else of the node: conditions, annotations, images.
    NodeUpdateOther,
    /// A pod that was on a node is gone, or uses less.
    PodRelease,
    /// A pod came to a node.
    PodAssign,
}

/// An answer to `filter` for one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict(pub u32);

impl Verdict {
    /// The pod may go there.
    pub const PASS: Self = Self(0);

    /// No; evicting pods may help. `reason` has 30 bits.
    pub const fn unschedulable(reason: u32) -> Self {
        Self(reason << 2 | 1)
    }

    /// No, and evicting pods cannot help.
    pub const fn unresolvable(reason: u32) -> Self {
        Self(reason << 2 | 2)
    }

    /// The plugin could not judge.
    pub const fn error(reason: u32) -> Self {
        Self(reason << 2 | 3)
    }

    /// What was given as `reason`.
    pub const fn reason(self) -> u32 {
        self.0 >> 2
    }
}

/// What a plugin prepares for one pod's cycle.
#[derive(Clone, Debug, Default)]
pub struct Begin<C> {
    /// For `filter`; `None`: nothing to filter for this pod. Also kept where only `score` is wanted.
    pub state: Option<C>,
    /// Whether `filter` has something to say.
    pub filter: bool,
    /// Whether `score` has something to say.
    pub score: bool,
    /// Only these nodes come into question.
    pub nodes: Option<Vec<u32>>,
}

impl<C> Begin<C> {
    /// The plugin has nothing to do with this pod.
    pub fn skip() -> Self {
        Self {
            state: None,
            filter: false,
            score: false,
            nodes: None,
        }
    }

    /// It will filter and score.
    pub fn with(state: C) -> Self {
        Self {
            state: Some(state),
            filter: true,
            score: true,
            nodes: None,
        }
    }

    /// The same, but without filtering unless `yes`.
    #[must_use]
    pub fn filtering(mut self, yes: bool) -> Self {
        self.filter = yes;
        self
    }

    /// The same, but without scoring unless `yes`.
    #[must_use]
    pub fn scoring(mut self, yes: bool) -> Self {
        self.score = yes;
        self
    }

    /// The same, but only for these nodes.
    #[must_use]
    pub fn only(mut self, nodes: Vec<u32>) -> Self {
        self.nodes = Some(nodes);
        self
    }
}

/// A refusal of that kind.
pub fn refuse(kind: RefusalKind, reason: impl Into<String>) -> Refusal {
    Refusal {
        kind,
        reasons: vec![reason.into()],
    }
}

/// No; evicting pods may help.
pub fn unschedulable(reason: impl Into<String>) -> Refusal {
    refuse(RefusalKind::Unschedulable, reason)
}

/// No, and evicting pods cannot help.
pub fn unresolvable(reason: impl Into<String>) -> Refusal {
    refuse(RefusalKind::Unresolvable, reason)
}

/// A scheduler plugin. Implement what `POINTS` names; the rest has bodies that do nothing.
pub trait SchedulerPlugin: Sized + 'static {
    /// As profiles and messages name it.
    const NAME: &'static str;
    const POINTS: &'static [Point];
    /// How much its scores count.
    const WEIGHT: u32 = 1;
    const NORMALIZE: Normalize = Normalize::None;
    /// Whether a plugin that cannot answer is passed over; otherwise the pod waits.
    const IGNORE_FAILURES: bool = false;
    /// Lower runs first; built-in plugins use -1000 to -1.
    const ORDER: i32 = 0;
    const NEEDS: &'static [Need] = &[];
    /// Empty: any change may help.
    const EVENTS: &'static [ClusterEvent] = &[];
    /// What it knows about one pod's cycle.
    type Cycle: Clone + 'static;

    /// What it may do to the cluster from `pre_bind`, `bind` and `post_bind`.
    fn capabilities() -> Vec<Capability> {
        Vec::new()
    }

    /// Takes its settings from `spec.config` of the Plugin object; `{}` if there is none.
    fn configure(&mut self, config: &Value) -> Result<(), String> {
        let _ = config;
        Ok(())
    }

    /// PreFilter.
    fn begin(&self, nodes: &Nodes, pod: &Pod) -> Result<Begin<Self::Cycle>, Refusal>;

    /// Filter, for one node. Must not depend on other nodes of the batch.
    fn filter(&self, cycle: &Self::Cycle, node: &NodeInfo) -> Verdict {
        let _ = (cycle, node);
        Verdict::PASS
    }

    /// The texts for a verdict other than `PASS`.
    fn reasons(&self, cycle: &Self::Cycle, verdict: Verdict) -> Vec<String> {
        let _ = (cycle, verdict);
        Vec::new()
    }

    /// Score, for one node.
    fn score(&self, cycle: &Self::Cycle, node: &NodeInfo) -> i64 {
        let _ = (cycle, node);
        0
    }

    /// Brings scores to 0..=100, if `POINTS` has `Normalize`.
    fn normalize(&self, cycle: &Self::Cycle, scores: &mut [i64]) {
        let _ = (cycle, scores);
    }

    /// A pod came to a node or left it, besides the sums that the mirror keeps by itself. `NEEDS` must have `Pods`.
    fn pod_changed(&mut self, node: u32, added: bool, pod: &AssignedPod) {
        let _ = (node, added, pod);
    }

    /// The same within a cycle that tries an eviction.
    fn cycle_pod_changed(
        &self,
        cycle: &mut Self::Cycle,
        node: u32,
        added: bool,
        pod: &AssignedPod,
    ) {
        let _ = (cycle, node, added, pod);
    }

    /// Takes what the pod needs; the bytes go to the later steps.
    fn reserve(&mut self, cycle: &Self::Cycle, node: &NodeInfo) -> Result<Vec<u8>, Refusal> {
        let _ = (cycle, node);
        Ok(Vec::new())
    }

    /// Gives it back; may be called twice.
    fn unreserve(&mut self, pod_uid: &str, node_name: &str, carry: &[u8]) {
        let _ = (pod_uid, node_name, carry);
    }

    /// PreBind, on an instance of its own.
    fn pre_bind(&self, binding: &Binding) -> Result<(), Refusal> {
        let _ = binding;
        Ok(())
    }

    /// Bind, on an instance of its own.
    fn bind(&self, binding: &Binding) -> Result<BindOutcome, BindFailure> {
        let _ = binding;
        Ok(BindOutcome::Skip)
    }

    /// PostBind, on an instance of its own.
    fn post_bind(&self, binding: &Binding) {
        let _ = binding;
    }
}
