//! Scheduler plugins that do not act: when a pod has got its node, by whatever scheduler, they are asked about it, and what they
//! would have said is compared with that.
//!
//! ```text
//!  informers ──► a cache of its own ──► a pod is on a node that was on none ──► begin, filter, score ──► differences
//! ```
//!
//! Invariants: deciding knows nothing of it and waits for nothing of it; while no plugin is in shadow, nothing runs. If too much
//! waits, the cache goes on following, and pods are not asked about, which is counted.
//!
//! A candidate and the version that serves are asked the same on instances of their own; a plugin alone is held against the
//! node that the pod got.

use std::sync::Arc;

use pilothouse_client::InformerSet;
use pilothouse_plugin::{
    CallError,
    manifest::ExtensionPoint,
    scheduler::Component,
    shadow::{DifferenceKind, Shadow},
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{cache::Cache, client, core::Input, node::project_pod, pod::PodInfo, worker::Worker};

/// Inputs that may wait before pods are passed over.
const WAITING: usize = 1_000;

/// A component that does not act.
#[derive(Clone)]
pub struct Shadowed {
    pub shadow: Arc<dyn Component>,
    /// The version that acts.
    pub serving: Option<Arc<dyn Component>>,
    pub noted: Arc<Shadow>,
}

/// Compares for as long as there is something to compare, until `stop`.
pub async fn compare(
    informers: InformerSet,
    mut shadows: watch::Receiver<Vec<Shadowed>>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            some = shadows.wait_for(|shadows| !shadows.is_empty()) => if some.is_err() { return },
        }
        let inputs = client::observe_all(&informers);
        tokio::select! {
            () = stop.cancelled() => return,
            () = follow(inputs, &mut shadows) => {}
        }
    }
}

/// Until there is nothing in shadow any more.
async fn follow(mut inputs: mpsc::Receiver<Input>, shadows: &mut watch::Receiver<Vec<Shadowed>>) {
    let mut comparison = Comparison::default();
    loop {
        if !comparison.take(&shadows.borrow_and_update()) {
            return;
        }
        tokio::select! {
            changed = shadows.changed() => if changed.is_err() { return },
            input = inputs.recv() => match input {
                Some(input) => comparison.observe(input, inputs.len() > WAITING).await,
                None => return,
            },
        }
    }
}

#[derive(Default)]
pub(crate) struct Comparison {
    cache: Cache,
    worker: Worker,
    shadows: Vec<Shadowed>,
    /// Of the worker: shadows, then those that serve.
    components: Vec<Arc<dyn Component>>,
    cycles: u64,
    synced: bool,
}

/// What a component says of a pod.
struct Judgement {
    /// Why it turns the pod down as a whole.
    refusal: Option<String>,
    /// Of all nodes, in the order of their indexes.
    passed: Vec<bool>,
    /// Why it turns the node down that the pod got.
    why: String,
    /// Weighted sums for the nodes that passed.
    scores: Vec<i64>,
}

impl Comparison {
    /// Goes over to other shadows; answers whether there are any.
    pub(crate) fn take(&mut self, shadows: &[Shadowed]) -> bool {
        let serving = shadows.iter().filter_map(|of| of.serving.clone());
        let all: Vec<_> = shadows
            .iter()
            .map(|of| of.shadow.clone())
            .chain(serving)
            .collect();
        let same = all.len() == self.components.len()
            && all
                .iter()
                .zip(&self.components)
                .all(|(a, b)| Arc::ptr_eq(a, b));
        if !same {
            self.worker.set_components(&all);
            self.components = all;
        }
        self.shadows = shadows.to_vec();
        !self.shadows.is_empty()
    }

    /// Takes in what was observed; `behind`: pods are not asked about.
    pub(crate) async fn observe(&mut self, input: Input, behind: bool) {
        match input {
            Input::Synced => self.synced = true,
            Input::Node(node) => _ = self.cache.upsert_node(node),
            Input::NodeGone(name) => self.cache.remove_node(&name),
            Input::PodGone(uid) => _ = self.cache.remove_pod(&uid),
            Input::Pod(pod) if pod.terminal => _ = self.cache.remove_pod(&pod.uid),
            Input::Pod(pod) if pod.node_name.is_empty() => {}
            Input::Pod(pod) => {
                if self.synced && !self.cache.is_placed(&pod.uid) {
                    self.placed(&pod, behind).await;
                }
                self.cache.observe_pod(pod);
            }
        }
        if let Some(epoch) = self.worker.epoch() {
            self.cache.trim(epoch);
        }
    }

    async fn placed(&mut self, pod: &PodInfo, behind: bool) {
        let count = self.shadows.len();
        let mut serving = count..;
        for at in 0..count {
            let Shadowed {
                serving: acts,
                noted,
                ..
            } = self.shadows[at].clone();
            let acts = acts.and_then(|_| serving.next());
            if behind {
                noted.passed_over();
                continue;
            }
            let acted = match acts {
                Some(acts) => Some(self.judge(acts, pod).await),
                None => None,
            };
            let would = self.judge(at, pod).await;
            noted.compared();
            self.note(pod, &noted, acted, would);
        }
    }

    fn note(
        &self,
        pod: &PodInfo,
        noted: &Shadow,
        acted: Option<Result<Judgement, CallError>>,
        would: Result<Judgement, CallError>,
    ) {
        let node = &pod.node_name;
        let about = format!(
            "schedule {}/{} to {node}",
            pod.record.namespace, pod.record.name
        );
        let differs =
            |kind, acted: &str, shadow: &str| noted.differs(kind, about.clone(), acted, shadow);
        let would = match would {
            Ok(would) => would,
            Err(error) => {
                return differs(
                    DifferenceKind::Failure,
                    "decided",
                    &format!("failed: {error}"),
                );
            }
        };
        let acted = match acted {
            None => {
                let all = self.cache.indexes();
                let got = all.iter().position(|index| self.is(*index, node));
                let passed = got.is_none_or(|at| would.passed.get(at).copied().unwrap_or(true));
                return match &would.refusal {
                    Some(why) => differs(
                        DifferenceKind::Decision,
                        "scheduled",
                        &format!("refused the pod: {why}"),
                    ),
                    None if !passed => {
                        let shadow = format!("turned {node} down: {}", would.why);
                        differs(DifferenceKind::Decision, "scheduled", &shadow);
                    }
                    None => {}
                };
            }
            Some(Err(_)) => return, // nothing to compare with
            Some(Ok(acted)) => acted,
        };
        let refused = |judgement: &Judgement| match &judgement.refusal {
            Some(why) => format!("refused the pod: {why}"),
            None => "took the pod".to_owned(),
        };
        if acted.refusal.is_some() != would.refusal.is_some() {
            differs(DifferenceKind::Decision, &refused(&acted), &refused(&would));
        } else if acted.passed != would.passed {
            let (one, other) = (self.names(&acted.passed), self.names(&would.passed));
            differs(DifferenceKind::Decision, &one, &other);
        } else if acted.scores != would.scores {
            let scores = |of: &Judgement| format!("scored {:?}", of.scores);
            differs(DifferenceKind::Score, &scores(&acted), &scores(&would));
        }
    }

    fn is(&self, index: u32, name: &str) -> bool {
        self.cache.node(index).is_some_and(|node| node.name == name)
    }

    /// `passed 2 of 3 nodes: node-1, node-3`.
    fn names(&self, passed: &[bool]) -> String {
        let all = self.cache.indexes();
        let named = all.iter().zip(passed).filter(|(_, passed)| **passed);
        let names: Vec<&str> = named
            .filter_map(|(index, _)| Some(self.cache.node(*index)?.name.as_str()))
            .collect();
        format!(
            "passed {} of {} nodes: {}",
            names.len(),
            all.len(),
            names.join(", ")
        )
    }

    async fn judge(&mut self, component: usize, pod: &PodInfo) -> Result<Judgement, CallError> {
        self.worker.sync(component, &self.cache).await?;
        self.cycles += 1;
        let judged = self.ask(component, self.cycles, pod).await;
        if judged.is_err() {
            self.worker.dispose(component); // it must not be called again
        }
        if let Some(instance) = self.worker.instance(component)
            && instance.end(self.cycles).await.is_err()
        {
            self.worker.dispose(component);
        }
        judged
    }

    async fn ask(
        &mut self,
        component: usize,
        cycle: u64,
        pod: &PodInfo,
    ) -> Result<Judgement, CallError> {
        let of = Arc::clone(&self.components[component]);
        let plugins: Vec<_> = of
            .plugins()
            .iter()
            .filter(|p| p.settings.has_cycle())
            .collect();
        let indexes: Vec<u32> = plugins.iter().map(|plugin| plugin.index).collect();
        let nodes = self.cache.indexes();
        let got = nodes
            .iter()
            .position(|index| self.is(*index, &pod.node_name));
        let mut judgement = Judgement {
            refusal: None,
            passed: vec![true; nodes.len()],
            why: String::new(),
            scores: Vec::new(),
        };
        let Some(instance) = self.worker.instance(component) else {
            return Ok(judgement);
        };
        // as it was before it got its node
        let asked = project_pod(pod, of.needs().unwrap_or_default());
        let outcomes = instance.begin(cycle, &indexes, &asked).await?;
        let mut scoring = Vec::new();
        for (plugin, outcome) in plugins.iter().zip(outcomes) {
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(refusal) => {
                    judgement.refusal = Some(refusal.reasons.join(", "));
                    return Ok(judgement);
                }
            };
            if let Some(only) = outcome.nodes {
                for (passed, node) in judgement.passed.iter_mut().zip(nodes.iter()) {
                    *passed &= only.contains(node);
                }
            }
            if outcome.filter && plugin.settings.has(ExtensionPoint::Filter) {
                let words = instance.filter(plugin.index, cycle, &nodes).await?;
                if let Some(word) = got.and_then(|at| words.get(at)).filter(|word| **word != 0) {
                    let why = instance.reasons(plugin.index, cycle, &[*word]).await?;
                    judgement.why = why.concat().join(", ");
                }
                for (passed, word) in judgement.passed.iter_mut().zip(words) {
                    *passed &= word == 0;
                }
            }
            if outcome.score && plugin.settings.has(ExtensionPoint::Score) {
                scoring.push(*plugin);
            }
        }
        let feasible: Vec<u32> = nodes
            .iter()
            .zip(&judgement.passed)
            .filter_map(|(node, passed)| passed.then_some(*node))
            .collect();
        judgement.scores = vec![0; feasible.len()];
        for plugin in scoring.into_iter().filter(|_| !feasible.is_empty()) {
            let scores = instance.score(plugin.index, cycle, &feasible).await?;
            let weight = i64::from(plugin.settings.weight);
            for (sum, score) in judgement.scores.iter_mut().zip(scores) {
                *sum = sum.saturating_add(score.saturating_mul(weight));
            }
        }
        Ok(judgement)
    }
}

#[cfg(test)]
mod tests;
