use pilothouse_sdk::{
    cluster::Status as Refusal,
    controller::ObjectExt,
    testing::{FakeCluster, Settled, settle},
};

use super::*;

struct Fixture {
    cluster: FakeCluster,
}

impl Fixture {
    /// The Service `web` on port 80 and a node `n` in zone `z`.
    fn new(spec: Value) -> Self {
        let cluster = FakeCluster::new();
        let mut all = json!({
            "type": "ClusterIP", "clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"],
            "selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        });
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        cluster.add(&SERVICES, json!({"metadata": {"name": "web", "namespace": "ns", "labels": {"team": "a"}}, "spec": all}));
        cluster.add(
            &NODES,
            json!({"metadata": {"name": "n", "labels": {ZONE: "z"}}}),
        );
        Self { cluster }
    }

    fn add_pods(&self, numbers: std::ops::Range<usize>) {
        for number in numbers {
            self.cluster.add(&PODS, json!({
                "metadata": {"name": format!("p{number}"), "namespace": "ns", "labels": {"app": "web"}},
                "spec": {"nodeName": "n"},
                "status": {
                    "phase": "Running",
                    "podIPs": [{"ip": format!("10.0.{}.{}", number / 250, number % 250 + 1)}, {"ip": format!("fd00::{number:x}")}],
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                },
            }));
        }
    }

    fn settle(&self) -> Settled {
        settle(
            &EndpointSlices,
            &self.cluster,
            &json!({}),
            &Key::new("ns", "web"),
            10,
        )
    }

    fn slices(&self) -> Vec<Value> {
        self.cluster.objects(&ENDPOINT_SLICES, "ns")
    }

    fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<_> = self
            .slices()
            .iter()
            .map(|slice| slice.list_at("/endpoints").len())
            .collect();
        sizes.sort_unstable();
        sizes
    }

    fn verbs(&self) -> Vec<&'static str> {
        self.cluster
            .take_actions()
            .iter()
            .map(|action| action.verb)
            .collect()
    }

    fn change(
        &self,
        of: &pilothouse_sdk::cluster::Resource,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) {
        let mut object = self.cluster.object(of, "ns", name).unwrap();
        change(&mut object);
        self.cluster.set(of, object);
    }
}

#[test]
fn a_slice_as_kubernetes_writes_it() {
    let fixture = Fixture::new(json!({}));
    fixture.add_pods(0..1);
    fixture.settle();
    let [slice] = &fixture.slices()[..] else {
        panic!("one slice")
    };
    assert!(slice.name().starts_with("web-"));
    assert_eq!(
        slice["metadata"]["labels"],
        json!({
            "team": "a",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        })
    );
    let service = fixture.cluster.object(&SERVICES, "ns", "web").unwrap();
    assert!(slice.is_controlled_by(service.uid()));
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(
        slice["ports"],
        json!([{"name": "http", "protocol": "TCP", "port": 8080}])
    );
    let pod = fixture.cluster.object(&PODS, "ns", "p0").unwrap();
    assert_eq!(
        slice["endpoints"],
        json!([{
            "addresses": ["10.0.0.1"],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "n",
            "zone": "z",
            "targetRef": {"kind": "Pod", "namespace": "ns", "name": "p0", "uid": pod.uid()},
        }])
    );
    assert_eq!(
        slice.annotation("endpoints.kubernetes.io/last-change-trigger-time"),
        Some("2026-01-01T00:00:00Z")
    );
}

#[test]
fn a_second_reconcile_writes_nothing() {
    let fixture = Fixture::new(json!({"clusterIP": "None", "ipFamilies": ["IPv4", "IPv6"]}));
    fixture.add_pods(0..3);
    fixture.settle();
    fixture.verbs();
    assert_eq!(fixture.settle().rounds, 1);
    assert_eq!(fixture.verbs(), [] as [&str; 0]);
}

#[test]
fn slices_are_of_a_hundred_and_follow_the_pods() {
    let fixture = Fixture::new(json!({}));
    fixture.settle();
    assert_eq!(fixture.sizes(), [0]);
    fixture.add_pods(0..230);
    fixture.settle();
    assert_eq!(fixture.sizes(), [30, 100, 100]);
    fixture.verbs();
    fixture.change(&PODS, "p7", |pod| {
        pod["status"]["conditions"][0]["status"] = json!("False")
    });
    fixture.settle();
    assert_eq!(fixture.verbs(), ["patch"]);
    for number in 0..230 {
        fixture.cluster.remove(&PODS, "ns", &format!("p{number}"));
    }
    fixture.settle();
    assert_eq!(fixture.sizes(), [0]);
}

#[test]
fn a_dual_stack_service_has_slices_of_each_family() {
    let fixture = Fixture::new(json!({"ipFamilies": ["IPv4", "IPv6"]}));
    fixture.add_pods(0..2);
    fixture.settle();
    let mut types: Vec<_> = fixture
        .slices()
        .iter()
        .map(|slice| slice["addressType"].clone())
        .collect();
    types.sort_by_key(Value::to_string);
    assert_eq!(types, [json!("IPv4"), json!("IPv6")]);
    fixture.change(&SERVICES, "web", |service| {
        service["spec"]["ipFamilies"] = json!(["IPv6"])
    });
    fixture.settle();
    let [slice] = &fixture.slices()[..] else {
        panic!("one slice")
    };
    assert_eq!(slice["addressType"], "IPv6");
}

#[test]
fn labels_follow_the_service() {
    let fixture = Fixture::new(json!({}));
    fixture.add_pods(0..1);
    fixture.settle();
    fixture.change(&SERVICES, "web", |service| {
        service["metadata"]["labels"] =
            json!({"stage": "prod", "kubernetes.io/service-name": "lie"});
        service["spec"]["clusterIP"] = json!("None");
    });
    fixture.settle();
    let slice = &fixture.slices()[0];
    assert_eq!(
        (slice.label("team"), slice.label("stage")),
        (None, Some("prod"))
    );
    assert_eq!(slice.label("kubernetes.io/service-name"), Some("web"));
    assert_eq!(slice.label("service.kubernetes.io/headless"), Some(""));
}

#[test]
fn leaves_alone_what_others_manage() {
    for spec in [
        json!({"selector": null}),
        json!({"selector": {}}),
        json!({"type": "ExternalName"}),
    ] {
        let fixture = Fixture::new(spec);
        fixture.add_pods(0..1);
        fixture.settle();
        assert!(fixture.slices().is_empty());
    }
    let fixture = Fixture::new(json!({}));
    let theirs = json!({
        "metadata": {"name": "theirs", "namespace": "ns", "labels": {SERVICE_NAME: "web", MANAGED_BY: "me"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.9.9.9"]}],
    });
    fixture.cluster.add(&ENDPOINT_SLICES, theirs);
    fixture.add_pods(0..1);
    fixture.settle();
    assert_eq!(fixture.sizes(), [1, 1]);
    assert!(
        fixture
            .cluster
            .object(&ENDPOINT_SLICES, "ns", "theirs")
            .is_some()
    );
}

#[test]
fn a_slice_of_an_earlier_service_of_the_name_is_replaced() {
    let fixture = Fixture::new(json!({}));
    let labels = json!({SERVICE_NAME: "web", MANAGED_BY: MANAGER});
    let owner = json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "earlier", "controller": true}]);
    fixture.cluster.add(&ENDPOINT_SLICES, json!({
        "metadata": {"name": "web-old", "namespace": "ns", "labels": labels, "ownerReferences": owner},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.9.9.9"]}],
    }));
    fixture.add_pods(0..1);
    fixture.settle();
    assert!(
        fixture
            .cluster
            .object(&ENDPOINT_SLICES, "ns", "web-old")
            .is_none()
    );
    assert_eq!(fixture.sizes(), [1]);
}

#[test]
fn a_pod_on_an_unknown_node_is_left_out_until_the_node_is_seen() {
    let fixture = Fixture::new(json!({}));
    fixture.add_pods(0..2);
    fixture.change(&PODS, "p1", |pod| pod["spec"]["nodeName"] = json!("later"));
    let context = Context {
        cluster: &fixture.cluster,
        config: &json!({}),
    };
    assert!(
        EndpointSlices
            .reconcile(&context, &Key::new("ns", "web"))
            .is_err()
    );
    assert_eq!(fixture.sizes(), [1]);
    fixture
        .cluster
        .add(&NODES, json!({"metadata": {"name": "later"}}));
    fixture.settle();
    assert_eq!(fixture.sizes(), [2]);
}

#[test]
fn conflicts_are_retried() {
    let fixture = Fixture::new(json!({}));
    fixture.settle();
    fixture.add_pods(0..1);
    fixture.cluster.fail_next(
        "patch",
        &ENDPOINT_SLICES,
        Refusal::new(409, "Conflict", "modified"),
    );
    assert_eq!(fixture.settle().errors.len(), 1);
    assert_eq!(fixture.sizes(), [1]);
}
