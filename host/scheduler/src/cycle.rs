//! One pod's scheduling cycle: pre-filter, filter over a sample of the nodes, score, choice, reserve.
//!
//! A plugin that fails (a trap, a limit, an answer that makes no sense) either fails the pod, or the cycle is run again without
//! it, as its failure policy says. Its component's other plugins lose their cycle with the instance, so nothing less will do.
//!
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/>

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_plugin::{
    CallError,
    manifest::ExtensionPoint,
    scheduler::{EventSet, Outcome, types},
};
use rand::{Rng, rngs::StdRng};

use crate::{
    cache::Cache,
    message::Rejections,
    node::project_pod,
    pod::PodInfo,
    profile::{Profile, ProfilePlugin},
    worker::Worker,
};

mod sample;
mod score;

pub(crate) use score::normalize;

/// Where the pod goes.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) node_name: String,
    /// What `reserve` of each plugin (by place in the profile) returned, in their order.
    pub(crate) reserved: Vec<(usize, Vec<u8>)>,
}

/// Why it goes nowhere.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No node will do.
    Unschedulable {
        rejections: Rejections,
        may_help: EventSet,
    },
    /// A plugin failed.
    Error(String),
}

/// A plugin failed: its place in the profile, or all of a component's plugins if they were called together.
struct Fault {
    plugins: Vec<usize>,
    point: ExtensionPoint,
    message: String,
}

/// The reason packed into a filter's word, and which plugin's it is.
type Rejected = BTreeMap<(usize, u32), usize>;

/// What a cycle works with.
pub(crate) struct Cycle<'a> {
    pub(crate) number: u64,
    pub(crate) pod: &'a PodInfo,
    pub(crate) profile: &'a Profile,
    pub(crate) cache: &'a Cache,
    pub(crate) worker: &'a mut Worker,
    pub(crate) rng: &'a mut StdRng,
    /// Where the sample of the next pod begins.
    pub(crate) next_start: &'a mut usize,
    /// How many percent of the nodes to find; `None`: what the size of the cluster suggests.
    pub(crate) percentage: Option<u32>,
    /// Where the cycle is.
    pub(crate) point: ExtensionPoint,
}

/// What the plugins said before filtering.
#[derive(Default)]
struct Begun {
    /// By place: whether the plugin filters and scores.
    outcomes: BTreeMap<usize, (bool, bool)>,
    /// The nodes that come into question, and who said so.
    only: Option<BTreeSet<u32>>,
    narrowed_by: BTreeSet<String>,
}

enum Stop {
    Fault(Fault),
    Failure(Failure),
}

impl Cycle<'_> {
    /// Runs the cycle. The state in the plugins is over afterwards.
    pub(crate) async fn run(mut self) -> Result<Decision, Failure> {
        let mut without = BTreeSet::new();
        loop {
            let result = self.attempt(&without).await;
            self.end().await;
            let fault = match result {
                Ok(decision) => return Ok(decision),
                Err(Stop::Failure(failure)) => return Err(failure),
                Err(Stop::Fault(fault)) => fault,
            };
            let plugins = &self.profile.plugins;
            let ignored = |&place: &usize| {
                plugins[place].ignores_failures_at(fault.point) && !without.contains(&place)
            };
            if fault.plugins.is_empty() || !fault.plugins.iter().all(ignored) {
                return Err(Failure::Error(fault.message));
            }
            tracing::warn!(pod = %self.pod, error = fault.message, "scheduling without a failed plugin");
            without.extend(fault.plugins);
        }
    }

    async fn attempt(&mut self, without: &BTreeSet<usize>) -> Result<Decision, Stop> {
        self.point = ExtensionPoint::Cycle;
        let begun = self.begin(without).await?;
        self.point = ExtensionPoint::Filter;
        let feasible = self.find_feasible(&begun).await?;
        let node = match feasible.as_slice() {
            [only] => *only,
            many => {
                self.point = ExtensionPoint::Score;
                self.choose(&begun, many).await?
            }
        };
        self.point = ExtensionPoint::Reserve;
        let Some(info) = self.cache.node(node) else {
            return Err(self.fault_of_none("the chosen node is gone"));
        };
        let node_name = info.name.clone();
        let reserved = self.reserve(&begun, node, &node_name).await?;
        Ok(Decision {
            node_name,
            reserved,
        })
    }

    /// PreFilter: all plugins of a component at once.
    async fn begin(&mut self, without: &BTreeSet<usize>) -> Result<Begun, Stop> {
        let mut begun = Begun::default();
        let mut answers = BTreeMap::new();
        for component in 0..self.profile.components.len() {
            let places: Vec<usize> = self
                .places(|plugin| plugin.component == component && plugin.has_cycle())
                .into_iter()
                .filter(|place| !without.contains(place))
                .collect();
            if places.is_empty() {
                continue;
            }
            let synced = self.worker.sync(component, self.cache).await;
            synced.map_err(|error| self.fault(&places, error))?;
            let indexes: Vec<u32> = places
                .iter()
                .map(|&at| self.profile.plugins[at].index)
                .collect();
            let pod = project_pod(self.pod, self.profile.needs(component).unwrap_or_default());
            let number = self.number;
            let called = match self.worker.instance(component) {
                Some(instance) => instance.begin(number, &indexes, &pod).await,
                None => return Err(self.fault_of(&places, "no instance")),
            };
            let outcomes = called.map_err(|error| self.lost(component, &places, error))?;
            if outcomes.len() != places.len() {
                return Err(
                    self.fault_of(&places, "as many answers to begin as plugins were expected")
                );
            }
            answers.extend(places.into_iter().zip(outcomes));
        }
        for (place, answer) in answers {
            match answer {
                Ok(outcome) => self.take_outcome(&mut begun, place, outcome),
                Err(refusal) => return Err(self.refused(place, refusal)),
            }
        }
        Ok(begun)
    }

    fn take_outcome(&self, begun: &mut Begun, place: usize, outcome: Outcome) {
        let plugin = &self.profile.plugins[place];
        let filter = outcome.filter && plugin.has(ExtensionPoint::Filter);
        let score = outcome.score && plugin.has(ExtensionPoint::Score);
        begun.outcomes.insert(place, (filter, score));
        if let Some(nodes) = outcome.nodes {
            let nodes: BTreeSet<u32> = nodes.into_iter().collect();
            begun.narrowed_by.insert(plugin.name.to_string());
            begun.only = Some(match begun.only.take() {
                Some(only) => &only & &nodes,
                None => nodes,
            });
        }
    }

    /// A refusal of the pod as a whole.
    fn refused(&self, place: usize, refusal: types::Refusal) -> Stop {
        let plugin = &self.profile.plugins[place];
        let reason = refusal.reasons.join(", ");
        if refusal.kind == types::RefusalKind::Error {
            return self.fault_of(&[place], &reason);
        }
        Stop::Failure(Failure::Unschedulable {
            rejections: Rejections {
                nodes: self.cache.indexes().len(),
                pod: Some(reason),
                ..Rejections::default()
            },
            may_help: plugin.events,
        })
    }

    /// Filter, until enough nodes are found. None is a failure with its reasons.
    async fn find_feasible(&mut self, begun: &Begun) -> Result<Vec<u32>, Stop> {
        let all = self.cache.indexes();
        let start = *self.next_start;
        let candidates = sample::rotated(&all, start, begun.only.as_ref());
        let wanted = sample::nodes_to_find(all.len(), self.percentage);
        let filters: Vec<usize> = begun
            .outcomes
            .iter()
            .filter(|(_, (filter, _))| *filter)
            .map(|(place, _)| *place)
            .collect();
        let mut rejected = Rejected::new();
        let mut feasible = Vec::new();
        let mut looked_at = 0;
        while looked_at < candidates.len() && feasible.len() < wanted {
            let size = (wanted - feasible.len()).max(sample::MIN_BATCH);
            let end = (looked_at + size).min(candidates.len());
            let batch = candidates[looked_at..end].to_vec();
            feasible.extend(self.filter(&filters, batch, &mut rejected).await?);
            looked_at = end;
        }
        if begun.only.is_none() && !all.is_empty() {
            *self.next_start = (start + looked_at) % all.len();
        }
        if feasible.is_empty() {
            let absent = all.len() - candidates.len();
            return Err(self.no_node(begun, all.len(), absent, rejected).await?);
        }
        Ok(feasible)
    }

    /// The nodes of a batch that every filter lets pass.
    async fn filter(
        &mut self,
        filters: &[usize],
        mut batch: Vec<u32>,
        rejected: &mut Rejected,
    ) -> Result<Vec<u32>, Stop> {
        for &place in filters {
            if batch.is_empty() {
                break;
            }
            let (component, index) = self.address(place);
            let number = self.number;
            let called = match self.worker.instance(component) {
                Some(instance) => instance.filter(index, number, &batch).await,
                None => return Err(self.fault_of(&[place], "no instance")),
            };
            let words = called.map_err(|error| self.lost(component, &[place], error))?;
            if words.len() != batch.len() {
                return Err(
                    self.fault_of(&[place], "a word for each node was expected from filter")
                );
            }
            let mut passed = Vec::with_capacity(batch.len());
            for (node, word) in batch.into_iter().zip(words) {
                match word & 3 {
                    0 if word == 0 => passed.push(node),
                    1 | 2 => *rejected.entry((place, word)).or_default() += 1,
                    _ => return Err(self.judged_wrong(place, word).await),
                }
            }
            batch = passed;
        }
        Ok(batch)
    }

    /// A filter said error, or a word that has no meaning.
    async fn judged_wrong(&mut self, place: usize, word: u32) -> Stop {
        match self.reasons(place, &[word]).await {
            Ok(reasons) => self.fault_of(&[place], &reasons.concat().join(", ")),
            Err(stop) => stop,
        }
    }

    async fn no_node(
        &mut self,
        begun: &Begun,
        nodes: usize,
        absent: usize,
        rejected: Rejected,
    ) -> Result<Stop, Stop> {
        let mut rejections = Rejections {
            nodes,
            ..Rejections::default()
        };
        let mut may_help = EventSet::NONE;
        let mut words: BTreeMap<usize, Vec<(u32, usize)>> = BTreeMap::new();
        for ((place, word), count) in rejected {
            words.entry(place).or_default().push((word, count));
        }
        for (place, counted) in words {
            may_help = may_help.union(self.profile.plugins[place].events);
            let list: Vec<u32> = counted.iter().map(|(word, _)| *word).collect();
            let texts = self.reasons(place, &list).await?;
            for ((_, count), reasons) in counted.into_iter().zip(texts) {
                for reason in reasons {
                    rejections.count(reason, count);
                }
            }
        }
        if absent > 0 {
            let who: Vec<_> = begun.narrowed_by.iter().map(String::as_str).collect();
            let reason = format!("node(s) didn't satisfy plugin(s) [{}]", who.join(" "));
            rejections.count(reason, absent);
            may_help = may_help.union(self.narrowing_events(begun));
        }
        if may_help.is_empty() {
            may_help = self.profile.any_node();
        }
        Ok(Stop::Failure(Failure::Unschedulable {
            rejections,
            may_help,
        }))
    }

    fn narrowing_events(&self, begun: &Begun) -> EventSet {
        self.profile
            .plugins
            .iter()
            .filter(|plugin| begun.narrowed_by.contains(&*plugin.name))
            .fold(EventSet::NONE, |set, plugin| set.union(plugin.events))
    }

    async fn reasons(&mut self, place: usize, words: &[u32]) -> Result<Vec<Vec<String>>, Stop> {
        let (component, index) = self.address(place);
        let number = self.number;
        let called = match self.worker.instance(component) {
            Some(instance) => instance.reasons(index, number, words).await,
            None => return Err(self.fault_of(&[place], "no instance")),
        };
        let mut texts = called.map_err(|error| self.lost(component, &[place], error))?;
        let name = &self.profile.plugins[place].name;
        texts.resize_with(words.len(), Vec::new);
        for reasons in &mut texts {
            if reasons.is_empty() {
                reasons.push(format!("node(s) were turned down by {name}"));
            }
        }
        Ok(texts)
    }

    /// Reserve, in order; what was reserved is given back if a later plugin refuses.
    async fn reserve(
        &mut self,
        begun: &Begun,
        node: u32,
        node_name: &str,
    ) -> Result<Vec<(usize, Vec<u8>)>, Stop> {
        let places = self.places(|plugin| plugin.has(ExtensionPoint::Reserve));
        let mut reserved = Vec::new();
        for place in places {
            if !begun.outcomes.contains_key(&place) {
                continue;
            }
            let (component, index) = self.address(place);
            let number = self.number;
            let called = match self.worker.instance(component) {
                Some(instance) => instance.reserve(index, number, node).await,
                None => return Err(self.fault_of(&[place], "no instance")),
            };
            let stop = match called {
                Ok(Ok(carry)) => {
                    reserved.push((place, carry));
                    continue;
                }
                Ok(Err(refusal)) => {
                    reserved.push((place, Vec::new()));
                    self.refused(place, refusal)
                }
                Err(error) => self.lost(component, &[place], error),
            };
            let uid = self.pod.uid.to_string();
            unreserve(self.worker, self.profile, &uid, node_name, reserved).await;
            return Err(stop);
        }
        Ok(reserved)
    }

    /// Lets every component forget the cycle.
    async fn end(&mut self) {
        for component in 0..self.profile.components.len() {
            if let Some(instance) = self.worker.instance(component)
                && instance.end(self.number).await.is_err()
            {
                self.worker.dispose(component);
            }
        }
    }

    fn places(&self, wanted: impl Fn(&ProfilePlugin) -> bool) -> Vec<usize> {
        let plugins = self.profile.plugins.iter().enumerate();
        plugins
            .filter(|(_, plugin)| wanted(plugin))
            .map(|(place, _)| place)
            .collect()
    }

    fn address(&self, place: usize) -> (usize, u32) {
        let plugin = &self.profile.plugins[place];
        (plugin.component, plugin.index)
    }

    /// The instance failed and is gone.
    fn lost(&mut self, component: usize, places: &[usize], error: CallError) -> Stop {
        self.worker.dispose(component);
        self.fault(places, error)
    }

    fn fault(&self, places: &[usize], error: CallError) -> Stop {
        Stop::Fault(Fault {
            plugins: places.to_vec(),
            point: self.point,
            message: error.to_string(),
        })
    }

    fn fault_of(&self, places: &[usize], why: &str) -> Stop {
        let names: Vec<&str> = places
            .iter()
            .map(|&at| &*self.profile.plugins[at].name)
            .collect();
        Stop::Fault(Fault {
            plugins: places.to_vec(),
            point: self.point,
            message: format!("plugin {}: {why}", names.join(", ")),
        })
    }

    fn fault_of_none(&self, why: &str) -> Stop {
        Stop::Fault(Fault {
            plugins: Vec::new(),
            point: self.point,
            message: why.to_owned(),
        })
    }

    fn pick(&mut self, count: usize) -> usize {
        self.rng.random_range(0..count)
    }
}

/// Gives back what was reserved, the last first.
pub(crate) async fn unreserve(
    worker: &mut Worker,
    profile: &Profile,
    pod_uid: &str,
    node_name: &str,
    reserved: Vec<(usize, Vec<u8>)>,
) {
    for (place, carry) in reserved.into_iter().rev() {
        let plugin = &profile.plugins[place];
        let id = profile.components[plugin.component].id();
        let Some(instance) = worker.instance_of(id) else {
            continue; // the instance that reserved is gone, and what it held with it
        };
        let called = instance.unreserve(plugin.index, pod_uid, node_name, &carry);
        if let Err(error) = called.await {
            tracing::warn!(plugin = %plugin.name, %error, "a reservation was not given back");
            worker.dispose_of(id);
        }
    }
}
