//! Scheduler plugins: a trait with default bodies, a mirror of the nodes, and one export macro.
//!
//! A plugin implements [`SchedulerPlugin`]; [`export!`](crate::export) makes a component of one or more of them, which share
//! one [`Nodes`] mirror:
//!
//! ```ignore
//! pilothouse_sdk::export! {
//!     scheduler(nodes, cycle, filter, score): [NodeName, TaintToleration],
//! }
//! ```
//!
//! [`Scheduling`] is such a component in plain Rust: plugins run in native unit tests as they run in the sandbox.
//!
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/scheduling-framework/>

pub mod bindings;
mod component;
mod export;
mod nodes;
mod plugin;
mod resources;
mod selector;
mod tolerations;

#[doc(hidden)]
pub use crate::__scheduler_export as export;
pub use bindings::types::{
    AssignedPod, Binding, Effect, HostPort, Image, Node, NodeSelectorOperator,
    NodeSelectorRequirement, NodeSelectorTerm, Owner, Pod, PreferredSchedulingTerm, Quantity,
    Refusal, RefusalKind, Taint, Toleration, TolerationOperator,
};
pub use bindings::{BindFailure, BindOutcome, Outcome, PodChange};
#[doc(hidden)]
pub use component::Describe;
pub use component::{Scheduling, Settings};
#[doc(hidden)]
pub use export::{Plugins, declare};
pub use nodes::{NodeInfo, Nodes};
pub use plugin::{
    Begin, ClusterEvent, Need, Normalize, Point, SchedulerPlugin, Verdict, refuse, unresolvable,
    unschedulable,
};
pub use resources::Resources;
pub use selector::{matches_labels, matches_term};
pub use tolerations::{tolerates, tolerates_all};

/// The highest score of a node.
pub const MAX_NODE_SCORE: i64 = 100;
