//! Protobuf both ways: bodies, answers, refusals, watches.

use http_body_util::BodyExt;
use pilothouse_api::protobuf;
use pilothouse_client::{Body, UserInfo};
use pilothouse_storage::{Lease, Revision, Txn};
use serde_json::{Value, json};

use crate::harness::{Answer, Api, MAPS, PODS, config_map, pod};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Without objects that say nothing: where absent and empty are the same, protobuf leaves them out.
fn pruned(value: Value) -> Value {
    match value {
        Value::Object(object) => object
            .into_iter()
            .map(|(name, value)| (name, pruned(value)))
            .filter(|(_, value)| *value != json!({}) && *value != json!([]))
            .collect(),
        Value::Array(items) => items.into_iter().map(pruned).collect(),
        other => other,
    }
}

/// The JSON of a protobuf answer.
#[track_caller]
fn read(answer: &Answer) -> Value {
    assert_eq!(answer.header("content-type"), PROTOBUF, "{}", answer.text());
    serde_json::from_slice(&protobuf::to_json(&answer.body).unwrap()).unwrap()
}

async fn get(api: &Api, path: &str) -> Answer {
    api.send("GET", path, &[("accept", PROTOBUF)], "").await
}

#[tokio::test]
async fn objects_and_lists_say_the_same_as_in_json() {
    let api = Api::start().await;
    for name in ["a", "b"] {
        api.post(PODS, pod(name)).await.expect(201);
    }
    let one = format!("{PODS}/a");
    for path in [
        one.as_str(),
        "/api/v1/namespaces/default",
        "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
    ] {
        let json = api.get(path).await.expect(200);
        let answer = get(&api, path).await;
        assert_eq!(answer.code, 200, "{path}");
        assert_eq!(pruned(read(&answer)), pruned(json), "{path}");
    }
    for path in [
        PODS,
        "/api/v1/services",
        "/apis/apps/v1/deployments",
        &format!("{PODS}?limit=1"),
    ] {
        let json = api.get(path).await.expect(200);
        let answer = read(&get(&api, path).await);
        assert_eq!(pruned(answer), pruned(json), "{path}");
    }
    // who takes both gets what he likes better
    let both = [(
        "accept",
        "application/vnd.kubernetes.protobuf;q=0.5,application/json",
    )];
    let answer = api.send("GET", &one, &both, "").await;
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn bodies_are_read_and_answers_written() {
    let api = Api::start().await;
    let headers = [("content-type", PROTOBUF), ("accept", PROTOBUF)];
    let map = protobuf::from_json(config_map("a", "1").to_string().as_bytes()).unwrap();
    let created = api.send_bytes("POST", MAPS, &headers, &map).await;
    assert_eq!(created.code, 201);
    assert_eq!(
        read(&created),
        api.get(&format!("{MAPS}/a")).await.expect(200)
    );
    let again = api.send_bytes("POST", MAPS, &headers, &map).await;
    let refusal = read(&again);
    assert_eq!(
        (
            again.code,
            &refusal["kind"],
            &refusal["reason"],
            &refusal["details"]["kind"],
            &refusal["code"]
        ),
        (
            409,
            &json!("Status"),
            &json!("AlreadyExists"),
            &json!("configmaps"),
            &json!(409)
        )
    );
    let damaged = api.send_bytes("POST", MAPS, &headers, &map[..20]).await;
    assert_eq!(
        (damaged.code, &read(&damaged)["reason"]),
        (400, &json!("BadRequest"))
    );
    let options =
        json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Away" });
    let options = protobuf::from_json(options.to_string().as_bytes()).unwrap();
    let refused = api
        .send_bytes("DELETE", &format!("{MAPS}/a"), &headers, &options)
        .await;
    assert_eq!(
        (refused.code, &read(&refused)["reason"]),
        (422, &json!("Invalid"))
    );
    let deleted = api
        .send("DELETE", &format!("{MAPS}/a"), &[("accept", PROTOBUF)], "")
        .await;
    assert_eq!(
        (deleted.code, &read(&deleted)["status"]),
        (200, &json!("Success"))
    );
}

#[tokio::test]
async fn metadata_comes_in_protobuf_and_tables_do_not() {
    let api = Api::start().await;
    api.post(MAPS, config_map("a", "1")).await.expect(201);
    let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    let list = read(&api.send("GET", MAPS, &[("accept", accept)], "").await);
    assert_eq!(
        (
            &list["kind"],
            &list["apiVersion"],
            &list["items"][0]["metadata"]["name"]
        ),
        (
            &json!("PartialObjectMetadataList"),
            &json!("meta.k8s.io/v1"),
            &json!("a")
        )
    );
    assert!(list["items"][0]["data"].is_null());
    let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/vnd.kubernetes.protobuf";
    let whole = read(&api.send("GET", MAPS, &[("accept", table)], "").await);
    assert_eq!(whole["kind"], "ConfigMapList");
}

#[tokio::test]
async fn discovery_and_scales_come_in_protobuf_too() {
    let api = Api::start().await;
    let resources = read(&get(&api, "/apis/apps/v1").await);
    assert_eq!(resources, api.get("/apis/apps/v1").await.expect(200));
    let groups = read(&get(&api, "/apis").await);
    assert_eq!(groups["kind"], "APIGroupList");
    // what has no protobuf form is JSON
    assert_eq!(
        get(&api, "/version").await.header("content-type"),
        "application/json"
    );
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "nginx" }] },
            },
        },
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    api.post(path, deployment).await.expect(201);
    let scale = read(&get(&api, &format!("{path}/web/scale")).await);
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"]),
        (&json!("Scale"), &json!(3))
    );
}

/// Events of a protobuf watch.
struct Events {
    body: Body,
    rest: Vec<u8>,
}

impl Events {
    async fn open(api: &Api, path: &str, accept: &str) -> Self {
        let admin = UserInfo::new("admin", &["system:masters"]);
        let response = api
            .open(&admin, "GET", path, &[("accept", accept)], b"")
            .await;
        assert_eq!(response.status(), 200);
        assert_eq!(
            response.headers()["content-type"],
            "application/vnd.kubernetes.protobuf;stream=watch"
        );
        Self {
            body: response.into_body(),
            rest: Vec::new(),
        }
    }

    /// Takes so many bytes; `None` at the end.
    async fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.rest.len() < length {
            let frame = self.body.frame().await?.unwrap();
            self.rest.extend_from_slice(frame.data_ref().unwrap());
        }
        Some(self.rest.drain(..length).collect())
    }

    /// The next event's type and object.
    async fn next(&mut self) -> Option<(String, Value)> {
        let length = self.take(4).await?;
        let length = u32::from_be_bytes(length.try_into().unwrap());
        let event = self.take(length as usize).await?;
        // a WatchEvent, without an envelope of its own: 1 is the type, 2 the object
        assert_eq!(event[0], 1 << 3 | 2);
        let kind_length = usize::from(event[1]);
        let kind = String::from_utf8(event[2..2 + kind_length].to_vec()).unwrap();
        let at = event.windows(4).position(|w| w == protobuf::MAGIC).unwrap();
        let object = protobuf::to_json(&event[at..]).unwrap();
        Some((kind, serde_json::from_slice(&object).unwrap()))
    }
}

#[tokio::test]
async fn a_watch_is_framed() {
    let api = Api::start().await;
    let created = api.post(MAPS, config_map("a", "1")).await.expect(201);
    let path = format!(
        "{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let accept = "application/vnd.kubernetes.protobuf,application/json";
    let mut watches = [
        Events::open(&api, &path, accept).await,
        Events::open(
            &api,
            &path,
            "application/vnd.kubernetes.protobuf;stream=watch",
        )
        .await,
    ];
    let changed = {
        for events in &mut watches {
            assert_eq!(
                events.next().await,
                Some(("ADDED".to_owned(), created.clone()))
            );
            let (kind, bookmark) = events.next().await.unwrap();
            assert_eq!(
                (kind.as_str(), &bookmark["kind"]),
                ("BOOKMARK", &json!("ConfigMap"))
            );
            assert_eq!(
                bookmark["metadata"]["annotations"],
                json!({ "k8s.io/initial-events-end": "true" })
            );
        }
        api.put(&format!("{MAPS}/a"), config_map("a", "2"))
            .await
            .expect(200)
    };
    for events in &mut watches {
        assert_eq!(
            events.next().await,
            Some(("MODIFIED".to_owned(), changed.clone()))
        );
    }
    api.delete(&format!("{MAPS}/a")).await.expect(200);
    for events in &mut watches {
        let (kind, gone) = events.next().await.unwrap();
        assert_eq!(
            (kind.as_str(), &gone["data"]),
            ("DELETED", &changed["data"])
        );
    }
    let metadata =
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let mut events = Events::open(&api, "/api/v1/namespaces?watch=1", metadata).await;
    let (kind, namespace) = events.next().await.unwrap();
    assert_eq!(
        (kind.as_str(), &namespace["kind"]),
        ("ADDED", &json!("PartialObjectMetadata"))
    );
}

#[tokio::test]
async fn a_watch_that_cannot_begin_says_so_in_protobuf() {
    let api = Api::start().await;
    api.post(MAPS, config_map("a", "1")).await.expect(201);
    let api = api.restart().await;
    let path = format!("{MAPS}?watch=1&resourceVersion=1");
    let mut events = Events::open(&api, &path, PROTOBUF).await;
    let (kind, status) = events.next().await.unwrap();
    assert_eq!(
        (
            kind.as_str(),
            &status["kind"],
            &status["code"],
            &status["reason"]
        ),
        ("ERROR", &json!("Status"), &json!(410), &json!("Expired"))
    );
    assert_eq!(events.next().await, None);
}

/// An API server of Kubernetes on the same etcd stores protobuf unless told otherwise.
#[tokio::test]
async fn what_another_server_stored_in_protobuf_is_served_and_becomes_json() {
    let api = Api::start().await;
    let mut map = config_map("foreign", "1");
    map["metadata"]["uid"] = json!("7f3a0d3e-0000-4000-8000-000000000001");
    map["metadata"]["namespace"] = json!("default");
    map["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let body = protobuf::from_json(map.to_string().as_bytes()).unwrap();
    let key = "/registry/configmaps/default/foreign";
    let put = Txn::put_if(key, Revision(0), body.into(), Lease::default());
    let mut watch = api.watch(&format!("{MAPS}?watch=1"), &[]).await;
    let written = api.storage().txn(put).await.unwrap().revision.to_string();
    let (kind, _) = watch.event().await;
    assert_eq!(kind, "ADDED");

    let path = format!("{MAPS}/foreign");
    map["metadata"]["resourceVersion"] = json!(written);
    assert_eq!(api.get(&path).await.expect(200), map);
    api.post(MAPS, config_map("later", "1")).await.expect(201);
    let past = format!("{MAPS}?resourceVersion={written}&resourceVersionMatch=Exact");
    let past = api.get(&past).await.expect(200);
    assert_eq!(past["items"][0]["data"], map["data"]);

    let patch = json!({ "data": { "more": "2" } });
    let patched = api.patch(&path, "merge", patch).await.expect(200);
    assert_eq!(patched["data"]["more"], "2");
    assert_eq!(patched["metadata"]["uid"], map["metadata"]["uid"]);
    let stored = api.storage().get(key, None).await.unwrap().kv.unwrap();
    assert!(
        stored.value.starts_with(b"{"),
        "JSON from the first write on"
    );
}
