//! Reads never parse: what GET, LIST and WATCH of unchanged objects allocate follows the answer, not what is in the objects,
//! and an event is encoded once for all watches.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use pilothouse_client::{Body, UserInfo};
use serde_json::{Map, Value, json};

use crate::{
    counting::{Allocated, allocated, since},
    harness::{Api, MAPS},
    tls::{Who, connect},
};

/// Far more than what one costs that is read and not parsed.
const KEYS: usize = 5_000;

/// A ConfigMap with so many small entries: whoever parses it allocates at least once for each.
fn many_keys(name: &str, keys: usize) -> Value {
    let data: Map<String, Value> = (0..keys)
        .map(|key| (format!("key-{key}"), json!(format!("value-{key}"))))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": data,
    })
}

/// What one more request of the same path allocates, and how long its answer is.
async fn cost_of(api: &Api, path: &str) -> (Allocated, usize) {
    for _ in 0..3 {
        api.get(path).await; // what is made once has been made
    }
    let before = allocated();
    let answer = api.get(path).await;
    let cost = since(before);
    assert_eq!(answer.code, 200);
    (cost, answer.body.len())
}

#[tokio::test]
async fn a_get_costs_the_same_whatever_is_in_the_object() {
    let api = Api::start().await;
    for (name, keys) in [("small", 1), ("large", KEYS)] {
        api.post(MAPS, many_keys(name, keys)).await.expect(201);
    }
    api.get(MAPS).await.expect(200); // the cache has seen them
    for query in ["", "?resourceVersion=0"] {
        let (small, _) = cost_of(&api, &format!("{MAPS}/small{query}")).await;
        let (large, bytes) = cost_of(&api, &format!("{MAPS}/large{query}")).await;
        assert!(bytes > KEYS * 20);
        let more = large.calls.abs_diff(small.calls);
        assert!(
            more < 50,
            "{query}: {more} more allocations: {large:?} {small:?}"
        );
        let most = small.bytes + 3 * bytes as u64;
        assert!(
            large.bytes < most,
            "{query}: {large:?} for {bytes} bytes, {small:?}"
        );
    }
}

#[tokio::test]
async fn a_list_costs_its_answer() {
    let api = Api::start().await;
    const OBJECTS: usize = 200;
    for namespace in ["few", "many"] {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        api.post("/api/v1/namespaces", object).await.expect(201);
    }
    let path = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    for index in 0..OBJECTS {
        for (namespace, keys) in [("few", 1), ("many", 200)] {
            let map = many_keys(&format!("m-{index}"), keys);
            api.post(&path(namespace), map).await.expect(201);
        }
    }
    for query in ["", "?resourceVersion=0", "?labelSelector=!x"] {
        let (few, _) = cost_of(&api, &format!("{}{query}", path("few"))).await;
        let (many, bytes) = cost_of(&api, &format!("{}{query}", path("many"))).await;
        assert!(bytes > OBJECTS * 200 * 20);
        let more = many.calls.abs_diff(few.calls);
        assert!(
            more < 100,
            "{query}: {more} more allocations: {many:?} {few:?}"
        );
        // the harness puts the pieces of the answer together, which doubles the buffer now and then
        let most = few.bytes + 5 * bytes as u64;
        assert!(
            many.bytes < most,
            "{query}: {many:?} for {bytes} bytes, {few:?}"
        );
    }
}

/// The next piece of a watch.
async fn next(body: &mut Body) -> Bytes {
    body.frame().await.unwrap().unwrap().into_data().unwrap()
}

#[tokio::test]
async fn an_event_is_encoded_once_for_all_watches() {
    let api = Api::start().await;
    let user = UserInfo::new("admin", &["system:masters"]);
    api.post(MAPS, many_keys("a", KEYS)).await.expect(201);
    let list = api.get(MAPS).await.expect(200);
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    for accept in ["application/json", "application/vnd.kubernetes.protobuf"] {
        let mut watches = Vec::new();
        for _ in 0..100 {
            let path = format!("{MAPS}?watch=1&resourceVersion={from}");
            let headers = [("accept", accept)];
            let opened = api.open(&user, "GET", &path, &headers, b"");
            watches.push(opened.await.into_body());
        }
        let label = json!({"metadata": {"labels": {"for": accept.replace('/', "-")}}});
        api.patch(&format!("{MAPS}/a"), "merge", label)
            .await
            .expect(200);
        let first = next(&mut watches[0]).await;
        assert!(first.len() > KEYS * 20, "{}", first.len());
        let before = allocated();
        for watch in &mut watches[1..] {
            let event = next(watch).await;
            assert_eq!(event.as_ptr(), first.as_ptr(), "{accept}: the same bytes");
        }
        let (cost, others) = (since(before), watches.len() as u64 - 1);
        assert!(cost.calls < others * 10, "{accept}: {cost:?}");
        assert!(cost.bytes < others * 4096, "{accept}: {cost:?}");
    }
}

#[tokio::test]
async fn a_watch_that_begins_with_what_is_there_does_not_encode_it_again() {
    let api = Api::start().await;
    let user = UserInfo::new("admin", &["system:masters"]);
    for (name, keys) in [("large", KEYS), ("small", 1)] {
        api.post(MAPS, many_keys(name, keys)).await.expect(201);
    }
    let mut costs = Vec::new();
    for name in ["small", "large", "small", "large"] {
        let before = allocated();
        let path = format!("{MAPS}?watch=1&fieldSelector=metadata.name={name}");
        let mut watch = api.open(&user, "GET", &path, &[], b"").await.into_body();
        while !next(&mut watch).await.ends_with(b"}\n") {}
        costs.push(since(before));
    }
    let more = costs[3].calls.abs_diff(costs[2].calls);
    assert!(more < 50, "{more} more allocations: {costs:?}");
    assert!(costs[3].bytes < costs[2].bytes + 64 * 1024, "{costs:?}");
}

/// Opens a watch over the network and reads nothing of it but the head.
async fn open_and_stop_reading(api: &Api, from: &str) -> hyper::body::Incoming {
    let io = connect(api, &Who::Admin, false).await;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(format!("{MAPS}?watch=1&resourceVersion={from}"))
        .header("host", "localhost")
        .body(Full::new(Bytes::new()))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    response.into_body()
}

/// What so many watches hold that do not read, after many large events.
async fn held_by(watches: usize) -> i64 {
    const EVENTS: usize = 40;
    let api = Api::start().await;
    let list = api.get(MAPS).await.expect(200);
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut open = Vec::new();
    for _ in 0..watches {
        open.push(open_and_stop_reading(&api, from).await);
    }
    let mut reader = api
        .watch(&format!("{MAPS}?watch=1&resourceVersion={from}"), &[])
        .await;
    let before = allocated();
    for event in 0..EVENTS {
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": format!("m-{event}")},
            "data": {"a": "x".repeat(200_000)},
        });
        api.post(MAPS, map).await.expect(201);
        reader.next().await.unwrap();
        for _ in 0..200 {
            tokio::task::yield_now().await; // the others send what they can
        }
    }
    since(before).live
}

#[tokio::test]
async fn watches_that_do_not_read_hold_next_to_nothing() {
    let watches = 30;
    let (none, some) = (held_by(0).await, held_by(watches).await);
    let each = (some - none) / watches as i64;
    // eight megabytes have happened for each of them
    assert!(each < 500_000, "each holds {each} bytes");
}
