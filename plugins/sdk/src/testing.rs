//! Native tests of controllers: [`FakeCluster`] behaves like the API server in what controllers depend on, and [`settle`]
//! runs a reconciler the way the host does.

mod fake_cluster;
mod fake_objects;
mod fake_patch;
mod fake_selectors;
mod settle;

pub use fake_cluster::{Action, FakeCluster, RecordedEvent};
pub use settle::{Settled, settle};
