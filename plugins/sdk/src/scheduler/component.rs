//! A component of scheduler plugins: the mirror they share, what each knows about the cycles under way, and batches taken
//! apart into calls of [`SchedulerPlugin`]. The inner loops are compiled once for each plugin.

use std::collections::{HashMap, hash_map::Entry};

use serde::Serialize;

use crate::{host, manifest};

use super::{
    bindings::{
        BindFailure, BindOutcome, Outcome, PodChange,
        types::{AssignedPod, Binding, Node, Pod, Refusal, RefusalKind},
    },
    nodes::{NodeInfo, Nodes},
    plugin::{ClusterEvent, Need, Normalize, Point, SchedulerPlugin, Verdict, refuse},
};

/// The `scheduler` section of a plugin in the manifest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    interfaces: &'static [Point],
    weight: u32,
    normalize: Normalize,
    failure_policy: &'static str,
    order: i32,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    needs: &'static [Need],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    events: &'static [ClusterEvent],
}

/// Gives a plugin's entry.
#[doc(hidden)]
pub trait Describe {
    fn entry(&self) -> manifest::Plugin;
}

impl<P: SchedulerPlugin> Describe for P {
    fn entry(&self) -> manifest::Plugin {
        manifest::Plugin {
            name: P::NAME.to_owned(),
            capabilities: P::capabilities(),
            scheduler: Some(Settings {
                interfaces: P::POINTS,
                weight: P::WEIGHT,
                normalize: P::NORMALIZE,
                failure_policy: if P::IGNORE_FAILURES { "Ignore" } else { "Fail" },
                order: P::ORDER,
                needs: P::NEEDS,
                events: P::EVENTS,
            }),
            ..Default::default()
        }
    }
}

/// A reason that stands for itself: the host asked about a cycle or node that the component does not know.
const UNKNOWN: Verdict = Verdict::error((1 << 30) - 1);

/// Nodes as one cycle sees them: the mirror, and copies of those on which it tries an eviction.
struct View<'a> {
    nodes: &'a Nodes,
    tried: Option<&'a HashMap<u32, NodeInfo>>,
}

impl View<'_> {
    #[inline]
    fn get(&self, index: u32) -> Option<&NodeInfo> {
        match self.tried.and_then(|tried| tried.get(&index)) {
            Some(node) => Some(node),
            None => self.nodes.get(index),
        }
    }
}

/// A plugin with its cycles, without its types.
trait Slot {
    fn begin(&mut self, cycle: u64, nodes: &Nodes, pod: &Pod) -> Result<Outcome, Refusal>;
    fn clone_cycle(&mut self, cycle: u64, copy: u64);
    fn cycle_pod_changed(&mut self, cycle: u64, node: u32, added: bool, pod: &AssignedPod);
    fn end(&mut self, cycle: u64);
    fn pod_changed(&mut self, node: u32, added: bool, pod: &AssignedPod);
    fn filter(&self, view: &View<'_>, cycle: u64, nodes: &[u32]) -> Vec<u32>;
    fn reasons(&self, cycle: u64, word: u32) -> Vec<String>;
    fn score(&self, view: &View<'_>, cycle: u64, nodes: &[u32]) -> Vec<i64>;
    fn normalize(&self, cycle: u64, scores: &mut [i64]);
    fn reserve(&mut self, nodes: &Nodes, cycle: u64, node: u32) -> Result<Vec<u8>, Refusal>;
    fn unreserve(&mut self, pod_uid: &str, node_name: &str, carry: &[u8]);
    fn pre_bind(&self, binding: &Binding) -> Result<(), Refusal>;
    fn bind(&self, binding: &Binding) -> Result<BindOutcome, BindFailure>;
    fn post_bind(&self, binding: &Binding);
}

struct Slotted<P: SchedulerPlugin> {
    plugin: P,
    /// Why it could not be configured.
    broken: Option<String>,
    cycles: HashMap<u64, P::Cycle>,
}

impl<P: SchedulerPlugin> Slot for Slotted<P> {
    fn begin(&mut self, cycle: u64, nodes: &Nodes, pod: &Pod) -> Result<Outcome, Refusal> {
        if let Some(why) = &self.broken {
            return Err(refuse(RefusalKind::Error, why));
        }
        let begin = self.plugin.begin(nodes, pod)?;
        if let Some(state) = begin.state {
            self.cycles.insert(cycle, state);
        }
        Ok(Outcome {
            filter: begin.filter,
            score: begin.score,
            nodes: begin.nodes,
        })
    }

    fn clone_cycle(&mut self, cycle: u64, copy: u64) {
        if let Some(state) = self.cycles.get(&cycle).cloned() {
            self.cycles.insert(copy, state);
        }
    }

    fn cycle_pod_changed(&mut self, cycle: u64, node: u32, added: bool, pod: &AssignedPod) {
        if let Some(state) = self.cycles.get_mut(&cycle) {
            self.plugin.cycle_pod_changed(state, node, added, pod);
        }
    }

    fn end(&mut self, cycle: u64) {
        self.cycles.remove(&cycle);
    }

    fn pod_changed(&mut self, node: u32, added: bool, pod: &AssignedPod) {
        self.plugin.pod_changed(node, added, pod);
    }

    fn filter(&self, view: &View<'_>, cycle: u64, nodes: &[u32]) -> Vec<u32> {
        let Some(state) = self.cycles.get(&cycle) else {
            return vec![UNKNOWN.0; nodes.len()];
        };
        nodes
            .iter()
            .map(|&index| match view.get(index) {
                Some(node) => self.plugin.filter(state, node).0,
                None => UNKNOWN.0,
            })
            .collect()
    }

    fn reasons(&self, cycle: u64, word: u32) -> Vec<String> {
        match self.cycles.get(&cycle) {
            Some(state) if word != UNKNOWN.0 => self.plugin.reasons(state, Verdict(word)),
            _ => vec!["unknown cycle or node".to_owned()],
        }
    }

    fn score(&self, view: &View<'_>, cycle: u64, nodes: &[u32]) -> Vec<i64> {
        let Some(state) = self.cycles.get(&cycle) else {
            return vec![0; nodes.len()];
        };
        nodes
            .iter()
            .map(|&index| {
                view.get(index)
                    .map_or(0, |node| self.plugin.score(state, node))
            })
            .collect()
    }

    fn normalize(&self, cycle: u64, scores: &mut [i64]) {
        if let Some(state) = self.cycles.get(&cycle) {
            self.plugin.normalize(state, scores);
        }
    }

    fn reserve(&mut self, nodes: &Nodes, cycle: u64, node: u32) -> Result<Vec<u8>, Refusal> {
        match (self.cycles.get(&cycle), nodes.get(node)) {
            (Some(state), Some(node)) => self.plugin.reserve(state, node),
            _ => Err(refuse(RefusalKind::Error, "unknown cycle or node")),
        }
    }

    fn unreserve(&mut self, pod_uid: &str, node_name: &str, carry: &[u8]) {
        self.plugin.unreserve(pod_uid, node_name, carry);
    }

    fn pre_bind(&self, binding: &Binding) -> Result<(), Refusal> {
        self.plugin.pre_bind(binding)
    }

    fn bind(&self, binding: &Binding) -> Result<BindOutcome, BindFailure> {
        self.plugin.bind(binding)
    }

    fn post_bind(&self, binding: &Binding) {
        self.plugin.post_bind(binding);
    }
}

/// The state of a component. The export macro keeps one in each instance; tests use it directly.
#[derive(Default)]
pub struct Scheduling {
    nodes: Nodes,
    /// The index of the first plugin: a component may carry plugins of other families before.
    first: usize,
    slots: Vec<Box<dyn Slot>>,
    /// Copies of nodes in cycles that try an eviction.
    tried: HashMap<u64, HashMap<u32, NodeInfo>>,
}

impl Scheduling {
    /// Plugins begin with this index.
    pub fn first_at(first: usize) -> Self {
        Self {
            first,
            ..Self::default()
        }
    }

    fn slot(&self, plugin: u32) -> Option<&dyn Slot> {
        let at = (plugin as usize).checked_sub(self.first)?;
        self.slots.get(at).map(|slot| &**slot)
    }

    fn slot_mut(&mut self, plugin: u32) -> Option<&mut Box<dyn Slot>> {
        let at = (plugin as usize).checked_sub(self.first)?;
        self.slots.get_mut(at)
    }

    /// Adds a plugin, configured; its index is the number of those before it.
    #[must_use]
    pub fn with<P: SchedulerPlugin>(mut self, mut plugin: P) -> Self {
        let configured = host::config().and_then(|config| plugin.configure(&config));
        self.slots.push(Box::new(Slotted {
            plugin,
            broken: configured.err(),
            cycles: HashMap::new(),
        }));
        self
    }

    /// The mirror.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// `nodes.apply`.
    pub fn apply(&mut self, epoch: u64, upserts: Vec<Node>, removed: &[u32], pods: &[PodChange]) {
        self.nodes.apply(epoch, upserts, removed, pods);
        for change in pods {
            for slot in &mut self.slots {
                slot.pod_changed(change.node, change.added, &change.pod);
            }
        }
    }

    /// `cycle.begin`.
    pub fn begin(
        &mut self,
        cycle: u64,
        plugins: &[u32],
        pod: &Pod,
    ) -> Vec<Result<Outcome, Refusal>> {
        plugins
            .iter()
            .map(|&plugin| {
                let at = (plugin as usize).checked_sub(self.first);
                match at.and_then(|at| self.slots.get_mut(at)) {
                    Some(slot) => slot.begin(cycle, &self.nodes, pod),
                    None => Err(refuse(RefusalKind::Error, "no such plugin")),
                }
            })
            .collect()
    }

    /// `cycle.clone`.
    pub fn clone_cycle(&mut self, cycle: u64, copy: u64) {
        for slot in &mut self.slots {
            slot.clone_cycle(cycle, copy);
        }
        if let Some(tried) = self.tried.get(&cycle).cloned() {
            self.tried.insert(copy, tried);
        }
    }

    /// `cycle.add-pod` and `cycle.remove-pod`.
    pub fn cycle_pod_changed(&mut self, cycle: u64, node: u32, added: bool, pod: &AssignedPod) {
        let tried = self.tried.entry(cycle).or_default();
        let info = match tried.entry(node) {
            Entry::Occupied(tried) => tried.into_mut(),
            Entry::Vacant(untried) => match self.nodes.get(node) {
                Some(info) => untried.insert(info.clone()),
                None => return,
            },
        };
        match added {
            true => info.add_pod(pod),
            false => info.remove_pod(pod),
        }
        for slot in &mut self.slots {
            slot.cycle_pod_changed(cycle, node, added, pod);
        }
    }

    /// `cycle.end`.
    pub fn end(&mut self, cycle: u64) {
        self.tried.remove(&cycle);
        for slot in &mut self.slots {
            slot.end(cycle);
        }
    }

    fn view(&self, cycle: u64) -> View<'_> {
        View {
            nodes: &self.nodes,
            tried: self.tried.get(&cycle),
        }
    }

    /// `filter.filter`.
    pub fn filter(&self, plugin: u32, cycle: u64, nodes: &[u32]) -> Vec<u32> {
        match self.slot(plugin) {
            Some(slot) => slot.filter(&self.view(cycle), cycle, nodes),
            None => vec![UNKNOWN.0; nodes.len()],
        }
    }

    /// `filter.reasons`.
    pub fn reasons(&self, plugin: u32, cycle: u64, words: &[u32]) -> Vec<Vec<String>> {
        words
            .iter()
            .map(|&word| match self.slot(plugin) {
                Some(slot) => slot.reasons(cycle, word),
                None => vec!["no such plugin".to_owned()],
            })
            .collect()
    }

    /// `score.score`.
    pub fn score(&self, plugin: u32, cycle: u64, nodes: &[u32]) -> Vec<i64> {
        match self.slot(plugin) {
            Some(slot) => slot.score(&self.view(cycle), cycle, nodes),
            None => vec![0; nodes.len()],
        }
    }

    /// `normalize.normalize`.
    pub fn normalize(&self, plugin: u32, cycle: u64, mut scores: Vec<i64>) -> Vec<i64> {
        if let Some(slot) = self.slot(plugin) {
            slot.normalize(cycle, &mut scores);
        }
        scores
    }

    /// `reserve.reserve`.
    pub fn reserve(&mut self, plugin: u32, cycle: u64, node: u32) -> Result<Vec<u8>, Refusal> {
        let at = (plugin as usize).checked_sub(self.first);
        match at.and_then(|at| self.slots.get_mut(at)) {
            Some(slot) => slot.reserve(&self.nodes, cycle, node),
            None => Err(refuse(RefusalKind::Error, "no such plugin")),
        }
    }

    /// `reserve.unreserve`.
    pub fn unreserve(&mut self, plugin: u32, pod_uid: &str, node_name: &str, carry: &[u8]) {
        if let Some(slot) = self.slot_mut(plugin) {
            slot.unreserve(pod_uid, node_name, carry);
        }
    }

    /// `pre-bind.pre-bind`.
    pub fn pre_bind(&self, plugin: u32, binding: &Binding) -> Result<(), Refusal> {
        match self.slot(plugin) {
            Some(slot) => slot.pre_bind(binding),
            None => Err(refuse(RefusalKind::Error, "no such plugin")),
        }
    }

    /// `bind.bind`.
    pub fn bind(&self, plugin: u32, binding: &Binding) -> Result<BindOutcome, BindFailure> {
        match self.slot(plugin) {
            Some(slot) => slot.bind(binding),
            None => Ok(BindOutcome::Skip),
        }
    }

    /// `post-bind.post-bind`.
    pub fn post_bind(&self, plugin: u32, binding: &Binding) {
        if let Some(slot) = self.slot(plugin) {
            slot.post_bind(binding);
        }
    }
}

#[cfg(test)]
mod tests;
