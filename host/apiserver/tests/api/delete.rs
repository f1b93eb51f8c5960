//! Deletion: grace, finalizers, preconditions, collections.

use serde_json::{Value, json};

use crate::harness::{Api, MAPS, PODS, config_map, pod};

/// DELETE with options in the body.
async fn delete_with(api: &Api, path: &str, options: Value) -> crate::harness::Answer {
    api.send("DELETE", path, &[], &options.to_string()).await
}

async fn with_finalizers(api: &Api, name: &str, finalizers: &[&str]) -> Value {
    let mut map = config_map(name, "1");
    map["metadata"]["finalizers"] = json!(finalizers);
    api.post(MAPS, map).await.expect(201)
}

#[tokio::test]
async fn a_final_deletion_answers_with_a_status_or_the_object() {
    let api = Api::start().await;
    let map = api.post(MAPS, config_map("a", "1")).await.expect(201);
    let answer = api.delete(&format!("{MAPS}/a")).await.expect(200);
    assert_eq!(
        answer,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": { "name": "a", "kind": "configmaps", "uid": map["metadata"]["uid"] },
        })
    );
    api.delete(&format!("{MAPS}/a"))
        .await
        .refused(404, "NotFound", "configmaps \"a\" not found");
    api.post(PODS, pod("p")).await.expect(201);
    let answer = api.delete(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(
        (&answer["kind"], &answer["metadata"]["name"]),
        (&json!("Pod"), &json!("p"))
    );
    assert_eq!(api.get(&format!("{PODS}/p")).await.code, 404);
}

#[tokio::test]
async fn finalizers_hold_until_the_last_is_removed() {
    let api = Api::start().await;
    with_finalizers(&api, "a", &["example.com/one", "example.com/two"]).await;
    let path = format!("{MAPS}/a");
    let marked = api.delete(&path).await.expect(200);
    assert_eq!(marked["kind"], "ConfigMap");
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = api.delete(&path).await.expect(200);
    assert_eq!(
        again["metadata"]["resourceVersion"],
        marked["metadata"]["resourceVersion"]
    );
    api.post(MAPS, config_map("a", "1")).await.refused(
        409,
        "AlreadyExists",
        "object is being deleted: configmaps \"a\" already exists",
    );
    let more = json!({ "metadata": { "finalizers": ["example.com/one", "example.com/two", "example.com/three"] } });
    api.patch(&path, "merge", more)
        .await
        .refused(422, "Invalid", "no new finalizers can be added");
    let one =
        json!({ "metadata": { "finalizers": ["example.com/one"], "deletionTimestamp": null } });
    let held = api.patch(&path, "merge", one).await.expect(200);
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    let last = api
        .patch(
            &path,
            "merge",
            json!({ "metadata": { "finalizers": null } }),
        )
        .await
        .expect(200);
    assert_eq!(last["metadata"]["name"], "a");
    assert_eq!(api.get(&path).await.code, 404);
}

#[tokio::test]
async fn the_propagation_policy_becomes_a_finalizer() {
    let api = Api::start().await;
    let cases = [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")];
    for (policy, finalizer) in cases {
        let name = finalizer.to_lowercase();
        api.post(MAPS, config_map(&name, "1")).await.expect(201);
        let path = format!("{MAPS}/{name}");
        let marked = delete_with(&api, &path, json!({ "propagationPolicy": policy }))
            .await
            .expect(200);
        assert_eq!(marked["metadata"]["finalizers"], json!([finalizer]));
        // background takes it back
        delete_with(&api, &path, json!({ "propagationPolicy": "Background" }))
            .await
            .expect(200);
        assert_eq!(api.get(&path).await.code, 404);
    }
    api.post(MAPS, config_map("both", "1")).await.expect(201);
    let both = json!({ "propagationPolicy": "Orphan", "orphanDependents": true });
    delete_with(&api, &format!("{MAPS}/both"), both)
        .await
        .refused(422, "Invalid", "cannot be both set");
    with_finalizers(&api, "kept", &["example.com/x"]).await;
    let marked = api
        .delete(&format!("{MAPS}/kept?propagationPolicy=Foreground"))
        .await
        .expect(200);
    assert_eq!(
        marked["metadata"]["finalizers"],
        json!(["example.com/x", "foregroundDeletion"])
    );
}

#[tokio::test]
async fn preconditions_must_hold() {
    let api = Api::start().await;
    let map = api.post(MAPS, config_map("a", "1")).await.expect(201);
    let path = format!("{MAPS}/a");
    let wrong = json!({ "preconditions": { "uid": "other" } });
    delete_with(&api, &path, wrong).await.refused(
        409,
        "Conflict",
        "the UID in the precondition (other)",
    );
    let wrong = json!({ "preconditions": { "resourceVersion": "1" } });
    delete_with(&api, &path, wrong).await.refused(
        409,
        "Conflict",
        "the ResourceVersion in the precondition (1)",
    );
    let right = json!({ "preconditions": {
        "uid": map["metadata"]["uid"], "resourceVersion": map["metadata"]["resourceVersion"],
    } });
    delete_with(&api, &path, right).await.expect(200);
}

#[tokio::test]
async fn a_scheduled_pod_gets_its_grace_and_a_second_deletion_only_shortens_it() {
    let api = Api::start().await;
    let mut scheduled = pod("p");
    scheduled["spec"]["nodeName"] = json!("node-0");
    api.post(PODS, scheduled).await.expect(201);
    let path = format!("{PODS}/p");
    let grace = |answer: &Value| answer["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let first = api.delete(&path).await.expect(200);
    assert_eq!(grace(&first), Some(30));
    assert_eq!(first["metadata"]["generation"], 2);
    let longer = api
        .delete(&format!("{path}?gracePeriodSeconds=60"))
        .await
        .expect(200);
    assert_eq!(longer, first);
    let shorter = api
        .delete(&format!("{path}?gracePeriodSeconds=5"))
        .await
        .expect(200);
    assert_eq!(grace(&shorter), Some(5));
    let time = |answer: &Value| {
        answer["metadata"]["deletionTimestamp"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    assert_eq!(time(&first).as_second() - time(&shorter).as_second(), 25);
    api.delete(&format!("{path}?gracePeriodSeconds=0"))
        .await
        .expect(200);
    assert_eq!(api.get(&path).await.code, 404);
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let api = Api::start().await;
    for (name, app) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let mut map = config_map(name, "1");
        map["metadata"]["labels"] = json!({ "app": app });
        api.post(MAPS, map).await.expect(201);
    }
    let dry = api
        .delete(&format!("{MAPS}?labelSelector=app%3Dx&dryRun=All"))
        .await
        .expect(200);
    assert_eq!(dry["items"].as_array().unwrap().len(), 2);
    let deleted = api
        .delete(&format!("{MAPS}?labelSelector=app%3Dx"))
        .await
        .expect(200);
    assert_eq!(deleted["kind"], "ConfigMapList");
    assert_eq!(deleted["items"].as_array().unwrap().len(), 2);
    let left = api.get(MAPS).await.expect(200);
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    assert_eq!(left["items"][0]["metadata"]["name"], "c");
}

#[tokio::test]
async fn a_namespace_waits_for_its_own_finalizer() {
    let api = Api::start().await;
    let path = "/api/v1/namespaces/n";
    let created = api
        .post("/api/v1/namespaces", json!({ "metadata": { "name": "n" } }))
        .await
        .expect(201);
    assert_eq!(created["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(
        created["metadata"]["labels"]["kubernetes.io/metadata.name"],
        "n"
    );
    let marked = api.delete(path).await.expect(200);
    assert_eq!(
        (&marked["kind"], &marked["status"]["phase"]),
        (&json!("Namespace"), &json!("Terminating"))
    );
    let mut main = marked.clone();
    main["spec"]["finalizers"] = json!([]);
    let unchanged = api.put(path, main.clone()).await.expect(200);
    assert_eq!(unchanged["spec"]["finalizers"], json!(["kubernetes"]));
    api.put(&format!("{path}/finalize"), main).await.expect(200);
    assert_eq!(api.get(path).await.code, 404);
    for name in ["default", "kube-system", "kube-public"] {
        api.delete(&format!("/api/v1/namespaces/{name}"))
            .await
            .refused(403, "Forbidden", "this namespace may not be deleted");
    }
}
