//! The scheduler: queue, cache, snapshot, cycles and binding. Every decision is a plugin's.
//!
//! ```text
//!  informers ──► Core { queue, cache } ──► cycle (warm instances: begin, filter, score, reserve) ──► assume
//!                   ▲                                                                                  │
//!                   └──────────── finished ◄── binding (own instances: pre-bind, bind, post-bind) ◄────┘
//! ```
//!
//! Invariants: one task owns the core, so there are no locks; bindings run beside it. A decision counts at once (assumed) and
//! a binding is a compare-and-swap, so pods that this scheduler binds never take more of a node than is allocatable.
//! Scheduling one pod costs what it looks at: mirrors get deltas, and no list of pods is made.

mod api;
mod beside;
mod binding;
mod cache;
mod client;
mod core;
mod cycle;
mod judge;
mod message;
mod node;
mod pod;
mod profile;
mod queue;
mod requests;
mod roster;
mod run;
mod split;
#[cfg(test)]
mod testing;
mod worker;

pub use api::{Api, PodEvent, Report};
pub use beside::{Shadowed, compare};
pub use binding::{Binding, Ended, Finished};
pub use cache::Cache;
pub use client::start;
pub use core::{Core, Input, Options, Step};
pub use judge::{Judge, JudgeError, NodeVerdict, Verdict};
pub use node::NodeInfo;
pub use pod::{PodInfo, Uid};
pub use profile::DEFAULT_SCHEDULER;
pub use queue::{Millis, Queue};
pub use roster::Roster;
pub use run::{Handle, start_with};
