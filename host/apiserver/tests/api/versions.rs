//! One resource in two versions: one storage, one cache, and what is asked for in the other version is converted.

use serde_json::{Value, json};

use crate::harness::Api;

const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";

fn autoscaler(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "maxReplicas": 5,
        },
    })
}

fn with_pods_metric(name: &str) -> Value {
    let mut autoscaler = autoscaler(name);
    autoscaler["spec"]["metrics"] = json!([
        { "type": "Pods", "pods": { "metric": { "name": "rps" }, "target": { "type": "AverageValue", "averageValue": "100" } } },
    ]);
    autoscaler
}

#[tokio::test]
async fn each_version_shows_what_the_other_wrote() {
    let api = Api::start().await;
    let created = api.post(V1, autoscaler("old")).await.expect(201);
    assert_eq!(created["apiVersion"], "autoscaling/v1");
    let new = api.get(&format!("{V2}/old")).await.expect(200);
    assert_eq!(new["apiVersion"], "autoscaling/v2");
    assert_eq!(
        new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"],
        80
    );
    assert_eq!(
        new["metadata"]["resourceVersion"],
        created["metadata"]["resourceVersion"]
    );

    api.post(V2, with_pods_metric("new")).await.expect(201);
    let old = api.get(&format!("{V1}/new")).await.expect(200);
    assert!(old["metadata"]["annotations"][METRICS].is_string());
    assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], Value::Null);
    let list = api.get(V1).await.expect(200);
    assert_eq!(list["apiVersion"], "autoscaling/v1");
    let names: Vec<&Value> = list["items"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|item| item["kind"].is_null()));
}

#[tokio::test]
async fn a_write_through_the_other_version_keeps_what_it_cannot_show() {
    let api = Api::start().await;
    let created = api.post(V2, with_pods_metric("web")).await.expect(201);
    let path = format!("{V1}/web");
    let same = api.get(&path).await.expect(200);
    let unchanged = api.put(&path, same.clone()).await.expect(200);
    assert_eq!(
        unchanged["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"],
        "what says the same in another version is no change"
    );
    let patched = api
        .patch(&path, "merge", json!({ "spec": { "maxReplicas": 9 } }))
        .await
        .expect(200);
    assert_eq!(patched["apiVersion"], "autoscaling/v1");
    let stored = api.get(&format!("{V2}/web")).await.expect(200);
    assert_eq!(stored["spec"]["maxReplicas"], 9);
    assert_eq!(stored["spec"]["metrics"], created["spec"]["metrics"]);

    let status = json!({ "status": { "currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 40 } });
    api.patch(&format!("{path}/status"), "merge", status)
        .await
        .expect(200);
    let stored = api.get(&format!("{V2}/web")).await.expect(200);
    assert_eq!(stored["status"]["desiredReplicas"], 3);
    assert_eq!(
        stored["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"],
        40
    );
    let mut broken = same;
    broken["metadata"]["annotations"][METRICS] = json!("{");
    broken["metadata"]["resourceVersion"] = Value::Null;
    api.put(&path, broken)
        .await
        .refused(400, "BadRequest", "annotation");
    let wrong = json!({ "spec": { "maxReplicas": 0 } });
    api.patch(&path, "merge", wrong)
        .await
        .refused(422, "Invalid", "spec.maxReplicas");
    api.put(&path, json!({ "apiVersion": "autoscaling/v2" }))
        .await
        .refused(400, "BadRequest", "autoscaling/v2");
}

#[tokio::test]
async fn watches_and_tables_are_in_the_version_asked_for() {
    let api = Api::start().await;
    let mut old = api.watch(&format!("{V1}?watch=true"), &[]).await;
    let mut new = api.watch(&format!("{V2}?watch=true"), &[]).await;
    api.post(V2, with_pods_metric("web")).await.expect(201);
    for (watch, version) in [(&mut old, "autoscaling/v1"), (&mut new, "autoscaling/v2")] {
        let event = watch.next().await.unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["apiVersion"]),
            (&json!("ADDED"), &json!(version))
        );
    }
    let accept = [(
        "accept",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    )];
    let rows = |table: Value| table["rows"][0]["cells"].clone();
    let of_v1 = api.send("GET", V1, &accept, "").await.expect(200);
    let of_v2 = api.send("GET", V2, &accept, "").await.expect(200);
    assert_eq!(of_v1["kind"], "Table");
    assert_eq!(rows(of_v1), rows(of_v2));
}

#[tokio::test]
async fn the_newer_version_is_preferred() {
    let api = Api::start().await;
    let group = api.get("/apis/autoscaling").await.expect(200);
    assert_eq!(group["preferredVersion"]["groupVersion"], "autoscaling/v2");
    let hash = |list: Value| {
        let resources = list["resources"].as_array().unwrap().clone();
        let main = resources
            .into_iter()
            .find(|r| r["name"] == "horizontalpodautoscalers");
        main.unwrap()["storageVersionHash"].clone()
    };
    let v1 = hash(api.get("/apis/autoscaling/v1").await.expect(200));
    let v2 = hash(api.get("/apis/autoscaling/v2").await.expect(200));
    assert_eq!(v1, v2, "both are kept in one version");
}

#[tokio::test]
async fn an_apply_goes_through_either_version() {
    let api = Api::start().await;
    let apply = async |base: &str, version: &str, manager: &str, spec: Value| {
        let mut body = autoscaler("web");
        body["apiVersion"] = json!(format!("autoscaling/{version}"));
        body["kind"] = json!("HorizontalPodAutoscaler");
        for (field, value) in spec.as_object().unwrap() {
            body["spec"][field] = value.clone();
        }
        let path = format!("{base}/web?fieldManager={manager}");
        let media = [("content-type", "application/apply-patch+yaml")];
        api.send("PATCH", &path, &media, &body.to_string()).await
    };
    apply(V2, "v2", "new", json!({ "minReplicas": 2 }))
        .await
        .expect(201);
    let applied = apply(
        V1,
        "v1",
        "old",
        json!({ "targetCPUUtilizationPercentage": 50 }),
    )
    .await;
    let status = if applied.code == 200 {
        applied.json()
    } else {
        panic!("{}", applied.text())
    };
    assert_eq!(status["apiVersion"], "autoscaling/v1");
    let stored = api.get(&format!("{V2}/web")).await.expect(200);
    assert_eq!(stored["spec"]["minReplicas"], 2);
    let again = apply(V2, "v2", "new", json!({ "minReplicas": 3 }))
        .await
        .expect(200);
    assert_eq!(again["spec"]["minReplicas"], 3);
    let managers: Vec<&Value> = again["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["manager"])
        .collect();
    assert_eq!(managers, [&json!("new"), &json!("old")]);
}
