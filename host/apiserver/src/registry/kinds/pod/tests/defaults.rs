use serde_json::json;

use super::base;
use crate::registry::{
    kinds::{
        pod::PodStrategy,
        testing::{created, defaulted, json, object, with},
    },
    strategy::Strategy,
};

#[test]
fn a_minimal_pod() {
    assert_eq!(
        json(&created(&PodStrategy, &base())),
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "containers": [{
                    "name": "nginx",
                    "image": "nginx",
                    "imagePullPolicy": "Always",
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst",
                "enableServiceLinks": true,
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30,
            },
            "status": {"phase": "Pending", "qosClass": "BestEffort"},
        })
    );
}

#[test]
fn defaulting_twice_changes_nothing() {
    let full = with(
        &base(),
        &[
            (
                "/spec/containers/0/livenessProbe",
                json!({"httpGet": {"port": 80}}),
            ),
            (
                "/spec/containers/0/resources/limits",
                json!({"cpu": "0.5", "memory": "1024Mi"}),
            ),
            (
                "/spec/volumes",
                json!([{"name": "v"}, {"name": "s", "secret": {"secretName": "s"}}]),
            ),
        ],
    );
    let once = defaulted(&PodStrategy, &full);
    let mut twice = once.clone();
    PodStrategy.default(&mut twice);
    assert_eq!(once, twice);
}

#[test]
fn a_create_wipes_the_status_and_says_what_gates() {
    let pod = with(
        &base(),
        &[
            ("/status", json!({"phase": "Running", "podIP": "10.0.0.1"})),
            (
                "/spec/schedulingGates",
                json!([{"name": "example.com/wait"}]),
            ),
        ],
    );
    assert_eq!(
        json(&created(&PodStrategy, &pod))["status"],
        json!({
            "phase": "Pending",
            "qosClass": "BestEffort",
            "conditions": [{
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }],
        })
    );
}

#[test]
fn pull_policies() {
    for (image, policy) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("registry.example.com:5000/nginx", "Always"),
        ("registry.example.com:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:0123", "IfNotPresent"),
        ("nginx:latest@sha256:0123", "Always"),
    ] {
        let pod = with(&base(), &[("/spec/containers/0/image", json!(image))]);
        let filled = json(&defaulted(&PodStrategy, &pod));
        assert_eq!(
            filled["spec"]["containers"][0]["imagePullPolicy"], policy,
            "{image}"
        );
    }
}

#[test]
fn fields_of_containers_and_volumes() {
    for (pointer, given, filled) in [
        (
            "/spec/containers/0/livenessProbe",
            json!({"httpGet": {"port": 80}, "initialDelaySeconds": 3}),
            json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "initialDelaySeconds": 3, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}),
        ),
        (
            "/spec/containers/0/readinessProbe",
            json!({"grpc": {"port": 80}}),
            json!({"grpc": {"port": 80, "service": ""}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}),
        ),
        (
            "/spec/containers/0/lifecycle",
            json!({"preStop": {"httpGet": {"port": "http"}}}),
            json!({"preStop": {"httpGet": {"path": "/", "port": "http", "scheme": "HTTP"}}}),
        ),
        (
            "/spec/containers/0/ports",
            json!([{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]),
            json!([{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]),
        ),
        (
            "/spec/containers/0/env",
            json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            json!([{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}]),
        ),
        (
            "/spec/containers/0/resources",
            json!({"limits": {"cpu": "0.5", "memory": "1024Mi"}, "requests": {"cpu": "250m"}}),
            json!({"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "250m", "memory": "1Gi"}}),
        ),
        (
            "/spec/volumes",
            json!([{"name": "v"}]),
            json!([{"name": "v", "emptyDir": {}}]),
        ),
        (
            "/spec/volumes",
            json!([{"name": "v", "configMap": {"name": "c"}}]),
            json!([{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}]),
        ),
        (
            "/spec/volumes",
            json!([{"name": "v", "hostPath": {"path": "/x"}}]),
            json!([{"name": "v", "hostPath": {"path": "/x", "type": ""}}]),
        ),
        (
            "/spec/volumes",
            json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]),
            json!([{"name": "v", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}}]),
        ),
    ] {
        let pod = with(&base(), &[(pointer, given)]);
        let got = json(&defaulted(&PodStrategy, &pod));
        assert_eq!(got.pointer(pointer), Some(&filled), "{pointer}");
    }
}

#[test]
fn the_nodes_network_makes_ports_the_nodes() {
    let ports = json!([{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]);
    let pod = with(
        &base(),
        &[
            ("/spec/hostNetwork", json!(true)),
            ("/spec/containers/0/ports", ports),
        ],
    );
    let filled = json(&defaulted(&PodStrategy, &pod));
    let ports = &filled["spec"]["containers"][0]["ports"];
    assert_eq!(
        (&ports[0]["hostPort"], &ports[1]["hostPort"]),
        (&json!(80), &json!(8081))
    );
}

#[test]
fn the_old_name_of_the_service_account_follows_the_new_one() {
    for (old, new, both) in [
        (json!("a"), json!(null), json!("a")),
        (json!(null), json!("b"), json!("b")),
        (json!("a"), json!("b"), json!("b")),
    ] {
        let pod = with(
            &base(),
            &[
                ("/spec/serviceAccount", old),
                ("/spec/serviceAccountName", new),
            ],
        );
        let filled = json(&defaulted(&PodStrategy, &pod));
        assert_eq!(filled["spec"]["serviceAccount"], both);
        assert_eq!(filled["spec"]["serviceAccountName"], both);
    }
}

#[test]
fn requests_of_the_pod_as_a_whole() {
    for (limits, container, init, requests) in [
        (
            json!({"cpu": "2"}),
            json!({}),
            json!({}),
            json!({"cpu": "2"}),
        ),
        (
            json!({"cpu": "2", "memory": "1Gi"}),
            json!({"cpu": "500m"}),
            json!({}),
            json!({"cpu": "500m", "memory": "1Gi"}),
        ),
        (
            json!({"cpu": "2"}),
            json!({"cpu": "500m"}),
            json!({"cpu": "1500m"}),
            json!({"cpu": "1500m"}),
        ),
    ] {
        let pod = with(
            &base(),
            &[
                ("/spec/resources/limits", limits),
                ("/spec/containers/0/resources/requests", container),
                (
                    "/spec/initContainers",
                    json!([{"name": "init", "image": "i", "resources": {"requests": init}}]),
                ),
            ],
        );
        let filled = json(&defaulted(&PodStrategy, &pod));
        assert_eq!(filled["spec"]["resources"]["requests"], requests);
    }
}

#[test]
fn quality_of_service() {
    let resources = |requests, limits| json!({"requests": requests, "limits": limits});
    let both = json!({"cpu": "1", "memory": "1Gi"});
    for (first, second, class) in [
        (json!({}), json!({}), "BestEffort"),
        (
            resources(json!({"cpu": "0"}), json!({})),
            json!({}),
            "BestEffort",
        ),
        (
            resources(json!({"cpu": "1"}), json!({})),
            json!({}),
            "Burstable",
        ),
        (
            resources(both.clone(), both.clone()),
            json!({}),
            "Burstable",
        ),
        (
            resources(both.clone(), both.clone()),
            resources(json!({}), both.clone()),
            "Guaranteed",
        ),
        (
            resources(json!({"cpu": "1"}), both.clone()),
            resources(both.clone(), both.clone()),
            "Guaranteed",
        ),
        (
            resources(json!({"cpu": "500m"}), both.clone()),
            resources(both.clone(), both),
            "Burstable",
        ),
    ] {
        let pod = with(
            &base(),
            &[
                ("/spec/containers/0/resources", first),
                (
                    "/spec/containers/-",
                    json!({"name": "second", "image": "i", "resources": second}),
                ),
            ],
        );
        assert_eq!(
            json(&created(&PodStrategy, &pod))["status"]["qosClass"],
            class
        );
    }
}

#[test]
fn label_keys_are_written_into_selectors_once() {
    let constraint = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["hash", "absent"]}]);
    let pod = with(
        &base(),
        &[
            ("/metadata/labels", json!({"app": "web", "hash": "1"})),
            ("/spec/topologySpreadConstraints", constraint),
        ],
    );
    let created = created(&PodStrategy, &pod);
    assert_eq!(
        json(&created)["spec"]["topologySpreadConstraints"][0]["labelSelector"],
        json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "hash", "operator": "In", "values": ["1"]}]})
    );
    assert_eq!(PodStrategy.validate(&created), Vec::new());
    assert_eq!(PodStrategy.validate_update(&created, &created), Vec::new());
}

#[test]
fn deletion_grace() {
    let scheduled = with(
        &base(),
        &[
            ("/spec/nodeName", json!("n")),
            ("/spec/terminationGracePeriodSeconds", json!(20)),
        ],
    );
    let phase = |phase: &str| with(&scheduled, &[("/status/phase", json!(phase))]);
    for (pod, asked, grace) in [
        (base(), None, 0),
        (base(), Some(30), 0),
        (scheduled.clone(), None, 20),
        (scheduled.clone(), Some(5), 5),
        (scheduled.clone(), Some(0), 0),
        (scheduled.clone(), Some(-7), 1),
        (phase("Running"), None, 20),
        (phase("Succeeded"), None, 0),
        (phase("Failed"), Some(30), 0),
    ] {
        assert_eq!(
            PodStrategy.deletion_grace_seconds(&object(&pod), asked),
            Some(grace),
            "{pod} {asked:?}"
        );
    }
}
