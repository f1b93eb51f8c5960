use super::*;

fn map(data: serde_json::Value) -> serde_json::Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "default" }, "data": data })
}

fn service(ports: serde_json::Value) -> serde_json::Value {
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a" }, "spec": { "ports": ports } })
}

#[test]
fn what_is_no_longer_applied_goes_unless_somebody_else_owns_it() {
    let mut world = World::of("", "v1", "ConfigMap");
    world.apply("a", map(json!({ "x": "1", "y": "2" })));
    assert_eq!(world.owned("a Apply"), [".data.x", ".data.y"]);
    world.apply("b", map(json!({ "y": "2", "z": "3" })));
    assert_eq!(world.owned("b Apply"), [".data.y", ".data.z"]);
    assert_eq!(
        world.owned("a Apply"),
        [".data.x", ".data.y"],
        "equal values are shared"
    );
    world.apply("a", map(json!({})));
    assert_eq!(world.live()["data"], json!({ "y": "2", "z": "3" }));
    assert_eq!(world.owned("a Apply"), [".data"]);
    world.apply(
        "b",
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }),
    );
    world.apply(
        "a",
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }),
    );
    assert_eq!(world.live().get("data"), None);
    assert_eq!(world.managed, None);
}

#[test]
fn a_conflict_names_each_field_and_its_owner() {
    let mut world = World::of("", "v1", "ConfigMap");
    world.apply("a", map(json!({ "x": "1", "y": "2", "z": "3" })));
    world.change("editor", |new| new["data"]["z"] = json!("4"));
    // applied, message, fields
    let cases = [
        (
            json!({ "x": "9" }),
            "Apply failed with 1 conflict: conflict with \"a\": .data.x",
            vec![(".data.x", "conflict with \"a\"")],
        ),
        (
            json!({ "z": "9" }),
            "Apply failed with 1 conflict: conflict with \"editor\" using v1: .data.z",
            vec![(".data.z", "conflict with \"editor\" using v1")],
        ),
        (
            json!({ "x": "9", "y": "9", "z": "9" }),
            "Apply failed with 3 conflicts: conflicts with \"a\":\n- .data.x\n- .data.y\nconflicts with \"editor\" using v1:\n- .data.z",
            vec![
                (".data.x", "conflict with \"a\""),
                (".data.y", "conflict with \"a\""),
                (".data.z", "conflict with \"editor\" using v1"),
            ],
        ),
    ];
    for (data, message, causes) in cases {
        let before = world.clone();
        let status = world.try_apply("b", map(data.clone()), false).unwrap_err();
        assert_eq!(
            (status.code, &*status.reason, &*status.message),
            (409, "Conflict", message)
        );
        let found = status.details.unwrap().causes;
        let found: Vec<_> = found.iter().map(|c| (&*c.field, &*c.message)).collect();
        assert_eq!(found, causes);
        assert_eq!(world.live, before.live);
        let mut forced = before;
        forced.force("b", map(data.clone()));
        for (key, value) in data.as_object().unwrap() {
            assert_eq!(&forced.live()["data"][key], value);
            let path = format!(".data.{key}");
            for (owner, paths) in forced.owners() {
                assert_eq!(
                    paths.contains(&path),
                    owner == "b Apply",
                    "{owner}: {paths:?}"
                );
            }
        }
    }
}

#[test]
fn lists_with_keys_merge_by_their_defaulted_keys() {
    let mut world = World::of("", "v1", "Service");
    world.apply("a", service(json!([{ "port": 80, "name": "http" }])));
    // the same port, and one more before it
    world.apply("b", service(json!([{ "port": 443, "name": "https" }, { "port": 80, "protocol": "TCP", "targetPort": 8080 }])));
    assert_eq!(
        world.live()["spec"]["ports"],
        json!([{ "port": 443, "name": "https" }, { "port": 80, "name": "http", "protocol": "TCP", "targetPort": 8080 }])
    );
    world.apply("b", service(json!([{ "port": 443, "name": "https" }])));
    assert_eq!(
        world.live()["spec"]["ports"],
        json!([{ "port": 443, "name": "https" }, { "port": 80, "name": "http" }])
    );
    world.apply("a", service(json!([])));
    assert_eq!(
        world.live()["spec"]["ports"],
        json!([{ "port": 443, "name": "https" }])
    );
}

#[test]
fn elements_keep_the_order_of_both_lists() {
    // stored, applied by another, result
    let cases: [(&[i64], &[i64], &[i64]); 7] = [
        (&[1, 2, 3], &[3, 1], &[2, 3, 1]),
        (&[1, 2, 3], &[2], &[1, 2, 3]),
        (&[1, 2, 3], &[4], &[1, 2, 3, 4]),
        (&[1, 2, 3], &[4, 2], &[1, 4, 2, 3]),
        (&[1, 2, 3], &[2, 4], &[1, 2, 3, 4]),
        (&[], &[2, 1], &[2, 1]),
        (&[3, 2, 1], &[1, 2, 3], &[1, 2, 3]),
    ];
    let ports = |numbers: &[i64]| -> serde_json::Value {
        numbers.iter().map(|port| json!({ "port": port })).collect()
    };
    for (stored, applied, result) in cases {
        let mut world = World::of("", "v1", "Service");
        world.apply("a", service(ports(stored)));
        world.apply("b", service(ports(applied)));
        assert_eq!(
            world.live()["spec"]["ports"],
            ports(result),
            "{stored:?} {applied:?}"
        );
    }
}

#[test]
fn sets_and_atomic_lists_merge_in_their_ways() {
    let pod = |finalizers: &[&str], tolerations: &[&str]| {
        let tolerations: Vec<_> = tolerations
            .iter()
            .map(|key| json!({ "key": key }))
            .collect();
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "a", "finalizers": finalizers },
            "spec": { "tolerations": tolerations },
        })
    };
    let mut world = World::of("", "v1", "Pod");
    world.apply("a", pod(&["x/a", "x/b"], &["t"]));
    let status = world
        .try_apply("b", pod(&["x/c"], &["u"]), false)
        .unwrap_err();
    assert_eq!(status.details.unwrap().causes.len(), 1);
    world.force("b", pod(&["x/c"], &["u"]));
    assert_eq!(
        world.live()["metadata"]["finalizers"],
        json!(["x/a", "x/b", "x/c"])
    );
    assert_eq!(world.live()["spec"]["tolerations"], json!([{ "key": "u" }]));
    assert_eq!(
        world.owned("b Apply"),
        [".metadata.finalizers[=\"x/c\"]", ".spec.tolerations"]
    );
    world.apply("a", pod(&["x/b"], &["u"]));
    assert_eq!(
        world.live()["metadata"]["finalizers"],
        json!(["x/b", "x/c"])
    );
}

#[test]
fn applying_again_changes_nothing() {
    let mut world = World::of("", "v1", "Service");
    let config = service(json!([{ "port": 80, "name": "http" }]));
    world.apply("a", config.clone());
    let before = world.clone();
    world.apply("a", config.clone());
    assert_eq!(
        (&world.live, &world.managed),
        (&before.live, &before.managed)
    );
    // another applier of the same shares, and as it has changed nothing has no time
    world.apply("b", config);
    assert_eq!(world.live, before.live);
    let entries = world.entries();
    assert_eq!(entries.as_array().unwrap().len(), 2);
    let b = entries
        .as_array()
        .unwrap()
        .iter()
        .find(|e| e["manager"] == "b")
        .unwrap();
    assert_eq!(b.get("time"), None);
}

#[test]
fn what_was_there_before_the_first_apply_has_an_owner() {
    let mut world = World::of("", "v1", "ConfigMap");
    world.update("a", map(json!({ "x": "1", "y": "2" })));
    world.managed = None;
    let status = world
        .try_apply("b", map(json!({ "x": "9" })), false)
        .unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.x"
    );
    world.apply("b", map(json!({ "x": "1" })));
    assert_eq!(
        world.owned("before-first-apply Update"),
        [".data", ".data.x", ".data.y"]
    );
    assert_eq!(world.owned("b Apply"), [".data.x"]);
}

#[test]
fn an_update_and_an_apply_by_one_name_are_two_owners() {
    let mut world = World::of("", "v1", "ConfigMap");
    world.apply("a", map(json!({ "x": "1" })));
    world.change("a", |new| new["data"]["x"] = json!("2"));
    assert_eq!(world.owners().len(), 1);
    let status = world
        .try_apply("a", map(json!({ "x": "3" })), false)
        .unwrap_err();
    assert_eq!(
        status.details.unwrap().causes[0].message,
        "conflict with \"a\" using v1"
    );
}

#[test]
fn client_side_applies_become_kubectls() {
    let last = |x: &str| {
        let config = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "x": x, "y": "2" } });
        config.to_string()
    };
    let with_annotation = |x: &str, applied: &str| {
        let mut object = map(json!({ "x": x, "y": "2" }));
        object["metadata"]["uid"] = json!("u");
        object["metadata"]["annotations"] =
            json!({ "kubectl.kubernetes.io/last-applied-configuration": last(applied) });
        object
    };
    let mut world = World::of("", "v1", "ConfigMap");
    world.update("kubectl-client-side-apply", with_annotation("1", "1"));
    // another name is not kubectl's
    world
        .clone()
        .try_apply("other", map(json!({ "x": "9" })), false)
        .unwrap_err();
    // nor is what has changed since
    let mut changed = world.clone();
    changed.change("editor", |new| new["data"]["x"] = json!("7"));
    let status = changed
        .try_apply("kubectl", map(json!({ "x": "9", "y": "9" })), false)
        .unwrap_err();
    let causes = status.details.unwrap().causes;
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert_eq!(causes[0].field, ".data.x");

    world.apply("kubectl", map(json!({ "x": "9" })));
    assert_eq!(world.live()["data"], json!({ "x": "9", "y": "2" }));
    let annotation = &world.live()["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    let text = annotation.as_str().unwrap();
    assert!(text.ends_with('\n'));
    let applied: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(applied, map(json!({ "x": "9" })));
}

#[test]
fn configurations_must_fit_their_type() {
    let of_pod = "failed to create typed patch object (default/a; /v1, Kind=Pod): ";
    // spec of a pod, what is wrong with it
    let cases = [
        (
            json!({ "foo": 1 }),
            ".spec.foo: field not declared in schema",
        ),
        (
            json!({ "hostNetwork": "yes" }),
            ".spec.hostNetwork: expected boolean, got &{yes}",
        ),
        (
            json!({ "priority": "1" }),
            ".spec.priority: expected numeric (int or float), got string",
        ),
        (
            json!({ "nodeName": 1 }),
            ".spec.nodeName: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            json!({ "securityContext": [] }),
            ".spec.securityContext: expected map, got &{[]}",
        ),
        (
            json!({ "containers": {} }),
            ".spec.containers: expected list, got &{map[]}",
        ),
        (
            json!({ "containers": [{ "name": "a" }, { "name": "a" }] }),
            ".spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (
            json!({ "containers": [{ "image": "a" }] }),
            ".spec.containers: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)",
        ),
        (
            json!({ "containers": [{ "name": "a", "bar": 1 }] }),
            ".spec.containers[name=\"a\"].bar: field not declared in schema",
        ),
        (
            json!({ "x": 1, "y": 2 }),
            "errors:\n  .spec.x: field not declared in schema\n  .spec.y: field not declared in schema",
        ),
    ];
    for (spec, wrong) in cases {
        let config = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a", "namespace": "default" }, "spec": spec });
        let status = World::of("", "v1", "Pod")
            .try_apply("a", config, false)
            .unwrap_err();
        assert_eq!((status.code, &*status.reason), (500, ""));
        assert_eq!(status.message, format!("{of_pod}{wrong}"));
    }
    let mut config = map(json!({}));
    config["metadata"]["managedFields"] = json!([]);
    let status = World::of("", "v1", "ConfigMap")
        .try_apply("a", config, false)
        .unwrap_err();
    assert_eq!(
        (status.code, &*status.message),
        (400, "metadata.managedFields must be nil")
    );
}

#[test]
fn a_status_is_applied_through_its_subresource_only() {
    let config = |replicas: i64, ready: i64| json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a" }, "spec": { "replicas": replicas }, "status": { "readyReplicas": ready } });
    let mut world = World::of("apps", "v1", "Deployment");
    world.apply("a", config(1, 1));
    assert_eq!(world.owned("a Apply"), [".spec.replicas"]);
    world.through_status().apply("a", config(2, 2));
    assert_eq!(world.owned("a Apply status"), [".status.readyReplicas"]);
    assert_eq!(world.owned("a Apply"), [".spec.replicas"]);
}

#[test]
fn what_became_atomic_is_owned_as_a_whole() {
    let mut world = World::of("", "v1", "Service");
    world.update(
        "a",
        json!({ "metadata": { "name": "a", "uid": "u" }, "spec": { "selector": { "app": "x" } } }),
    );
    world.managed = Some(
        world
            .managed
            .unwrap()
            .replace(r#""f:selector":{}"#, r#""f:selector":{".":{},"f:app":{}}"#),
    );
    let config = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a" }, "spec": { "selector": { "app": "y" } } });
    let status = world.try_apply("b", config, false).unwrap_err();
    assert_eq!(status.details.unwrap().causes[0].field, ".spec.selector");
}
