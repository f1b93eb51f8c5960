use pilothouse_sdk::{
    Value,
    cluster::Status as Refusal,
    controller::ObjectExt,
    testing::{FakeCluster, Settled, settle},
};
use serde_json::json;

use super::*;

/// A Deployment `web` in a cluster where the test plays the ReplicaSet controller.
struct Fixture {
    cluster: FakeCluster,
}

impl Fixture {
    fn new(spec: Value) -> Self {
        let cluster = FakeCluster::new();
        let mut all = json!({
            "replicas": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("v1"),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
        });
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        cluster.add(&DEPLOYMENTS, json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "ns", "generation": 1,
                "annotations": {"kubernetes.io/change-cause": "first", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            },
            "spec": all,
        }));
        Self { cluster }
    }

    /// Deployed and complete.
    fn complete(spec: Value) -> Self {
        let fixture = Self::new(spec);
        fixture.finish();
        fixture.cluster.take_events();
        fixture
    }

    fn settle(&self) -> Settled {
        settle(
            &Deployments,
            &self.cluster,
            &json!({}),
            &Key::new("ns", "web"),
            20,
        )
    }

    fn deployment(&self) -> Value {
        self.cluster.object(&DEPLOYMENTS, "ns", "web").unwrap()
    }

    fn status(&self) -> Value {
        self.deployment()["status"].clone()
    }

    fn reason(&self, kind: &str) -> String {
        let status = self.status();
        let conditions = status["conditions"].as_array().unwrap();
        let condition = conditions
            .iter()
            .find(|condition| condition["type"] == kind);
        condition
            .map_or("", |condition| condition["reason"].as_str().unwrap())
            .to_owned()
    }

    /// Changes the spec as a user would.
    fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut deployment = self.deployment();
        change(&mut deployment["spec"]);
        deployment["metadata"]["generation"] = json!(deployment.generation() + 1);
        self.cluster.set(&DEPLOYMENTS, deployment);
    }

    /// Oldest first.
    fn sets(&self) -> Vec<Value> {
        let mut sets = self.cluster.objects(&REPLICA_SETS, "ns");
        sets.sort_by_key(|set| set.creation_timestamp().to_owned());
        sets
    }

    fn set_of(&self, image: &str) -> Value {
        let mut sets = self.sets().into_iter();
        sets.find(|set| set["spec"]["template"]["spec"]["containers"][0]["image"] == image)
            .unwrap()
    }

    fn sizes(&self) -> Vec<i64> {
        self.sets()
            .iter()
            .map(|set| set.int_at("/spec/replicas").unwrap())
            .collect()
    }

    /// What the ReplicaSet controller and the nodes do to one set: it has so many pods, of which so many are available.
    fn play(&self, set: &Value, running: i64, available: i64) {
        let mut set = set.clone();
        set["status"] = json!({
            "replicas": running, "readyReplicas": available, "availableReplicas": available,
            "terminatingReplicas": 0, "observedGeneration": set.generation(),
        });
        self.cluster.set(&REPLICA_SETS, set);
    }

    /// Every ReplicaSet gets what it asks for.
    fn play_all(&self) {
        for set in self.sets() {
            let size = set.int_at("/spec/replicas").unwrap();
            self.play(&set, size, size);
        }
    }

    /// Alternates the two controllers until the Deployment says it is complete.
    fn finish(&self) {
        for _ in 0..30 {
            self.cluster.advance_ms(1000);
            self.settle();
            self.play_all();
            self.check_bounds();
            self.settle();
            if self.reason("Progressing") == "NewReplicaSetAvailable" && self.is_complete() {
                return;
            }
        }
        panic!("never complete: {}", self.status());
    }

    fn is_complete(&self) -> bool {
        let deployment: Deployment = serde_json::from_value(self.deployment()).unwrap();
        deployment.is_complete(&deployment.status)
    }

    /// Not above replicas and surge.
    fn check_bounds(&self) {
        let deployment: Deployment = serde_json::from_value(self.deployment()).unwrap();
        let bounds = Bounds::of(&deployment);
        let total: i64 = self.sizes().iter().sum();
        assert!(
            total <= i64::from(bounds.max_replicas()),
            "{:?}",
            self.sizes()
        );
        assert!(
            deployment.is_recreate() || total >= i64::from(bounds.min_available()),
            "{:?}",
            self.sizes()
        );
    }

    fn notes(&self) -> Vec<String> {
        self.cluster
            .take_events()
            .into_iter()
            .map(|event| event.note)
            .collect()
    }
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

#[test]
fn the_first_replica_set() {
    let fixture = Fixture::new(json!({"replicas": 3, "minReadySeconds": 5}));
    fixture.settle();
    let [set] = &fixture.sets()[..] else {
        panic!("one ReplicaSet")
    };
    let hash = set.label("pod-template-hash").unwrap();
    assert_eq!(set.name(), format!("web-{hash}"));
    assert_eq!(
        set["spec"]["selector"],
        json!({"matchLabels": {"app": "web", "pod-template-hash": hash}})
    );
    assert_eq!(
        set["spec"]["template"]["metadata"]["labels"],
        json!({"app": "web", "pod-template-hash": hash})
    );
    assert_eq!(
        (&set["spec"]["replicas"], &set["spec"]["minReadySeconds"]),
        (&json!(3), &json!(5))
    );
    assert!(set.is_controlled_by(fixture.deployment().uid()));
    assert_eq!(
        set["metadata"]["annotations"],
        json!({
            "deployment.kubernetes.io/revision": "1",
            "deployment.kubernetes.io/desired-replicas": "3",
            "deployment.kubernetes.io/max-replicas": "4",
            "kubernetes.io/change-cause": "first",
        })
    );
    assert_eq!(
        fixture
            .deployment()
            .annotation("deployment.kubernetes.io/revision"),
        Some("1")
    );
    assert_eq!(fixture.reason("Progressing"), "NewReplicaSetCreated");
    assert_eq!(fixture.reason("Available"), "MinimumReplicasUnavailable");
    assert_eq!(
        fixture.notes(),
        [format!("Scaled up replica set web-{hash} from 0 to 3")]
    );
    fixture.finish();
    assert_eq!(fixture.reason("Available"), "MinimumReplicasAvailable");
    let status = fixture.status();
    assert!(status["unavailableReplicas"].is_null());
    assert_eq!(status["readyReplicas"], 3);
}

#[test]
fn a_second_reconcile_writes_nothing() {
    let fixture = Fixture::complete(json!({}));
    fixture.cluster.take_actions();
    assert_eq!(
        fixture.settle(),
        Settled {
            rounds: 1,
            errors: vec![],
            requeue_after_ms: None
        }
    );
    assert_eq!(fixture.cluster.take_actions(), []);
}

#[test]
fn a_rolling_update_moves_within_its_bounds_to_the_new_template() {
    for (surge, unavailable) in [
        (json!("25%"), json!("25%")),
        (json!(0), json!(1)),
        (json!(1), json!(0)),
        (json!("100%"), json!("100%")),
    ] {
        let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        let fixture = Fixture::complete(json!({"strategy": {"rollingUpdate": rolling}}));
        fixture.change(|spec| spec["template"] = template("v2"));
        fixture.finish();
        assert_eq!(fixture.sizes(), [0, 10]);
        assert_eq!(
            fixture
                .set_of("v2")
                .annotation("deployment.kubernetes.io/revision"),
            Some("2")
        );
    }
}

#[test]
fn the_steps_of_a_rolling_update_are_told_in_events() {
    let fixture = Fixture::complete(json!({}));
    let v1 = fixture.sets()[0].name().to_owned();
    fixture.cluster.advance_ms(1000);
    fixture.change(|spec| spec["template"] = template("v2"));
    fixture.settle();
    let v2 = fixture.set_of("v2").name().to_owned();
    assert_eq!(
        fixture.notes(),
        [
            format!("Scaled up replica set {v2} from 0 to 3"),
            format!("Scaled down replica set {v1} from 10 to 8"),
            format!("Scaled up replica set {v2} from 3 to 5"),
        ]
    );
    assert_eq!(fixture.sizes(), [8, 5]);
    assert_eq!(fixture.settle().requeue_after_ms, Some(601_000));
}

#[test]
fn undoing_a_rollout_reuses_the_old_replica_set_under_a_new_revision() {
    let fixture = Fixture::complete(json!({}));
    fixture.change(|spec| spec["template"] = template("v2"));
    fixture.finish();
    fixture.change(|spec| spec["template"] = template("v1"));
    fixture.finish();
    assert_eq!(fixture.sizes(), [10, 0]);
    let old = fixture.set_of("v1");
    assert_eq!(
        old.annotation("deployment.kubernetes.io/revision"),
        Some("3")
    );
    assert_eq!(
        old.annotation("deployment.kubernetes.io/revision-history"),
        Some("1")
    );
    assert_eq!(
        fixture
            .deployment()
            .annotation("deployment.kubernetes.io/revision"),
        Some("3")
    );
}

#[test]
fn a_paused_deployment_scales_and_does_not_roll_out() {
    let fixture = Fixture::complete(json!({}));
    fixture.change(|spec| {
        spec["paused"] = json!(true);
        spec["template"] = template("v2");
        spec["replicas"] = json!(4);
    });
    assert_eq!(fixture.settle().requeue_after_ms, None);
    assert_eq!(fixture.sizes(), [4]);
    assert_eq!(fixture.reason("Progressing"), "DeploymentPaused");
    fixture.change(|spec| spec["paused"] = json!(false));
    fixture.settle();
    assert_eq!(fixture.sizes().len(), 2);
    fixture.finish();
    assert_eq!(fixture.sizes(), [0, 4]);
}

#[test]
fn scaling_in_the_middle_of_a_rollout_keeps_the_proportion() {
    let fixture = Fixture::complete(
        json!({"strategy": {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}}),
    );
    fixture.cluster.advance_ms(1000);
    fixture.change(|spec| spec["template"] = template("v2"));
    fixture.settle();
    assert_eq!(fixture.sizes(), [8, 5]);
    fixture.play(&fixture.set_of("v1"), 8, 8);
    fixture.play(&fixture.set_of("v2"), 5, 0);
    fixture.change(|spec| spec["replicas"] = json!(15));
    fixture.settle();
    assert_eq!(fixture.sizes(), [11, 7]);
    for set in fixture.sets() {
        assert_eq!(
            set.annotation("deployment.kubernetes.io/desired-replicas"),
            Some("15")
        );
        assert_eq!(
            set.annotation("deployment.kubernetes.io/max-replicas"),
            Some("18")
        );
    }
    fixture.finish();
    assert_eq!(fixture.sizes(), [0, 15]);
}

#[test]
fn scaling_to_zero_and_back() {
    let fixture = Fixture::complete(json!({}));
    fixture.change(|spec| spec["replicas"] = json!(0));
    fixture.finish();
    assert_eq!(fixture.sizes(), [0]);
    fixture.change(|spec| spec["replicas"] = json!(2));
    fixture.finish();
    assert_eq!(fixture.sizes(), [2]);
}

#[test]
fn recreate_waits_until_the_old_pods_are_gone() {
    let fixture = Fixture::complete(json!({"replicas": 2, "strategy": {"type": "Recreate"}}));
    fixture.change(|spec| spec["template"] = template("v2"));
    fixture.settle();
    assert_eq!(fixture.sizes(), [0]);
    let mut old = fixture.sets()[0].clone();
    old["status"] =
        json!({"replicas": 0, "terminatingReplicas": 2, "observedGeneration": old.generation()});
    fixture.cluster.set(&REPLICA_SETS, old);
    fixture.settle();
    assert_eq!(fixture.sizes(), [0], "the old pods still stop");
    fixture.play_all();
    fixture.cluster.advance_ms(1000);
    fixture.settle();
    assert_eq!(fixture.sizes(), [0, 2]);
    fixture.finish();
}

#[test]
fn old_revisions_above_the_limit_are_deleted_when_the_rollout_is_complete() {
    let fixture = Fixture::complete(json!({"revisionHistoryLimit": 1}));
    for image in ["v2", "v3", "v4"] {
        fixture.change(|spec| spec["template"] = template(image));
        fixture.finish();
        fixture.settle();
    }
    let mut revisions: Vec<_> = fixture
        .sets()
        .iter()
        .map(|set| {
            set.annotation("deployment.kubernetes.io/revision")
                .unwrap()
                .to_owned()
        })
        .collect();
    revisions.sort();
    assert_eq!(revisions, ["3", "4"]);
}

#[test]
fn a_rollout_that_does_not_move_exceeds_its_deadline() {
    let fixture = Fixture::new(json!({"replicas": 1, "progressDeadlineSeconds": 60}));
    let settled = fixture.settle();
    assert_eq!(settled.requeue_after_ms, Some(61_000));
    fixture.cluster.advance_ms(61_000);
    assert_eq!(fixture.settle().requeue_after_ms, None);
    assert_eq!(fixture.reason("Progressing"), "ProgressDeadlineExceeded");
    fixture.finish();
}

#[test]
fn a_hash_collision_finds_another_name() {
    let fixture = Fixture::new(json!({}));
    let name = format!("web-{}", template::hash(&template("v1"), None));
    fixture.cluster.add(
        &REPLICA_SETS,
        json!({
            "metadata": {"name": name, "namespace": "ns", "labels": {"other": "x"}},
            "spec": {"replicas": 1, "template": template("v9")},
        }),
    );
    let settled = fixture.settle();
    assert_eq!(settled.errors.len(), 1);
    assert_eq!(fixture.status()["collisionCount"], 1);
    let second = format!("web-{}", template::hash(&template("v1"), Some(1)));
    assert!(
        fixture
            .cluster
            .object(&REPLICA_SETS, "ns", &second)
            .is_some()
    );
}

#[test]
fn a_replica_set_that_the_cache_does_not_show_yet_is_no_collision() {
    let fixture = Fixture::new(json!({}));
    fixture.cluster.freeze_cache();
    let context = Context {
        cluster: &fixture.cluster,
        config: &json!({}),
    };
    for _ in 0..2 {
        // The second run may lose a conflict, never take another name.
        let outcome = Deployments.reconcile(&context, &Key::new("ns", "web"));
        assert!(outcome.is_ok() || outcome.unwrap_err().is_conflict());
    }
    fixture.cluster.thaw();
    fixture.finish();
    assert_eq!(fixture.sets().len(), 1);
    assert!(fixture.status()["collisionCount"].is_null());
}

#[test]
fn a_failed_creation_is_reported_and_retried() {
    let fixture = Fixture::new(json!({}));
    fixture.cluster.fail_next(
        "create",
        &REPLICA_SETS,
        Refusal::new(403, "Forbidden", "no quota"),
    );
    let context = Context {
        cluster: &fixture.cluster,
        config: &json!({}),
    };
    assert!(
        Deployments
            .reconcile(&context, &Key::new("ns", "web"))
            .is_err()
    );
    assert_eq!(fixture.reason("Progressing"), "ReplicaSetCreateError");
    assert!(fixture.notes()[0].ends_with(": no quota"));
    fixture.finish();
}

#[test]
fn conflicts_on_the_way_change_nothing_about_the_end() {
    let fixture = Fixture::complete(json!({}));
    for resource in [&DEPLOYMENTS, &REPLICA_SETS, &REPLICA_SETS] {
        fixture
            .cluster
            .fail_next("patch", resource, Refusal::new(409, "Conflict", "modified"));
    }
    fixture.change(|spec| spec["template"] = template("v2"));
    fixture.finish();
    assert_eq!(fixture.sizes(), [0, 10]);
}

#[test]
fn adopts_a_matching_replica_set_of_its_template() {
    let fixture = Fixture::new(json!({"replicas": 2}));
    let mut set = json!({
        "metadata": {"name": "web-before", "namespace": "ns", "labels": {"app": "web", "pod-template-hash": "before"}},
        "spec": {"replicas": 2, "template": template("v1")},
    });
    set["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = json!("before");
    fixture.cluster.add(&REPLICA_SETS, set);
    fixture.finish();
    let [set] = &fixture.sets()[..] else {
        panic!("one ReplicaSet")
    };
    assert!(set.is_controlled_by(fixture.deployment().uid()));
    assert_eq!(
        set.annotation("deployment.kubernetes.io/revision"),
        Some("1")
    );
}

#[test]
fn an_empty_selector_is_refused_in_words() {
    let fixture = Fixture::new(json!({"selector": {}}));
    fixture.settle();
    assert_eq!(fixture.cluster.take_events()[0].reason, "SelectingAll");
    assert!(fixture.sets().is_empty());
}

#[test]
fn a_deleting_deployment_changes_no_replica_set() {
    let fixture = Fixture::complete(json!({"replicas": 2}));
    let mut deployment = fixture.deployment();
    deployment["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    deployment["spec"]["replicas"] = json!(5);
    fixture.cluster.set(&DEPLOYMENTS, deployment);
    let deleted = fixture
        .cluster
        .delete(&DEPLOYMENTS, "ns", "web", &DeleteOptions::default());
    assert_eq!(deleted, Ok(()));
    fixture.settle();
    assert_eq!(fixture.sizes(), [2]);
}

#[test]
fn annotations_and_min_ready_seconds_follow_the_deployment() {
    let fixture = Fixture::complete(json!({}));
    let mut deployment = fixture.deployment();
    deployment["metadata"]["annotations"]["kubernetes.io/change-cause"] = json!("second");
    deployment["spec"]["minReadySeconds"] = json!(7);
    fixture.cluster.set(&DEPLOYMENTS, deployment);
    fixture.settle();
    let set = &fixture.sets()[0];
    assert_eq!(set.annotation("kubernetes.io/change-cause"), Some("second"));
    assert_eq!(set["spec"]["minReadySeconds"], 7);
    assert_eq!(
        set.annotation("deployment.kubernetes.io/revision"),
        Some("1")
    );
}
