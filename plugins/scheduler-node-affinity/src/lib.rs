//! `NodeAffinity`: `nodeSelector`, and required and preferred node affinity.
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/>

use std::collections::BTreeSet;

use pilothouse_sdk::scheduler::{
    Begin, ClusterEvent, Need, NodeInfo, NodeSelectorOperator, NodeSelectorTerm, Nodes, Normalize,
    Pod, Point, PreferredSchedulingTerm, Refusal, SchedulerPlugin, Verdict, matches_labels,
    matches_term, unresolvable,
};

/// The plugin.
pub struct NodeAffinity;

/// What the pod asks of a node.
#[derive(Clone)]
pub struct Wishes {
    selector: Vec<(String, String)>,
    /// One must match.
    required: Option<Vec<NodeSelectorTerm>>,
    preferred: Vec<PreferredSchedulingTerm>,
}

impl SchedulerPlugin for NodeAffinity {
    const NAME: &'static str = "NodeAffinity";
    const ORDER: i32 = -770;
    const POINTS: &'static [Point] = &[Point::Filter, Point::Score];
    const WEIGHT: u32 = 2;
    const NORMALIZE: Normalize = Normalize::Highest;
    const NEEDS: &'static [Need] = &[Need::Labels];
    const EVENTS: &'static [ClusterEvent] =
        &[ClusterEvent::NodeAdd, ClusterEvent::NodeUpdateLabels];
    type Cycle = Wishes;

    fn begin(&self, nodes: &Nodes, pod: &Pod) -> Result<Begin<Wishes>, Refusal> {
        let filters = !pod.node_selector.is_empty() || pod.required_node_affinity.is_some();
        let scores = !pod.preferred_node_affinity.is_empty();
        if !filters && !scores {
            return Ok(Begin::skip());
        }
        let begin = Begin::with(Wishes {
            selector: pod.node_selector.clone(),
            required: pod.required_node_affinity.clone(),
            preferred: pod.preferred_node_affinity.clone(),
        })
        .filtering(filters)
        .scoring(scores);
        let Some(names) = pod.required_node_affinity.as_deref().and_then(named_nodes) else {
            return Ok(begin);
        };
        if names.is_empty() {
            return Err(unresolvable("pod affinity terms conflict"));
        }
        let named = nodes
            .iter()
            .filter(|node| names.contains(node.name.as_str()));
        Ok(begin.only(named.map(|node| node.index).collect()))
    }

    fn filter(&self, wishes: &Wishes, node: &NodeInfo) -> Verdict {
        let fits = matches_labels(&wishes.selector, node)
            && wishes
                .required
                .as_ref()
                .is_none_or(|terms| terms.iter().any(|term| matches_term(term, node)));
        match fits {
            true => Verdict::PASS,
            false => Verdict::unresolvable(0),
        }
    }

    fn reasons(&self, _wishes: &Wishes, _verdict: Verdict) -> Vec<String> {
        vec!["node(s) didn't match Pod's node affinity/selector".to_owned()]
    }

    /// The weights of the preferences that match.
    fn score(&self, wishes: &Wishes, node: &NodeInfo) -> i64 {
        wishes
            .preferred
            .iter()
            .filter(|term| matches_term(&term.preference, node))
            .map(|term| i64::from(term.weight))
            .sum()
    }
}

/// The nodes that the terms name, if every term names some: a pod of a DaemonSet need not look at any other.
fn named_nodes(terms: &[NodeSelectorTerm]) -> Option<BTreeSet<&str>> {
    if terms.is_empty() {
        return None;
    }
    let mut named = BTreeSet::new();
    for term in terms {
        let lists = term
            .match_fields
            .iter()
            .filter(|r| r.key == "metadata.name" && r.operator == NodeSelectorOperator::In)
            .map(|r| r.values.iter().map(String::as_str).collect::<BTreeSet<_>>());
        named.extend(lists.reduce(|a, b| &a & &b)?);
    }
    Some(named)
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::scheduler::{Node, NodeSelectorRequirement};

    use super::*;

    fn nodes() -> Nodes {
        let mut nodes = Nodes::default();
        let node = |index: u32, name: &str, disk: &str| Node {
            index,
            name: name.into(),
            labels: vec![("disk".into(), disk.into())],
            ..Node::default()
        };
        nodes.apply(
            1,
            vec![
                node(0, "a", "ssd"),
                node(1, "b", "hdd"),
                node(2, "c", "ssd"),
            ],
            &[],
            &[],
        );
        nodes
    }

    fn requirement(key: &str, values: &[&str]) -> NodeSelectorRequirement {
        NodeSelectorRequirement {
            key: key.into(),
            operator: NodeSelectorOperator::In,
            values: values.iter().map(|&v| v.into()).collect(),
        }
    }

    fn disk(value: &str) -> NodeSelectorTerm {
        NodeSelectorTerm {
            match_expressions: vec![requirement("disk", &[value])],
            match_fields: vec![],
        }
    }

    fn named(lists: &[&[&str]]) -> NodeSelectorTerm {
        NodeSelectorTerm {
            match_expressions: vec![],
            match_fields: lists
                .iter()
                .map(|values| requirement("metadata.name", values))
                .collect(),
        }
    }

    fn passing(pod: &Pod) -> Vec<&'static str> {
        let nodes = nodes();
        let begin = NodeAffinity.begin(&nodes, pod).expect("not refused");
        let only = begin.nodes;
        let state = begin.state.expect("not skipped");
        let names = ["a", "b", "c"];
        nodes
            .iter()
            .filter(|n| only.as_ref().is_none_or(|only| only.contains(&n.index)))
            .filter(|n| NodeAffinity.filter(&state, n) == Verdict::PASS)
            .map(|n| names[n.index as usize])
            .collect()
    }

    #[test]
    fn a_pod_without_wishes_is_skipped() {
        let begin = NodeAffinity
            .begin(&nodes(), &Pod::default())
            .expect("not refused");
        assert!(begin.state.is_none() && !begin.filter && !begin.score);
    }

    #[test]
    fn selector_and_required_terms() {
        let cases: [(&[(&str, &str)], Option<Vec<NodeSelectorTerm>>, &[&str]); 7] = [
            (&[("disk", "ssd")], None, &["a", "c"]),
            (&[], Some(vec![disk("hdd")]), &["b"]),
            (&[], Some(vec![disk("hdd"), disk("ssd")]), &["a", "b", "c"]),
            (&[("disk", "ssd")], Some(vec![disk("hdd")]), &[]),
            (&[], Some(vec![]), &[]),
            (&[], Some(vec![named(&[&["c"]])]), &["c"]),
            (&[], Some(vec![named(&[&["c"]]), disk("hdd")]), &["b", "c"]),
        ];
        for (selector, required, expected) in cases {
            let pod = Pod {
                node_selector: selector
                    .iter()
                    .map(|(k, v)| ((*k).into(), (*v).into()))
                    .collect(),
                required_node_affinity: required,
                ..Pod::default()
            };
            assert_eq!(passing(&pod), expected, "{pod:?}");
        }
    }

    #[test]
    fn names_narrow_the_nodes_or_conflict() {
        let pod = |terms| Pod {
            required_node_affinity: Some(terms),
            ..Pod::default()
        };
        let only = |terms| {
            NodeAffinity
                .begin(&nodes(), &pod(terms))
                .map(|begin| begin.nodes)
                .map_err(|refusal| refusal.reasons)
        };
        assert_eq!(
            only(vec![named(&[&["a"]]), named(&[&["b"]])]),
            Ok(Some(vec![0, 1]))
        );
        assert_eq!(only(vec![named(&[&["nowhere"]])]), Ok(Some(vec![])));
        assert_eq!(only(vec![named(&[&["a"]]), disk("ssd")]), Ok(None));
        assert_eq!(
            only(vec![named(&[&["a"], &["b"]])]),
            Err(vec!["pod affinity terms conflict".to_owned()])
        );
    }

    #[test]
    fn preferences_add_up() {
        let weighted = |weight, preference| PreferredSchedulingTerm { weight, preference };
        let pod = Pod {
            preferred_node_affinity: vec![
                weighted(10, disk("ssd")),
                weighted(5, named(&[&["a"]])),
                weighted(50, disk("tape")),
            ],
            ..Pod::default()
        };
        let nodes = nodes();
        let begin = NodeAffinity.begin(&nodes, &pod).expect("not refused");
        assert!(!begin.filter && begin.score);
        let state = begin.state.expect("not skipped");
        let scores: Vec<i64> = nodes
            .iter()
            .map(|node| NodeAffinity.score(&state, node))
            .collect();
        assert_eq!(scores, [15, 0, 10]);
    }
}
