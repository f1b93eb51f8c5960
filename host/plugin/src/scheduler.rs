//! Scheduler plugins as the host calls them: a component with its settings, warm instances of it for the scheduling cycle,
//! and the steps of binding, each call on an instance of its own.
//!
//! Both are traits, so that the scheduler and the contract do not care whether a sandbox stands behind them; the sandboxed
//! implementation is in `sandboxed`.

use async_trait::async_trait;

use crate::{error::CallError, manifest::SchedulerSettings};

mod bindings;
mod sandboxed;
mod sets;

pub use bindings::{
    bind::{Failure as BindFailure, Outcome as BindOutcome},
    cycle::Outcome,
    nodes::PodChange,
    types,
};
pub use sandboxed::Sandboxed;
pub use sets::{ClusterEvent, EventSet, Need, Needs};

/// What a call brings: a value of the interface, or the loss of the instance.
pub type Called<T> = Result<T, CallError>;

/// One plugin of a component.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerPlugin {
    /// The index by which the component is called.
    pub index: u32,
    pub name: String,
    pub settings: SchedulerSettings,
}

/// A loaded component with scheduler plugins. Constant; another revision is another component.
#[async_trait]
pub trait Component: Send + Sync + 'static {
    /// Tells revisions apart: the component's name and digest.
    fn id(&self) -> &str;

    /// Its plugins, in the order of the manifest.
    fn plugins(&self) -> &[SchedulerPlugin];

    /// What its mirror is told; `None`: it has no mirror.
    fn needs(&self) -> Option<Needs>;

    /// A fresh instance with an empty mirror.
    async fn instantiate(&self) -> Called<Box<dyn Instance>>;

    async fn pre_bind(
        &self,
        plugin: u32,
        binding: &types::Binding,
    ) -> Called<Result<(), types::Refusal>>;

    async fn bind(
        &self,
        plugin: u32,
        binding: &types::Binding,
    ) -> Called<Result<BindOutcome, BindFailure>>;

    async fn post_bind(&self, plugin: u32, binding: &types::Binding) -> Called<()>;
}

/// A warm instance. After an error it must be dropped.
#[async_trait]
pub trait Instance: Send + 'static {
    async fn apply(
        &mut self,
        epoch: u64,
        upserts: &[types::Node],
        removed: &[u32],
        pods: &[PodChange],
    ) -> Called<()>;

    async fn begin(
        &mut self,
        cycle: u64,
        plugins: &[u32],
        pod: &types::Pod,
    ) -> Called<Vec<Result<Outcome, types::Refusal>>>;

    async fn clone_cycle(&mut self, cycle: u64, copy: u64) -> Called<()>;

    async fn add_pod(&mut self, cycle: u64, node: u32, pod: &types::AssignedPod) -> Called<()>;

    async fn remove_pod(&mut self, cycle: u64, node: u32, pod: &types::AssignedPod) -> Called<()>;

    async fn end(&mut self, cycle: u64) -> Called<()>;

    async fn filter(&mut self, plugin: u32, cycle: u64, nodes: &[u32]) -> Called<Vec<u32>>;

    async fn reasons(&mut self, plugin: u32, cycle: u64, words: &[u32])
    -> Called<Vec<Vec<String>>>;

    async fn score(&mut self, plugin: u32, cycle: u64, nodes: &[u32]) -> Called<Vec<i64>>;

    async fn normalize(
        &mut self,
        plugin: u32,
        cycle: u64,
        nodes: &[u32],
        scores: &[i64],
    ) -> Called<Vec<i64>>;

    async fn reserve(
        &mut self,
        plugin: u32,
        cycle: u64,
        node: u32,
    ) -> Called<Result<Vec<u8>, types::Refusal>>;

    async fn unreserve(
        &mut self,
        plugin: u32,
        pod_uid: &str,
        node_name: &str,
        carry: &[u8],
    ) -> Called<()>;
}
