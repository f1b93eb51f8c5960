use pilothouse_sdk::{
    cluster::{
        DeleteOptions, Resource, Status as Refusal,
        resources::{CONFIG_MAPS, DEPLOYMENTS, NODES, PODS, SECRETS},
    },
    testing::FakeCluster,
};

use super::*;

/// A cluster with the namespace `ns` being deleted, and one that is not.
fn deleting() -> FakeCluster {
    let cluster = FakeCluster::new();
    for name in ["ns", "other"] {
        cluster.add(
            &NAMESPACES,
            json!({"metadata": {"name": name}, "spec": {"finalizers": ["kubernetes"]}}),
        );
        add(&cluster, &CONFIG_MAPS, name, "map");
    }
    cluster.add(&NODES, json!({"metadata": {"name": "n"}}));
    assert_eq!(
        cluster.delete(&NAMESPACES, "", "ns", &DeleteOptions::default()),
        Ok(())
    );
    cluster.take_actions();
    cluster
}

fn add(cluster: &FakeCluster, of: &Resource, namespace: &str, name: &str) {
    cluster.add(
        of,
        json!({"metadata": {"name": name, "namespace": namespace}, "spec": {}}),
    );
}

fn run(cluster: &FakeCluster) -> Result<Outcome, Error> {
    let context = Context {
        cluster,
        config: &json!({}),
    };
    Namespaces.reconcile(&context, &Key::new("", "ns"))
}

fn exists(cluster: &FakeCluster) -> bool {
    cluster.object(&NAMESPACES, "", "ns").is_some()
}

fn reason(cluster: &FakeCluster, kind: &str) -> String {
    let namespace = cluster.object(&NAMESPACES, "", "ns").unwrap();
    let conditions = namespace["status"]["conditions"]
        .as_array()
        .unwrap()
        .clone();
    let condition = conditions
        .iter()
        .find(|condition| condition["type"] == kind)
        .unwrap();
    condition["reason"].as_str().unwrap().to_owned()
}

#[test]
fn everything_in_it_goes_and_nothing_else() {
    let cluster = deleting();
    add(&cluster, &SECRETS, "ns", "s");
    add(&cluster, &DEPLOYMENTS, "ns", "d");
    assert_eq!(run(&cluster), Ok(Outcome::Done));
    assert!(!exists(&cluster));
    for of in [&CONFIG_MAPS, &SECRETS, &DEPLOYMENTS] {
        assert!(cluster.objects(of, "ns").is_empty());
    }
    assert_eq!(cluster.objects(&CONFIG_MAPS, "other").len(), 1);
    assert_eq!(cluster.objects(&NODES, "").len(), 1);
}

#[test]
fn pods_go_first() {
    let cluster = deleting();
    cluster.add(
        &PODS,
        json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": "n"}}),
    );
    assert_eq!(run(&cluster), Ok(Outcome::RequeueAfterMs(SHORTEST_WAIT_MS)));
    assert_eq!(
        cluster.objects(&CONFIG_MAPS, "ns").len(),
        1,
        "waits for the pod"
    );
    assert_eq!(
        reason(&cluster, "NamespaceContentRemaining"),
        "SomeResourcesRemain"
    );
    cluster.advance_ms(8_000);
    assert_eq!(run(&cluster), Ok(Outcome::RequeueAfterMs(2_000)));
    cluster.finish_pod_deletions();
    assert_eq!(run(&cluster), Ok(Outcome::Done));
    assert!(!exists(&cluster));
}

#[test]
fn waits_for_finalizers_of_others_and_says_so() {
    let cluster = deleting();
    cluster.add(&SECRETS, json!({"metadata": {"name": "held", "namespace": "ns", "finalizers": ["example.com/hold"]}}));
    assert!(matches!(run(&cluster), Ok(Outcome::RequeueAfterMs(_))));
    assert_eq!(
        reason(&cluster, "NamespaceFinalizersRemaining"),
        "SomeFinalizerRemain"
    );
    cluster.take_actions();
    assert!(matches!(run(&cluster), Ok(Outcome::RequeueAfterMs(_))));
    assert_eq!(
        cluster.take_actions(),
        [],
        "what is being deleted is not deleted again"
    );
    cluster.remove(&SECRETS, "ns", "held");
    assert_eq!(run(&cluster), Ok(Outcome::Done));
    assert!(!exists(&cluster));
}

#[test]
fn keeps_the_namespace_while_a_group_is_unknown() {
    let cluster = deleting();
    cluster.fail_discovery(&["metrics.k8s.io/v1beta1"]);
    assert!(run(&cluster).is_err());
    assert!(exists(&cluster) && cluster.objects(&CONFIG_MAPS, "ns").is_empty());
    assert_eq!(
        reason(&cluster, "NamespaceDeletionDiscoveryFailure"),
        "DiscoveryFailed"
    );
    cluster.fail_discovery(&[]);
    assert_eq!(run(&cluster), Ok(Outcome::Done));
    assert!(!exists(&cluster));
}

#[test]
fn a_refused_deletion_is_told_and_tried_again() {
    let cluster = deleting();
    cluster.fail_next(
        "deletecollection",
        &CONFIG_MAPS,
        Refusal::new(403, "Forbidden", "denied by policy"),
    );
    assert!(
        run(&cluster)
            .unwrap_err()
            .to_string()
            .contains("denied by policy")
    );
    assert_eq!(
        reason(&cluster, "NamespaceDeletionContentFailure"),
        "ContentDeletionFailed"
    );
    assert_eq!(run(&cluster), Ok(Outcome::Done));
    assert!(!exists(&cluster));
}

#[test]
fn another_finalizer_of_the_namespace_stays() {
    let cluster = deleting();
    let mut namespace = cluster.object(&NAMESPACES, "", "ns").unwrap();
    namespace["spec"]["finalizers"] = json!(["kubernetes", "example.com/mine"]);
    cluster.set(&NAMESPACES, namespace);
    assert_eq!(run(&cluster), Ok(Outcome::Done));
    let namespace = cluster.object(&NAMESPACES, "", "ns").unwrap();
    assert_eq!(namespace["spec"]["finalizers"], json!(["example.com/mine"]));
    cluster.take_actions();
    assert_eq!(run(&cluster), Ok(Outcome::Done));
    assert_eq!(cluster.take_actions(), []);
}

#[test]
fn an_active_namespace_is_left_alone_whatever_the_cache_says() {
    let cluster = deleting();
    let context = Context {
        cluster: &cluster,
        config: &json!({}),
    };
    assert_eq!(
        Namespaces.reconcile(&context, &Key::new("", "other")),
        Ok(Outcome::Done)
    );
    assert_eq!(
        Namespaces.reconcile(&context, &Key::new("", "missing")),
        Ok(Outcome::Done)
    );
    // Deleted and made again while the cache still shows the old one.
    cluster.freeze_cache();
    cluster.remove(&NAMESPACES, "", "ns");
    cluster.add(
        &NAMESPACES,
        json!({"metadata": {"name": "ns"}, "spec": {"finalizers": ["kubernetes"]}}),
    );
    assert_eq!(run(&cluster), Ok(Outcome::Done));
    assert_eq!(cluster.take_actions(), []);
}
