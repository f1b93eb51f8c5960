//! Who owns what, and server-side apply.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{Api, MAPS, PODS, config_map, pod};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(replicas: Option<i64>) -> Value {
    let labels = json!({ "app": "web" });
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "main", "image": "nginx" }] },
            },
        },
    });
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = json!(replicas);
    }
    object
}

/// `fieldsV1` by `<manager> <operation>[ <subresource>]`.
fn owners(object: &Value) -> BTreeMap<String, Value> {
    let entries = object["metadata"]["managedFields"].as_array().cloned();
    let owner = |entry: Value| {
        assert_eq!(entry["fieldsType"], "FieldsV1");
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let name = format!(
            "{} {} {}",
            text("manager"),
            text("operation"),
            text("subresource")
        );
        (name.trim().to_owned(), entry["fieldsV1"].clone())
    };
    entries.unwrap_or_default().into_iter().map(owner).collect()
}

fn names(object: &Value) -> Vec<String> {
    owners(object).into_keys().collect()
}

#[tokio::test]
async fn every_write_has_an_owner() {
    let api = Api::start().await;
    let agent = [("user-agent", "kubectl/v1.36.0 (linux/amd64)")];
    let map = config_map("a", "1").to_string();
    let created = api.send("POST", MAPS, &agent, &map).await.expect(201);
    assert_eq!(
        owners(&created),
        BTreeMap::from([(
            "kubectl Update".to_owned(),
            json!({ "f:data": { ".": {}, "f:key": {} } })
        )])
    );
    let entry = &created["metadata"]["managedFields"][0];
    assert_eq!(entry["apiVersion"], "v1");
    assert_eq!(entry["time"], created["metadata"]["creationTimestamp"]);

    let path = format!("{MAPS}/a");
    let patch = json!({ "data": { "more": "2" }, "metadata": { "labels": { "x": "y" } } });
    let patched = api
        .patch(&format!("{path}?fieldManager=mine"), "merge", patch)
        .await
        .expect(200);
    assert_eq!(
        owners(&patched)["mine Update"],
        json!({ "f:data": { "f:more": {} }, "f:metadata": { "f:labels": { ".": {}, "f:x": {} } } })
    );
    let put = api
        .put(&format!("{path}?fieldManager=other"), config_map("a", "3"))
        .await
        .expect(200);
    assert_eq!(
        owners(&put),
        BTreeMap::from([
            ("kubectl Update".to_owned(), json!({ "f:data": {} })),
            (
                "other Update".to_owned(),
                json!({ "f:data": { "f:key": {} } })
            ),
        ])
    );
    assert_eq!(api.get(&path).await.expect(200), put);
    // nobody needs to say who it is
    let unnamed = api.post(MAPS, config_map("b", "1")).await.expect(201);
    assert_eq!(names(&unnamed), ["unknown Update"]);
}

#[tokio::test]
async fn subresources_have_entries_of_their_own_and_a_binding_has_none() {
    let api = Api::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    api.post(
        &format!("{DEPLOYMENTS}?fieldManager=a"),
        deployment(Some(1)),
    )
    .await
    .expect(201);
    let status =
        json!({ "status": { "replicas": 1, "observedGeneration": 1 }, "spec": { "replicas": 7 } });
    api.patch(&format!("{path}/status?fieldManager=a"), "merge", status)
        .await
        .expect(200);
    let scale = json!({ "spec": { "replicas": 3 } });
    api.patch(&format!("{path}/scale?fieldManager=hpa"), "merge", scale)
        .await
        .expect(200);
    let stored = api.get(&path).await.expect(200);
    let owners = owners(&stored);
    assert_eq!(
        owners.keys().collect::<Vec<_>>(),
        ["a Update", "a Update status", "hpa Update scale"]
    );
    assert_eq!(
        owners["a Update status"],
        json!({ "f:status": { "f:observedGeneration": {}, "f:replicas": {} } })
    );
    assert_eq!(
        owners["hpa Update scale"],
        json!({ "f:spec": { "f:replicas": {} } })
    );
    assert_eq!(owners["a Update"]["f:spec"].get("f:replicas"), None);
    let entries = stored["metadata"]["managedFields"].as_array().unwrap();
    assert!(entries.iter().all(|entry| entry["apiVersion"] == "apps/v1"));

    let created = api
        .post(&format!("{PODS}?fieldManager=a"), pod("p"))
        .await
        .expect(201);
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "p" }, "target": { "name": "n" } });
    api.post(&format!("{PODS}/p/binding?fieldManager=b"), binding)
        .await
        .expect(201);
    let bound = api.get(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(
        bound["metadata"]["managedFields"],
        created["metadata"]["managedFields"]
    );
}

#[tokio::test]
async fn managed_fields_can_be_sent_dropped_and_reset() {
    let api = Api::start().await;
    let path = format!("{MAPS}/a");
    let created = api
        .post(&format!("{MAPS}?fieldManager=a"), config_map("a", "1"))
        .await
        .expect(201);
    // what is got can be put: nothing happens
    let version = &created["metadata"]["resourceVersion"];
    for body in [created.clone(), config_map("a", "1")] {
        let put = api
            .put(&format!("{path}?fieldManager=b"), body)
            .await
            .expect(200);
        assert_eq!(put, created);
    }
    // kubectl renames its entries like this when it goes over to server-side apply
    let entries = json!([
        { "op": "replace", "path": "/metadata/resourceVersion", "value": version },
        { "op": "replace", "path": "/metadata/managedFields/0/manager", "value": "kubectl" },
        { "op": "replace", "path": "/metadata/managedFields/0/operation", "value": "Apply" },
    ]);
    let patched = api.patch(&path, "json", entries).await.expect(200);
    assert_eq!(names(&patched), ["kubectl Apply"]);
    for reset in [json!([]), json!([{}])] {
        let mut body = config_map("a", "1");
        body["metadata"]["managedFields"] = reset;
        let put = api.put(&path, body).await.expect(200);
        assert_eq!(put["metadata"].get("managedFields"), None);
    }
    let put = api.put(&path, config_map("a", "2")).await.expect(200);
    assert_eq!(
        put["metadata"].get("managedFields"),
        None,
        "nobody is tracked of"
    );
    let applied = api
        .apply(&path, "b", config_map("a", "2"))
        .await
        .expect(200);
    assert_eq!(names(&applied), ["b Apply", "before-first-apply Update"]);
}

#[tokio::test]
async fn an_apply_creates_what_has_required_structs_without_conflict() {
    let api = Api::start().await;
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/readers";
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "readers" }, "roleRef": role,
    });
    let created = api.apply(path, "a", binding).await.expect(201);
    assert_eq!(names(&created), ["a Apply"]);
}

#[tokio::test]
async fn an_apply_creates_then_updates_then_does_nothing() {
    let api = Api::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    let created = api.apply(&path, "a", deployment(Some(1))).await.expect(201);
    assert_eq!(names(&created), ["a Apply"]);
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(
        created["spec"]["strategy"]["type"], "RollingUpdate",
        "defaults are nobody's"
    );
    assert_eq!(
        owners(&created)["a Apply"]["f:spec"],
        json!({
            "f:replicas": {},
            "f:selector": {},
            "f:template": {
                "f:metadata": { "f:labels": { "f:app": {} } },
                "f:spec": { "f:containers": { "k:{\"name\":\"main\"}": { ".": {}, "f:image": {}, "f:name": {} } } },
            },
        })
    );
    let same = api.apply(&path, "a", deployment(Some(1))).await.expect(200);
    assert_eq!(same, created);
    let changed = api.apply(&path, "a", deployment(Some(2))).await.expect(200);
    assert_eq!(
        (
            &changed["spec"]["replicas"],
            &changed["metadata"]["generation"]
        ),
        (&json!(2), &json!(2))
    );
    // what is not applied any more falls back to its default
    let dropped = api.apply(&path, "a", deployment(None)).await.expect(200);
    assert_eq!(dropped["spec"]["replicas"], 1);
    // a dry run says what would be
    let dry = api
        .apply(&path, "a&dryRun=All", deployment(Some(5)))
        .await
        .expect(200);
    assert_eq!(dry["spec"]["replicas"], 5);
    assert_eq!(api.get(&path).await.expect(200), dropped);
}

#[tokio::test]
async fn conflicts_are_told_field_by_field_and_can_be_forced() {
    let api = Api::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    api.apply(&path, "a", deployment(Some(1))).await.expect(201);
    let scale = json!({ "spec": { "replicas": 3 } });
    api.patch(&format!("{path}/scale?fieldManager=hpa"), "merge", scale)
        .await
        .expect(200);
    let message = "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\" using apps/v1: .spec.replicas";
    let status = api
        .apply(&path, "a", deployment(Some(1)))
        .await
        .refused(409, "Conflict", message);
    assert_eq!(
        status["details"],
        json!({ "causes": [{
            "reason": "FieldManagerConflict",
            "message": "conflict with \"hpa\" with subresource \"scale\" using apps/v1",
            "field": ".spec.replicas",
        }] })
    );
    let forced = api
        .apply(&path, "a&force=true", deployment(Some(1)))
        .await
        .expect(200);
    assert_eq!(
        (names(&forced), &forced["spec"]["replicas"]),
        (vec!["a Apply".to_owned()], &json!(1))
    );
    // a Scale can be applied too
    let scale = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "web" }, "spec": { "replicas": 4 } });
    let path_of_scale = format!("{path}/scale");
    api.apply(&path_of_scale, "s", scale.clone()).await.refused(
        409,
        "Conflict",
        "conflict with \"a\": .spec.replicas",
    );
    let scaled = api
        .apply(&path_of_scale, "s&force=true", scale)
        .await
        .expect(200);
    assert_eq!(
        (&scaled["kind"], &scaled["spec"]["replicas"]),
        (&json!("Scale"), &json!(4))
    );
    let stored = api.get(&path).await.expect(200);
    assert_eq!(names(&stored), ["a Apply", "s Apply scale"]);
}

#[tokio::test]
async fn a_status_is_applied_on_its_own() {
    let api = Api::start().await;
    let path = format!("{DEPLOYMENTS}/web");
    let status = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" }, "status": { "replicas": 2, "readyReplicas": 1 } });
    let status_path = format!("{path}/status");
    api.apply(&status_path, "ctl", status.clone())
        .await
        .refused(404, "NotFound", "");
    api.apply(&path, "a", deployment(Some(1))).await.expect(201);
    let applied = api.apply(&status_path, "ctl", status).await.expect(200);
    assert_eq!(
        (&applied["status"]["replicas"], &applied["spec"]["replicas"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(names(&applied), ["a Apply", "ctl Apply status"]);
    let again = api.apply(&path, "a", deployment(Some(1))).await.expect(200);
    assert_eq!(again, applied);
}

#[tokio::test]
async fn what_cannot_be_applied_is_refused() {
    let api = Api::start().await;
    let path = format!("{MAPS}/a");
    api.post(&format!("{MAPS}?fieldManager=a"), config_map("b", "1"))
        .await
        .expect(201);
    let map = |change: fn(&mut Value)| {
        let mut map = config_map("a", "1");
        change(&mut map);
        map.to_string()
    };
    // query, body, code, reason, message
    let plain = config_map("a", "1").to_string();
    let long = format!("fieldManager={}", "x".repeat(129));
    let cases = [
        (
            "",
            plain.clone(),
            422,
            "Invalid",
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        (
            &*long,
            plain.clone(),
            422,
            "Invalid",
            "fieldManager: Too long: may not be more than 128 bytes",
        ),
        (
            "fieldManager=a%07",
            plain.clone(),
            422,
            "Invalid",
            "invalid character U+0007 (at position 1)",
        ),
        (
            "fieldManager=a",
            "[1]".to_owned(),
            400,
            "BadRequest",
            "error decoding patch",
        ),
        (
            "fieldManager=a",
            "a: [".to_owned(),
            400,
            "BadRequest",
            "error decoding patch: error converting YAML to JSON",
        ),
        (
            "fieldManager=a",
            map(|m| m["apiVersion"] = json!("v2")),
            400,
            "BadRequest",
            "invalid object type: /v2, Kind=ConfigMap",
        ),
        (
            "fieldManager=a",
            map(|m| m["kind"] = json!("Secret")),
            400,
            "BadRequest",
            "invalid object type: /v1, Kind=Secret",
        ),
        (
            "fieldManager=a",
            map(|m| m["metadata"]["managedFields"] = json!([])),
            400,
            "BadRequest",
            "metadata.managedFields must be nil",
        ),
        (
            "fieldManager=a",
            map(|m| m["metadata"]["name"] = json!("b")),
            400,
            "BadRequest",
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            "fieldManager=a",
            map(|m| m["metadata"] = json!({})),
            400,
            "BadRequest",
            "the name of the object (a based on URL) was undeterminable",
        ),
        (
            "fieldManager=a",
            map(|m| m["metadata"]["namespace"] = json!("x")),
            400,
            "BadRequest",
            "the namespace of the provided object does not match",
        ),
        (
            "fieldManager=a",
            map(|m| m["metadata"]["uid"] = json!("u")),
            409,
            "Conflict",
            "uid mismatch: the provided object specified uid u, and no existing object was found",
        ),
        (
            "fieldManager=a",
            map(|m| m["foo"] = json!(1)),
            500,
            "",
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .foo: field not declared in schema",
        ),
        (
            "fieldManager=a&fieldValidation=Strict",
            "a: 1\na: 2\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
                .replace("a: 1\na: 2\n", "immutable: true\nimmutable: true\n"),
            400,
            "BadRequest",
            "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  line 2: key \"immutable\" already set in map",
        ),
        (
            "fieldManager=a",
            map(|m| m["data"] = json!({ "no/key": "x" })),
            422,
            "Invalid",
            "data",
        ),
    ];
    let headers = [("content-type", "application/apply-patch+yaml")];
    for (query, body, code, reason, message) in cases {
        let answer = api
            .send("PATCH", &format!("{path}?{query}"), &headers, &body)
            .await;
        answer.refused(code, reason, message);
    }
    api.get(&path).await.expect(404);
    let forced = api
        .patch(&format!("{MAPS}/b?force=true"), "merge", json!({}))
        .await;
    forced.refused(
        422,
        "Invalid",
        "force: Forbidden: may not be specified for non-apply patch",
    );
}

#[tokio::test]
async fn yaml_is_applied_and_its_duplicates_are_warned_of() {
    let api = Api::start().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '1'\n  x: '2'\n";
    let headers = [("content-type", "application/apply-patch+yaml")];
    let answer = api
        .send("PATCH", &format!("{MAPS}/a?fieldManager=a"), &headers, yaml)
        .await;
    assert_eq!(answer.expect(201)["data"], json!({ "x": "2" }));
    assert!(
        answer
            .header("warning")
            .contains("key \\\"x\\\" already set in map"),
        "{:?}",
        answer.headers
    );
    let quiet = api
        .send(
            "PATCH",
            &format!("{MAPS}/a?fieldManager=a&fieldValidation=Ignore"),
            &headers,
            yaml,
        )
        .await;
    quiet.expect(200);
    assert_eq!(quiet.header("warning"), "");
}

#[tokio::test]
async fn versions_of_an_event_know_each_others_owners() {
    let api = Api::start().await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": "e", "namespace": "default" },
        "involvedObject": { "kind": "Pod", "namespace": "default", "name": "p" },
        "reason": "Started", "message": "one", "type": "Normal", "count": 1,
    });
    let core = "/api/v1/namespaces/default/events/e";
    let other = "/apis/events.k8s.io/v1/namespaces/default/events/e";
    api.apply(core, "a", event.clone()).await.expect(201);
    let seen = api.get(other).await.expect(200);
    assert_eq!(
        (names(&seen), &seen["note"]),
        (vec!["a Apply".to_owned()], &json!("one"))
    );
    let note = |note: &str| json!({ "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": "e" }, "note": note });
    api.apply(other, "b", note("two")).await.refused(
        409,
        "Conflict",
        "conflict with \"a\": .message",
    );
    // the same value is shared, and stays when one of the two goes on without it
    api.apply(other, "b", note("one")).await.expect(200);
    let mut without = event;
    without.as_object_mut().unwrap().remove("message");
    let applied = api.apply(core, "a", without).await.expect(200);
    assert_eq!(applied["message"], "one");
    assert_eq!(owners(&applied)["a Apply"].get("f:message"), None);
    assert_eq!(owners(&applied)["b Apply"], json!({ "f:note": {} }));
    let entries = applied["metadata"]["managedFields"].as_array().unwrap();
    let versions: Vec<_> = entries.iter().map(|entry| &entry["apiVersion"]).collect();
    assert!(versions.contains(&&json!("v1")) && versions.contains(&&json!("events.k8s.io/v1")));
}

#[tokio::test]
async fn two_who_apply_at_once_both_get_through() {
    let api = Api::start().await;
    let path = format!("{MAPS}/a");
    let part = |key: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { key: "" } });
    let keys: Vec<String> = (0..8).map(|n| format!("k{n}")).collect();
    let applies = keys.iter().map(|key| api.apply(&path, key, part(key)));
    let answers = futures::future::join_all(applies).await;
    assert_eq!(
        answers.iter().filter(|answer| answer.code == 201).count(),
        1
    );
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer.code, 200 | 201))
    );
    let stored = api.get(&path).await.expect(200);
    assert_eq!(stored["data"].as_object().unwrap().len(), 8);
    assert_eq!(names(&stored).len(), 8);
}
