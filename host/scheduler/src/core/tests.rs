//! The core against a server in memory, one step at a time.

use std::collections::BTreeMap;

use pilothouse_plugin::CallError;
use rand::Rng;

use super::*;
use crate::testing::{CpuComponent, Habit, Server, node, overcommitted, pod_json};

struct World {
    core: Core,
    server: Arc<Server>,
    now: Millis,
}

impl World {
    fn new(habit: Habit, policy: &str, nodes: &[(&str, i64)]) -> Self {
        let server = Arc::new(Server::default());
        let mut core = Core::new(Options::default());
        core.set_components(vec![CpuComponent::component(&server, habit, policy)], 0);
        for (name, cpu) in nodes {
            core.observe(Input::Node(node(name, *cpu)), 0);
        }
        Self {
            core,
            server,
            now: 0,
        }
    }

    fn create(&mut self, name: &str, cpu: i64) {
        let pod = self.server.lock().put(name, pod_json(name, cpu));
        self.core.observe(Input::Pod(pod), self.now);
    }

    /// The informer sees the pod as it is now.
    fn see(&mut self, name: &str) {
        let pod = self.server.lock().pod(name);
        let input = match pod {
            Some(pod) => Input::Pod(pod),
            None => Input::PodGone(name.into()),
        };
        self.core.observe(input, self.now);
    }

    /// Decides about one pod and carries it all out.
    async fn step(&mut self) -> Option<String> {
        let server = Arc::clone(&self.server);
        match self.core.schedule_one(self.now).await? {
            Step::Tell(pod, report) => {
                report.tell(&pod, &*server).await;
                Some(report.message)
            }
            Step::Bind(binding) => {
                let finished = binding.run(&*server).await;
                let told = self.core.finish(finished, self.now).await;
                Some(told.map_or_else(String::new, |(_, report)| report.message))
            }
        }
    }

    fn node_of(&self, name: &str) -> String {
        let pod = self.server.lock().pod(name);
        pod.map(|pod| pod.node_name.clone()).unwrap_or_default()
    }

    fn events(&self) -> Vec<String> {
        self.server.lock().events.clone()
    }
}

#[tokio::test]
async fn a_pod_is_bound_and_said_to_be() {
    let mut world = World::new(Habit::None, "Fail", &[("a", 1_000)]);
    world.create("web", 600);
    assert_eq!(world.step().await.as_deref(), Some(""));
    assert_eq!(world.node_of("web"), "a");
    assert_eq!(
        world.events(),
        ["Normal Scheduled: Successfully assigned default/web to a"]
    );
    // The news from before the binding does not bring it back.
    world
        .core
        .observe(Input::Pod(crate::testing::pod(&pod_json("web", 600), 1)), 0);
    assert_eq!(world.step().await, None);
}

#[tokio::test]
async fn assumed_pods_count_and_released_room_is_used() {
    let mut world = World::new(Habit::None, "Fail", &[("a", 1_000)]);
    world.create("first", 600);
    world.create("second", 600);
    world.step().await;
    let message = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(world.step().await.as_deref(), Some(message));
    assert_eq!(
        world.events()[1],
        format!("Warning FailedScheduling: {message}")
    );
    world.see("second"); // the condition alone wakes nobody
    assert_eq!(world.step().await, None);

    world.server.lock().pods.remove("first");
    world.see("first");
    assert_eq!(world.step().await.as_deref(), Some(""));
    assert_eq!(world.node_of("second"), "a");
}

#[tokio::test]
async fn a_changed_pod_is_decided_anew() {
    let mut world = World::new(Habit::None, "Fail", &[("a", 1_000)]);
    world.create("web", 600);
    let changed = pod_json("web", 700);
    world.server.lock().put("web", changed); // the scheduler has not seen this
    assert_eq!(world.step().await.as_deref(), Some(""));
    assert_eq!(world.node_of("web"), "");
    assert_eq!(world.step().await.as_deref(), Some(""));
    assert_eq!(world.node_of("web"), "a");
    assert_eq!(world.core.cache().pods_on("a").count(), 1);
}

#[tokio::test]
async fn a_binding_without_an_answer_is_looked_up() {
    for done in [true, false] {
        let mut world = World::new(Habit::None, "Fail", &[("a", 1_000)]);
        world.create("web", 600);
        world.server.lock().failing = Some((500, done));
        world.step().await;
        world.server.lock().failing = None;
        let (node, pods) = if done { ("a", 1) } else { ("", 0) };
        assert_eq!(world.node_of("web"), node);
        assert_eq!(world.core.cache().pods_on("a").count(), pods);
        // Not bound: the pod was written to, so that a late binding fails.
        assert_eq!(world.server.lock().revision, 2);
    }
}

#[tokio::test]
async fn a_final_refusal_gives_the_room_back() {
    let mut world = World::new(Habit::None, "Fail", &[("a", 1_000)]);
    world.create("web", 600);
    world.server.lock().failing = Some((422, false));
    let told = world.step().await.unwrap_or_default();
    assert!(
        told.starts_with("binding rejected: running Bind plugin \"Binder\""),
        "{told}"
    );
    assert_eq!(world.core.cache().pods_on("a").count(), 0);
    assert_eq!(world.step().await, None); // backs off
    world.server.lock().failing = None;
    world.now = 1_000;
    world.see("web");
    assert_eq!(world.step().await.as_deref(), Some(""));
}

#[tokio::test]
async fn a_failed_plugin_is_named_or_passed_over() {
    let named = CallError::Trap {
        plugin: "Cpu".into(),
        interface: "scheduler/filter",
        cause: "unreachable".to_owned(),
    };
    let cases = [
        (Habit::TrapEvery(1), "Fail", Some(named.to_string()), ""),
        (Habit::TrapEvery(1), "Ignore", Some(String::new()), "a"),
        (Habit::TrapEvery(2), "Fail", Some(String::new()), "a"),
    ];
    for (habit, policy, told, node) in cases {
        let mut world = World::new(habit, policy, &[("a", 1_000)]);
        world.create("web", 600);
        assert_eq!(world.step().await, told, "{habit:?} {policy}");
        assert_eq!(world.node_of("web"), node, "{habit:?} {policy}");
    }
}

#[tokio::test]
async fn a_wild_score_is_a_failure() {
    let mut world = World::new(Habit::Boasts, "Fail", &[("a", 1_000), ("b", 1_000)]);
    world.create("web", 600);
    let told = world.step().await.unwrap_or_default();
    assert_eq!(told, "plugin Cpu: a score of 101 is not between 0 and 100");
}

#[tokio::test]
async fn a_refusal_before_filtering_is_the_message() {
    let mut world = World::new(Habit::Refuses, "Fail", &[("a", 1), ("b", 1)]);
    world.create("web", 0);
    let told = world.step().await;
    assert_eq!(told.as_deref(), Some("0/2 nodes are available: not today."));
}

#[tokio::test]
async fn other_schedulers_pods_and_gated_pods_are_left_alone() {
    let mut world = World::new(Habit::None, "Fail", &[("a", 1_000)]);
    for (name, field, value) in [
        ("other", "schedulerName", serde_json::json!("other")),
        (
            "gated",
            "schedulingGates",
            serde_json::json!([{ "name": "g" }]),
        ),
    ] {
        let mut json = pod_json(name, 1);
        json["spec"][field] = value;
        let pod = world.server.lock().put(name, json);
        world.core.observe(Input::Pod(pod), 0);
    }
    assert_eq!(world.step().await, None);
}

#[tokio::test]
async fn plugins_come_and_go_between_cycles() {
    let mut world = World::new(Habit::None, "Fail", &[("a", 1_000)]);
    world.create("big", 2_000);
    assert!(
        world
            .step()
            .await
            .unwrap_or_default()
            .contains("Insufficient cpu")
    );
    let refusing = CpuComponent::component(&world.server, Habit::Refuses, "Fail");
    world.core.set_components(vec![refusing], world.now);
    assert!(world.step().await.unwrap_or_default().contains("not today"));
}

/// Decisions, bindings that come late, fail before or after they were done, or go unanswered, pods and nodes that come, go and
/// change, an informer that lags: in any order, no node ever holds more than it has.
#[tokio::test]
async fn no_interleaving_overcommits_a_node() {
    for seed in 0..60 {
        simulate(seed).await;
    }
}

async fn simulate(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let habit = match seed % 3 {
        0 => Habit::TrapEvery(7),
        _ => Habit::None,
    };
    let mut world = World::new(habit, "Fail", &[]);
    let mut allocatable = BTreeMap::new();
    let mut bindings: Vec<Binding> = Vec::new();
    let mut unseen: Vec<String> = Vec::new();
    let mut bound = 0;
    for step in 0..400 {
        world.now += rng.random_range(0..500);
        match rng.random_range(0..10) {
            0 => {
                // What a node has never shrinks below what is on it: that is not the scheduler's doing.
                let name = format!("n{}", rng.random_range(0..4));
                let cpu = allocatable.get(&name).copied().unwrap_or(1_000);
                world.core.observe(Input::Node(node(&name, cpu)), world.now);
                allocatable.insert(name, cpu);
            }
            1 => world.core.observe(
                Input::NodeGone(format!("n{}", rng.random_range(0..4))),
                world.now,
            ),
            2 | 3 => world.create(&format!("p{step}"), rng.random_range(1..6) * 100),
            4 => {
                let names: Vec<String> = world.server.lock().pods.keys().cloned().collect();
                if let Some(name) = names.get(rng.random_range(0..names.len().max(1))) {
                    world.server.lock().pods.remove(name);
                    unseen.push(name.clone());
                }
            }
            5 if !bindings.is_empty() => {
                let binding = bindings.swap_remove(rng.random_range(0..bindings.len()));
                let server = Arc::clone(&world.server);
                server.lock().failing = match rng.random_range(0..6) {
                    0 => Some((500, true)),
                    1 => Some((500, false)),
                    2 => Some((422, false)),
                    _ => None,
                };
                unseen.push(binding.pod.record.name.clone());
                let finished = binding.run(&*server).await;
                bound += u32::from(matches!(finished.ended, Ended::Bound));
                world.core.finish(finished, world.now).await;
            }
            6 if !unseen.is_empty() => {
                let name = unseen.swap_remove(rng.random_range(0..unseen.len()));
                world.see(&name);
            }
            _ => {
                if let Some(Step::Bind(binding)) = world.core.schedule_one(world.now).await {
                    bindings.push(binding);
                }
            }
        }
        let over = overcommitted(&world.server.lock(), &allocatable);
        assert!(over.is_empty(), "seed {seed}, step {step}: {over:?}");
    }
    assert!(bound > 0, "seed {seed} bound nothing");
}
