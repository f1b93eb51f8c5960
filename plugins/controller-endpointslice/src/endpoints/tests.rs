use pilothouse_sdk::{
    controller::ObjectExt,
    testing::{FakeCluster, settle},
};

use super::*;

fn cluster(selector: Value) -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.add(&SERVICES, json!({
        "metadata": {"name": "web", "namespace": "ns", "labels": {"team": "a"}},
        "spec": {"clusterIP": "10.96.0.10", "selector": selector, "ports": [{"port": 80, "targetPort": 8080}]},
    }));
    for (name, ready) in [("a", "True"), ("b", "False")] {
        cluster.add(&PODS, json!({
            "metadata": {"name": name, "namespace": "ns", "labels": {"app": "web"}},
            "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "podIP": format!("10.0.0.{}", name.len() + usize::from(ready == "True")),
                "conditions": [{"type": "Ready", "status": ready}]},
        }));
    }
    cluster
}

fn run(cluster: &FakeCluster) -> usize {
    settle(&Endpoints, cluster, &json!({}), &Key::new("ns", "web"), 5);
    cluster.take_actions().len()
}

fn endpoints(cluster: &FakeCluster) -> Option<Value> {
    cluster.object(&ENDPOINTS, "ns", "web")
}

#[test]
fn ready_and_other_addresses_are_kept_apart() {
    let cluster = cluster(json!({"app": "web"}));
    assert_eq!(run(&cluster), 1);
    let written = endpoints(&cluster).unwrap();
    assert_eq!(
        written["metadata"]["labels"],
        json!({"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    let [subset] = written.list_at("/subsets") else {
        panic!("one subset")
    };
    assert_eq!(subset["ports"], json!([{"port": 8080, "protocol": "TCP"}]));
    assert_eq!(subset["addresses"][0]["targetRef"]["name"], "a");
    assert_eq!(subset["notReadyAddresses"][0]["targetRef"]["name"], "b");
    assert_eq!(run(&cluster), 0);
}

#[test]
fn they_follow_the_pods_and_end_empty() {
    let cluster = cluster(json!({"app": "web"}));
    run(&cluster);
    cluster.remove(&PODS, "ns", "b");
    assert_eq!(run(&cluster), 1);
    assert!(endpoints(&cluster).unwrap()["subsets"][0]["notReadyAddresses"].is_null());
    cluster.remove(&PODS, "ns", "a");
    assert_eq!(run(&cluster), 1);
    assert!(endpoints(&cluster).unwrap()["subsets"].is_null());
    assert_eq!(run(&cluster), 0);
}

#[test]
fn they_go_with_their_service() {
    let cluster = cluster(json!({"app": "web"}));
    run(&cluster);
    cluster.remove(&SERVICES, "ns", "web");
    assert_eq!(run(&cluster), 1);
    assert!(endpoints(&cluster).is_none());
    assert_eq!(run(&cluster), 0);
}

#[test]
fn without_a_selector_they_are_the_users() {
    let cluster = cluster(Value::Null);
    cluster.add(&ENDPOINTS, json!({"metadata": {"name": "web", "namespace": "ns"}, "subsets": [{"addresses": [{"ip": "10.9.9.9"}]}]}));
    assert_eq!(run(&cluster), 0);
}
