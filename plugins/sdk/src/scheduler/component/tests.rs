use super::*;
use crate::scheduler::plugin::{Begin, unschedulable};

/// Passes nodes with fewer pods than the number in the pod's name; counts what it sees.
struct Below;

impl SchedulerPlugin for Below {
    const NAME: &'static str = "Below";
    const POINTS: &'static [Point] = &[Point::Filter, Point::Score];
    type Cycle = i64;

    fn begin(&self, _nodes: &Nodes, pod: &Pod) -> Result<Begin<i64>, Refusal> {
        match pod.name.parse() {
            Ok(limit) => Ok(Begin::with(limit)),
            Err(_) => Err(unschedulable("no number")),
        }
    }

    fn filter(&self, limit: &i64, node: &NodeInfo) -> Verdict {
        match node.pod_count < *limit {
            true => Verdict::PASS,
            false => Verdict::unschedulable(node.pod_count as u32),
        }
    }

    fn reasons(&self, limit: &i64, verdict: Verdict) -> Vec<String> {
        vec![format!("{} of {limit}", verdict.reason())]
    }

    fn score(&self, limit: &i64, node: &NodeInfo) -> i64 {
        limit - node.pod_count
    }
}

fn component() -> Scheduling {
    let mut component = Scheduling::first_at(3).with(Below);
    let node = |index| Node {
        index,
        ..Node::default()
    };
    let on = |node| PodChange {
        node,
        added: true,
        pod: AssignedPod::default(),
    };
    component.apply(1, vec![node(0), node(1)], &[], &[on(1), on(1)]);
    component
}

fn pod(name: &str) -> Pod {
    Pod {
        name: name.into(),
        ..Pod::default()
    }
}

#[test]
fn batches_keep_their_order_and_words_have_texts() {
    let mut component = component();
    let outcomes = component.begin(7, &[3], &pod("2"));
    assert!(outcomes[0].as_ref().is_ok_and(|o| o.filter && o.score));
    let no = Verdict::unschedulable(2).0;
    assert_eq!(component.filter(3, 7, &[1, 0, 1]), [no, 0, no]);
    assert_eq!(component.reasons(3, 7, &[no]), [["2 of 2".to_owned()]]);
    assert_eq!(component.score(3, 7, &[0, 1]), [2, 0]);
}

#[test]
fn what_the_component_does_not_know_is_an_error_not_a_trap() {
    let mut component = component();
    component.begin(7, &[3], &pod("2"));
    for (plugin, cycle, node) in [(3, 8, 0), (3, 7, 9), (2, 7, 0), (4, 7, 0)] {
        assert_eq!(
            component.filter(plugin, cycle, &[node]),
            [UNKNOWN.0],
            "{plugin} {cycle} {node}"
        );
    }
    let refused = component.begin(9, &[3, 0], &pod("x"));
    assert_eq!(refused[0], Err(unschedulable("no number")));
    assert!(
        refused[1]
            .as_ref()
            .is_err_and(|r| r.kind == RefusalKind::Error)
    );
    component.end(7);
    assert_eq!(component.filter(3, 7, &[0]), [UNKNOWN.0]);
}

#[test]
fn an_eviction_is_tried_on_a_copy() {
    let mut component = component();
    component.begin(7, &[3], &pod("2"));
    component.clone_cycle(7, 8);
    component.cycle_pod_changed(8, 1, false, &AssignedPod::default());
    assert_eq!(component.filter(3, 8, &[1]), [0]);
    assert_ne!(component.filter(3, 7, &[1]), [0]);
    component.cycle_pod_changed(8, 1, true, &AssignedPod::default());
    assert_ne!(component.filter(3, 8, &[1]), [0]);
    assert_eq!(component.nodes().get(1).map(|n| n.pod_count), Some(2));
}
