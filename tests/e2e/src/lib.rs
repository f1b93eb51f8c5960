//! The harness of the end-to-end tests: a real `pilothouse` process, a real etcd, stock kubectl and helm.
//!
//! Everything is found beside the test binary's target directory, where `cargo xtask test` puts it; a missing client or server
//! fails the test with what to do.

mod cluster;
mod etcd;
mod kubectl;
mod process;

pub use cluster::{Cluster, ClusterOptions, compiled_plugins};
pub use etcd::{Etcd, own_url};
pub use kubectl::Outcome;
pub use process::{Process, component, pilothouse_command, root, tool, tools};
