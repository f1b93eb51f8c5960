//! The controller manager: runs the controllers that plugins export.
//!
//! A controller's watches feed keys into its [`WorkQueue`]; workers take keys and run one reconcile each, in an instance of its
//! own; the [`PluginCluster`] answers the guest's reads from shared informer caches and makes its writes as the plugin's user.
//!
//! Invariants: one key never runs twice at once; a key runs again only when the caches have seen what its last run wrote; a
//! controller without work holds no instance.

pub mod calls;
pub mod cluster;
pub mod gc;
pub mod keys;
pub mod leader;
pub mod manager;
pub mod metrics;
pub mod queue;
pub mod runner;
#[cfg(test)]
mod testing;
mod written;

pub use calls::{Calls, PluginCalls};
pub use cluster::PluginCluster;
pub use leader::{Leader, LeaderConfig};
pub use manager::{ControllerManager, Handle};
pub use metrics::Metrics;
pub use queue::WorkQueue;
pub use runner::ControllerRunner;
