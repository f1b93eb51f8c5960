//! The subresources that only pods have.

use serde_json::json;

use crate::harness::{Api, PODS, pod};

#[tokio::test]
async fn a_binding_assigns_once() {
    let api = Api::start().await;
    let created = api.post(PODS, pod("p")).await.expect(201);
    assert_eq!(created["status"]["phase"], "Pending");
    let path = format!("{PODS}/p/binding");
    let binding = |node: &str| {
        json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": { "name": "p", "annotations": { "a": "b" } },
            "target": { "kind": "Node", "name": node },
        })
    };
    api.post(&path, binding(""))
        .await
        .refused(422, "Invalid", "target.name");
    let mut other = binding("node-0");
    other["metadata"]["uid"] = json!("other");
    api.post(&path, other).await.refused(409, "Conflict", "UID");
    let mut other = binding("node-0");
    other["metadata"]["name"] = json!("q");
    api.post(&path, other)
        .await
        .refused(400, "BadRequest", "name in URL");

    let answer = api.post(&path, binding("node-0")).await.expect(201);
    assert_eq!(
        (&answer["kind"], &answer["status"]),
        (&json!("Status"), &json!("Success"))
    );
    let bound = api.get(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(
        (
            &bound["spec"]["nodeName"],
            &bound["metadata"]["annotations"]["a"]
        ),
        (&json!("node-0"), &json!("b"))
    );
    let conditions = bound["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|c| c["type"] == "PodScheduled" && c["status"] == "True")
    );
    let again = api
        .post("/api/v1/namespaces/default/bindings", binding("node-1"))
        .await;
    again.refused(409, "Conflict", "already assigned to node \"node-0\"");
    api.post(
        &format!("{PODS}/none/binding"),
        json!({ "target": { "name": "n" } }),
    )
    .await
    .refused(404, "NotFound", "");
}

#[tokio::test]
async fn an_eviction_deletes() {
    let api = Api::start().await;
    for name in ["p", "q"] {
        let mut scheduled = pod(name);
        scheduled["spec"]["nodeName"] = json!("node-0");
        api.post(PODS, scheduled).await.expect(201);
    }
    let eviction =
        json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" } });
    let answer = api
        .post(&format!("{PODS}/p/eviction"), eviction)
        .await
        .expect(201);
    assert_eq!(answer["status"], "Success");
    let evicted = api.get(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(evicted["metadata"]["deletionGracePeriodSeconds"], 30);
    let at_once =
        json!({ "metadata": { "name": "q" }, "deleteOptions": { "gracePeriodSeconds": 0 } });
    api.post(&format!("{PODS}/q/eviction"), at_once)
        .await
        .expect(201);
    assert_eq!(api.get(&format!("{PODS}/q")).await.code, 404);
}
