use std::collections::BTreeMap;

use super::*;
use crate::{
    Core, Input, Options, Step,
    testing::{CpuComponent, Habit, Server, node, pod, pod_json},
};

/// Who got a node, of so many pods, with two versions of the same plugin.
async fn decided(
    serving: Habit,
    candidate: Habit,
    weight: u8,
    pods: usize,
) -> BTreeMap<String, bool> {
    let server = Arc::new(Server::default());
    let component = |habit| CpuComponent::component(&server, habit, "Fail");
    let split = Split::new(component(serving), component(candidate), weight).unwrap();
    let mut core = Core::new(Options::default());
    core.set_components(vec![Arc::new(split)], 0);
    core.observe(Input::Node(node("node-1", 1_000_000)), 0);
    let mut decided = BTreeMap::new();
    for n in 0..pods {
        let name = format!("pod-{n}");
        core.observe(Input::Pod(pod(&pod_json(&name, 1), 1)), 0);
        let step = core.schedule_one(0).await;
        decided.insert(name, matches!(step, Some(Step::Bind(_))));
    }
    decided
}

#[tokio::test]
async fn the_candidate_decides_about_its_share_by_uid() {
    let decided = decided(Habit::None, Habit::Refuses, 40, 100).await;
    for (name, bound) in decided {
        assert_eq!(bound, !weighs(40, &[&name]), "{name}");
    }
}

#[tokio::test]
async fn where_the_candidate_fails_what_serves_decides_in_the_same_cycle() {
    for habit in [Habit::TrapEvery(1), Habit::TrapEvery(3)] {
        let decided = decided(Habit::None, habit, 100, 20).await;
        assert!(
            decided.values().all(|bound| *bound),
            "{habit:?}: {decided:?}"
        );
    }
}

#[tokio::test]
async fn versions_with_other_plugins_are_not_mixed() {
    let server = Arc::new(Server::default());
    let component = |policy| CpuComponent::component(&server, Habit::None, policy);
    assert!(Split::new(component("Fail"), component("Ignore"), 10).is_none());
}
