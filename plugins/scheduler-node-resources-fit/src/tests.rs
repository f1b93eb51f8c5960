use pilothouse_sdk::{
    json,
    scheduler::{AssignedPod, Node, Quantity},
};

use super::*;

type Amounts = &'static [(&'static str, i64)];

fn quantities(amounts: Amounts) -> Vec<Quantity> {
    amounts.iter().copied().map(Quantity::from).collect()
}

fn node(allocatable: Amounts, used: Amounts) -> NodeInfo {
    let mut node = NodeInfo::new(Node {
        allocatable: quantities(allocatable),
        ..Node::default()
    });
    node.add_pod(&AssignedPod {
        requests: quantities(used),
        nonzero_requests: quantities(used),
        ..AssignedPod::default()
    });
    node
}

fn asked(plugin: &NodeResourcesFit, requests: Amounts) -> Asked {
    let pod = Pod {
        requests: quantities(requests),
        nonzero_requests: quantities(requests),
        ..Pod::default()
    };
    let begin = plugin.begin(&Nodes::default(), &pod).expect("not refused");
    begin.state.expect("never skips")
}

#[test]
fn every_lack_is_named() {
    const HAS: Amounts = &[
        ("cpu", 1000),
        ("memory", 100),
        ("ephemeral-storage", 50),
        ("pods", 2),
        ("example.com/gpu", 2),
    ];
    const FULL: Amounts = &[
        ("cpu", 1000),
        ("memory", 100),
        ("ephemeral-storage", 50),
        ("pods", 1),
        ("example.com/gpu", 2),
    ];
    let cases: [(Amounts, Amounts, Amounts, u32, &[&str]); 12] = [
        (HAS, &[], &[], 0, &[]),
        (HAS, &[("cpu", 500)], &[("cpu", 500)], 0, &[]),
        (
            HAS,
            &[("cpu", 501)],
            &[("cpu", 500)],
            1,
            &["Insufficient cpu"],
        ),
        (HAS, &[], &[("cpu", 1001)], 2, &["Insufficient cpu"]),
        (
            HAS,
            &[("memory", 100)],
            &[("memory", 1)],
            1,
            &["Insufficient memory"],
        ),
        (HAS, &[("memory", 200)], &[("cpu", 1)], 0, &[]),
        (
            HAS,
            &[("ephemeral-storage", 50)],
            &[("ephemeral-storage", 1)],
            1,
            &["Insufficient ephemeral-storage"],
        ),
        (
            HAS,
            &[("example.com/gpu", 1)],
            &[("example.com/gpu", 2)],
            1,
            &["Insufficient example.com/gpu"],
        ),
        (
            HAS,
            &[],
            &[("example.com/fpga", 1)],
            2,
            &["Insufficient example.com/fpga"],
        ),
        (HAS, &[], &[("example.com/fpga", 0)], 0, &[]),
        (FULL, &[], &[], 1, &["Too many pods"]),
        (
            FULL,
            &[("cpu", 1000), ("memory", 100)],
            &[("cpu", 1), ("memory", 101)],
            2,
            &["Too many pods", "Insufficient cpu", "Insufficient memory"],
        ),
    ];
    let plugin = NodeResourcesFit::default();
    for (has, used, wanted, kind, reasons) in cases {
        let asked = asked(&plugin, wanted);
        let verdict = plugin.filter(&asked, &node(has, used));
        assert_eq!(verdict.0 & 3, kind, "{used:?} {wanted:?}");
        assert_eq!(
            plugin.reasons(&asked, verdict),
            reasons,
            "{used:?} {wanted:?}"
        );
    }
}

#[test]
fn more_scalars_than_bits_still_do_not_fit() {
    let plugin = NodeResourcesFit::default();
    let names: Vec<String> = (0..40).map(|i| format!("example.com/r{i:02}")).collect();
    let pod = Pod {
        requests: names.iter().map(|n| (n.as_str(), 1).into()).collect(),
        ..Pod::default()
    };
    let begin = plugin.begin(&Nodes::default(), &pod).expect("not refused");
    let asked = begin.state.expect("never skips");
    let verdict = plugin.filter(&asked, &node(&[("pods", 10)], &[]));
    assert_eq!(verdict.0 & 3, 2);
    assert_eq!(plugin.reasons(&asked, verdict).len(), 26);
}

#[test]
fn ignored_resources_are_passed_over() {
    let mut plugin = NodeResourcesFit::default();
    let config = json!({
        "ignoredResources": ["example.com/gpu"],
        "ignoredResourceGroups": ["example.org"],
    });
    plugin.configure(&config).expect("valid");
    let node = node(&[("pods", 10)], &[]);
    for (name, passes) in [
        ("example.com/gpu", true),
        ("example.com/fpga", false),
        ("example.org/any", true),
    ] {
        let pod = Pod {
            requests: vec![(name, 1).into()],
            ..Pod::default()
        };
        let begin = plugin.begin(&Nodes::default(), &pod).expect("not refused");
        let asked = begin.state.expect("never skips");
        assert_eq!(
            plugin.filter(&asked, &node) == Verdict::PASS,
            passes,
            "{name}"
        );
    }
    assert!(plugin.configure(&json!({ "ignoredResources": 7 })).is_err());
}

#[test]
fn the_emptier_node_scores_higher() {
    const HAS: Amounts = &[("cpu", 4000), ("memory", 10_000), ("pods", 10)];
    let cases: [(Amounts, Amounts, Amounts, i64); 6] = [
        (HAS, &[], &[], 100),
        // ((4000 - 3000) / 4000 + (10000 - 5000) / 10000) / 2
        (HAS, &[], &[("cpu", 3000), ("memory", 5000)], 37),
        (
            HAS,
            &[("cpu", 1000), ("memory", 5000)],
            &[("cpu", 2000)],
            37,
        ),
        (HAS, &[("cpu", 4000)], &[("cpu", 1), ("memory", 5000)], 25),
        (&[("memory", 10_000)], &[], &[("memory", 5000)], 50),
        (&[], &[], &[("cpu", 1)], 0),
    ];
    let plugin = NodeResourcesFit::default();
    for (has, used, wanted, score) in cases {
        let asked = asked(&plugin, wanted);
        assert_eq!(
            plugin.score(&asked, &node(has, used)),
            score,
            "{used:?} {wanted:?}"
        );
    }
}

#[test]
fn weights_of_the_strategy_count() {
    let mut plugin = NodeResourcesFit::default();
    let config = json!({ "scoringStrategy": { "type": "LeastAllocated", "resources": [
        { "name": "cpu", "weight": 3 }, { "name": "memory", "weight": 1 },
    ] } });
    plugin.configure(&config).expect("valid");
    let asked = asked(&plugin, &[("cpu", 1000), ("memory", 0)]);
    let node = node(&[("cpu", 1000), ("memory", 1000)], &[]);
    assert_eq!(plugin.score(&asked, &node), 25);
}
