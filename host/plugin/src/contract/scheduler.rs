//! The contract of scheduler plugins.

use std::{collections::BTreeMap, fmt::Display, sync::Arc};

use async_trait::async_trait;

use super::{Contract, SampleCluster, Violation, chance::Chance};
use crate::{
    error::CallError,
    manifest::{ExtensionPoint, Normalize},
    registry::SmokeContract,
    revision::Revision,
    scheduler::{Called, Component, Instance, Outcome, Sandboxed, SchedulerPlugin, types::Pod},
};

mod samples;

const SPLIT: &str = "filter-same-for-any-split";
const ORDER: &str = "filter-same-for-any-order";
const WORDS: &str = "filter-words-are-legal-and-explained";
const FRESH: &str = "same-answer-on-a-fresh-instance";
const BOUNDS: &str = "scores-within-bounds";
const SCORE_ORDER: &str = "score-same-for-any-order";
const UNRESERVE: &str = "unreserve-undoes-reserve";
const HOSTILE: &str = "no-trap-on-hostile-input";
const LIMITS: &str = "within-its-limits-at-5000-nodes";

const MAX_SCORE: i64 = 100;

/// All clauses.
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedulerContract;

/// The clauses that are quick to try, before a reload takes effect: a few pods on a few nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedulerSmoke;

#[async_trait]
impl Contract for SchedulerContract {
    fn family(&self) -> &'static str {
        "scheduler"
    }

    fn clauses(&self) -> &'static [&'static str] {
        &[
            SPLIT,
            ORDER,
            WORDS,
            FRESH,
            BOUNDS,
            SCORE_ORDER,
            UNRESERVE,
            HOSTILE,
            LIMITS,
        ]
    }

    async fn run(&self, revision: &Revision, seed: u64) -> Vec<Violation> {
        try_out(revision, Thoroughness::All { seed }).await
    }
}

#[async_trait]
impl SmokeContract for SchedulerSmoke {
    fn family(&self) -> &'static str {
        "scheduler"
    }

    async fn check(&self, revision: &Revision) -> Result<(), String> {
        let violations = try_out(revision, Thoroughness::Quick).await;
        match violations.first() {
            Some(violation) => Err(violation.to_string()),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Thoroughness {
    Quick,
    /// With pods, splits and orders by chance.
    All {
        seed: u64,
    },
}

async fn try_out(revision: &Revision, thoroughness: Thoroughness) -> Vec<Violation> {
    let revision = Arc::new(revision.isolated(SampleCluster::new()));
    let Some(component) = Sandboxed::new(&revision) else {
        return Vec::new();
    };
    let seed = match thoroughness {
        Thoroughness::Quick => 0,
        Thoroughness::All { seed } => seed,
    };
    let mut violations = Vec::new();
    for plugin in component.plugins() {
        let mut trial = Trial {
            component: &component,
            plugin,
            chance: Chance::new(seed),
            violations: Vec::new(),
        };
        if plugin.settings.has_cycle() {
            trial.all(thoroughness).await;
        }
        violations.append(&mut trial.violations);
    }
    violations
}

/// Pods that chance adds to the samples.
const BY_CHANCE: usize = 16;

/// One plugin on trial.
struct Trial<'a> {
    component: &'a dyn Component,
    plugin: &'a SchedulerPlugin,
    chance: Chance,
    violations: Vec<Violation>,
}

/// What a plugin answered about one pod on all nodes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Answers {
    refused: bool,
    filter: Option<BTreeMap<u32, u32>>,
    score: Option<BTreeMap<u32, i64>>,
}

impl Trial<'_> {
    async fn all(&mut self, thoroughness: Thoroughness) {
        let most = match thoroughness {
            Thoroughness::Quick => 2,
            Thoroughness::All { .. } => usize::MAX,
        };
        for (what, pod) in samples::pods().into_iter().take(most) {
            self.pod(what, &pod).await;
        }
        if let Thoroughness::All { seed } = thoroughness {
            let samples = samples::pods();
            for _ in 0..BY_CHANCE {
                let mut pod = samples[self.chance.below(samples.len())].1.clone();
                for change in samples::CHANGES {
                    if self.chance.below(4) == 0 {
                        change(&mut pod);
                    }
                }
                self.pod(&format!("a pod by seed {seed}"), &pod).await;
            }
        }
        if let Err(error) = self.hostile().await {
            self.broken(HOSTILE, error);
        }
        if thoroughness != Thoroughness::Quick
            && let Err(error) = self.large().await
        {
            self.broken(LIMITS, error);
        }
    }

    /// The clauses that an ordinary pod can break. What it breaks first is reported with the smallest such pod.
    async fn pod(&mut self, what: &str, pod: &Pod) {
        let known = self.violations.len();
        self.ordinary_or_failed(what, pod).await;
        for at in known..self.violations.len() {
            let clause = self.violations[at].clause;
            let mut smallest = pod.clone();
            for change in samples::CHANGES {
                let mut smaller = smallest.clone();
                change(&mut smaller);
                if smaller != smallest && self.breaks(clause, &smaller).await {
                    smallest = smaller;
                }
            }
            let why = &mut self.violations[at].why;
            *why = format!(
                "{why}; the smallest such pod: {}",
                samples::in_short(&smallest)
            );
        }
    }

    async fn breaks(&self, clause: &'static str, pod: &Pod) -> bool {
        let mut alone = Trial {
            component: self.component,
            plugin: self.plugin,
            chance: Chance::new(0),
            violations: Vec::new(),
        };
        alone.ordinary_or_failed("", pod).await;
        alone.violations.iter().any(|v| v.clause == clause)
    }

    async fn ordinary_or_failed(&mut self, what: &str, pod: &Pod) {
        if let Err(error) = self.ordinary(what, pod).await {
            self.broken(LIMITS, format_args!("{what}: {error}"));
        }
    }

    /// Each clause is reported once; the first case is enough to find the fault.
    fn broken(&mut self, clause: &'static str, why: impl Display) {
        if !self.violations.iter().any(|known| known.clause == clause) {
            self.violations.push(Violation {
                plugin: self.plugin.name.clone(),
                clause,
                why: why.to_string(),
            });
        }
    }

    fn has(&self, point: ExtensionPoint) -> bool {
        self.plugin.settings.has(point)
    }

    async fn instance(&self, nodes: u32) -> Called<Box<dyn Instance>> {
        let mut instance = self.component.instantiate().await?;
        if self.component.needs().is_some() {
            let (upserts, pods) = samples::cluster(nodes);
            instance.apply(1, &upserts, &[], &pods).await?;
        }
        Ok(instance)
    }

    /// Begins a cycle; `None` if the plugin refuses the pod.
    async fn begin(
        &self,
        instance: &mut Box<dyn Instance>,
        cycle: u64,
        pod: &Pod,
    ) -> Called<Option<Outcome>> {
        let mut outcomes = instance.begin(cycle, &[self.plugin.index], pod).await?;
        match outcomes.len() {
            1 => Ok(outcomes.remove(0).ok()),
            count => Err(CallError::Unavailable {
                plugin: self.plugin.name.as_str().into(),
                why: format!("begin for one plugin had {count} answers"),
            }),
        }
    }

    /// A whole cycle as the scheduler runs it.
    async fn answers(
        &self,
        instance: &mut Box<dyn Instance>,
        cycle: u64,
        pod: &Pod,
        nodes: &[u32],
    ) -> Called<Answers> {
        let index = self.plugin.index;
        let mut answers = Answers::default();
        match self.begin(instance, cycle, pod).await? {
            None => answers.refused = true,
            Some(outcome) => {
                if outcome.filter && self.has(ExtensionPoint::Filter) {
                    let words = instance.filter(index, cycle, nodes).await?;
                    answers.filter = Some(nodes.iter().copied().zip(words).collect());
                }
                if outcome.score && self.has(ExtensionPoint::Score) {
                    let scores = instance.score(index, cycle, nodes).await?;
                    answers.score = Some(nodes.iter().copied().zip(scores).collect());
                }
            }
        }
        instance.end(cycle).await?;
        Ok(answers)
    }

    async fn ordinary(&mut self, what: &str, pod: &Pod) -> Called<()> {
        let nodes: Vec<u32> = (0..samples::SMALL).collect();
        let mut instance = self.instance(samples::SMALL).await?;
        let first = self.answers(&mut instance, 1, pod, &nodes).await?;
        let mut fresh = self.instance(samples::SMALL).await?;
        let again = self.answers(&mut instance, 2, pod, &nodes).await?;
        if self.answers(&mut fresh, 3, pod, &nodes).await? != first {
            self.broken(
                FRESH,
                format_args!("{what}: two fresh instances judge differently"),
            );
        }
        if again != first {
            self.broken(
                FRESH,
                format_args!("{what}: a second cycle judges differently"),
            );
        }
        if first.filter.is_some() {
            self.filters_well(&mut fresh, what, pod, &nodes).await?;
        }
        if first.score.is_some() {
            self.scores_well(&mut fresh, what, pod, &nodes).await?;
        }
        if self.has(ExtensionPoint::Reserve) && !first.refused {
            self.reserves_well(what, pod, &nodes).await?;
        }
        Ok(())
    }

    async fn filters_well(
        &mut self,
        instance: &mut Box<dyn Instance>,
        what: &str,
        pod: &Pod,
        nodes: &[u32],
    ) -> Called<()> {
        let (index, cycle) = (self.plugin.index, 4);
        self.begin(instance, cycle, pod).await?;
        let whole = instance.filter(index, cycle, nodes).await?;
        if whole.len() != nodes.len() {
            let count = whole.len();
            self.broken(
                WORDS,
                format_args!("{what}: {count} words for {} nodes", nodes.len()),
            );
            return Ok(());
        }
        for size in [1, 7, 2 + self.chance.below(nodes.len())] {
            let mut parts = Vec::new();
            for part in nodes.chunks(size) {
                parts.extend(instance.filter(index, cycle, part).await?);
            }
            if parts != whole {
                self.broken(
                    SPLIT,
                    format_args!("{what}: batches of {size} have other answers than one of all"),
                );
            }
        }
        let mut mixed = nodes.to_vec();
        mixed.reverse();
        for order in ["backwards", "in another order"] {
            let words = instance.filter(index, cycle, &mixed).await?;
            let of_mixed: BTreeMap<u32, u32> = mixed.iter().copied().zip(words).collect();
            let as_before: BTreeMap<u32, u32> = nodes.iter().copied().zip(whole.clone()).collect();
            if of_mixed != as_before {
                self.broken(
                    ORDER,
                    format_args!("{what}: the nodes {order} have other answers"),
                );
            }
            self.chance.shuffle(&mut mixed);
        }
        let mut noes: Vec<u32> = whole.into_iter().filter(|word| *word != 0).collect();
        noes.sort_unstable();
        noes.dedup();
        if let Some(word) = noes.iter().find(|word| !matches!(**word & 3, 1..=3)) {
            self.broken(
                WORDS,
                format_args!("{what}: {word:#x} is neither yes nor a kind of no"),
            );
        }
        let texts = instance.reasons(index, cycle, &noes).await?;
        if texts.len() != noes.len() || texts.iter().any(|reasons| reasons.concat().is_empty()) {
            self.broken(WORDS, format_args!("{what}: a no without a reason"));
        }
        instance.end(cycle).await
    }

    async fn scores_well(
        &mut self,
        instance: &mut Box<dyn Instance>,
        what: &str,
        pod: &Pod,
        nodes: &[u32],
    ) -> Called<()> {
        let (index, cycle) = (self.plugin.index, 5);
        self.begin(instance, cycle, pod).await?;
        let mut scores = instance.score(index, cycle, nodes).await?;
        let backwards: Vec<u32> = nodes.iter().rev().copied().collect();
        let mut reversed = instance.score(index, cycle, &backwards).await?;
        reversed.reverse();
        if reversed != scores {
            self.broken(
                SCORE_ORDER,
                format_args!("{what}: the nodes backwards have other scores"),
            );
        }
        let own = self.has(ExtensionPoint::Normalize);
        if own {
            scores = instance.normalize(index, cycle, nodes, &scores).await?;
        }
        let by_host = !own && self.plugin.settings.normalize != Normalize::None;
        let most = if by_host { i64::MAX } else { MAX_SCORE };
        let wild = scores.iter().find(|score| !(0..=most).contains(*score));
        if let Some(wild) = wild {
            self.broken(BOUNDS, format_args!("{what}: a score of {wild}"));
        }
        if scores.len() != nodes.len() {
            let count = scores.len();
            self.broken(
                BOUNDS,
                format_args!("{what}: {count} scores for {} nodes", nodes.len()),
            );
        }
        instance.end(cycle).await
    }

    /// What was reserved and given back leaves no trace in later answers.
    async fn reserves_well(&mut self, what: &str, pod: &Pod, nodes: &[u32]) -> Called<()> {
        let index = self.plugin.index;
        let mut instance = self.instance(samples::SMALL).await?;
        let before = self.answers(&mut instance, 1, pod, nodes).await?;
        for cycle in [2, 3] {
            self.begin(&mut instance, cycle, pod).await?;
            let node = nodes[cycle as usize];
            let carry = instance.reserve(index, cycle, node).await?;
            instance.end(cycle).await?;
            let name = samples::node_name(node);
            let carry = carry.unwrap_or_default();
            for _ in 0..2 {
                instance.unreserve(index, &pod.uid, &name, &carry).await?;
            }
        }
        if self.answers(&mut instance, 4, pod, nodes).await? != before {
            self.broken(
                UNRESERVE,
                format_args!("{what}: after reserve and unreserve it judges differently"),
            );
        }
        Ok(())
    }

    /// Input that a broken cluster, or another plugin's mistake, may bring about.
    async fn hostile(&self) -> Called<()> {
        let index = self.plugin.index;
        let filters = self.has(ExtensionPoint::Filter);
        let scores = self.has(ExtensionPoint::Score);
        for pod in samples::hostile_pods() {
            let mut instance = self.component.instantiate().await?;
            if self.component.needs().is_some() {
                let (upserts, pods) = samples::hostile_cluster();
                instance.apply(1, &upserts, &[7, u32::MAX], &pods).await?;
                instance.apply(1, &[], &[0], &pods).await?;
                instance.apply(0, &upserts, &[], &[]).await?;
            }
            self.begin(&mut instance, 1, &pod).await?;
            for nodes in [&[][..], &[0], &[0, 0, u32::MAX, 1]] {
                for cycle in [1, 99] {
                    if filters {
                        let words = instance.filter(index, cycle, nodes).await?;
                        instance.reasons(index, cycle, &words).await?;
                    }
                    if scores {
                        instance.score(index, cycle, nodes).await?;
                    }
                }
            }
            if filters {
                instance.reasons(index, 1, &[0, 1, 2, 3, u32::MAX]).await?;
            }
            instance.clone_cycle(1, 2).await?;
            instance.clone_cycle(98, 3).await?;
            if let Some(change) = samples::hostile_cluster().1.first() {
                instance.add_pod(2, 0, &change.pod).await?;
                instance.remove_pod(2, 5, &change.pod).await?;
                instance.remove_pod(97, 0, &change.pod).await?;
            }
            for cycle in [1, 1, 2, 96] {
                instance.end(cycle).await?;
            }
        }
        Ok(())
    }

    async fn large(&self) -> Called<()> {
        let nodes: Vec<u32> = (0..samples::LARGE).collect();
        let mut instance = self.component.instantiate().await?;
        if self.component.needs().is_some() {
            let (upserts, pods) = samples::cluster(samples::LARGE);
            for part in upserts.chunks(2_000) {
                instance.apply(1, part, &[], &[]).await?;
            }
            for part in pods.chunks(2_000) {
                instance.apply(1, &[], &[], part).await?;
            }
        }
        for (_, pod) in samples::pods() {
            self.answers(&mut instance, 1, &pod, &nodes).await?;
        }
        Ok(())
    }
}
