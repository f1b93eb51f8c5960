//! Native tests of plugins: [`FakeCluster`] behaves like the API server in what plugins depend on, [`settle`] runs a reconciler
//! the way the host does, and [`admission_request`] makes requests for admission plugins.

mod fake_cluster;
mod fake_objects;
mod fake_patch;
mod fake_selectors;
mod requests;
mod settle;

pub use fake_cluster::{Action, FakeCluster, RecordedEvent};
pub use requests::{admission_request, mutated};
pub use settle::{Settled, settle};
