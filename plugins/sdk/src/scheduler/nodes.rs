//! The plugin's mirror of the nodes, with what the pods on each of them use together.
//!
//! Invariant: the sums on a node are those of the pods that were added to it and not removed, whatever becomes of the node's
//! own record in between.

use super::{
    bindings::{
        PodChange,
        types::{AssignedPod, HostPort, Image, Node, Taint},
    },
    resources::Resources,
};

/// A node as the mirror knows it. Fields that the manifest does not ask for stay empty.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    pub index: u32,
    pub name: String,
    pub unschedulable: bool,
    /// Sorted by key.
    pub labels: Vec<(String, String)>,
    pub taints: Vec<Taint>,
    pub allocatable: Resources,
    pub images: Vec<Image>,
    /// The whole object as JSON.
    pub json: Option<Vec<u8>>,
    /// What the pods on the node ask for.
    pub requested: Resources,
    /// The same with defaults for containers that ask for nothing; only CPU and memory.
    pub nonzero_requested: Resources,
    pub pod_count: i64,
    /// Host ports in use.
    pub host_ports: Vec<HostPort>,
}

impl NodeInfo {
    /// A node without pods.
    pub fn new(node: Node) -> Self {
        let mut info = Self::default();
        info.set(node);
        info
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self
            .labels
            .binary_search_by(|(k, _)| k.as_str().cmp(key))
            .ok()?;
        Some(&self.labels[at].1)
    }

    fn set(&mut self, node: Node) {
        self.index = node.index;
        self.name = node.name;
        self.unschedulable = node.unschedulable;
        self.labels = node.labels;
        self.labels.sort_unstable(); // sent sorted, and searched as if it were
        self.taints = node.taints;
        self.allocatable = Resources::from_quantities(&node.allocatable);
        self.images = node.images;
        self.json = node.json;
    }

    /// Puts a pod on the node.
    pub fn add_pod(&mut self, pod: &AssignedPod) {
        self.requested.add(&pod.requests);
        self.nonzero_requested.add(&pod.nonzero_requests);
        self.pod_count += 1;
        self.host_ports.extend(pod.host_ports.iter().cloned());
    }

    /// Takes a pod off the node that was put on it.
    pub fn remove_pod(&mut self, pod: &AssignedPod) {
        self.requested.subtract(&pod.requests);
        self.nonzero_requested.subtract(&pod.nonzero_requests);
        self.pod_count -= 1;
        for port in &pod.host_ports {
            if let Some(at) = self.host_ports.iter().position(|p| p == port) {
                self.host_ports.swap_remove(at);
            }
        }
    }
}

/// All nodes by index.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    epoch: u64,
    slots: Vec<Option<NodeInfo>>,
}

/// More than any cluster has; a hostile index must not make the mirror grow without bound.
const MAX_NODES: usize = 1 << 20;

impl Nodes {
    /// The epoch of the last change.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A node, unless the mirror does not know it.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&NodeInfo> {
        self.slots.get(index as usize)?.as_ref()
    }

    /// By name; looks through all of them.
    pub fn by_name(&self, name: &str) -> Option<&NodeInfo> {
        self.iter().find(|node| node.name == name)
    }

    /// All nodes, by rising index.
    pub fn iter(&self) -> impl Iterator<Item = &NodeInfo> {
        self.slots.iter().flatten()
    }

    /// Brings the mirror to an epoch. Changes of nodes it does not know are passed over.
    pub fn apply(&mut self, epoch: u64, upserts: Vec<Node>, removed: &[u32], pods: &[PodChange]) {
        self.epoch = epoch;
        for &index in removed {
            if let Some(slot) = self.slots.get_mut(index as usize) {
                *slot = None;
            }
        }
        for node in upserts {
            let index = node.index as usize;
            if index >= MAX_NODES {
                continue;
            }
            if index >= self.slots.len() {
                self.slots.resize_with(index + 1, || None);
            }
            self.slots[index]
                .get_or_insert_with(NodeInfo::default)
                .set(node);
        }
        for change in pods {
            if let Some(Some(node)) = self.slots.get_mut(change.node as usize) {
                match change.added {
                    true => node.add_pod(&change.pod),
                    false => node.remove_pod(&change.pod),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(index: u32, name: &str) -> Node {
        Node {
            index,
            name: name.into(),
            ..Node::default()
        }
    }

    fn pod(cpu: i64, port: u16) -> AssignedPod {
        AssignedPod {
            requests: vec![("cpu", cpu).into()],
            nonzero_requests: vec![("cpu", cpu.max(100)).into()],
            host_ports: vec![HostPort {
                protocol: "TCP".into(),
                ip: "0.0.0.0".into(),
                port,
            }],
            ..AssignedPod::default()
        }
    }

    fn change(node: u32, added: bool, pod: AssignedPod) -> PodChange {
        PodChange { node, added, pod }
    }

    #[test]
    fn pods_come_and_go_and_outlive_changes_of_their_node() {
        let mut nodes = Nodes::default();
        nodes.apply(
            1,
            vec![node(0, "a"), node(2, "c")],
            &[],
            &[change(2, true, pod(500, 80)), change(2, true, pod(0, 81))],
        );
        assert_eq!(nodes.iter().count(), 2);
        assert!(nodes.get(1).is_none());

        let mut changed = node(2, "c");
        changed.unschedulable = true;
        nodes.apply(2, vec![changed], &[], &[change(2, false, pod(500, 80))]);
        let c = nodes.by_name("c").expect("still there");
        assert!(c.unschedulable);
        assert_eq!(
            (
                c.requested.milli_cpu,
                c.nonzero_requested.milli_cpu,
                c.pod_count
            ),
            (0, 100, 1)
        );
        assert_eq!(c.host_ports.len(), 1);
        assert_eq!(c.host_ports[0].port, 81);
    }

    #[test]
    fn a_reused_index_begins_without_pods() {
        let mut nodes = Nodes::default();
        nodes.apply(1, vec![node(0, "a")], &[], &[change(0, true, pod(500, 80))]);
        nodes.apply(2, vec![node(0, "b")], &[0], &[]);
        let b = nodes.get(0).expect("known");
        assert_eq!((b.name.as_str(), b.pod_count), ("b", 0));
        assert_eq!(b.requested, Resources::default());
    }

    #[test]
    fn nonsense_changes_nothing() {
        let mut nodes = Nodes::default();
        nodes.apply(
            1,
            vec![node(u32::MAX, "far")],
            &[7, u32::MAX],
            &[change(9, true, pod(1, 1))],
        );
        assert_eq!(nodes.iter().count(), 0);
        assert_eq!(nodes.epoch(), 1);
    }
}
