use super::*;

fn deployment(replicas: i64, image: &str) -> serde_json::Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "default", "uid": "u", "labels": { "app": "web" } },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "nginx", "image": image, "ports": [{ "containerPort": 80, "protocol": "TCP" }] }] },
            },
        },
    })
}

#[test]
fn a_creator_owns_all_that_it_sent() {
    let mut world = World::of("apps", "v1", "Deployment");
    world.update("kubectl-create", deployment(1, "nginx:1"));
    assert_eq!(
        world.entries(),
        json!([{
            "manager": "kubectl-create",
            "operation": "Update",
            "apiVersion": "apps/v1",
            "time": "1970-01-01T00:00:01Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": { "f:labels": { ".": {}, "f:app": {} } },
                "f:spec": {
                    "f:replicas": {},
                    "f:selector": {},
                    "f:template": {
                        "f:metadata": { "f:labels": { ".": {}, "f:app": {} } },
                        "f:spec": { "f:containers": { "k:{\"name\":\"nginx\"}": {
                            ".": {},
                            "f:image": {},
                            "f:name": {},
                            "f:ports": {
                                ".": {},
                                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:containerPort": {}, "f:protocol": {} },
                            },
                        } } },
                    },
                },
            },
        }])
    );
}

#[test]
fn an_update_takes_what_it_changes() {
    let mut world = World::of("apps", "v1", "Deployment");
    world.update("creator", deployment(1, "nginx:1"));
    world.change("scaler", |new| new["spec"]["replicas"] = json!(3));
    assert_eq!(world.owned("scaler Update"), [".spec.replicas"]);
    assert!(
        !world
            .owned("creator Update")
            .contains(&".spec.replicas".to_owned())
    );
    // and what it removes is nobody's
    world.change("cleaner", |new| {
        new["metadata"].as_object_mut().unwrap().remove("labels");
    });
    assert_eq!(
        world.owners().keys().collect::<Vec<_>>(),
        ["creator Update", "scaler Update"]
    );
    let owned = world.owned("creator Update");
    assert!(
        !owned.iter().any(|path| path.starts_with(".metadata")),
        "{owned:?}"
    );
    // a manager that has lost everything is forgotten
    world.change("other", |new| new["spec"]["replicas"] = json!(4));
    assert_eq!(
        world.owners().keys().collect::<Vec<_>>(),
        ["creator Update", "other Update"]
    );
}

#[test]
fn what_changes_nothing_changes_no_entry_and_no_time() {
    let mut world = World::of("apps", "v1", "Deployment");
    world.update("creator", deployment(1, "nginx:1"));
    let before = world.managed.clone();
    world.change("other", |_| {});
    assert_eq!(world.managed, before);
    // only the time of the one who writes the same fields again moves
    world.change("creator", |new| new["spec"]["replicas"] = json!(2));
    let after = world.managed.clone().unwrap();
    assert!(after != before.clone().unwrap());
    assert!(same_but_times(&after, &before.unwrap()));
    assert_eq!(world.entries()[0]["time"], "1970-01-01T00:00:03Z");
}

#[test]
fn a_subresource_has_an_entry_of_its_own() {
    let mut world = World::of("apps", "v1", "Deployment");
    world.update("ctl", deployment(1, "nginx:1"));
    let main = world.owned("ctl Update");
    world.through_status().change("ctl", |new| {
        new["status"] =
            json!({ "replicas": 1, "conditions": [{ "type": "Available", "status": "True" }] });
        new["spec"]["replicas"] = json!(9); // is not its to change
    });
    assert_eq!(world.owned("ctl Update"), main);
    assert_eq!(
        world.owned("ctl Update status"),
        [
            ".status.conditions",
            ".status.conditions[type=\"Available\"]",
            ".status.conditions[type=\"Available\"].status",
            ".status.conditions[type=\"Available\"].type",
            ".status.replicas",
        ]
    );
    assert_eq!(world.entries()[1]["subresource"], "status");
    // nor does the main resource own a status
    world
        .through_main()
        .change("other", |new| new["status"]["replicas"] = json!(5));
    assert!(!world.owners().contains_key("other Update"));
}

#[test]
fn entries_that_are_sent_replace_those_stored() {
    let mut world = World::of("", "v1", "ConfigMap");
    let map =
        |value: &str| json!({ "metadata": { "name": "a", "uid": "u" }, "data": { "k": value } });
    world.update("a", map("1"));
    let stored = world.managed.clone().unwrap();
    let other = stored.replace("\"a\"", "\"b\"");
    // what is sent, who owns afterwards
    let cases: [(Option<&str>, &[&str]); 8] = [
        (None, &["a Update"]),
        (Some(stored.as_str()), &["a Update"]),
        (Some(other.as_str()), &["b Update"]),
        (Some("[]"), &[]),
        (Some("[{}]"), &[]),
        (Some("null"), &["a Update"]),
        (
            Some(r#"[{"manager":"x","operation":"Merge"}]"#),
            &["a Update"],
        ),
        (
            Some(
                r#"[{"manager":"x","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"odd":{}}}]"#,
            ),
            &["a Update"],
        ),
    ];
    for (sent, owners) in cases {
        let mut world = world.clone();
        world.update_with("writer", map("1"), sent);
        assert_eq!(
            world.owners().keys().collect::<Vec<_>>(),
            owners,
            "{sent:?}"
        );
    }
    // who is tracked of nobody stays so
    world.update_with("writer", map("1"), Some("[]"));
    world.update("writer", map("2"));
    assert_eq!(world.managed, None);
    // through a subresource nothing that is sent counts
    let mut world = World::of("apps", "v1", "Deployment");
    world.update("a", deployment(1, "x"));
    let new = world.live();
    world.through_status().update_with("b", new, Some("[]"));
    assert_eq!(world.owners().keys().collect::<Vec<_>>(), ["a Update"]);
}

#[test]
fn more_than_ten_updaters_become_ancient() {
    let mut world = World::of("", "v1", "ConfigMap");
    world.update(
        "m00",
        json!({ "metadata": { "name": "a", "uid": "u" }, "data": { "k00": "" } }),
    );
    for number in 1..14 {
        world.change(&format!("m{number:02}"), |new| {
            new["data"][format!("k{number:02}")] = json!("");
        });
    }
    let owners = world.owners();
    assert_eq!(owners.len(), 10);
    assert_eq!(
        world.owned("ancient-changes Update"),
        [
            ".data",
            ".data.k00",
            ".data.k01",
            ".data.k02",
            ".data.k03",
            ".data.k04"
        ]
    );
    assert!(owners.contains_key("m05 Update") && owners.contains_key("m13 Update"));
    assert_eq!(world.entries()[0]["manager"], "ancient-changes");
}

#[test]
fn lists_are_owned_as_their_type_says() {
    // kind, path of the field, value before and after, what the second writer owns
    let pod = ("", "Pod");
    let service = ("", "Service");
    let cases = [
        (
            pod,
            "tolerations",
            json!([{ "key": "a" }]),
            json!([{ "key": "b" }]),
            vec![".spec.tolerations"],
        ),
        (
            pod,
            "imagePullSecrets",
            json!([{ "name": "a" }]),
            json!([{ "name": "a" }, { "name": "b" }]),
            vec![".spec.imagePullSecrets[name=\"b\"]"],
        ),
        (
            pod,
            "hostAliases",
            json!([{ "ip": "1.1.1.1", "hostnames": ["a"] }]),
            json!([{ "ip": "1.1.1.1", "hostnames": ["b"] }]),
            vec![".spec.hostAliases[ip=\"1.1.1.1\"].hostnames"],
        ),
        (
            service,
            "ports",
            json!([{ "port": 80 }]),
            json!([{ "port": 80, "protocol": "TCP", "name": "x" }, { "port": 80, "protocol": "UDP" }]),
            vec![
                ".spec.ports[port=80,protocol=\"TCP\"].name",
                ".spec.ports[port=80,protocol=\"TCP\"].protocol",
                ".spec.ports[port=80,protocol=\"UDP\"]",
                ".spec.ports[port=80,protocol=\"UDP\"].port",
                ".spec.ports[port=80,protocol=\"UDP\"].protocol",
            ],
        ),
        (
            service,
            "selector",
            json!({ "a": "1" }),
            json!({ "a": "2" }),
            vec![".spec.selector"],
        ),
        (
            service,
            "externalIPs",
            json!(["1.1.1.1"]),
            json!(["2.2.2.2"]),
            vec![".spec.externalIPs"],
        ),
        (
            pod,
            "nodeSelector",
            json!({ "a": "1" }),
            json!({ "b": "1" }),
            vec![".spec.nodeSelector"],
        ),
        (
            pod,
            "securityContext",
            json!({ "runAsUser": 1 }),
            json!({ "runAsUser": 2 }),
            vec![".spec.securityContext.runAsUser"],
        ),
    ];
    for ((group, kind), field, before, after, owned) in cases {
        let mut world = World::of(group, "v1", kind);
        let object =
            |value| json!({ "metadata": { "name": "a", "uid": "u" }, "spec": { field: value } });
        world.update("first", object(before));
        world.update("second", object(after));
        assert_eq!(world.owned("second Update"), owned, "{field}");
    }
}

#[test]
fn repeated_elements_are_owned_as_a_whole() {
    let object =
        |ports| json!({ "metadata": { "name": "a", "uid": "u" }, "spec": { "ports": ports } });
    let port = |name: &str| json!({ "port": 80, "name": name });
    let key = ".spec.ports[port=80,protocol=\"TCP\"]";
    let mut world = World::of("", "v1", "Service");
    world.update("a", object(json!([port("x"), port("y")])));
    assert_eq!(world.owned("a Update"), [".spec.ports", key]);
    world.update("b", object(json!([port("x"), port("z")])));
    assert_eq!(world.owned("b Update"), [key]);
    world.update("c", object(json!([port("x")])));
    assert_eq!(
        world.owned("c Update"),
        [key, &format!("{key}.name"), &format!("{key}.port")]
    );
}
