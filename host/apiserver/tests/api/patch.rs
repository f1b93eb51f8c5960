//! Patches in their three types.

use serde_json::json;

use crate::harness::{Api, MAPS, config_map};

#[tokio::test]
async fn each_type_patches_in_its_way() {
    let api = Api::start().await;
    let path = format!("{MAPS}/a");
    api.post(MAPS, config_map("a", "1")).await.expect(201);
    let merged = api
        .patch(
            &path,
            "merge",
            json!({ "data": { "key": null, "new": "2" } }),
        )
        .await
        .expect(200);
    assert_eq!(merged["data"], json!({ "new": "2" }));
    let operations = json!([{ "op": "test", "path": "/data/new", "value": "2" }, { "op": "replace", "path": "/data/new", "value": "3" }]);
    let patched = api.patch(&path, "json", operations).await.expect(200);
    assert_eq!(patched["data"], json!({ "new": "3" }));
    let finalizers = json!({ "metadata": { "finalizers": ["example.com/a"] } });
    api.patch(&path, "strategic-merge", finalizers)
        .await
        .expect(200);
    let more = json!({ "metadata": { "finalizers": ["example.com/b"] } });
    let merged = api.patch(&path, "strategic-merge", more).await.expect(200);
    assert_eq!(
        merged["metadata"]["finalizers"].as_array().unwrap().len(),
        2
    );
}

#[tokio::test]
async fn what_cannot_be_applied_is_refused() {
    let api = Api::start().await;
    let path = format!("{MAPS}/a");
    let stored = api.post(MAPS, config_map("a", "1")).await.expect(201);
    let cases = [
        (
            "merge",
            json!([1]),
            400,
            "BadRequest",
            "error decoding patch",
        ),
        (
            "json",
            json!({ "op": "add" }),
            400,
            "BadRequest",
            "error decoding patch",
        ),
        (
            "json",
            json!([{ "op": "test", "path": "/data/key", "value": "9" }]),
            422,
            "Invalid",
            "",
        ),
        (
            "json",
            json!([{ "op": "remove", "path": "/data/none" }]),
            422,
            "Invalid",
            "",
        ),
        (
            "merge",
            json!({ "data": { "key": 7 } }),
            422,
            "Invalid",
            "patch: Invalid value",
        ),
        (
            "merge",
            json!({ "metadata": { "name": "b" } }),
            422,
            "Invalid",
            "metadata.name",
        ),
        (
            "merge",
            json!({ "metadata": { "resourceVersion": "1" } }),
            409,
            "Conflict",
            "the object has been modified",
        ),
        (
            "merge",
            json!({ "metadata": { "uid": "other" } }),
            409,
            "Conflict",
            "UID",
        ),
    ];
    for (kind, body, code, reason, message) in cases {
        api.patch(&path, kind, body)
            .await
            .refused(code, reason, message);
    }
    let none = format!("{MAPS}/none");
    api.patch(&none, "merge", json!({})).await.refused(
        404,
        "NotFound",
        "configmaps \"none\" not found",
    );
    let many = vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); 10_001];
    let answer = api.patch(&path, "json", json!(many)).await;
    answer.refused(
        413,
        "RequestEntityTooLarge",
        "The allowed maximum operations in a JSON patch is 10000, got 10001",
    );
    let answer = api.patch(&path, "json", json!(many[1..])).await;
    answer.expect(200);
    for media in ["application/json", "application/apply-patch+cbor", ""] {
        let headers = [("content-type", media)];
        let headers = if media.is_empty() {
            &[][..]
        } else {
            &headers[..]
        };
        let answer = api.send("PATCH", &path, headers, "{}").await;
        answer.refused(415, "UnsupportedMediaType", "application/merge-patch+json");
    }
    assert_eq!(api.get(&path).await.expect(200), stored);
}
