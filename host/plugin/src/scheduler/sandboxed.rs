//! A component with scheduler plugins in the sandbox.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    BindFailure, BindOutcome, Called, Component, Instance, Needs, Outcome, PodChange,
    SchedulerPlugin,
    bindings::{
        bind, cycle, filter, nodes, normalize, post_bind, pre_bind, reserve, score,
        types::{AssignedPod, Binding, Node, Pod, Refusal},
    },
};
use crate::{
    error::CallError,
    instance::{Call, PluginInstance},
    revision::Revision,
};

/// A revision with scheduler plugins, its exports looked up once.
pub struct Sandboxed {
    revision: Arc<Revision>,
    id: String,
    plugins: Vec<SchedulerPlugin>,
    needs: Option<Needs>,
    exports: Exports,
}

/// Where the exports are; `None` for those that the component has not.
struct Exports {
    nodes: Option<nodes::GuestIndices>,
    cycle: Option<cycle::GuestIndices>,
    filter: Option<filter::GuestIndices>,
    score: Option<score::GuestIndices>,
    normalize: Option<normalize::GuestIndices>,
    reserve: Option<reserve::GuestIndices>,
    pre_bind: Option<pre_bind::GuestIndices>,
    bind: Option<bind::GuestIndices>,
    post_bind: Option<post_bind::GuestIndices>,
}

impl Sandboxed {
    /// `None` for a component without scheduler plugins.
    pub fn new(revision: &Arc<Revision>) -> Option<Self> {
        let plugins: Vec<_> = revision
            .manifest()
            .plugins
            .iter()
            .zip(0..)
            .filter_map(|(entry, index)| {
                Some(SchedulerPlugin {
                    index,
                    name: entry.name.clone(),
                    settings: entry.scheduler.clone()?,
                })
            })
            .collect();
        if plugins.is_empty() {
            return None;
        }
        let pre = revision.instance_pre();
        let exports = Exports {
            nodes: nodes::GuestIndices::new(pre).ok(),
            cycle: cycle::GuestIndices::new(pre).ok(),
            filter: filter::GuestIndices::new(pre).ok(),
            score: score::GuestIndices::new(pre).ok(),
            normalize: normalize::GuestIndices::new(pre).ok(),
            reserve: reserve::GuestIndices::new(pre).ok(),
            pre_bind: pre_bind::GuestIndices::new(pre).ok(),
            bind: bind::GuestIndices::new(pre).ok(),
            post_bind: post_bind::GuestIndices::new(pre).ok(),
        };
        let needs = plugins.iter().flat_map(|plugin| &plugin.settings.needs);
        let needs: Needs = needs.copied().collect();
        Some(Self {
            id: format!("{}@{}", revision.component(), revision.digest()),
            needs: exports.nodes.is_some().then_some(needs),
            revision: Arc::clone(revision),
            plugins,
            exports,
        })
    }

    /// What is loaded.
    pub fn revision(&self) -> &Arc<Revision> {
        &self.revision
    }

    fn missing(&self, interface: &str) -> CallError {
        missing(self.revision.component(), interface)
    }
}

fn missing(component: &Arc<str>, interface: &str) -> CallError {
    CallError::Unavailable {
        plugin: Arc::clone(component),
        why: format!("it does not export {interface}"),
    }
}

/// A warm instance with its typed exports.
struct Warm {
    instance: PluginInstance,
    component: Arc<str>,
    /// Calls that concern all plugins are made in the name of the first.
    first: u32,
    nodes: Option<nodes::Guest>,
    cycle: Option<cycle::Guest>,
    filter: Option<filter::Guest>,
    score: Option<score::Guest>,
    normalize: Option<normalize::Guest>,
    reserve: Option<reserve::Guest>,
}

/// Looks up a typed export in an instance.
macro_rules! load {
    ($self:ident, $instance:ident, $export:ident) => {
        match &$self.exports.$export {
            None => None,
            Some(indices) => {
                let (store, exports) = $instance.parts();
                let guest = indices.load(store, exports);
                Some(guest.map_err(|error| CallError::Unavailable {
                    plugin: Arc::clone($self.revision.component()),
                    why: format!("{error:#}"),
                })?)
            }
        }
    };
}

/// Calls an export of an instance.
macro_rules! call {
    ($instance:expr, $guest:expr, $interface:literal, $plugin:expr, $function:ident($($argument:expr),*)) => {{
        let call = Call {
            plugin: $plugin,
            interface: $interface,
            deadline: None,
        };
        let (store, running) = $instance.enter(call)?;
        let outcome = running.wait($guest.$function(store $(, $argument)*)).await;
        $instance.leave(running, outcome)
    }};
}

/// The same on a warm instance.
macro_rules! warm {
    ($self:ident.$guest:ident, $interface:literal, $plugin:expr, $function:ident($($argument:expr),*)) => {{
        let Some(guest) = &$self.$guest else {
            return Err(missing(&$self.component, $interface));
        };
        call!($self.instance, guest, $interface, $plugin, $function($($argument),*))
    }};
}

/// The same on an instance of its own.
macro_rules! alone {
    ($self:ident.$export:ident, $interface:literal, $plugin:ident, $function:ident($($argument:expr),*)) => {{
        if $self.exports.$export.is_none() {
            return Err($self.missing($interface));
        }
        let mut instance = $self.revision.instantiate().await?;
        let Some(guest) = load!($self, instance, $export) else {
            return Err($self.missing($interface));
        };
        call!(instance, guest, $interface, $plugin, $function($($argument),*))
    }};
}

#[async_trait]
impl Component for Sandboxed {
    fn id(&self) -> &str {
        &self.id
    }

    fn plugins(&self) -> &[SchedulerPlugin] {
        &self.plugins
    }

    fn needs(&self) -> Option<Needs> {
        self.needs
    }

    async fn instantiate(&self) -> Called<Box<dyn Instance>> {
        let mut instance = self.revision.instantiate().await?;
        Ok(Box::new(Warm {
            nodes: load!(self, instance, nodes),
            cycle: load!(self, instance, cycle),
            filter: load!(self, instance, filter),
            score: load!(self, instance, score),
            normalize: load!(self, instance, normalize),
            reserve: load!(self, instance, reserve),
            instance,
            component: Arc::clone(self.revision.component()),
            first: self.plugins.first().map_or(0, |plugin| plugin.index),
        }))
    }

    async fn pre_bind(&self, plugin: u32, binding: &Binding) -> Called<Result<(), Refusal>> {
        alone!(
            self.pre_bind,
            "scheduler/pre-bind",
            plugin,
            call_pre_bind(plugin, binding)
        )
    }

    async fn bind(
        &self,
        plugin: u32,
        binding: &Binding,
    ) -> Called<Result<BindOutcome, BindFailure>> {
        alone!(
            self.bind,
            "scheduler/bind",
            plugin,
            call_bind(plugin, binding)
        )
    }

    async fn post_bind(&self, plugin: u32, binding: &Binding) -> Called<()> {
        alone!(
            self.post_bind,
            "scheduler/post-bind",
            plugin,
            call_post_bind(plugin, binding)
        )
    }
}

#[async_trait]
impl Instance for Warm {
    async fn apply(
        &mut self,
        epoch: u64,
        upserts: &[Node],
        removed: &[u32],
        pods: &[PodChange],
    ) -> Called<()> {
        let first = self.first;
        warm!(
            self.nodes,
            "scheduler/nodes",
            first,
            call_apply(epoch, upserts, removed, pods)
        )
    }

    async fn begin(
        &mut self,
        cycle: u64,
        plugins: &[u32],
        pod: &Pod,
    ) -> Called<Vec<Result<Outcome, Refusal>>> {
        let first = plugins.first().copied().unwrap_or(self.first);
        warm!(
            self.cycle,
            "scheduler/cycle",
            first,
            call_begin(cycle, plugins, pod)
        )
    }

    async fn clone_cycle(&mut self, cycle: u64, copy: u64) -> Called<()> {
        let first = self.first;
        warm!(
            self.cycle,
            "scheduler/cycle",
            first,
            call_clone(cycle, copy)
        )
    }

    async fn add_pod(&mut self, cycle: u64, node: u32, pod: &AssignedPod) -> Called<()> {
        let first = self.first;
        warm!(
            self.cycle,
            "scheduler/cycle",
            first,
            call_add_pod(cycle, node, pod)
        )
    }

    async fn remove_pod(&mut self, cycle: u64, node: u32, pod: &AssignedPod) -> Called<()> {
        let first = self.first;
        warm!(
            self.cycle,
            "scheduler/cycle",
            first,
            call_remove_pod(cycle, node, pod)
        )
    }

    async fn end(&mut self, cycle: u64) -> Called<()> {
        let first = self.first;
        match self.cycle {
            Some(_) => warm!(self.cycle, "scheduler/cycle", first, call_end(cycle)),
            None => Ok(()),
        }
    }

    async fn filter(&mut self, plugin: u32, cycle: u64, nodes: &[u32]) -> Called<Vec<u32>> {
        warm!(
            self.filter,
            "scheduler/filter",
            plugin,
            call_filter(plugin, cycle, nodes)
        )
    }

    async fn reasons(
        &mut self,
        plugin: u32,
        cycle: u64,
        words: &[u32],
    ) -> Called<Vec<Vec<String>>> {
        warm!(
            self.filter,
            "scheduler/filter",
            plugin,
            call_reasons(plugin, cycle, words)
        )
    }

    async fn score(&mut self, plugin: u32, cycle: u64, nodes: &[u32]) -> Called<Vec<i64>> {
        warm!(
            self.score,
            "scheduler/score",
            plugin,
            call_score(plugin, cycle, nodes)
        )
    }

    async fn normalize(
        &mut self,
        plugin: u32,
        cycle: u64,
        nodes: &[u32],
        scores: &[i64],
    ) -> Called<Vec<i64>> {
        warm!(
            self.normalize,
            "scheduler/normalize",
            plugin,
            call_normalize(plugin, cycle, nodes, scores)
        )
    }

    async fn reserve(
        &mut self,
        plugin: u32,
        cycle: u64,
        node: u32,
    ) -> Called<Result<Vec<u8>, Refusal>> {
        warm!(
            self.reserve,
            "scheduler/reserve",
            plugin,
            call_reserve(plugin, cycle, node)
        )
    }

    async fn unreserve(
        &mut self,
        plugin: u32,
        pod_uid: &str,
        node_name: &str,
        carry: &[u8],
    ) -> Called<()> {
        warm!(
            self.reserve,
            "scheduler/reserve",
            plugin,
            call_unreserve(plugin, pod_uid, node_name, carry)
        )
    }
}
