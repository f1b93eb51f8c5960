use serde_json::{Value, json};

use super::base;
use crate::registry::kinds::{
    pod::PodStrategy,
    testing::{json as encoded, object, status_errors, update_errors, with},
};
use crate::registry::strategy::Strategy;
use k8s_openapi::api::core::v1::Pod;

/// A stored pod that is scheduled.
fn stored() -> Value {
    with(
        &base(),
        &[
            ("/spec/nodeName", json!("n")),
            ("/spec/containers/0/image", json!("nginx:1")),
            ("/spec/activeDeadlineSeconds", json!(100)),
            (
                "/spec/tolerations",
                json!([{"key": "a", "operator": "Exists"}]),
            ),
            (
                "/status",
                json!({"phase": "Running", "qosClass": "BestEffort"}),
            ),
        ],
    )
}

const NOT_OTHER_FIELDS: &str = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n";

#[test]
fn what_may_change_and_what_may_not() {
    let toleration = "/spec/tolerations";
    for (changes, expected) in [
        (vec![], vec![]),
        (vec![("/metadata/labels/a", json!("b"))], vec![]),
        (vec![("/spec/containers/0/image", json!("nginx:2"))], vec![]),
        (vec![("/spec/activeDeadlineSeconds", json!(50))], vec![]),
        (
            vec![("/spec/activeDeadlineSeconds", json!(200))],
            vec![
                "spec.activeDeadlineSeconds: Invalid value: 200: must be less than or equal to previous value",
            ],
        ),
        (
            vec![("/spec/activeDeadlineSeconds", json!(null))],
            vec![
                "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
            ],
        ),
        (
            vec![(
                "/spec/tolerations/-",
                json!({"key": "b", "operator": "Exists"}),
            )],
            vec![],
        ),
        (
            vec![(toleration, json!([]))],
            vec![
                "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
            ],
        ),
        (
            vec![("/spec/tolerations/0/effect", json!("NoExecute"))],
            vec![
                "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
            ],
        ),
        (
            vec![("/spec/containers/-", json!({"name": "b", "image": "i"}))],
            vec!["spec.containers: Forbidden: pod updates may not add or remove containers"],
        ),
        (
            vec![("/spec/schedulingGates", json!([{"name": "late"}]))],
            vec![
                "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'late'",
            ],
        ),
        (
            vec![(
                "/metadata/annotations",
                json!({"kubernetes.io/config.mirror": "x"}),
            )],
            vec![
                "metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation",
            ],
        ),
        (
            vec![("/spec/volumes", json!([])), ("/spec/hostname", json!(""))],
            vec![],
        ),
    ] {
        let new = with(&stored(), &changes);
        assert_eq!(
            update_errors(&PodStrategy, &stored(), &new),
            expected,
            "{changes:?}"
        );
    }
    for (pointer, value, difference) in [
        (
            "/spec/nodeName",
            json!("m"),
            "spec.nodeName: \"n\" => \"m\"",
        ),
        (
            "/spec/restartPolicy",
            json!("Never"),
            "spec.restartPolicy: \"Always\" => \"Never\"",
        ),
        (
            "/spec/nodeSelector",
            json!({"a": "b"}),
            "spec.nodeSelector: null => {\"a\":\"b\"}",
        ),
    ] {
        let new = with(&stored(), &[(pointer, value)]);
        let expected = format!("{NOT_OTHER_FIELDS}{difference}");
        assert_eq!(
            update_errors(&PodStrategy, &stored(), &new),
            [expected],
            "{pointer}"
        );
    }
}

#[test]
fn a_gated_pod_may_be_narrowed() {
    let selector = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let zone = json!({"key": "zone", "operator": "In", "values": ["a"]});
    let disk = json!({"key": "disk", "operator": "Exists"});
    let gated = with(
        &base(),
        &[
            (
                "/spec/schedulingGates",
                json!([{"name": "a"}, {"name": "b"}]),
            ),
            ("/spec/nodeSelector", json!({"x": "1"})),
        ],
    );
    let with_terms = |terms: Value| with(&gated, &[(selector, terms)]);
    let one_term = with_terms(json!([{"matchExpressions": [zone]}]));
    for (old, new, expected) in [
        (
            gated.clone(),
            with(&gated, &[("/spec/schedulingGates", json!([{"name": "b"}]))]),
            vec![],
        ),
        (
            gated.clone(),
            with(&gated, &[("/spec/nodeSelector/y", json!("2"))]),
            vec![],
        ),
        (
            gated.clone(),
            with(&gated, &[("/spec/nodeSelector/x", json!("2"))]),
            vec![
                "spec.nodeSelector: Invalid value: {\"x\":\"2\"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)",
            ],
        ),
        (gated.clone(), one_term.clone(), vec![]),
        (
            one_term.clone(),
            with_terms(json!([{"matchExpressions": [zone, disk]}])),
            vec![],
        ),
        (
            one_term.clone(),
            with_terms(json!([{"matchExpressions": [disk]}])),
            vec![
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]: Invalid value: [\"disk\"]: only additions are allowed (no mutations or deletions)",
            ],
        ),
        (
            one_term,
            gated.clone(),
            vec![
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Invalid value: 0: no additions/deletions to non-empty NodeSelectorTerms list are allowed",
            ],
        ),
    ] {
        assert_eq!(update_errors(&PodStrategy, &old, &new), expected, "{new}");
    }
}

#[test]
fn a_status_update_keeps_the_rest() {
    let old: Pod = object(&with(
        &stored(),
        &[
            (
                "/metadata/ownerReferences",
                json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "1"}]),
            ),
            (
                "/status/conditions",
                json!([{"type": "Ready", "status": "True", "observedGeneration": 3}]),
            ),
        ],
    ));
    let mut new: Pod = object(&with(
        &base(),
        &[
            ("/spec/nodeName", json!("m")),
            ("/metadata/labels/a", json!("b")),
            (
                "/status",
                json!({"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}),
            ),
        ],
    ));
    PodStrategy.prepare_for_status_update().expect("a status")(&mut new, &old);
    let (new, old) = (encoded(&new), encoded(&old));
    assert_eq!(new["spec"], old["spec"]);
    assert_eq!(
        new["metadata"]["ownerReferences"],
        old["metadata"]["ownerReferences"]
    );
    assert_eq!(new["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(
        new["status"],
        json!({"phase": "Failed", "qosClass": "BestEffort", "conditions": [{"type": "Ready", "status": "False", "observedGeneration": 3}]})
    );
}

#[test]
fn statuses_that_cannot_be() {
    let terminated = |code: i32| json!([{"name": "nginx", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": code}}}]);
    let running = json!([{"name": "nginx", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}]);
    let pod = |policy: &str, changes: &[(&str, Value)]| {
        let pod = with(&stored(), &[("/spec/restartPolicy", json!(policy))]);
        with(&pod, changes)
    };
    let revived = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state";
    for (policy, before, expected) in [
        ("Always", terminated(0), vec![]),
        ("Never", terminated(1), vec![revived]),
        ("OnFailure", terminated(1), vec![]),
        ("OnFailure", terminated(0), vec![revived]),
    ] {
        let old = pod(policy, &[("/status/containerStatuses", before)]);
        let new = pod(policy, &[("/status/containerStatuses", running.clone())]);
        assert_eq!(
            status_errors(&PodStrategy, &old, &new),
            expected,
            "{policy}"
        );
    }
    for (changes, expected) in [
        (
            vec![("/status/qosClass", json!("Guaranteed"))],
            vec!["status.qosClass: Invalid value: \"Guaranteed\": field is immutable"],
        ),
        (
            vec![(
                "/status/podIPs",
                json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]),
            )],
            vec![],
        ),
        (
            vec![(
                "/status/podIPs",
                json!([{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]),
            )],
            vec![
                "status.podIPs: Invalid value: [{\"IP\":\"10.0.0.1\"},{\"IP\":\"10.0.0.2\"}]: may specify no more than one IP for each IP family",
            ],
        ),
        (
            vec![
                ("/status/hostIP", json!("10.0.0.1")),
                ("/status/hostIPs", json!([{"ip": "10.0.0.2"}])),
            ],
            vec!["status.hostIPs[0].ip: Invalid value: \"10.0.0.2\": must be equal to `hostIP`"],
        ),
    ] {
        let new = with(&stored(), &changes);
        assert_eq!(status_errors(&PodStrategy, &stored(), &new), expected);
    }
}
