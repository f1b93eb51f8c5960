//! Creation and update.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_api::Status;
use pilothouse_apiserver::admission::{
    AdmissionChain, Mutation, Operation, Phase, Readable, Request,
};
use serde_json::{Value, json};

use crate::harness::{Api, MAPS, PODS, config_map, pod};

#[tokio::test]
async fn creation_fills_and_wipes_metadata() {
    let api = Api::start().await;
    let mut map = config_map("a", "1");
    map["metadata"]["uid"] = json!("mine");
    map["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    map["metadata"]["deletionTimestamp"] = json!("2001-01-01T00:00:00Z");
    map["metadata"]["selfLink"] = json!("/x");
    let created = api.post(MAPS, map).await.expect(201);
    let metadata = &created["metadata"];
    assert_eq!(
        (&metadata["name"], &metadata["namespace"]),
        (&json!("a"), &json!("default"))
    );
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert!(
        !metadata["creationTimestamp"]
            .as_str()
            .unwrap()
            .starts_with("2001")
    );
    for wiped in ["deletionTimestamp", "selfLink", "generation"] {
        assert!(metadata[wiped].is_null(), "{wiped}");
    }
    assert_eq!(api.get(&format!("{MAPS}/a")).await.expect(200), created);
    api.post(MAPS, config_map("a", "2")).await.refused(
        409,
        "AlreadyExists",
        "configmaps \"a\" already exists",
    );
}

#[tokio::test]
async fn creation_refuses_contradictions() {
    let api = Api::start().await;
    let mut versioned = config_map("a", "1");
    versioned["metadata"]["resourceVersion"] = json!("5");
    api.post(MAPS, versioned).await.refused(
        500,
        "",
        "resourceVersion should not be set on objects to be created",
    );
    let mut elsewhere = config_map("a", "1");
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    api.post(MAPS, elsewhere).await.refused(
        400,
        "BadRequest",
        "does not match the namespace sent on the request",
    );
    let namespace = json!({ "metadata": { "name": "n", "namespace": "ignored" } });
    let created = api.post("/api/v1/namespaces", namespace).await.expect(201);
    assert!(created["metadata"]["namespace"].is_null());
}

#[tokio::test]
async fn names_are_generated() {
    let api = Api::start().await;
    let mut names = Vec::new();
    for _ in 0..5 {
        let map = json!({ "metadata": { "generateName": "gen-" } });
        let created = api.post(MAPS, map).await.expect(201);
        names.push(created["metadata"]["name"].as_str().unwrap().to_owned());
    }
    assert!(
        names
            .iter()
            .all(|name| name.starts_with("gen-") && name.len() == 9),
        "{names:?}"
    );
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 5);
}

#[tokio::test]
async fn a_stale_version_conflicts_and_none_overwrites() {
    let api = Api::start().await;
    let path = format!("{MAPS}/a");
    let first = api.post(MAPS, config_map("a", "1")).await.expect(201);
    let mut second = first.clone();
    second["data"]["key"] = json!("2");
    let updated = api.put(&path, second.clone()).await.expect(200);
    assert_ne!(
        updated["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    second["data"]["key"] = json!("3");
    let stale = api.put(&path, second).await;
    stale.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified",
    );
    let overwritten = api.put(&path, config_map("a", "4")).await.expect(200);
    assert_eq!(overwritten["data"]["key"], "4");
    assert_eq!(overwritten["metadata"]["uid"], first["metadata"]["uid"]);
    let mut other = config_map("a", "5");
    other["metadata"]["uid"] = json!("11111111-1111-4111-8111-111111111111");
    api.put(&path, other).await.refused(
        409,
        "Conflict",
        "Precondition failed: UID in precondition",
    );
    assert_eq!(api.get(&path).await.expect(200), overwritten);
}

#[tokio::test]
async fn an_update_must_name_what_the_url_names() {
    let api = Api::start().await;
    api.post(MAPS, config_map("a", "1")).await.expect(201);
    let path = format!("{MAPS}/a");
    api.put(&path, config_map("b", "1")).await.refused(
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    );
    let mut elsewhere = config_map("a", "1");
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    api.put(&path, elsewhere)
        .await
        .refused(400, "BadRequest", "namespace");
    api.put(&format!("{MAPS}/none"), config_map("none", "1"))
        .await
        .refused(404, "NotFound", "configmaps \"none\" not found");
}

#[tokio::test]
async fn a_write_that_changes_nothing_writes_nothing() {
    let api = Api::start().await;
    let path = format!("{MAPS}/a");
    let first = api.post(MAPS, config_map("a", "1")).await.expect(201);
    let version = &first["metadata"]["resourceVersion"];
    let same = api.put(&path, first.clone()).await.expect(200);
    assert_eq!(&same["metadata"]["resourceVersion"], version);
    let patched = api
        .patch(&path, "merge", json!({ "data": { "key": "1" } }))
        .await
        .expect(200);
    assert_eq!(&patched["metadata"]["resourceVersion"], version);
}

#[tokio::test]
async fn put_creates_where_the_kind_allows_it() {
    let api = Api::start().await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let lease = json!({ "metadata": { "name": "l" }, "spec": { "holderIdentity": "me", "leaseDurationSeconds": 10 } });
    let created = api.put(path, lease.clone()).await.expect(201);
    api.put(path, lease).await.refused(
        422,
        "Invalid",
        "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
    );
    let mut again = created;
    again["spec"]["holderIdentity"] = json!("you");
    assert_eq!(
        api.put(path, again).await.expect(200)["spec"]["holderIdentity"],
        "you"
    );
}

#[tokio::test]
async fn generation_counts_changes_of_the_spec_only() {
    let api = Api::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "nginx" }] },
            },
        },
    });
    let created = api.post(deployments, deployment).await.expect(201);
    assert_eq!(created["metadata"]["generation"], 1);
    let path = format!("{deployments}/web");
    let labelled = api
        .patch(
            &path,
            "merge",
            json!({ "metadata": { "labels": { "a": "b" } } }),
        )
        .await
        .expect(200);
    assert_eq!(labelled["metadata"]["generation"], 1);
    let status = json!({ "status": { "replicas": 2 }, "spec": { "replicas": 9 } });
    let status = api
        .patch(&format!("{path}/status"), "merge", status)
        .await
        .expect(200);
    assert_eq!(
        (
            &status["metadata"]["generation"],
            &status["spec"]["replicas"],
            &status["status"]["replicas"]
        ),
        (&json!(1), &json!(2), &json!(2))
    );
    let main = json!({ "status": { "replicas": 7 }, "spec": { "replicas": 3 } });
    let scaled = api.patch(&path, "merge", main).await.expect(200);
    assert_eq!(
        (
            &scaled["metadata"]["generation"],
            &scaled["spec"]["replicas"],
            &scaled["status"]["replicas"]
        ),
        (&json!(2), &json!(3), &json!(2))
    );

    let scale = api.get(&format!("{path}/scale")).await.expect(200);
    assert_eq!(
        (
            &scale["kind"],
            &scale["spec"]["replicas"],
            &scale["status"]["selector"]
        ),
        (&json!("Scale"), &json!(3), &json!("app=web"))
    );
    let mut wanted = scale.clone();
    wanted["spec"]["replicas"] = json!(5);
    let answer = api
        .put(&format!("{path}/scale"), wanted.clone())
        .await
        .expect(200);
    assert_eq!(answer["spec"]["replicas"], 5);
    wanted["spec"]["replicas"] = json!(6);
    api.put(&format!("{path}/scale"), wanted).await.refused(
        409,
        "Conflict",
        "the object has been modified",
    );
    let negative = json!({ "spec": { "replicas": -1 } });
    api.patch(&format!("{path}/scale"), "merge", negative)
        .await
        .refused(422, "Invalid", "spec.replicas");
    let answer = api
        .patch(
            &format!("{path}/scale"),
            "merge",
            json!({ "spec": { "replicas": 1 } }),
        )
        .await
        .expect(200);
    assert_eq!(answer["spec"]["replicas"], 1);
    let deployment = api.get(&path).await.expect(200);
    assert_eq!(
        (
            &deployment["spec"]["replicas"],
            &deployment["metadata"]["generation"]
        ),
        (&json!(1), &json!(4))
    );
}

#[tokio::test]
async fn a_dry_run_leaves_no_trace() {
    let api = Api::start().await;
    let dry = api
        .post(&format!("{MAPS}?dryRun=All"), config_map("a", "1"))
        .await
        .expect(201);
    assert!(dry["metadata"]["resourceVersion"].is_null());
    assert_eq!(api.get(&format!("{MAPS}/a")).await.code, 404);
    let real = api.post(MAPS, config_map("a", "1")).await.expect(201);
    api.post(&format!("{MAPS}?dryRun=All"), config_map("a", "1"))
        .await
        .refused(409, "AlreadyExists", "");
    let path = format!("{MAPS}/a?dryRun=All");
    assert_eq!(
        api.put(&path, config_map("a", "2")).await.expect(200)["data"]["key"],
        "2"
    );
    assert_eq!(
        api.patch(&path, "merge", json!({ "data": { "key": "3" } }))
            .await
            .expect(200)["data"]["key"],
        "3"
    );
    api.delete(&path).await.expect(200);
    assert_eq!(api.get(&format!("{MAPS}/a")).await.expect(200), real);
}

#[tokio::test]
async fn concurrent_patches_all_take_effect() {
    let api = Arc::new(Api::start().await);
    api.post(MAPS, config_map("a", "1")).await.expect(201);
    let writers = (0..16).map(|index| {
        let api = api.clone();
        tokio::spawn(async move {
            let patch = json!({ "data": { format!("k{index}"): "v" } });
            api.patch(&format!("{MAPS}/a"), "merge", patch)
                .await
                .expect(200);
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let map = api.get(&format!("{MAPS}/a")).await.expect(200);
    assert_eq!(map["data"].as_object().unwrap().len(), 17);
}

#[tokio::test]
async fn events_are_one_kind_in_two_groups() {
    let api = Api::start().await;
    let event = json!({
        "metadata": { "name": "e" },
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "action": "Doing",
        "reason": "Done",
        "note": "all of it",
        "reportingController": "test",
        "reportingInstance": "one",
        "regarding": { "kind": "Pod", "name": "web", "namespace": "default" },
    });
    let new = "/apis/events.k8s.io/v1/namespaces/default/events";
    let created = api.post(new, event).await.expect(201);
    let old = api
        .get("/api/v1/namespaces/default/events/e")
        .await
        .expect(200);
    assert_eq!(
        (&old["kind"], &old["apiVersion"]),
        (&json!("Event"), &json!("v1"))
    );
    assert_eq!(
        (&old["message"], &old["involvedObject"]["name"]),
        (&json!("all of it"), &json!("web"))
    );
    assert_eq!(
        old["metadata"]["resourceVersion"],
        created["metadata"]["resourceVersion"]
    );
    let found = api
        .get("/api/v1/events?fieldSelector=involvedObject.name%3Dweb")
        .await
        .expect(200);
    assert_eq!(found["items"][0]["message"], "all of it");
    let found = api
        .get(&format!("{new}?fieldSelector=regarding.name%3Dweb"))
        .await
        .expect(200);
    assert_eq!(found["items"][0]["note"], "all of it", "{found}");
    let missing = api
        .get(&format!("{new}?fieldSelector=regarding.name%3Dother"))
        .await
        .expect(200);
    assert_eq!(missing["items"], json!([]));
}

/// Sets a label on what is created, refuses what says so, and writes down whom it saw.
#[derive(Default)]
struct Judge {
    seen: parking_lot::Mutex<Vec<String>>,
}

#[async_trait]
impl AdmissionChain for Judge {
    fn wants(&self, _: Phase, request: &Request) -> bool {
        &*request.resource.resource == "configmaps" || &*request.resource.resource == "pods"
    }

    async fn mutate(&self, request: Request, _: Option<Readable<'_>>) -> Result<Mutation, Status> {
        self.seen
            .lock()
            .push(format!("mutate {:?} {:?}", request.operation, request.name));
        if request.operation != Operation::Create || request.subresource == "binding" {
            return Ok(Mutation::default());
        }
        let mut object: Value = serde_json::from_slice(&request.object.unwrap()).unwrap();
        object["metadata"]["labels"]["judged"] = json!("yes");
        Ok(Mutation {
            object: Some(Bytes::from(object.to_string())),
            warnings: vec!["be careful".to_owned()],
        })
    }

    async fn validate(&self, request: &Request) -> Result<Vec<String>, Status> {
        self.seen.lock().push(format!(
            "validate {:?} {:?}",
            request.operation, request.name
        ));
        let text = |json: &Option<Bytes>| {
            json.as_ref()
                .map_or(String::new(), |j| String::from_utf8_lossy(j).into_owned())
        };
        match text(&request.object).contains("forbidden")
            || text(&request.old_object).contains("immortal")
        {
            true => Err(Status::new(
                403,
                "Forbidden",
                "admission webhook \"judge\" denied the request: no",
            )),
            false => Ok(Vec::new()),
        }
    }
}

#[tokio::test]
async fn admission_mutates_first_and_validates_last() {
    let judge = Arc::new(Judge::default());
    let api = Api::with_admission(judge.clone()).await;
    let created = api
        .post(MAPS, json!({ "metadata": { "generateName": "a-" } }))
        .await;
    let map = created.expect(201);
    let name = map["metadata"]["name"].as_str().unwrap();
    assert_eq!(map["metadata"]["labels"]["judged"], "yes");
    assert_eq!(created.header("warning"), "299 - \"be careful\"");
    // the name is not known yet in the first pass, and is in the second
    assert_eq!(
        *judge.seen.lock(),
        [
            "mutate Create \"\"".to_owned(),
            format!("validate Create {name:?}")
        ]
    );

    api.post(MAPS, config_map("b", "forbidden")).await.refused(
        403,
        "Forbidden",
        "denied the request: no",
    );
    assert_eq!(api.get(&format!("{MAPS}/b")).await.code, 404);
    api.post(MAPS, config_map("c", "immortal"))
        .await
        .expect(201);
    api.delete(&format!("{MAPS}/c"))
        .await
        .refused(403, "Forbidden", "denied");
    api.get(&format!("{MAPS}/c")).await.expect(200);
    // defaults are filled in again after a mutation
    let created = api.post(PODS, pod("p")).await.expect(201);
    assert_eq!(created["spec"]["restartPolicy"], "Always");
    assert_eq!(created["metadata"]["labels"]["judged"], "yes");
}
