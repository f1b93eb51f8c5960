//! The scheduler without its surroundings: what comes in changes queue and cache, and one pod after the other is decided.
//!
//! Invariants: one owner, no locks; no time, chance or I/O but what comes in, so that a seed replays a run. A pod is in the
//! queue or placed in the cache; while its binding is under way it is in both (in flight, and assumed).

use std::sync::Arc;

use pilothouse_plugin::{
    manifest::ExtensionPoint,
    scheduler::{ClusterEvent, Component, EventSet},
};
use rand::{SeedableRng, rngs::StdRng};

use crate::{
    api::Report,
    binding::{Binding, Ended, Finished},
    cache::Cache,
    cycle::{Cycle, Decision, Failure, unreserve},
    node::NodeInfo,
    pod::{PodInfo, Uid},
    profile::Profile,
    queue::{Millis, Queue, QueuedPod},
    worker::Worker,
};

/// What is observed of the cluster.
#[derive(Clone, Debug)]
pub enum Input {
    Pod(Arc<PodInfo>),
    PodGone(Uid),
    Node(NodeInfo),
    NodeGone(String),
    /// Everything that was there at the start has come in.
    Synced,
}

/// What to do after a decision.
pub enum Step {
    Bind(Binding),
    Tell(Arc<PodInfo>, Report),
}

/// Settings of the scheduler.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pods that name this scheduler are its own.
    pub scheduler_name: String,
    /// `percentageOfNodesToScore`; `None` or 0: what the size of the cluster suggests.
    pub percentage_of_nodes_to_score: Option<u32>,
    /// Where chance begins.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheduler_name: crate::profile::DEFAULT_SCHEDULER.to_owned(),
            percentage_of_nodes_to_score: None,
            seed: 0,
        }
    }
}

/// The scheduler's state.
pub struct Core {
    options: Options,
    cache: Cache,
    queue: Queue,
    profile: Arc<Profile>,
    worker: Worker,
    rng: StdRng,
    cycles: u64,
    next_start: usize,
}

impl Core {
    /// Empty, without plugins.
    pub fn new(options: Options) -> Self {
        Self {
            rng: StdRng::seed_from_u64(options.seed),
            options,
            cache: Cache::default(),
            queue: Queue::default(),
            profile: Arc::default(),
            worker: Worker::default(),
            cycles: 0,
            next_start: 0,
        }
    }

    /// What is known of the cluster.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The pods that wait.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Goes over to other plugins, between two cycles. Any pod may fare better with them.
    pub fn set_components(&mut self, components: Vec<Arc<dyn Component>>, now: Millis) {
        self.worker.set_components(&components);
        self.profile = Arc::new(Profile::of(components));
        self.tell_queue(EventSet::ALL, now);
    }

    /// Takes in what was observed.
    pub fn observe(&mut self, input: Input, now: Millis) {
        let events = match input {
            Input::Pod(pod) => self.observe_pod(pod, now),
            Input::PodGone(uid) => {
                self.queue.remove(&uid);
                self.cache.remove_pod(&uid)
            }
            Input::Node(node) => self.cache.upsert_node(node),
            Input::NodeGone(name) => {
                self.cache.remove_node(&name);
                EventSet::NONE
            }
            Input::Synced => EventSet::NONE,
        };
        self.tell_queue(events, now);
    }

    fn observe_pod(&mut self, pod: Arc<PodInfo>, now: Millis) -> EventSet {
        if pod.terminal {
            self.queue.remove(&pod.uid);
            return self.cache.remove_pod(&pod.uid);
        }
        if !pod.node_name.is_empty() {
            self.queue.remove(&pod.uid);
            return self.cache.observe_pod(pod);
        }
        let waits = self.queue.get(&pod.uid).is_some();
        if pod.deleting {
            self.queue.remove(&pod.uid);
        } else if pod.scheduler_name == self.options.scheduler_name
            && (waits || !self.cache.is_placed(&pod.uid))
        {
            // Not one that is bound, when this is news from before the binding.
            self.queue.upsert(pod, now);
        }
        EventSet::NONE
    }

    /// Decides about the next pod, if one is to be scheduled now.
    pub async fn schedule_one(&mut self, now: Millis) -> Option<Step> {
        let QueuedPod { pod, .. } = self.queue.pop(now)?;
        self.cycles += 1;
        let profile = Arc::clone(&self.profile);
        let cycle = Cycle {
            number: self.cycles,
            pod: &pod,
            profile: &profile,
            cache: &self.cache,
            worker: &mut self.worker,
            rng: &mut self.rng,
            next_start: &mut self.next_start,
            percentage: self.options.percentage_of_nodes_to_score,
            point: ExtensionPoint::Cycle,
        };
        let result = cycle.run().await;
        if let Some(epoch) = self.worker.epoch() {
            self.cache.trim(epoch);
        }
        Some(match result {
            Ok(Decision {
                node_name,
                reserved,
            }) => {
                self.cache.assume(Arc::clone(&pod), &node_name);
                Step::Bind(Binding {
                    pod,
                    node_name,
                    profile,
                    reserved,
                })
            }
            Err(Failure::Unschedulable {
                rejections,
                may_help,
            }) => {
                self.queue.unschedulable(&pod.uid, may_help, now);
                let report = Report {
                    reason: "Unschedulable",
                    message: rejections.message(),
                };
                Step::Tell(pod, report)
            }
            Err(Failure::Error(message)) => {
                self.queue.retry(&pod.uid, now);
                let report = Report {
                    reason: "SchedulerError",
                    message,
                };
                Step::Tell(pod, report)
            }
        })
    }

    /// Takes in how a binding ended. What is to be told comes back.
    pub async fn finish(
        &mut self,
        finished: Finished,
        now: Millis,
    ) -> Option<(Arc<PodInfo>, Report)> {
        let Finished { binding, ended } = finished;
        let pod = binding.pod;
        if matches!(ended, Ended::Bound) {
            self.queue.done(&pod.uid);
            return None;
        }
        unreserve(
            &mut self.worker,
            &binding.profile,
            &pod.uid,
            &binding.node_name,
            binding.reserved,
        )
        .await;
        let released = self.cache.forget(&pod.uid);
        let report = match ended {
            Ended::Bound => None,
            Ended::Stale(refreshed) => {
                match refreshed {
                    Some(pod) => self.observe(Input::Pod(Arc::new(pod)), now),
                    None => self.queue.remove(&pod.uid),
                }
                self.queue.retry_early(&pod.uid, now);
                None
            }
            Ended::Refused { report, may_help } => {
                self.queue.unschedulable(&pod.uid, may_help, now);
                Some(report)
            }
            Ended::Failed(report) => {
                self.queue.retry(&pod.uid, now);
                Some(report)
            }
        };
        self.tell_queue(released, now);
        Some((pod, report?))
    }

    fn tell_queue(&mut self, events: EventSet, now: Millis) {
        for event in ClusterEvent::ALL {
            if events.meets(event.into()) {
                self.queue.event(event, now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
