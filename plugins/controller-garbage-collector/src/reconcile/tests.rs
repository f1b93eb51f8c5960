use pilothouse_sdk::{
    Value,
    cluster::{
        Propagation, Resource,
        resources::{CONFIG_MAPS, DEPLOYMENTS, NODES, PODS, REPLICA_SETS, SECRETS},
    },
    controller::ObjectExt,
    testing::FakeCluster,
};

use super::*;

fn add(cluster: &FakeCluster, of: &Resource, name: &str, owners: Value) -> String {
    let object = json!({"metadata": {"name": name, "namespace": "ns", "ownerReferences": owners}, "spec": {}});
    cluster.add(of, object).uid().to_owned()
}

fn owned_by(kind: &str, name: &str, uid: &str) -> Value {
    let api_version = if kind == "Pod" { "v1" } else { "apps/v1" };
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true})
}

/// A Deployment with a ReplicaSet with a Pod; their uids.
fn chain(cluster: &FakeCluster) -> [String; 3] {
    let deployment = add(cluster, &DEPLOYMENTS, "web", json!([]));
    let set = add(
        cluster,
        &REPLICA_SETS,
        "web-1",
        json!([owned_by("Deployment", "web", &deployment)]),
    );
    let pod = add(
        cluster,
        &PODS,
        "web-1-a",
        json!([owned_by("ReplicaSet", "web-1", &set)]),
    );
    [deployment, set, pod]
}

fn delete(cluster: &FakeCluster, of: &Resource, name: &str, propagation: Propagation) {
    let options = DeleteOptions {
        propagation: Some(propagation),
        ..DeleteOptions::default()
    };
    assert_eq!(cluster.delete(of, "ns", name, &options), Ok(()));
}

/// Looks at the uids over and over until nothing changes any more.
fn collect_all(cluster: &FakeCluster, uids: &[String]) {
    for _ in 0..20 {
        let before = cluster.revision();
        for uid in uids {
            run(cluster, uid).unwrap();
        }
        if cluster.revision() == before {
            return;
        }
    }
    panic!("never settles");
}

fn run(cluster: &FakeCluster, uid: &str) -> Result<Outcome, Error> {
    let context = Context {
        cluster,
        config: &json!({}),
    };
    GarbageCollector.reconcile(&context, &Key::new("", uid))
}

fn left(cluster: &FakeCluster) -> Vec<String> {
    let all = [&DEPLOYMENTS, &REPLICA_SETS, &PODS].into_iter();
    all.flat_map(|of| cluster.objects(of, "ns"))
        .map(|object| object.name().to_owned())
        .collect()
}

#[test]
fn a_whole_chain_stays() {
    let cluster = FakeCluster::new();
    let uids = chain(&cluster);
    collect_all(&cluster, &uids);
    assert_eq!(cluster.take_actions(), []);
}

#[test]
fn background_deletion_goes_down_the_chain() {
    let cluster = FakeCluster::new();
    let uids = chain(&cluster);
    delete(&cluster, &DEPLOYMENTS, "web", Propagation::Background);
    assert_eq!(left(&cluster), ["web-1", "web-1-a"]);
    collect_all(&cluster, &uids);
    assert_eq!(left(&cluster), [] as [String; 0]);
}

#[test]
fn foreground_deletion_takes_the_owner_last() {
    let cluster = FakeCluster::new();
    let [deployment, set, pod] = chain(&cluster);
    delete(&cluster, &DEPLOYMENTS, "web", Propagation::Foreground);
    run(&cluster, &deployment).unwrap();
    assert_eq!(left(&cluster), ["web", "web-1", "web-1-a"]);
    let set_object = cluster.object(&REPLICA_SETS, "ns", "web-1").unwrap();
    assert!(set_object.is_deleting() && set_object.has_finalizer(FOREGROUND));
    run(&cluster, &set).unwrap();
    assert_eq!(left(&cluster), ["web", "web-1"]);
    collect_all(&cluster, &[deployment, set, pod]);
    assert_eq!(left(&cluster), [] as [String; 0]);
}

#[test]
fn a_dependent_that_does_not_block_is_deleted_and_not_waited_for() {
    let cluster = FakeCluster::new();
    let owner = add(&cluster, &DEPLOYMENTS, "web", json!([]));
    let mut reference = owned_by("Deployment", "web", &owner);
    reference["blockOwnerDeletion"] = json!(false);
    cluster.add(&PODS, json!({
        "metadata": {"name": "p", "namespace": "ns", "ownerReferences": [reference], "finalizers": ["example.com/hold"]},
        "spec": {},
    }));
    delete(&cluster, &DEPLOYMENTS, "web", Propagation::Foreground);
    run(&cluster, &owner).unwrap();
    assert_eq!(left(&cluster), ["p"]);
    assert!(cluster.object(&PODS, "ns", "p").unwrap().is_deleting());
}

#[test]
fn orphaning_lets_the_dependents_live() {
    let cluster = FakeCluster::new();
    let uids = chain(&cluster);
    delete(&cluster, &DEPLOYMENTS, "web", Propagation::Orphan);
    collect_all(&cluster, &uids);
    assert_eq!(left(&cluster), ["web-1", "web-1-a"]);
    assert!(
        cluster
            .object(&REPLICA_SETS, "ns", "web-1")
            .unwrap()
            .owner_references()
            .is_empty()
    );
}

#[test]
fn an_owner_of_the_same_name_and_another_uid_is_absent() {
    let cluster = FakeCluster::new();
    add(&cluster, &DEPLOYMENTS, "web", json!([]));
    let set = add(
        &cluster,
        &REPLICA_SETS,
        "web-1",
        json!([owned_by("Deployment", "web", "an-earlier-one")]),
    );
    run(&cluster, &set).unwrap();
    assert_eq!(left(&cluster), ["web"]);
}

#[test]
fn one_solid_owner_keeps_it_and_dead_references_go() {
    let cluster = FakeCluster::new();
    let web = add(&cluster, &DEPLOYMENTS, "web", json!([]));
    let mut second = owned_by("Deployment", "gone", "gone-uid");
    second["controller"] = json!(false);
    let set = add(
        &cluster,
        &REPLICA_SETS,
        "web-1",
        json!([owned_by("Deployment", "web", &web), second]),
    );
    run(&cluster, &set).unwrap();
    let owners = cluster
        .object(&REPLICA_SETS, "ns", "web-1")
        .unwrap()
        .owner_references();
    assert_eq!(
        owners.iter().map(|owner| &*owner.name).collect::<Vec<_>>(),
        ["web"]
    );
}

#[test]
fn an_owner_of_a_kind_that_is_not_served_keeps_its_object() {
    let cluster = FakeCluster::new();
    let reference =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "w-uid"});
    let map = add(&cluster, &CONFIG_MAPS, "map", json!([reference]));
    assert!(run(&cluster, &map).is_err(), "unknown is not absent");
    assert_eq!(cluster.objects(&CONFIG_MAPS, "ns").len(), 1);
}

#[test]
fn a_namespaced_owner_never_collects_a_cluster_scoped_object() {
    let cluster = FakeCluster::new();
    let reference = owned_by("Deployment", "gone", "gone-uid");
    let node = cluster.add(
        &NODES,
        json!({"metadata": {"name": "n", "ownerReferences": [reference]}}),
    );
    assert_eq!(run(&cluster, node.uid()), Ok(Outcome::Done));
    assert_eq!(cluster.take_actions(), []);
}

#[test]
fn an_object_that_changed_after_it_was_judged_is_judged_anew() {
    let cluster = FakeCluster::new();
    let set = add(
        &cluster,
        &REPLICA_SETS,
        "web-1",
        json!([owned_by("Deployment", "web", "gone")]),
    );
    cluster.fail_next(
        "delete",
        &REPLICA_SETS,
        Status::new(409, "Conflict", "modified"),
    );
    assert!(run(&cluster, &set).unwrap_err().is_conflict());
    assert_eq!(left(&cluster), ["web-1"]);
    run(&cluster, &set).unwrap();
    assert_eq!(left(&cluster), [] as [String; 0]);
}

#[test]
fn a_circle_of_foreground_deletions_opens() {
    let cluster = FakeCluster::new();
    let a = add(&cluster, &CONFIG_MAPS, "a", json!([]));
    let reference = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": if name == "a" { "ConfigMap" } else { "Secret" }, "name": name, "uid": uid, "blockOwnerDeletion": true});
    let b = add(&cluster, &SECRETS, "b", json!([reference("a", &a)]));
    let mut first = cluster.object(&CONFIG_MAPS, "ns", "a").unwrap();
    first["metadata"]["ownerReferences"] = json!([reference("b", &b)]);
    cluster.set(&CONFIG_MAPS, first);
    delete(&cluster, &CONFIG_MAPS, "a", Propagation::Foreground);
    collect_all(&cluster, &[a, b]);
    assert!(
        cluster.objects(&CONFIG_MAPS, "ns").is_empty()
            && cluster.objects(&SECRETS, "ns").is_empty()
    );
}

#[test]
fn a_uid_that_nobody_has_is_nothing_to_do() {
    assert_eq!(run(&FakeCluster::new(), "none"), Ok(Outcome::Done));
}
