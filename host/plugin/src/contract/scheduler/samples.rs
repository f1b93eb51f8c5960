//! Pods and clusters to try scheduler plugins on.

use crate::scheduler::{
    PodChange,
    types::{
        AssignedPod, Effect, HostPort, Node, NodeSelectorOperator, NodeSelectorRequirement,
        NodeSelectorTerm, Owner, Pod, PreferredSchedulingTerm, Quantity, Taint, Toleration,
        TolerationOperator,
    },
};

pub(super) const SMALL: u32 = 40;
pub(super) const LARGE: u32 = 5_000;

fn quantities(list: &[(&str, i64)]) -> Vec<Quantity> {
    list.iter()
        .map(|&(name, value)| Quantity {
            name: name.to_owned(),
            value,
        })
        .collect()
}

fn labels(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn port(port: u16) -> HostPort {
    HostPort {
        protocol: "TCP".to_owned(),
        ip: "0.0.0.0".to_owned(),
        port,
    }
}

pub(super) fn node_name(index: u32) -> String {
    format!("node-{index}")
}

/// Nodes of several kinds, every third with pods.
pub(super) fn cluster(nodes: u32) -> (Vec<Node>, Vec<PodChange>) {
    let upserts = (0..nodes).map(|index| Node {
        index,
        name: node_name(index),
        unschedulable: index % 11 == 5,
        labels: labels(&[
            ("disk", if index % 2 == 0 { "ssd" } else { "hdd" }),
            ("kubernetes.io/hostname", &node_name(index)),
            (
                "topology.kubernetes.io/zone",
                ["a", "b", "c"][index as usize % 3],
            ),
        ]),
        taints: match index % 7 {
            3 => vec![taint("dedicated", "batch", Effect::NoSchedule)],
            4 => vec![taint("slow", "", Effect::PreferNoSchedule)],
            _ => Vec::new(),
        },
        allocatable: quantities(&[
            ("cpu", 2_000 + i64::from(index % 4) * 2_000),
            ("ephemeral-storage", 100 << 30),
            ("memory", 8 << 30),
            ("pods", 110),
        ]),
        images: Vec::new(),
        json: None,
    });
    let pods = (0..nodes)
        .filter(|node| node % 3 == 0)
        .map(|node| PodChange {
            node,
            added: true,
            pod: assigned(&format!("pod-{node}")),
        });
    (upserts.collect(), pods.collect())
}

fn assigned(name: &str) -> AssignedPod {
    AssignedPod {
        uid: name.to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        labels: labels(&[("app", "web")]),
        priority: 0,
        requests: quantities(&[("cpu", 1_500), ("memory", 1 << 30)]),
        nonzero_requests: quantities(&[("cpu", 1_500), ("memory", 1 << 30)]),
        host_ports: vec![port(8_080)],
        deleting: false,
        json: None,
    }
}

fn taint(key: &str, value: &str, effect: Effect) -> Taint {
    Taint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect,
    }
}

fn bare() -> Pod {
    Pod {
        uid: "6ba7b810".to_owned(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        labels: labels(&[("app", "web")]),
        priority: 0,
        node_name: String::new(),
        nominated_node_name: String::new(),
        owner: Some(Owner {
            kind: "ReplicaSet".to_owned(),
            name: "web".to_owned(),
            uid: "1".to_owned(),
        }),
        requests: Vec::new(),
        nonzero_requests: quantities(&[("cpu", 100), ("memory", 200 << 20)]),
        host_ports: Vec::new(),
        node_selector: Vec::new(),
        required_node_affinity: None,
        preferred_node_affinity: Vec::new(),
        tolerations: Vec::new(),
        images: vec!["nginx".to_owned()],
        json: None,
    }
}

fn term(key: &str, operator: NodeSelectorOperator, values: &[&str]) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_expressions: vec![NodeSelectorRequirement {
            key: key.to_owned(),
            operator,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        }],
        match_fields: Vec::new(),
    }
}

/// Ordinary pods, with what they are.
pub(super) fn pods() -> Vec<(&'static str, Pod)> {
    use NodeSelectorOperator::{Exists, In, NotIn};
    let requests = quantities(&[("cpu", 1_000), ("memory", 2 << 30)]);
    let choosy = Pod {
        node_selector: labels(&[("disk", "ssd")]),
        required_node_affinity: Some(vec![term("topology.kubernetes.io/zone", NotIn, &["c"])]),
        preferred_node_affinity: vec![PreferredSchedulingTerm {
            weight: 10,
            preference: term("topology.kubernetes.io/zone", In, &["a"]),
        }],
        ..bare()
    };
    let tolerant = Pod {
        tolerations: vec![Toleration {
            key: String::new(),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect: None,
        }],
        required_node_affinity: Some(vec![term("disk", Exists, &[])]),
        ..bare()
    };
    vec![
        (
            "a pod with requests",
            Pod {
                requests: requests.clone(),
                nonzero_requests: requests,
                ..bare()
            },
        ),
        ("a pod without requests", bare()),
        ("a pod with node affinity", choosy),
        ("a pod that tolerates everything", tolerant),
        (
            "a pod with a host port",
            Pod {
                host_ports: vec![port(8_080)],
                ..bare()
            },
        ),
        (
            "a pod that is too large",
            Pod {
                requests: quantities(&[("cpu", 1_000_000), ("example.com/gpu", 1)]),
                ..bare()
            },
        ),
    ]
}

/// What a pod can do without.
pub(super) const CHANGES: [fn(&mut Pod); 10] = [
    |pod| pod.labels.clear(),
    |pod| pod.requests.clear(),
    |pod| pod.nonzero_requests.clear(),
    |pod| pod.node_selector.clear(),
    |pod| pod.required_node_affinity = None,
    |pod| pod.preferred_node_affinity.clear(),
    |pod| pod.tolerations.clear(),
    |pod| pod.host_ports.clear(),
    |pod| pod.images.clear(),
    |pod| pod.owner = None,
];

/// What of all that a pod has.
pub(super) fn in_short(pod: &Pod) -> String {
    let parts = [
        ("labels", !pod.labels.is_empty()),
        ("requests", !pod.requests.is_empty()),
        ("non-zero requests", !pod.nonzero_requests.is_empty()),
        ("a node selector", !pod.node_selector.is_empty()),
        (
            "required node affinity",
            pod.required_node_affinity.is_some(),
        ),
        (
            "preferred node affinity",
            !pod.preferred_node_affinity.is_empty(),
        ),
        ("tolerations", !pod.tolerations.is_empty()),
        ("host ports", !pod.host_ports.is_empty()),
        ("images", !pod.images.is_empty()),
        ("an owner", pod.owner.is_some()),
    ];
    let has: Vec<&str> = parts
        .into_iter()
        .filter_map(|(part, has)| has.then_some(part))
        .collect();
    match has.as_slice() {
        [] => "one with nothing but a name".to_owned(),
        parts => format!("one with {}", parts.join(", ")),
    }
}

/// Pods that no API server lets pass, but that a plugin must live with.
pub(super) fn hostile_pods() -> Vec<Pod> {
    use NodeSelectorOperator::{DoesNotExist, Gt, In, Lt, NotIn, Unknown};
    let long = "x".repeat(70_000);
    let nonsense = [In, NotIn, Gt, Lt, DoesNotExist, Unknown].map(|operator| {
        let mut term = term("", operator, &["", "not a number", "🦀"]);
        term.match_fields = term.match_expressions.clone();
        term
    });
    let empty_term = NodeSelectorTerm {
        match_expressions: Vec::new(),
        match_fields: Vec::new(),
    };
    vec![
        Pod {
            uid: String::new(),
            namespace: String::new(),
            name: String::new(),
            labels: labels(&[("", ""), ("", "")]),
            owner: None,
            nonzero_requests: Vec::new(),
            images: vec![String::new()],
            ..bare()
        },
        Pod {
            name: long.clone(),
            labels: labels(&[(&long, "🦀\u{0}")]),
            priority: i32::MIN,
            node_name: long.clone(),
            nominated_node_name: long,
            ..bare()
        },
        Pod {
            priority: i32::MAX,
            requests: quantities(&[
                ("cpu", i64::MAX),
                ("cpu", i64::MAX),
                ("memory", i64::MIN),
                ("", -1),
            ]),
            nonzero_requests: quantities(&[("cpu", i64::MIN), ("memory", i64::MAX)]),
            ..bare()
        },
        Pod {
            node_selector: labels(&[("", "")]),
            required_node_affinity: Some(nonsense.clone().into()),
            preferred_node_affinity: nonsense
                .into_iter()
                .map(|preference| PreferredSchedulingTerm {
                    weight: i32::MAX,
                    preference,
                })
                .collect(),
            ..bare()
        },
        Pod {
            required_node_affinity: Some(vec![empty_term]),
            host_ports: vec![
                HostPort {
                    protocol: String::new(),
                    ip: String::new(),
                    port: 0,
                };
                300
            ],
            json: Some(b"{".to_vec()),
            ..bare()
        },
        Pod {
            required_node_affinity: Some(Vec::new()),
            requests: (0..100)
                .map(|i| Quantity {
                    name: format!("example.com/{i}"),
                    value: i64::MAX,
                })
                .collect(),
            ..bare()
        },
    ]
}

/// Nodes without anything, with absurd amounts, with the same name; pods on nodes that are not there.
pub(super) fn hostile_cluster() -> (Vec<Node>, Vec<PodChange>) {
    let node = |index, allocatable: &[(&str, i64)]| Node {
        index,
        name: String::new(),
        unschedulable: false,
        labels: labels(&[("", ""), ("b", ""), ("a", ""), ("a", "")]),
        taints: vec![taint("", "", Effect::NoExecute)],
        allocatable: quantities(allocatable),
        images: Vec::new(),
        json: Some(Vec::new()),
    };
    let mut absurd = assigned("");
    absurd.requests = quantities(&[("cpu", i64::MAX), ("memory", i64::MIN)]);
    absurd.nonzero_requests = absurd.requests.clone();
    let change = |node, added| PodChange {
        node,
        added,
        pod: absurd.clone(),
    };
    (
        vec![
            node(0, &[]),
            node(
                1,
                &[
                    ("cpu", i64::MAX),
                    ("cpu", 1),
                    ("memory", i64::MIN),
                    ("pods", -1),
                ],
            ),
        ],
        vec![
            change(1, true),
            change(1, true),
            change(0, false),
            change(0, false),
            change(u32::MAX, true),
        ],
    )
}
