//! What the scheduler knows of the cluster: nodes, and the pods on them or assumed to be.
//!
//! ```text
//!                 assume                       observed on the node
//!   (unassigned) ────────► assumed ─────────────────────────────────► confirmed
//!         ▲                   │  forget                                   │
//!         └───────────────────┘                                           │ gone or finished
//!                             └─── gone ──► (unknown) ◄───────────────────┘
//! ```
//!
//! Invariants: an assumed pod uses its node's resources as a confirmed one does, so that the next decision counts with it.
//! Observation wins over assumption. A pod whose node is not known yet is kept and appears with the node. Every change that
//! mirrors must follow is logged with an epoch; a mirror that is too far behind is told everything.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use pilothouse_plugin::scheduler::{ClusterEvent, EventSet};

use crate::{
    node::NodeInfo,
    pod::{PodInfo, Uid},
};

/// How many changes are kept at most for mirrors that lag.
const LOG_CAPACITY: usize = 16_384;

/// A change of what mirrors show.
#[derive(Clone, Debug)]
enum Change {
    Upsert(u32),
    Removed(u32),
    Pod {
        node: u32,
        added: bool,
        pod: Arc<PodInfo>,
    },
}

/// What a mirror must be told. In this order: removed nodes, nodes, pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delta {
    pub(crate) removed: Vec<u32>,
    pub(crate) upserts: Vec<(u32, Arc<NodeInfo>)>,
    pub(crate) pods: Vec<(u32, bool, Arc<PodInfo>)>,
}

#[derive(Debug)]
struct Placed {
    pod: Arc<PodInfo>,
    node_name: String,
    assumed: bool,
}

/// The cache.
#[derive(Debug, Default)]
pub struct Cache {
    nodes: Vec<Option<Arc<NodeInfo>>>,
    by_name: HashMap<String, u32>,
    free: Vec<u32>,
    /// Indexes of the nodes there are, in rising order.
    indexes: Arc<Vec<u32>>,
    pods: HashMap<Uid, Placed>,
    on_node: HashMap<String, BTreeSet<Uid>>,
    epoch: u64,
    log: VecDeque<(u64, Change)>,
}

impl Cache {
    /// The number of the last change.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The nodes there are.
    pub fn indexes(&self) -> Arc<Vec<u32>> {
        Arc::clone(&self.indexes)
    }

    /// A node by index.
    pub fn node(&self, index: u32) -> Option<&Arc<NodeInfo>> {
        self.nodes.get(index as usize)?.as_ref()
    }

    /// A node came or changed. Returns what that may help.
    pub fn upsert_node(&mut self, node: NodeInfo) -> EventSet {
        let name = node.name.clone();
        let node = Arc::new(node);
        if let Some(&index) = self.by_name.get(&name) {
            let Some(slot) = self.nodes.get_mut(index as usize) else {
                return EventSet::NONE;
            };
            let changes = slot
                .as_ref()
                .map_or(EventSet::ALL, |old| old.changes(&node));
            *slot = Some(node);
            if !changes.is_empty() {
                self.record(Change::Upsert(index));
            }
            return changes;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.nodes.len() as u32 - 1
        });
        self.nodes[index as usize] = Some(node);
        self.by_name.insert(name.clone(), index);
        self.reindex();
        self.record(Change::Upsert(index));
        let pods: Vec<_> = self
            .on_node
            .get(&name)
            .into_iter()
            .flatten()
            .filter_map(|uid| Some(Arc::clone(&self.pods.get(uid)?.pod)))
            .collect();
        for pod in pods {
            self.record(Change::Pod {
                node: index,
                added: true,
                pod,
            });
        }
        ClusterEvent::NodeAdd.into()
    }

    /// A node is gone. Its pods stay known until they are gone themselves.
    pub fn remove_node(&mut self, name: &str) {
        if let Some(index) = self.by_name.remove(name) {
            self.nodes[index as usize] = None;
            self.free.push(index);
            self.reindex();
            self.record(Change::Removed(index));
        }
    }

    /// A pod was observed on a node. Returns what that may help.
    pub fn observe_pod(&mut self, pod: Arc<PodInfo>) -> EventSet {
        let mut events = EventSet::NONE;
        let known = self.pods.get_mut(&pod.uid);
        if let Some(placed) = known
            && placed.node_name == pod.node_name
            && placed.pod.assigned == pod.assigned
        {
            placed.assumed = false;
            placed.pod = pod;
            return events;
        }
        if let Some(old) = self.take(&pod.uid) {
            let resized = pod.assigned.requests != old.pod.assigned.requests;
            if resized || old.node_name != pod.node_name {
                events.insert(ClusterEvent::PodRelease);
            }
        } else {
            events.insert(ClusterEvent::PodAssign);
        }
        let node_name = pod.node_name.clone();
        self.put(Placed {
            pod,
            node_name,
            assumed: false,
        });
        events
    }

    /// A pod is gone or finished. Returns what that may help.
    pub fn remove_pod(&mut self, uid: &Uid) -> EventSet {
        match self.take(uid) {
            Some(_) => ClusterEvent::PodRelease.into(),
            None => EventSet::NONE,
        }
    }

    /// Counts with a pod on a node before it is there.
    pub fn assume(&mut self, pod: Arc<PodInfo>, node_name: &str) {
        self.take(&pod.uid);
        self.put(Placed {
            pod,
            node_name: node_name.to_owned(),
            assumed: true,
        });
    }

    /// Takes an assumption back; an observation stays. Returns what that may help.
    pub fn forget(&mut self, uid: &Uid) -> EventSet {
        match self.is_assumed(uid) {
            true => self.remove_pod(uid),
            false => EventSet::NONE,
        }
    }

    /// Whether a pod is on a node only by assumption.
    pub fn is_assumed(&self, uid: &Uid) -> bool {
        self.pods.get(uid).is_some_and(|placed| placed.assumed)
    }

    /// Whether a pod is on a node, or assumed to be.
    pub fn is_placed(&self, uid: &Uid) -> bool {
        self.pods.contains_key(uid)
    }

    /// The pods on a node, those assumed included.
    pub fn pods_on(&self, node_name: &str) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.on_node
            .get(node_name)
            .into_iter()
            .flatten()
            .filter_map(|uid| Some(&self.pods.get(uid)?.pod))
    }

    /// What a mirror at `since` must be told; `None`: everything.
    pub(crate) fn delta(&self, since: u64) -> Option<Delta> {
        if since == self.epoch {
            return Some(Delta::default());
        }
        let first = self.log.front()?.0;
        if since + 1 < first {
            return None;
        }
        let mut delta = Delta::default();
        let mut upserts = BTreeSet::new();
        let skip = (since + 1 - first) as usize;
        for (_, change) in self.log.iter().skip(skip) {
            match change {
                Change::Upsert(index) => {
                    upserts.insert(*index);
                }
                Change::Removed(index) => {
                    upserts.remove(index);
                    delta.pods.retain(|(node, ..)| node != index);
                    delta.removed.push(*index);
                }
                Change::Pod { node, added, pod } => {
                    delta.pods.push((*node, *added, Arc::clone(pod)));
                }
            }
        }
        delta.upserts = upserts
            .into_iter()
            .filter_map(|index| Some((index, Arc::clone(self.node(index)?))))
            .collect();
        Some(delta)
    }

    /// Everything, for an empty mirror.
    pub(crate) fn everything(&self) -> Delta {
        let nodes = self.indexes.iter();
        let upserts: Vec<_> = nodes
            .filter_map(|&index| Some((index, Arc::clone(self.node(index)?))))
            .collect();
        let pods = upserts
            .iter()
            .flat_map(|(index, node)| {
                self.pods_on(&node.name)
                    .map(|pod| (*index, true, Arc::clone(pod)))
            })
            .collect();
        Delta {
            removed: Vec::new(),
            upserts,
            pods,
        }
    }

    /// Changes up to `epoch` are known to every mirror.
    pub(crate) fn trim(&mut self, epoch: u64) {
        while self.log.front().is_some_and(|(at, _)| *at <= epoch) {
            self.log.pop_front();
        }
    }

    fn put(&mut self, placed: Placed) {
        let uid = Arc::clone(&placed.pod.uid);
        if let Some(&node) = self.by_name.get(&placed.node_name) {
            self.record(Change::Pod {
                node,
                added: true,
                pod: Arc::clone(&placed.pod),
            });
        }
        self.on_node
            .entry(placed.node_name.clone())
            .or_default()
            .insert(Arc::clone(&uid));
        self.pods.insert(uid, placed);
    }

    fn take(&mut self, uid: &Uid) -> Option<Placed> {
        let placed = self.pods.remove(uid)?;
        if let Some(pods) = self.on_node.get_mut(&placed.node_name) {
            pods.remove(uid);
            if pods.is_empty() {
                self.on_node.remove(&placed.node_name);
            }
        }
        if let Some(&node) = self.by_name.get(&placed.node_name) {
            self.record(Change::Pod {
                node,
                added: false,
                pod: Arc::clone(&placed.pod),
            });
        }
        Some(placed)
    }

    fn record(&mut self, change: Change) {
        self.epoch += 1;
        self.log.push_back((self.epoch, change));
        if self.log.len() > LOG_CAPACITY {
            self.log.pop_front();
        }
    }

    fn reindex(&mut self) {
        let indexes = self.nodes.iter().enumerate();
        self.indexes = Arc::new(
            indexes
                .filter_map(|(index, node)| node.as_ref().map(|_| index as u32))
                .collect(),
        );
    }
}

#[cfg(test)]
mod tests;
