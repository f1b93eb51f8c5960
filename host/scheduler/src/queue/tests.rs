use pilothouse_api::Revision;
use serde_json::json;

use super::*;

fn pod(name: &str, priority: i32) -> Arc<PodInfo> {
    changed(name, priority, "")
}

/// The same pod, with another wish if `disk` is not empty.
fn changed(name: &str, priority: i32, disk: &str) -> Arc<PodInfo> {
    let mut pod = json!({
        "metadata": { "name": name, "namespace": "default", "uid": name },
        "spec": { "containers": [], "priority": priority },
    });
    match disk {
        "" => {}
        "gated" => pod["spec"]["schedulingGates"] = json!([{ "name": "g" }]),
        disk => pod["spec"]["nodeSelector"] = json!({ "disk": disk }),
    }
    Arc::new(PodInfo::parse(Revision(1), pod.to_string().into()).unwrap())
}

fn uid(name: &str) -> Uid {
    name.into()
}

fn pop(queue: &mut Queue, now: Millis) -> Option<String> {
    queue.pop(now).map(|queued| queued.pod.record.name.clone())
}

const NODE_ADD: EventSet = EventSet::ALL;

fn only(event: ClusterEvent) -> EventSet {
    event.into()
}

#[test]
fn priority_then_time_then_arrival() {
    let mut queue = Queue::default();
    for (name, priority, at) in [("a", 0, 2), ("b", 0, 1), ("c", 9, 3), ("d", 0, 1)] {
        queue.upsert(pod(name, priority), at);
    }
    let order: Vec<_> = std::iter::from_fn(|| pop(&mut queue, 4)).collect();
    assert_eq!(order, ["c", "b", "d", "a"]);
    assert_eq!(queue.lengths(), [0, 0, 0, 4]);
}

#[test]
fn backoff_doubles_from_one_second_to_ten() {
    let mut queue = Queue::default();
    queue.upsert(pod("a", 0), 0);
    let mut now = 0;
    for expected in [1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
        assert_eq!(pop(&mut queue, now).as_deref(), Some("a"));
        queue.retry(&uid("a"), now);
        assert_eq!(queue.next_wake(), Some(now + expected));
        assert_eq!(pop(&mut queue, now + expected - 1), None);
        now += expected;
    }
}

#[test]
fn an_event_wakes_those_it_may_help() {
    let mut queue = Queue::default();
    for name in ["taints", "labels"] {
        queue.upsert(pod(name, 0), 0);
        queue.pop(0);
    }
    queue.unschedulable(&uid("taints"), only(ClusterEvent::NodeUpdateTaints), 0);
    queue.unschedulable(&uid("labels"), only(ClusterEvent::NodeUpdateLabels), 0);
    assert_eq!(pop(&mut queue, 60_000), None);
    queue.event(ClusterEvent::PodRelease, 60_000);
    assert_eq!(pop(&mut queue, 60_000), None);
    queue.event(ClusterEvent::NodeUpdateLabels, 60_000);
    assert_eq!(pop(&mut queue, 60_000).as_deref(), Some("labels"));
    assert_eq!(pop(&mut queue, 60_000), None);
}

#[test]
fn a_woken_pod_waits_for_its_backoff_unless_there_is_nothing_else_to_do() {
    let mut queue = Queue::default();
    queue.upsert(pod("a", 9), 0);
    queue.pop(0);
    queue.unschedulable(&uid("a"), NODE_ADD, 0);
    queue.event(ClusterEvent::NodeAdd, 10);
    queue.upsert(pod("b", 0), 10);
    assert_eq!(queue.lengths(), [1, 1, 0, 0]);
    assert_eq!(pop(&mut queue, 20).as_deref(), Some("b"));
    assert_eq!(pop(&mut queue, 20).as_deref(), Some("a"));
}

#[test]
fn after_five_minutes_it_is_tried_again() {
    let mut queue = Queue::default();
    queue.upsert(pod("a", 0), 0);
    queue.pop(0);
    queue.unschedulable(&uid("a"), only(ClusterEvent::NodeAdd), 1_000);
    assert_eq!(queue.next_wake(), Some(301_000));
    assert_eq!(pop(&mut queue, 300_999), None);
    assert_eq!(pop(&mut queue, 301_000).as_deref(), Some("a"));
}

#[test]
fn what_happens_in_flight_is_not_lost() {
    let mut queue = Queue::default();
    for name in ["helped", "not"] {
        queue.upsert(pod(name, 0), 0);
        queue.pop(0);
    }
    queue.event(ClusterEvent::NodeAdd, 5);
    queue.unschedulable(&uid("helped"), only(ClusterEvent::NodeAdd), 6);
    queue.unschedulable(&uid("not"), only(ClusterEvent::PodRelease), 6);
    assert_eq!(queue.lengths(), [0, 1, 1, 0]);
    assert_eq!(pop(&mut queue, 7).as_deref(), Some("helped"));
    // The same event does not count for the next attempt.
    queue.unschedulable(&uid("helped"), only(ClusterEvent::NodeAdd), 8);
    assert_eq!(queue.lengths(), [0, 0, 2, 0]);
}

#[test]
fn an_update_counts_if_it_asks_for_something_else() {
    let mut queue = Queue::default();
    queue.upsert(pod("a", 0), 0);
    queue.pop(0);
    queue.unschedulable(&uid("a"), EventSet::NONE, 0);
    queue.upsert(pod("a", 0), 20_000);
    assert_eq!(pop(&mut queue, 20_000), None);
    queue.upsert(changed("a", 0, "ssd"), 20_000);
    assert_eq!(pop(&mut queue, 20_000).as_deref(), Some("a"));
}

#[test]
fn gated_pods_wait_for_their_gates_alone() {
    let mut queue = Queue::default();
    queue.upsert(changed("a", 0, "gated"), 0);
    queue.event(ClusterEvent::NodeAdd, 1);
    assert_eq!(pop(&mut queue, 1_000_000), None);
    queue.upsert(pod("a", 0), 1_000_000);
    assert_eq!(pop(&mut queue, 1_000_000).as_deref(), Some("a"));
}

#[test]
fn a_changed_priority_changes_the_order() {
    let mut queue = Queue::default();
    queue.upsert(pod("a", 0), 0);
    queue.upsert(pod("b", 1), 0);
    queue.upsert(pod("a", 2), 5);
    assert_eq!(pop(&mut queue, 5).as_deref(), Some("a"));
}

#[test]
fn a_removed_pod_stays_away_wherever_it_was() {
    let mut queue = Queue::default();
    for (at, name) in ["active", "backoff", "unschedulable", "flight"]
        .into_iter()
        .enumerate()
    {
        queue.upsert(pod(name, -(at as i32)), 0);
    }
    for name in ["active", "backoff", "unschedulable", "flight"] {
        assert_eq!(pop(&mut queue, 0).as_deref(), Some(name));
    }
    queue.remove(&uid("active"));
    queue.upsert(pod("active", 0), 0);
    queue.retry(&uid("backoff"), 0);
    queue.unschedulable(&uid("unschedulable"), EventSet::ALL, 0);
    for name in ["active", "backoff", "unschedulable", "flight"] {
        queue.remove(&uid(name));
    }
    queue.unschedulable(&uid("flight"), EventSet::ALL, 0);
    queue.retry(&uid("flight"), 0);
    queue.event(ClusterEvent::NodeAdd, 0);
    assert_eq!(pop(&mut queue, 1_000_000), None);
    assert_eq!(queue.lengths(), [0, 0, 0, 0]);
    assert_eq!(queue.next_wake(), None);
}
