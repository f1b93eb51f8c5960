//! `NodeUnschedulable`: cordoned nodes take no pods, but for those that tolerate it.
//! Source: <https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-unschedulable>

use pilothouse_sdk::scheduler::{
    Begin, ClusterEvent, Effect, NodeInfo, Nodes, Pod, Point, Refusal, SchedulerPlugin, Taint,
    Verdict, tolerates_all,
};

/// The plugin.
pub struct NodeUnschedulable;

impl SchedulerPlugin for NodeUnschedulable {
    const NAME: &'static str = "NodeUnschedulable";
    const ORDER: i32 = -800;
    const POINTS: &'static [Point] = &[Point::Filter];
    const EVENTS: &'static [ClusterEvent] =
        &[ClusterEvent::NodeAdd, ClusterEvent::NodeUpdateUnschedulable];
    type Cycle = ();

    fn begin(&self, _nodes: &Nodes, pod: &Pod) -> Result<Begin<()>, Refusal> {
        let cordoned = Taint {
            key: "node.kubernetes.io/unschedulable".to_owned(),
            value: String::new(),
            effect: Effect::NoSchedule,
        };
        Ok(match tolerates_all(&pod.tolerations, [&cordoned]) {
            true => Begin::skip(),
            false => Begin::with(()),
        })
    }

    fn filter(&self, (): &(), node: &NodeInfo) -> Verdict {
        match node.unschedulable {
            true => Verdict::unresolvable(0),
            false => Verdict::PASS,
        }
    }

    fn reasons(&self, (): &(), _verdict: Verdict) -> Vec<String> {
        vec!["node(s) were unschedulable".to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::scheduler::{Node, Toleration, TolerationOperator};

    use super::*;

    #[test]
    fn a_cordoned_node_takes_only_pods_that_tolerate_it() {
        let toleration = |key: &str, effect| Toleration {
            key: key.into(),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect,
        };
        let cases = [
            (vec![], false),
            (vec![toleration("other", None)], false),
            (
                vec![toleration(
                    "node.kubernetes.io/unschedulable",
                    Some(Effect::NoSchedule),
                )],
                true,
            ),
            (vec![toleration("", None)], true),
        ];
        for cordoned in [false, true] {
            let node = NodeInfo::new(Node {
                unschedulable: cordoned,
                ..Node::default()
            });
            for (tolerations, tolerated) in cases.clone() {
                let pod = Pod {
                    tolerations,
                    ..Pod::default()
                };
                let begin = NodeUnschedulable
                    .begin(&Nodes::default(), &pod)
                    .expect("never refuses");
                let passes = begin
                    .state
                    .is_none_or(|state| NodeUnschedulable.filter(&state, &node) == Verdict::PASS);
                assert_eq!(passes, tolerated || !cordoned, "{:?}", pod.tolerations);
            }
        }
    }
}
