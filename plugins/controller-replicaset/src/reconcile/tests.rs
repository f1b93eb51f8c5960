use pilothouse_sdk::{
    Value,
    cluster::{
        Status as Refusal,
        resources::{NODES, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS},
    },
    controller::{Key, ObjectExt},
    json,
    testing::{Action, FakeCluster, Settled, settle},
};

use super::*;

/// A namespace with one ReplicaSet `web`.
struct Fixture {
    cluster: FakeCluster,
    kind: Kind,
}

fn replica_set(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "ns", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web", "tier": "front"}, "annotations": {"note": "n"}},
                "spec": {"containers": [{"name": "c", "image": "nginx", "unknown": {"kept": true}}]},
            },
        },
    })
}

impl Fixture {
    fn new(replicas: i32) -> Self {
        let cluster = FakeCluster::new();
        cluster.add(&REPLICA_SETS, replica_set(replicas));
        Self {
            cluster,
            kind: Kind::ReplicaSet,
        }
    }

    fn settle(&self) -> Settled {
        settle(
            &Replicas(self.kind),
            &self.cluster,
            &json!({}),
            &Key::new("ns", "web"),
            20,
        )
    }

    fn workload(&self) -> Value {
        self.cluster
            .object(self.kind.resource(), "ns", "web")
            .unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut workload = self.workload();
        change(&mut workload);
        self.cluster.set(self.kind.resource(), workload);
    }

    fn pods(&self) -> Vec<Value> {
        self.cluster.objects(&PODS, "ns")
    }

    fn pod(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut pod = self.cluster.object(&PODS, "ns", name).unwrap();
        change(&mut pod);
        self.cluster.set(&PODS, pod);
    }

    fn make_ready(&self) {
        for pod in self.pods() {
            let now = self.cluster.now();
            self.pod(pod.name(), |pod| pod["status"] = ready(&now));
        }
    }

    fn verbs(&self) -> Vec<(&'static str, String)> {
        let written = |action: Action| {
            (
                action.verb,
                action.resource.name.into_owned() + &suffix(&action.subresource),
            )
        };
        self.cluster
            .take_actions()
            .into_iter()
            .map(written)
            .collect()
    }

    fn reasons(&self) -> Vec<String> {
        self.cluster
            .take_events()
            .into_iter()
            .map(|event| format!("{} {}", event.reason, event.note))
            .collect()
    }
}

fn suffix(subresource: &str) -> String {
    if subresource.is_empty() {
        String::new()
    } else {
        format!("/{subresource}")
    }
}

fn ready(since: &str) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]})
}

fn orphan(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns", "labels": {"app": "web"}}, "spec": {}, "status": {"phase": "Running"}})
}

#[test]
fn creates_what_is_missing_from_the_template() {
    let fixture = Fixture::new(3);
    fixture.settle();
    let pods = fixture.pods();
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        assert!(pod.name().starts_with("web-"));
        assert!(pod.is_controlled_by(fixture.workload().uid()));
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "web", "tier": "front"})
        );
        assert_eq!(pod["metadata"]["annotations"], json!({"note": "n"}));
        assert_eq!(pod["spec"], replica_set(3)["spec"]["template"]["spec"]);
    }
    let status = &fixture.workload()["status"];
    assert_eq!(
        *status,
        json!({
            "replicas": 3, "fullyLabeledReplicas": 3, "observedGeneration": 1, "terminatingReplicas": 0,
        })
    );
    assert_eq!(fixture.reasons().len(), 3);
}

#[test]
fn a_second_reconcile_writes_nothing() {
    let fixture = Fixture::new(3);
    fixture.settle();
    fixture.make_ready();
    fixture.settle();
    fixture.cluster.take_actions();
    assert_eq!(
        fixture.settle(),
        Settled {
            rounds: 1,
            errors: vec![],
            requeue_after_ms: None
        }
    );
    assert_eq!(fixture.verbs(), []);
    let status = &fixture.workload()["status"];
    assert_eq!(
        (&status["readyReplicas"], &status["availableReplicas"]),
        (&json!(3), &json!(3))
    );
}

#[test]
fn deletes_the_surplus_by_rank() {
    let fixture = Fixture::new(3);
    fixture.settle();
    fixture.make_ready();
    for (at, pod) in fixture.pods().iter().enumerate() {
        fixture.pod(pod.name(), |pod| {
            pod["spec"]["nodeName"] = json!(format!("n{at}"))
        });
    }
    let unready = fixture.pods()[1].name().to_owned();
    fixture.pod(&unready, |pod| pod["status"]["conditions"] = json!([]));
    fixture.cluster.take_events();
    fixture.change(|web| web["spec"]["replicas"] = json!(2));
    fixture.settle();
    let deleting: Vec<_> = fixture
        .pods()
        .into_iter()
        .filter(|pod| pod.is_deleting())
        .collect();
    assert_eq!(
        deleting.iter().map(|pod| pod.name()).collect::<Vec<_>>(),
        [unready.as_str()]
    );
    assert_eq!(
        fixture.reasons(),
        [format!("SuccessfulDelete Deleted pod: {unready}")]
    );
    let status = fixture.workload()["status"].clone();
    assert_eq!(
        (&status["replicas"], &status["terminatingReplicas"]),
        (&json!(2), &json!(1))
    );
    fixture.cluster.finish_pod_deletions();
    fixture.settle();
    assert_eq!(fixture.workload()["status"]["terminatingReplicas"], 0);
}

#[test]
fn crowding_counts_the_pods_of_sibling_replica_sets() {
    let fixture = Fixture::new(2);
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d-uid", "controller": true}]);
    fixture.change(|web| web["metadata"]["ownerReferences"] = owner.clone());
    let mut sibling = replica_set(1);
    sibling["metadata"]["name"] = json!("old");
    sibling["metadata"]["ownerReferences"] = owner;
    let sibling = fixture.cluster.add(&REPLICA_SETS, sibling);
    let mut theirs = orphan("old-1");
    theirs["spec"]["nodeName"] = json!("b");
    theirs["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "old", "uid": sibling.uid(), "controller": true}]);
    fixture.cluster.add(&PODS, theirs);
    fixture.settle();
    fixture.make_ready();
    let mine: Vec<_> = fixture
        .pods()
        .into_iter()
        .filter(|pod| pod.is_controlled_by(fixture.workload().uid()))
        .collect();
    for (pod, node) in mine.iter().zip(["a", "b"]) {
        fixture.pod(pod.name(), |pod| pod["spec"]["nodeName"] = json!(node));
    }
    fixture.change(|web| web["spec"]["replicas"] = json!(1));
    fixture.settle();
    let deleting: Vec<_> = fixture
        .pods()
        .into_iter()
        .filter(|pod| pod.is_deleting())
        .collect();
    assert_eq!(deleting.len(), 1);
    assert_eq!(deleting[0]["spec"]["nodeName"], "b");
}

#[test]
fn adopts_matching_orphans_and_counts_them() {
    let fixture = Fixture::new(2);
    fixture.cluster.add(&PODS, orphan("lone"));
    fixture.settle();
    let pods = fixture.pods();
    assert_eq!(pods.len(), 2);
    assert!(
        pods.iter()
            .all(|pod| pod.is_controlled_by(fixture.workload().uid()))
    );
    // The adopted pod lacks a label of the template.
    assert_eq!(fixture.workload()["status"]["fullyLabeledReplicas"], 1);
}

#[test]
fn leaves_alone_what_is_not_its_own() {
    let fixture = Fixture::new(0);
    let mut theirs = orphan("theirs");
    theirs["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "other", "controller": true}]);
    fixture.cluster.add(&PODS, theirs);
    let mut unrelated = orphan("unrelated");
    unrelated["metadata"]["labels"] = json!({"app": "db"});
    fixture.cluster.add(&PODS, unrelated);
    let mut elsewhere = orphan("elsewhere");
    elsewhere["metadata"]["namespace"] = json!("other");
    fixture.cluster.add(&PODS, elsewhere);
    fixture.settle();
    assert_eq!(
        fixture.verbs(),
        [("patch", "replicasets/status".to_owned())]
    );
}

#[test]
fn releases_a_pod_that_no_longer_matches_and_replaces_it() {
    let fixture = Fixture::new(1);
    fixture.settle();
    let name = fixture.pods()[0].name().to_owned();
    fixture.pod(&name, |pod| {
        pod["metadata"]["labels"] = json!({"app": "debug"})
    });
    fixture.settle();
    assert_eq!(fixture.pods().len(), 2);
    let released = fixture.cluster.object(&PODS, "ns", &name).unwrap();
    assert!(released.controller().is_none() && !released.is_deleting());
}

#[test]
fn a_stale_cache_does_not_make_it_adopt_for_a_workload_that_is_going() {
    let fixture = Fixture::new(0);
    fixture.cluster.add(&PODS, orphan("lone"));
    fixture.change(|web| web["metadata"]["finalizers"] = json!(["example.com/hold"]));
    fixture.cluster.freeze_cache();
    let options = DeleteOptions::default();
    let deleted = fixture.cluster.delete(&REPLICA_SETS, "ns", "web", &options);
    assert_eq!(deleted, Ok(()));
    fixture.cluster.take_actions();
    let context = Context {
        cluster: &fixture.cluster,
        config: &json!({}),
    };
    let outcome = Replicas(Kind::ReplicaSet).reconcile(&context, &Key::new("ns", "web"));
    assert_eq!(outcome, Ok(Outcome::Done));
    assert_eq!(
        fixture.verbs(),
        [("patch", "replicasets/status".to_owned())]
    );
}

#[test]
fn finished_pods_are_replaced_and_not_counted() {
    let fixture = Fixture::new(1);
    fixture.settle();
    let name = fixture.pods()[0].name().to_owned();
    fixture.pod(&name, |pod| pod["status"] = json!({"phase": "Failed"}));
    fixture.settle();
    assert_eq!(fixture.pods().len(), 2);
    assert_eq!(fixture.workload()["status"]["replicas"], 1);
}

#[test]
fn a_refused_create_is_reported_retried_and_forgotten() {
    let fixture = Fixture::new(4);
    let refusal = Refusal::new(403, "Forbidden", "exceeded quota");
    fixture.cluster.fail_next("create", &PODS, refusal);
    let context = Context {
        cluster: &fixture.cluster,
        config: &json!({}),
    };
    let error = Replicas(Kind::ReplicaSet)
        .reconcile(&context, &Key::new("ns", "web"))
        .unwrap_err();
    assert!(error.to_string().contains("exceeded quota"));
    assert!(fixture.pods().is_empty(), "the first batch is one pod");
    assert_eq!(
        fixture.reasons(),
        ["FailedCreate Error creating: exceeded quota"]
    );
    let condition = fixture.workload()["status"]["conditions"][0].clone();
    assert_eq!(
        (
            &condition["type"],
            &condition["status"],
            &condition["reason"],
            &condition["message"]
        ),
        (
            &json!("ReplicaFailure"),
            &json!("True"),
            &json!("FailedCreate"),
            &json!("exceeded quota")
        )
    );
    fixture.settle();
    assert_eq!(fixture.pods().len(), 4);
    assert!(fixture.workload()["status"]["conditions"].is_null());
}

#[test]
fn a_terminating_namespace_is_no_failure() {
    let fixture = Fixture::new(4);
    let message = "pods \"web-\" is forbidden: unable to create new content in namespace ns because it is being terminated";
    fixture
        .cluster
        .fail_next("create", &PODS, Refusal::new(403, "Forbidden", message));
    let context = Context {
        cluster: &fixture.cluster,
        config: &json!({}),
    };
    let outcome = Replicas(Kind::ReplicaSet).reconcile(&context, &Key::new("ns", "web"));
    assert_eq!(outcome, Ok(Outcome::Done));
    assert_eq!(fixture.reasons(), [] as [String; 0]);
    assert!(fixture.workload()["status"]["conditions"].is_null());
}

#[test]
fn a_conflict_on_the_way_changes_nothing_about_the_end() {
    let fixture = Fixture::new(2);
    fixture.cluster.add(&PODS, orphan("lone"));
    let conflict = || Refusal::new(409, "Conflict", "the object has been modified");
    fixture.cluster.fail_next("patch", &PODS, conflict());
    fixture
        .cluster
        .fail_next("patch", &REPLICA_SETS, conflict());
    let settled = fixture.settle();
    assert_eq!(settled.errors.len(), 2);
    assert_eq!(fixture.pods().len(), 2);
    assert_eq!(fixture.workload()["status"]["replicas"], 2);
}

#[test]
fn waits_for_min_ready_seconds() {
    let fixture = Fixture::new(1);
    fixture.change(|web| web["spec"]["minReadySeconds"] = json!(30));
    fixture.settle();
    fixture.make_ready();
    assert_eq!(fixture.settle().requeue_after_ms, Some(30_000));
    let status = fixture.workload()["status"].clone();
    assert_eq!(
        (&status["readyReplicas"], &status["availableReplicas"]),
        (&json!(1), &Value::Null)
    );
    fixture.cluster.advance_ms(30_000);
    assert_eq!(fixture.settle().requeue_after_ms, None);
    assert_eq!(fixture.workload()["status"]["availableReplicas"], 1);
}

#[test]
fn a_reconcile_of_five_pods_is_few_calls() {
    let fixture = Fixture::new(5);
    fixture.settle();
    fixture.cluster.take_actions();
    fixture.make_ready();
    fixture.settle();
    assert_eq!(
        fixture.verbs(),
        [("patch", "replicasets/status".to_owned())]
    );
}

#[test]
fn a_replication_controller_selects_by_a_map() {
    let cluster = FakeCluster::new();
    let mut controller = replica_set(2);
    controller["apiVersion"] = json!("v1");
    controller["kind"] = json!("ReplicationController");
    controller["spec"]["selector"] = json!({"app": "web"});
    cluster.add(&REPLICATION_CONTROLLERS, controller);
    let fixture = Fixture {
        cluster,
        kind: Kind::ReplicationController,
    };
    fixture.cluster.add(&PODS, orphan("lone"));
    fixture.settle();
    let pods = fixture.pods();
    assert_eq!(pods.len(), 2);
    let owner = pods[0].controller().unwrap();
    assert_eq!(
        (&*owner.api_version, &*owner.kind),
        ("v1", "ReplicationController")
    );
    let status = fixture.workload()["status"].clone();
    assert_eq!(
        status,
        json!({"replicas": 2, "fullyLabeledReplicas": 1, "observedGeneration": 1})
    );
}

#[test]
fn a_missing_workload_is_nothing_to_do() {
    let cluster = FakeCluster::new();
    cluster.add(&NODES, json!({"metadata": {"name": "n"}}));
    let settled = settle(
        &Replicas(Kind::ReplicaSet),
        &cluster,
        &json!({}),
        &Key::new("ns", "web"),
        1,
    );
    assert_eq!(settled.requeue_after_ms, None);
}

/// The server takes what the manifest grants and nothing else, so every call above must be covered by it.
#[test]
fn the_manifest_names_both_controllers() {
    let manifest = serde_json::to_value(crate::manifest()).unwrap();
    let names: Vec<_> = manifest["plugins"]
        .as_array()
        .unwrap()
        .iter()
        .map(|plugin| &plugin["name"])
        .collect();
    assert_eq!(names, ["replicaset-controller", "replication-controller"]);
}
