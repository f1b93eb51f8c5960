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

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn budget(name: &str) -> serde_json::Value {
    json!({
        "metadata": { "name": name },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    })
}

/// A pod of the app that runs, ready or not.
async fn running(api: &Api, name: &str, ready: &str) {
    let mut web = pod(name);
    web["metadata"]["labels"] = json!({ "app": "web" });
    web["spec"]["nodeName"] = json!("node-0");
    api.post(PODS, web).await.expect(201);
    let status = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] } });
    api.patch(&format!("{PODS}/{name}/status"), "merge", status)
        .await
        .expect(200);
}

#[tokio::test]
async fn an_eviction_honours_the_pods_budget() {
    let api = Api::start().await;
    for name in ["a", "b"] {
        running(&api, name, "True").await;
    }
    running(&api, "sick", "False").await;
    let created = api.post(BUDGETS, budget("web")).await.expect(201);
    assert_eq!(created["metadata"]["generation"], 1);
    let evict = async |name: &str| {
        let eviction = json!({ "metadata": { "name": name } });
        api.post(&format!("{PODS}/{name}/eviction"), eviction).await
    };
    let cause = |status: serde_json::Value| {
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["reason"], "DisruptionBudget");
        cause["message"].as_str().unwrap().to_owned()
    };
    let answer = evict("a").await;
    assert_eq!(answer.header("retry-after"), "10");
    let refused = answer.refused(429, "TooManyRequests", "disruption budget");
    assert_eq!(
        cause(refused),
        "The disruption budget web is still being processed by the server."
    );

    let judged = |allowed: i32| {
        json!({ "status": {
            "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 3,
        } })
    };
    let status = format!("{BUDGETS}/web/status");
    api.patch(&status, "merge", judged(1)).await.expect(200);
    let dry = json!({ "metadata": { "name": "a" }, "deleteOptions": { "dryRun": ["All"] } });
    api.post(&format!("{PODS}/a/eviction"), dry)
        .await
        .expect(201);
    let left = api.get(&format!("{BUDGETS}/web")).await.expect(200);
    assert_eq!(left["status"]["disruptionsAllowed"], 1);

    evict("sick").await.expect(201);
    let left = api.get(&format!("{BUDGETS}/web")).await.expect(200);
    assert_eq!(
        left["status"]["disruptionsAllowed"], 1,
        "a pod that counts for nothing costs nothing"
    );

    evict("a").await.expect(201);
    let evicted = api.get(&format!("{PODS}/a")).await.expect(200);
    assert!(evicted["metadata"]["deletionTimestamp"].is_string());
    let conditions = evicted["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|c| c["type"] == "DisruptionTarget" && c["reason"] == "EvictionByEvictionAPI")
    );
    let spent = api.get(&format!("{BUDGETS}/web")).await.expect(200);
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert!(spent["status"]["disruptedPods"]["a"].is_string());
    assert_eq!(spent["metadata"]["generation"], 1);

    let refused = evict("b")
        .await
        .refused(429, "TooManyRequests", "disruption budget");
    assert_eq!(
        cause(refused),
        "The disruption budget web needs 1 healthy pods and has 2 currently"
    );
    api.post(BUDGETS, budget("web-too")).await.expect(201);
    evict("b").await.refused(500, "", "more than one");
}

#[tokio::test]
async fn a_budget_is_not_overwritten_blindly() {
    let api = Api::start().await;
    api.post(BUDGETS, budget("web")).await.expect(201);
    let path = format!("{BUDGETS}/web");
    api.put(&path, budget("web"))
        .await
        .refused(422, "Invalid", "metadata.resourceVersion");
}
