use k8s_openapi::api::core::v1::{Binding, Pod};
use serde_json::{Value, json};

use super::base;
use crate::registry::kinds::{
    pod::binding::{bind, validate_binding},
    testing::{NOW, json as encoded, now, object, texts, with},
};

fn binding(json: &Value) -> Binding {
    serde_json::from_value(json.clone()).expect("a binding")
}

fn to_node() -> Value {
    json!({"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n"}})
}

#[test]
fn the_binding_itself() {
    for (changes, expected) in [
        (vec![], vec![]),
        (vec![("/target/kind", json!(""))], vec![]),
        (
            vec![("/target/kind", json!("Pod"))],
            vec![
                "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\"",
            ],
        ),
        (
            vec![("/target/name", json!(""))],
            vec!["target.name: Required value"],
        ),
    ] {
        let binding = binding(&with(&to_node(), &changes));
        assert_eq!(texts(&validate_binding(&binding)), expected);
    }
}

#[test]
fn binding_assigns_and_merges() {
    let mut pod: Pod = object(&with(
        &base(),
        &[
            ("/metadata/annotations", json!({"a": "1"})),
            ("/metadata/labels", json!({"zone": "kept"})),
            (
                "/status",
                json!({"phase": "Pending", "nominatedNodeName": "m", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}),
            ),
        ],
    ));
    let binding = binding(&with(
        &to_node(),
        &[
            ("/metadata/annotations", json!({"a": "2", "b": "3"})),
            ("/metadata/labels", json!({"zone": "z", "region": "r"})),
        ],
    ));
    assert_eq!(bind(&mut pod, &binding, now()), Ok(()));
    let pod = encoded(&pod);
    assert_eq!(pod["spec"]["nodeName"], "n");
    assert_eq!(pod["metadata"]["annotations"], json!({"a": "2", "b": "3"}));
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"zone": "kept", "region": "r"})
    );
    assert_eq!(
        pod["status"],
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW}]})
    );
}

#[test]
fn refused_bindings_are_conflicts_and_change_nothing() {
    for (pod_changes, binding_changes, why) in [
        (
            vec![("/spec/nodeName", json!("m"))],
            vec![],
            "pod web is already assigned to node \"m\"",
        ),
        (
            vec![("/metadata/deletionTimestamp", json!("2026-01-02T03:00:00Z"))],
            vec![],
            "pod web is being deleted, cannot be assigned to a host",
        ),
        (
            vec![("/spec/schedulingGates", json!([{"name": "a"}]))],
            vec![],
            "pod web has non-empty .spec.schedulingGates",
        ),
        (
            vec![("/metadata/uid", json!("1"))],
            vec![("/metadata/uid", json!("2"))],
            "Precondition failed: UID in precondition: 2, UID in object meta: 1",
        ),
        (
            vec![("/metadata/resourceVersion", json!("7"))],
            vec![("/metadata/resourceVersion", json!("6"))],
            "the ResourceVersion in the precondition (6) does not match the ResourceVersion in record (7). The object might have been modified",
        ),
    ] {
        let mut pod: Pod = object(&with(&base(), &pod_changes));
        let before = pod.clone();
        let refused = bind(
            &mut pod,
            &binding(&with(&to_node(), &binding_changes)),
            now(),
        );
        let status = refused.expect_err("a conflict");
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        assert_eq!(
            status.message,
            format!("Operation cannot be fulfilled on pods/binding \"web\": {why}")
        );
        assert_eq!(pod, before);
    }
}
