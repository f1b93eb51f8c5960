use pilothouse_sdk::{
    Value,
    cluster::resources::PODS,
    json,
    testing::{FakeCluster, admission_request, mutated},
};

use super::*;

fn priority_class(name: &str, value: i32, default: bool) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": { "name": name }, "value": value, "globalDefault": default,
    })
}

fn cluster_with(classes: &[Value]) -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.serve(&PRIORITY_CLASSES, "PriorityClass", false, false);
    for class in classes {
        cluster.add(&PRIORITY_CLASSES, class.clone());
    }
    cluster
}

fn created(cluster: &FakeCluster, spec: Value) -> Result<Value, Denial> {
    let pod = json!({ "kind": "Pod", "metadata": { "name": "web", "namespace": "default" }, "spec": spec });
    let request = admission_request(&PODS, Operation::Create, &pod);
    let mutation = Priority.mutate(cluster, &request)?;
    Ok(mutated(&pod, Ok(mutation))["spec"].clone())
}

#[test]
fn the_class_gives_priority_and_policy() {
    let mut quiet = priority_class("quiet", 7, false);
    quiet["preemptionPolicy"] = "Never".into();
    let cluster = cluster_with(&[quiet, priority_class("loud", 1000, false)]);
    let lower = "PreemptLowerPriority";
    // class, priority, policy
    let cases = [
        (
            json!({}),
            json!({ "priority": 0, "preemptionPolicy": lower }),
        ),
        (
            json!({ "priorityClassName": "loud" }),
            json!({ "priorityClassName": "loud", "priority": 1000, "preemptionPolicy": lower }),
        ),
        (
            json!({ "priorityClassName": "quiet" }),
            json!({ "priorityClassName": "quiet", "priority": 7, "preemptionPolicy": "Never" }),
        ),
        (
            json!({ "priorityClassName": "system-node-critical" }),
            json!({ "priorityClassName": "system-node-critical", "priority": 2_000_001_000, "preemptionPolicy": lower }),
        ),
    ];
    for (before, after) in cases {
        assert_eq!(
            created(&cluster, before.clone()).as_ref(),
            Ok(&after),
            "{before}"
        );
        assert_eq!(created(&cluster, after.clone()), Ok(after), "a second time");
    }
}

#[test]
fn the_default_class_is_named_and_the_lowest_wins() {
    let classes = [
        priority_class("high", 50, true),
        priority_class("low", 20, true),
    ];
    let spec = created(&cluster_with(&classes), json!({})).unwrap();
    assert_eq!(
        (&spec["priorityClassName"], &spec["priority"]),
        (&json!("low"), &json!(20))
    );
}

#[test]
fn what_does_not_agree_is_forbidden() {
    let cluster = cluster_with(&[priority_class("loud", 1000, false)]);
    let cases = [
        (
            json!({ "priorityClassName": "none" }),
            "no PriorityClass with name none was found",
        ),
        (
            json!({ "priority": 5 }),
            "the integer value of priority (5) must not be provided",
        ),
        (
            json!({ "priorityClassName": "loud", "preemptionPolicy": "Never" }),
            "the string value of PreemptionPolicy (Never) must not be provided",
        ),
    ];
    for (spec, expected) in cases {
        let refused = created(&cluster, spec).unwrap_err();
        assert_eq!(refused.code, 403);
        let start = format!("pods \"web\" is forbidden: {expected}");
        assert!(refused.message.starts_with(&start), "{}", refused.message);
    }
}

#[test]
fn an_update_keeps_what_it_leaves_out() {
    let pod = |spec: Value| json!({ "kind": "Pod", "metadata": { "name": "web" }, "spec": spec });
    let mut request = admission_request(&PODS, Operation::Update, &pod(json!({})));
    let old = pod(json!({ "priority": 9, "preemptionPolicy": "Never" }));
    request.old_object = Some(old.to_string().into_bytes());
    let after = mutated(
        &pod(json!({})),
        Priority.mutate(&cluster_with(&[]), &request),
    );
    assert_eq!(after, old);
}

#[test]
fn only_one_class_is_the_default() {
    let cluster = cluster_with(&[priority_class("first", 10, true)]);
    let answer = |operation, class: &Value| {
        Priority.validate(
            &cluster,
            &admission_request(&PRIORITY_CLASSES, operation, class),
        )
    };
    let second = priority_class("second", 5, true);
    let refused = answer(Operation::Create, &second).unwrap_err();
    assert!(
        refused.message.ends_with(
            "PriorityClass first is already marked as default. Only one default can exist"
        )
    );
    assert!(answer(Operation::Update, &second).is_err());
    assert!(answer(Operation::Update, &priority_class("first", 11, true)).is_ok());
    assert!(answer(Operation::Create, &priority_class("third", 5, false)).is_ok());
}
