//! `TaintToleration`: keeps pods off nodes whose taints they do not tolerate, and prefers nodes with fewer taints of effect
//! `PreferNoSchedule` that they do not tolerate.
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>

use pilothouse_sdk::scheduler::{
    Begin, ClusterEvent, Effect, Need, NodeInfo, Nodes, Normalize, Pod, Point, Refusal,
    SchedulerPlugin, Toleration, Verdict, tolerates,
};

/// The plugin.
pub struct TaintToleration;

impl SchedulerPlugin for TaintToleration {
    const NAME: &'static str = "TaintToleration";
    const ORDER: i32 = -780;
    const POINTS: &'static [Point] = &[Point::Filter, Point::Score];
    const WEIGHT: u32 = 3;
    const NORMALIZE: Normalize = Normalize::Reverse;
    const NEEDS: &'static [Need] = &[Need::Taints];
    const EVENTS: &'static [ClusterEvent] =
        &[ClusterEvent::NodeAdd, ClusterEvent::NodeUpdateTaints];
    /// The pod's tolerations.
    type Cycle = Vec<Toleration>;

    fn begin(&self, _nodes: &Nodes, pod: &Pod) -> Result<Begin<Self::Cycle>, Refusal> {
        Ok(Begin::with(pod.tolerations.clone()))
    }

    fn filter(&self, tolerations: &Self::Cycle, node: &NodeInfo) -> Verdict {
        let untolerated = node.taints.iter().any(|taint| {
            taint.effect != Effect::PreferNoSchedule
                && !tolerations.iter().any(|t| tolerates(t, taint))
        });
        match untolerated {
            true => Verdict::unresolvable(0),
            false => Verdict::PASS,
        }
    }

    /// Without key and value: what taints a node has is not for every reader of pods to know.
    fn reasons(&self, _tolerations: &Self::Cycle, _verdict: Verdict) -> Vec<String> {
        vec!["node(s) had untolerated taint(s)".to_owned()]
    }

    /// How many taints to avoid there are.
    fn score(&self, tolerations: &Self::Cycle, node: &NodeInfo) -> i64 {
        let untolerated = node.taints.iter().filter(|taint| {
            taint.effect == Effect::PreferNoSchedule
                && !tolerations.iter().any(|t| tolerates(t, taint))
        });
        untolerated.count() as i64
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::scheduler::{Node, Taint, TolerationOperator};

    use super::*;

    fn node(taints: &[(&str, Effect)]) -> NodeInfo {
        NodeInfo::new(Node {
            taints: taints
                .iter()
                .map(|&(key, effect)| Taint {
                    key: key.into(),
                    value: String::new(),
                    effect,
                })
                .collect(),
            ..Node::default()
        })
    }

    fn exists(key: &str, effect: Option<Effect>) -> Toleration {
        Toleration {
            key: key.into(),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect,
        }
    }

    #[test]
    fn filters_on_hard_taints_and_scores_on_soft_ones() {
        use Effect::{NoExecute, NoSchedule, PreferNoSchedule};
        let cases: [(&[(&str, Effect)], Vec<Toleration>, bool, i64); 8] = [
            (&[], vec![], true, 0),
            (&[("a", NoSchedule)], vec![], false, 0),
            (&[("a", NoExecute)], vec![], false, 0),
            (&[("a", PreferNoSchedule)], vec![], true, 1),
            (&[("a", NoSchedule)], vec![exists("a", None)], true, 0),
            (
                &[("a", NoSchedule), ("b", NoExecute)],
                vec![exists("a", None)],
                false,
                0,
            ),
            (
                &[("a", PreferNoSchedule), ("b", PreferNoSchedule)],
                vec![exists("a", Some(PreferNoSchedule))],
                true,
                1,
            ),
            (
                &[("a", PreferNoSchedule)],
                vec![exists("a", Some(NoSchedule))],
                true,
                1,
            ),
        ];
        for (taints, tolerations, passes, score) in cases {
            let node = node(taints);
            assert_eq!(
                TaintToleration.filter(&tolerations, &node) == Verdict::PASS,
                passes,
                "{taints:?}"
            );
            assert_eq!(
                TaintToleration.score(&tolerations, &node),
                score,
                "{taints:?}"
            );
        }
    }
}
