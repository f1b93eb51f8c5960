//! Two revisions of a component of which the newer decides about a share of the pods, chosen by their uid, so that all attempts
//! and all steps of a pod are one revision's.
//!
//! Invariants: both mirrors see the same. Where the candidate fails in a cycle, what serves answers; the candidate is made anew,
//! with everything told again, before the next cycle. A binding that the candidate failed in is not made again: how it ended
//! is not known.

use std::sync::Arc;

use async_trait::async_trait;
use pilothouse_plugin::{
    CallError,
    scheduler::{
        BindFailure, BindOutcome, Called, Component, Instance, Needs, Outcome, PodChange,
        SchedulerPlugin,
        types::{AssignedPod, Binding, Node, Pod, Refusal},
    },
    weighs,
};

/// See the module.
pub(crate) struct Split {
    serving: Arc<dyn Component>,
    candidate: Arc<dyn Component>,
    weight: u8,
    id: String,
}

impl Split {
    /// `None` if they do not have the same plugins with the same settings: a cycle has one profile.
    pub(crate) fn new(
        serving: Arc<dyn Component>,
        candidate: Arc<dyn Component>,
        weight: u8,
    ) -> Option<Self> {
        let same = serving.plugins() == candidate.plugins();
        same.then(|| Self {
            id: format!("{} and {}", serving.id(), candidate.id()),
            serving,
            candidate,
            weight,
        })
    }

    fn by(&self, pod_uid: &str) -> &Arc<dyn Component> {
        match weighs(self.weight, &[pod_uid]) {
            true => &self.candidate,
            false => &self.serving,
        }
    }
}

#[async_trait]
impl Component for Split {
    fn id(&self) -> &str {
        &self.id
    }

    fn plugins(&self) -> &[SchedulerPlugin] {
        self.serving.plugins()
    }

    fn needs(&self) -> Option<Needs> {
        self.serving.needs()
    }

    async fn instantiate(&self) -> Called<Box<dyn Instance>> {
        let candidate = self.candidate.instantiate().await;
        Ok(Box::new(Both {
            serving: self.serving.instantiate().await?,
            candidate: candidate.map_err(failed).ok(),
            weight: self.weight,
            cycle: None,
            renew: false,
        }))
    }

    async fn pre_bind(&self, plugin: u32, binding: &Binding) -> Called<Result<(), Refusal>> {
        self.by(&binding.uid).pre_bind(plugin, binding).await
    }

    async fn bind(
        &self,
        plugin: u32,
        binding: &Binding,
    ) -> Called<Result<BindOutcome, BindFailure>> {
        self.by(&binding.uid).bind(plugin, binding).await
    }

    async fn post_bind(&self, plugin: u32, binding: &Binding) -> Called<()> {
        self.by(&binding.uid).post_bind(plugin, binding).await
    }
}

/// An instance of each.
struct Both {
    serving: Box<dyn Instance>,
    /// `None` once it failed.
    candidate: Option<Box<dyn Instance>>,
    weight: u8,
    /// The cycle that the candidate decides, with what it began with.
    cycle: Option<(u64, Vec<u32>, Pod)>,
    /// The candidate failed in this cycle.
    renew: bool,
}

fn failed(error: CallError) {
    tracing::warn!(%error, "a candidate failed; the version that serves decides");
}

/// Calls whoever decides this cycle.
macro_rules! decide {
    ($self:ident, $cycle:ident, $function:ident($($argument:expr),*)) => {{
        if $self.is_candidates($cycle)
            && let Some(candidate) = &mut $self.candidate
        {
            match candidate.$function($($argument),*).await {
                Ok(answer) => return Ok(answer),
                Err(error) => $self.go_over(error).await?,
            }
        }
        $self.serving.$function($($argument),*).await
    }};
}

impl Both {
    fn is_candidates(&self, cycle: u64) -> bool {
        self.cycle
            .as_ref()
            .is_some_and(|(number, ..)| *number == cycle)
    }

    fn lose(&mut self, error: CallError) {
        failed(error);
        self.candidate = None;
        self.renew = true;
    }

    /// What serves takes the cycle over from its beginning.
    async fn go_over(&mut self, error: CallError) -> Called<()> {
        self.lose(error);
        if let Some((number, plugins, pod)) = self.cycle.take() {
            self.serving.begin(number, &plugins, &pod).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Instance for Both {
    async fn apply(
        &mut self,
        epoch: u64,
        upserts: &[Node],
        removed: &[u32],
        pods: &[PodChange],
    ) -> Called<()> {
        if let Some(candidate) = &mut self.candidate
            && let Err(error) = candidate.apply(epoch, upserts, removed, pods).await
        {
            self.lose(error);
        }
        self.serving.apply(epoch, upserts, removed, pods).await
    }

    async fn begin(
        &mut self,
        cycle: u64,
        plugins: &[u32],
        pod: &Pod,
    ) -> Called<Vec<Result<Outcome, Refusal>>> {
        self.cycle = None;
        if weighs(self.weight, &[&pod.uid])
            && let Some(candidate) = &mut self.candidate
        {
            match candidate.begin(cycle, plugins, pod).await {
                Ok(answer) => {
                    self.cycle = Some((cycle, plugins.to_vec(), pod.clone()));
                    return Ok(answer);
                }
                Err(error) => self.lose(error),
            }
        }
        self.serving.begin(cycle, plugins, pod).await
    }

    async fn clone_cycle(&mut self, cycle: u64, copy: u64) -> Called<()> {
        decide!(self, cycle, clone_cycle(cycle, copy))
    }

    async fn add_pod(&mut self, cycle: u64, node: u32, pod: &AssignedPod) -> Called<()> {
        decide!(self, cycle, add_pod(cycle, node, pod))
    }

    async fn remove_pod(&mut self, cycle: u64, node: u32, pod: &AssignedPod) -> Called<()> {
        decide!(self, cycle, remove_pod(cycle, node, pod))
    }

    /// An error has both instances made anew; none was called in vain.
    async fn end(&mut self, cycle: u64) -> Called<()> {
        let by_candidate = self.is_candidates(cycle);
        self.cycle = None;
        match &mut self.candidate {
            Some(candidate) if by_candidate => {
                if let Err(error) = candidate.end(cycle).await {
                    self.lose(error);
                }
            }
            _ => self.serving.end(cycle).await?,
        }
        match self.renew {
            false => Ok(()),
            true => Err(CallError::Unavailable {
                plugin: "candidate".into(),
                why: "it failed and begins anew".to_owned(),
            }),
        }
    }

    async fn filter(&mut self, plugin: u32, cycle: u64, nodes: &[u32]) -> Called<Vec<u32>> {
        decide!(self, cycle, filter(plugin, cycle, nodes))
    }

    async fn reasons(
        &mut self,
        plugin: u32,
        cycle: u64,
        words: &[u32],
    ) -> Called<Vec<Vec<String>>> {
        decide!(self, cycle, reasons(plugin, cycle, words))
    }

    async fn score(&mut self, plugin: u32, cycle: u64, nodes: &[u32]) -> Called<Vec<i64>> {
        decide!(self, cycle, score(plugin, cycle, nodes))
    }

    async fn normalize(
        &mut self,
        plugin: u32,
        cycle: u64,
        nodes: &[u32],
        scores: &[i64],
    ) -> Called<Vec<i64>> {
        decide!(self, cycle, normalize(plugin, cycle, nodes, scores))
    }

    async fn reserve(
        &mut self,
        plugin: u32,
        cycle: u64,
        node: u32,
    ) -> Called<Result<Vec<u8>, Refusal>> {
        decide!(self, cycle, reserve(plugin, cycle, node))
    }

    async fn unreserve(
        &mut self,
        plugin: u32,
        pod_uid: &str,
        node_name: &str,
        carry: &[u8],
    ) -> Called<()> {
        if weighs(self.weight, &[pod_uid])
            && let Some(candidate) = &mut self.candidate
        {
            return candidate.unreserve(plugin, pod_uid, node_name, carry).await;
        }
        self.serving
            .unreserve(plugin, pod_uid, node_name, carry)
            .await
    }
}

#[cfg(test)]
mod tests;
