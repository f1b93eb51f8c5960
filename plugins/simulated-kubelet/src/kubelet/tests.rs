use pilothouse_sdk::{
    cluster::Status as Refusal,
    controller::ObjectExt,
    testing::{FakeCluster, Settled, settle},
};

use super::*;

struct Fixture {
    cluster: FakeCluster,
    config: Value,
}

impl Fixture {
    /// Registered and healthy nodes.
    fn new(nodes: u32) -> Self {
        let fixture = Self {
            cluster: FakeCluster::new(),
            config: json!({"nodes": nodes}),
        };
        fixture.settle("");
        for number in 0..nodes {
            fixture.settle(&format!("node-{number}"));
        }
        fixture.cluster.take_actions();
        fixture
    }

    fn settle(&self, key: &str) -> Settled {
        settle(
            &Kubelet,
            &self.cluster,
            &self.config,
            &Key::new("", key),
            10,
        )
    }

    fn add_pod(&self, name: &str, spec: Value, annotations: Value) {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "ns", "annotations": annotations},
            "spec": {
                "nodeName": "node-0", "restartPolicy": "Always",
                "containers": [{"name": "c", "image": "nginx"}],
            },
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-12-31T23:59:00Z"},
            ]},
        });
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        self.cluster.add(&PODS, pod);
    }

    fn pod(&self, name: &str) -> Value {
        self.cluster.object(&PODS, "ns", name).unwrap()
    }

    fn node(&self, name: &str) -> Value {
        self.cluster.object(&NODES, "", name).unwrap()
    }

    fn verbs(&self) -> Vec<String> {
        let actions = self.cluster.take_actions().into_iter();
        actions
            .map(|action| {
                format!(
                    "{} {} {}",
                    action.verb, action.resource.name, action.subresource
                )
            })
            .collect()
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
        .unwrap()
}

#[test]
fn registers_its_nodes_once() {
    let fixture = Fixture::new(3);
    let nodes = fixture.cluster.objects(&NODES, "");
    assert_eq!(nodes.len(), 3);
    for (number, node) in nodes.iter().enumerate() {
        assert_eq!(node.label("kubernetes.io/hostname"), Some(node.name()));
        assert_eq!(node["spec"]["podCIDR"], format!("10.64.{number}.0/24"));
        assert_eq!(node["status"]["capacity"]["pods"], "110");
        assert_eq!(
            node["status"]["addresses"][0]["address"],
            format!("172.16.0.{}", number + 1)
        );
        assert_eq!(condition(node, "Ready")["status"], "True");
        assert!(
            node["status"]["nodeInfo"]["kubeletVersion"]
                .as_str()
                .unwrap()
                .starts_with("v1.36.")
        );
    }
    fixture.settle("");
    assert_eq!(fixture.settle("node-1").rounds, 1);
    assert_eq!(fixture.verbs(), [] as [String; 0]);
}

#[test]
fn many_nodes_are_registered_in_several_calls() {
    let fixture = Fixture {
        cluster: FakeCluster::new(),
        config: json!({"nodes": 250}),
    };
    let settled = fixture.settle("");
    assert_eq!(settled.requeue_after_ms, None);
    assert_eq!(fixture.cluster.objects(&NODES, "").len(), 250);
    assert_eq!(settled.rounds, 4);
}

#[test]
fn beats_by_lease_and_less_often_by_status() {
    let fixture = Fixture::new(1);
    let lease = || {
        fixture
            .cluster
            .object(&LEASES, LEASE_NAMESPACE, "node-0")
            .unwrap()
    };
    assert_eq!(lease()["spec"]["holderIdentity"], "node-0");
    assert_eq!(
        lease().owner_references()[0].uid,
        fixture.node("node-0").uid()
    );
    assert_eq!(fixture.settle("node-0").requeue_after_ms, Some(10_000));
    let before = lease()["spec"]["renewTime"].clone();
    fixture.cluster.advance_ms(10_000);
    fixture.settle("node-0");
    assert_eq!(fixture.verbs(), ["patch leases "]);
    assert_ne!(lease()["spec"]["renewTime"], before);
    fixture.cluster.advance_ms(290_000);
    fixture.settle("node-0");
    assert_eq!(fixture.verbs(), ["patch leases ", "patch nodes status"]);
}

#[test]
fn a_node_that_others_called_unready_says_that_it_is_ready() {
    let fixture = Fixture::new(1);
    let mut node = fixture.node("node-0");
    for condition in node["status"]["conditions"].as_array_mut().unwrap() {
        condition["status"] = json!("Unknown");
    }
    node["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "Theirs", "status": "True"}));
    fixture.cluster.set(&NODES, node);
    fixture.settle("node-0");
    assert_eq!(
        condition(&fixture.node("node-0"), "Ready")["status"],
        "True"
    );
    assert_eq!(
        condition(&fixture.node("node-0"), "Theirs")["status"],
        "True"
    );
}

#[test]
fn a_silent_node_does_nothing() {
    let fixture = Fixture::new(1);
    let mut node = fixture.node("node-0");
    node["metadata"]["annotations"] = json!({"pilothouse.dev/silent": "true"});
    fixture.cluster.set(&NODES, node);
    fixture.add_pod("p", json!({}), json!({}));
    fixture.cluster.advance_ms(600_000);
    assert_eq!(fixture.settle("node-0").requeue_after_ms, None);
    assert_eq!(fixture.verbs(), [] as [String; 0]);
}

#[test]
fn touches_no_node_that_is_not_simulated() {
    let fixture = Fixture::new(1);
    fixture
        .cluster
        .add(&NODES, json!({"metadata": {"name": "real"}, "spec": {}}));
    fixture.add_pod("theirs", json!({"nodeName": "real"}), json!({}));
    fixture.settle("real");
    fixture.settle("node-0");
    assert_eq!(fixture.verbs(), [] as [String; 0]);
    // Nor does it take over one that has a configured name.
    let fixture = Fixture {
        cluster: FakeCluster::new(),
        config: json!({"nodes": 1}),
    };
    fixture
        .cluster
        .add(&NODES, json!({"metadata": {"name": "node-0"}, "spec": {}}));
    fixture.settle("");
    fixture.settle("node-0");
    assert_eq!(fixture.verbs(), [] as [String; 0]);
}

#[test]
fn a_node_joins_by_its_label() {
    let fixture = Fixture::new(1);
    fixture.cluster.add(
        &NODES,
        json!({"metadata": {"name": "mine", "labels": {node::SIMULATED: "true"}}, "spec": {}}),
    );
    fixture.settle("mine");
    let node = fixture.node("mine");
    assert_eq!(condition(&node, "Ready")["status"], "True");
    assert_ne!(
        node["spec"]["podCIDR"],
        fixture.node("node-0")["spec"]["podCIDR"]
    );
}

#[test]
fn a_deleted_node_stays_away_unless_configured_otherwise() {
    let mut fixture = Fixture::new(2);
    fixture.cluster.remove(&NODES, "", "node-1");
    fixture.settle("node-1");
    assert!(fixture.cluster.object(&NODES, "", "node-1").is_none());
    fixture.config["reregister"] = json!(true);
    fixture.settle("node-1");
    assert_eq!(fixture.node("node-1")["spec"]["podCIDR"], "10.64.1.0/24");
}

#[test]
fn pods_run_with_addresses_of_their_own() {
    let fixture = Fixture::new(1);
    for number in 0..110 {
        fixture.add_pod(&format!("p{number}"), json!({}), json!({}));
    }
    fixture.settle("node-0");
    let pods = fixture.cluster.objects(&PODS, "ns");
    let addresses: BTreeSet<_> = pods
        .iter()
        .map(|pod| pod["status"]["podIP"].as_str().unwrap())
        .collect();
    assert_eq!(addresses.len(), 110);
    assert!(
        addresses
            .iter()
            .all(|address| address.starts_with("10.64.0."))
    );
    let pod = &pods[0];
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["status"]["hostIP"], "172.16.0.1");
    assert_eq!(
        pod["status"]["podIPs"],
        json!([{"ip": pod["status"]["podIP"]}])
    );
    for kind in [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ] {
        assert_eq!(condition(pod, kind)["status"], "True", "{kind}");
    }
    assert_eq!(
        condition(pod, "PodScheduled")["lastTransitionTime"],
        "2025-12-31T23:59:00Z"
    );
    let container = &pod["status"]["containerStatuses"][0];
    assert_eq!(
        (&container["name"], &container["ready"]),
        (&json!("c"), &json!(true))
    );
    assert!(container["state"]["running"]["startedAt"].is_string());
    fixture.cluster.take_actions();
    assert_eq!(fixture.settle("node-0").rounds, 1);
    assert_eq!(fixture.verbs(), [] as [String; 0]);
}

#[test]
fn init_containers_have_completed_and_sidecars_run() {
    let fixture = Fixture::new(1);
    let init = json!([{"name": "setup", "image": "busybox"}, {"name": "proxy", "image": "envoy", "restartPolicy": "Always"}]);
    fixture.add_pod(
        "p",
        json!({"initContainers": init, "hostNetwork": true}),
        json!({}),
    );
    fixture.settle("node-0");
    let status = fixture.pod("p")["status"].clone();
    assert_eq!(
        status["initContainerStatuses"][0]["state"]["terminated"]["reason"],
        "Completed"
    );
    assert_eq!(status["initContainerStatuses"][0]["ready"], true);
    assert!(status["initContainerStatuses"][1]["state"]["running"].is_object());
    assert_eq!(status["podIP"], status["hostIP"]);
}

#[test]
fn a_pod_that_ends_succeeds_after_its_time() {
    let fixture = Fixture::new(1);
    fixture.add_pod(
        "job",
        json!({"restartPolicy": "Never"}),
        json!({"pilothouse.dev/run-seconds": "5"}),
    );
    assert_eq!(fixture.settle("node-0").requeue_after_ms, Some(5_000));
    fixture.cluster.advance_ms(5_000);
    fixture.settle("node-0");
    let pod = fixture.pod("job");
    assert_eq!(pod["status"]["phase"], "Succeeded");
    assert_eq!(
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        0
    );
    assert_eq!(condition(&pod, "Ready")["reason"], "PodCompleted");
}

#[test]
fn a_deleted_pod_goes_when_its_containers_have_stopped() {
    let fixture = Fixture::new(1);
    fixture.add_pod(
        "quick",
        json!({"terminationGracePeriodSeconds": 30}),
        json!({}),
    );
    let slow = json!({"pilothouse.dev/termination-seconds": "4"});
    fixture.add_pod("slow", json!({"terminationGracePeriodSeconds": 30}), slow);
    fixture.settle("node-0");
    for name in ["quick", "slow"] {
        let deleted = fixture
            .cluster
            .delete(&PODS, "ns", name, &DeleteOptions::default());
        assert_eq!(deleted, Ok(()));
    }
    assert_eq!(fixture.settle("node-0").requeue_after_ms, Some(4_000));
    let left: Vec<_> = fixture
        .cluster
        .objects(&PODS, "ns")
        .iter()
        .map(|pod| pod.name().to_owned())
        .collect();
    assert_eq!(left, ["slow"]);
    fixture.cluster.advance_ms(4_000);
    fixture.settle("node-0");
    assert!(fixture.cluster.objects(&PODS, "ns").is_empty());
}

#[test]
fn one_refused_pod_does_not_hold_up_the_others() {
    let fixture = Fixture::new(1);
    for name in ["a", "b", "c"] {
        fixture.add_pod(name, json!({}), json!({}));
    }
    fixture
        .cluster
        .fail_next("patch", &PODS, Refusal::new(409, "Conflict", "modified"));
    let context = Context {
        cluster: &fixture.cluster,
        config: &fixture.config,
    };
    let outcome = Kubelet.reconcile(&context, &Key::new("", "node-0"));
    assert!(outcome.unwrap_err().is_conflict());
    let phases: Vec<_> = ["a", "b", "c"]
        .map(|name| fixture.pod(name)["status"]["phase"].clone())
        .into();
    assert_eq!(
        phases,
        [json!("Pending"), json!("Running"), json!("Running")]
    );
    fixture.settle("node-0");
    assert_eq!(fixture.pod("a")["status"]["phase"], "Running");
}
