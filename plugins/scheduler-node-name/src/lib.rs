//! `NodeName`: a pod that names its node goes nowhere else.
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename>

use pilothouse_sdk::scheduler::{
    Begin, ClusterEvent, NodeInfo, Nodes, Pod, Point, Refusal, SchedulerPlugin, Verdict,
};

/// The plugin.
pub struct NodeName;

impl SchedulerPlugin for NodeName {
    const NAME: &'static str = "NodeName";
    const ORDER: i32 = -790;
    const POINTS: &'static [Point] = &[Point::Filter];
    const EVENTS: &'static [ClusterEvent] = &[ClusterEvent::NodeAdd];
    /// The wanted node's name.
    type Cycle = String;

    fn begin(&self, _nodes: &Nodes, pod: &Pod) -> Result<Begin<String>, Refusal> {
        Ok(match pod.node_name.is_empty() {
            true => Begin::skip(),
            false => Begin::with(pod.node_name.clone()),
        })
    }

    fn filter(&self, wanted: &String, node: &NodeInfo) -> Verdict {
        match node.name == *wanted {
            true => Verdict::PASS,
            false => Verdict::unresolvable(0),
        }
    }

    fn reasons(&self, _wanted: &String, _verdict: Verdict) -> Vec<String> {
        vec!["node(s) didn't match the requested node name".to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::scheduler::Node;

    use super::*;

    #[test]
    fn only_the_named_node_passes() {
        let node = NodeInfo::new(Node {
            name: "a".into(),
            ..Node::default()
        });
        for (wanted, expected) in [("", None), ("a", Some(true)), ("b", Some(false))] {
            let pod = Pod {
                node_name: wanted.into(),
                ..Pod::default()
            };
            let begin = NodeName
                .begin(&Nodes::default(), &pod)
                .expect("never refuses");
            let passes = begin
                .state
                .map(|state| NodeName.filter(&state, &node) == Verdict::PASS);
            assert_eq!(passes, expected, "{wanted:?}");
        }
    }
}
