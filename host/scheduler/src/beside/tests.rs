use pilothouse_plugin::testing::shadow;
use serde_json::Value;

use super::*;
use crate::testing::{CpuComponent, Habit, Server, node, pod, pod_json};

fn placed(name: &str, cpu_milli: i64, node: &str) -> Input {
    let mut json: Value = pod_json(name, cpu_milli);
    json["spec"]["nodeName"] = node.into();
    Input::Pod(pod(&json, 1))
}

/// Two nodes with 1000m of CPU each.
async fn comparison(shadow_habit: Habit, serving: Option<Habit>) -> (Comparison, Arc<Shadow>) {
    let server = Arc::new(Server::default());
    let component = |habit| CpuComponent::component(&server, habit, "Fail");
    let noted = shadow("it");
    let mut comparison = Comparison::default();
    assert!(comparison.take(&[Shadowed {
        shadow: component(shadow_habit),
        serving: serving.map(component),
        noted: Arc::clone(&noted),
    }]));
    comparison
        .observe(placed("early", 1, "node-1"), false)
        .await;
    for name in ["node-1", "node-2"] {
        comparison
            .observe(Input::Node(node(name, 1_000)), false)
            .await;
    }
    comparison.observe(Input::Synced, false).await;
    (comparison, noted)
}

#[tokio::test]
async fn a_plugin_alone_is_held_against_the_node_that_a_pod_got() {
    let (mut comparison, noted) = comparison(Habit::None, None).await;
    comparison
        .observe(placed("fits", 600, "node-1"), false)
        .await;
    assert_eq!(noted.figures().differences.len(), 0);
    comparison
        .observe(placed("too-much", 600, "node-1"), false)
        .await;
    comparison
        .observe(placed("too-much", 600, "node-1"), false)
        .await; // is no news
    let figures = noted.figures();
    assert_eq!((figures.compared, figures.samples.len()), (2, 1));
    let told = &figures.samples[0];
    assert_eq!(told.about, "schedule default/too-much to node-1");
    assert_eq!(told.shadow, "turned node-1 down: Insufficient cpu");
}

#[tokio::test]
async fn a_candidate_is_held_against_what_serves() {
    let cases = [
        (Habit::None, None),
        (
            Habit::Refuses,
            Some(("decision", "refused the pod: not today")),
        ),
        (Habit::Boasts, Some(("score", "scored [101, 101]"))),
        (
            Habit::TrapEvery(1),
            Some((
                "failure",
                "failed: plugin Cpu trapped in scheduler/filter: unreachable",
            )),
        ),
    ];
    for (habit, expected) in cases {
        let (mut comparison, noted) = comparison(habit, Some(Habit::None)).await;
        comparison
            .observe(placed("web", 600, "node-1"), false)
            .await;
        let figures = noted.figures();
        let told = figures.samples.first();
        let told = told.map(|told| (told.kind.as_str(), told.shadow.as_str()));
        assert_eq!(told, expected, "{habit:?}");
        assert_eq!(figures.compared, 1, "{habit:?}");
    }
}

#[tokio::test]
async fn who_is_behind_follows_the_cluster_but_asks_about_no_pod() {
    let (mut comparison, noted) = comparison(Habit::None, None).await;
    comparison.observe(placed("web", 600, "node-1"), true).await;
    let figures = noted.figures();
    assert_eq!((figures.compared, figures.dropped), (0, 1));
    comparison
        .observe(placed("too-much", 600, "node-1"), false)
        .await;
    assert_eq!(noted.figures().differences["decision"], 1);
}
