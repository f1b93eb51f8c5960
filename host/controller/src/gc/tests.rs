use std::time::Duration;

use pilothouse_client::{clock::ManualClock, testing::FakeServer};
use serde_json::{Value, json};

use super::*;
use crate::testing::settle;

static PODS: GroupVersionResource = GroupVersionResource::of("", "v1", "pods");
static SETS: GroupVersionResource = GroupVersionResource::of("apps", "v1", "replicasets");

struct Watched {
    server: Arc<FakeServer>,
    graph: Arc<OwnerGraph>,
    uids: Arc<Mutex<Vec<String>>>,
    _feeding: Feeding,
}

async fn watched(server: Arc<FakeServer>) -> Watched {
    let clock = Arc::new(ManualClock::new(0, 1));
    let graph = OwnerGraph::new(server.client(), clock);
    let uids = Arc::new(Mutex::new(Vec::new()));
    let into = uids.clone();
    let feeding = graph
        .feed(Arc::new(move |uid: &str| into.lock().push(uid.to_owned())))
        .await;
    Watched {
        server,
        graph,
        uids,
        _feeding: feeding,
    }
}

async fn create(
    server: &Arc<FakeServer>,
    of: &GroupVersionResource,
    name: &str,
    owners: Value,
) -> String {
    let object = json!({"metadata": {"name": name, "ownerReferences": owners}}).to_string();
    server
        .client()
        .create(of, "a", object)
        .await
        .unwrap()
        .header
        .uid
        .clone()
}

fn reference(name: &str, uid: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "blockOwnerDeletion": true}])
}

fn owner(kind: &str, name: &str, uid: &str) -> GraphOwner {
    GraphOwner {
        api_version: if kind == "ReplicaSet" {
            "apps/v1"
        } else {
            "v1"
        }
        .to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: false,
        block_owner_deletion: false,
    }
}

#[tokio::test(start_paused = true)]
async fn a_complete_graph_names_only_what_is_suspicious() {
    let server = FakeServer::new();
    let set = create(&server, &SETS, "set", json!([])).await;
    create(&server, &PODS, "owned", reference("set", &set)).await;
    let orphan = create(&server, &PODS, "orphan", reference("gone", "no-such-uid")).await;
    let watched = watched(server).await;
    assert_eq!(*watched.uids.lock(), [orphan]);
    let node = watched.graph.get(&set).unwrap();
    assert_eq!(
        (node.of.resource.as_str(), node.name.as_str()),
        ("replicasets", "set")
    );
    assert_eq!(watched.graph.dependents(&set).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn deletions_are_followed_as_they_happen_and_by_new_kinds_too() {
    let watched = watched(FakeServer::new()).await;
    let set = create(&watched.server, &SETS, "set", json!([])).await;
    let pod = create(&watched.server, &PODS, "pod", reference("set", &set)).await;
    settle().await;
    watched.uids.lock().clear();
    let client = watched.server.client();
    client
        .delete(&SETS, "a", "set", &Default::default())
        .await
        .unwrap();
    settle().await;
    assert_eq!(*watched.uids.lock(), std::slice::from_ref(&pod));
    assert!(watched.graph.get(&set).is_none());

    let widgets = GroupVersionResource::of("example.com", "v1", "widgets");
    watched.server.serve(widgets.clone(), "Widget", true);
    let widget = create(&watched.server, &widgets, "widget", json!([])).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(
        watched.graph.get(&widget).is_some(),
        "found by the next discovery"
    );
    watched.server.break_discovery(&["example.com/v1"]);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(
        watched.graph.get(&widget).is_some(),
        "a group that is down keeps its objects"
    );
    watched.server.break_discovery(&[]);
    watched.server.unserve(&widgets);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(watched.graph.get(&widget).is_none());
    assert!(watched.graph.get(&pod).is_some());
}

#[tokio::test(start_paused = true)]
async fn owners_are_resolved_live_and_absent_ones_remembered() {
    let server = FakeServer::new();
    let set = create(&server, &SETS, "set", json!([])).await;
    let watched = watched(server).await;
    let client = watched.server.client();
    let resolve = async |namespace: &str, owner: &GraphOwner| {
        watched.graph.resolve(&client, namespace, owner).await
    };
    assert_eq!(
        resolve("a", &owner("ReplicaSet", "set", &set))
            .await
            .unwrap(),
        OwnerState::Solid
    );
    let other_uid = owner("ReplicaSet", "set", "other");
    assert_eq!(resolve("a", &other_uid).await.unwrap(), OwnerState::Absent);
    assert_eq!(
        resolve("b", &owner("ReplicaSet", "set", &set))
            .await
            .unwrap(),
        OwnerState::Absent,
        "another namespace"
    );
    assert_eq!(
        resolve("a", &owner("ReplicaSet", "set", &set))
            .await
            .unwrap(),
        OwnerState::Solid
    );
    assert_eq!(
        resolve("", &owner("ReplicaSet", "set", &set))
            .await
            .unwrap_err()
            .code,
        400
    );
    assert!(
        resolve("a", &owner("Nonsense", "x", "y")).await.is_err(),
        "an unknown kind is not absent"
    );

    watched.server.take_requests();
    resolve("a", &other_uid).await.unwrap();
    assert_eq!(watched.server.take_requests(), [], "known to be absent");

    let foreground = pilothouse_client::DeleteOptions {
        propagation: Some(pilothouse_client::Propagation::Foreground),
        ..Default::default()
    };
    client.delete(&SETS, "a", "set", &foreground).await.unwrap();
    assert_eq!(
        resolve("a", &owner("ReplicaSet", "set", &set))
            .await
            .unwrap(),
        OwnerState::Waiting
    );
    watched.server.refuse_next(
        http::Method::GET,
        "/apis/apps/v1/namespaces/a/replicasets/set",
        Status::internal("no"),
    );
    assert!(
        resolve("a", &owner("ReplicaSet", "set", &set))
            .await
            .is_err(),
        "a failed read says nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn the_last_listener_stops_the_watches_and_a_new_one_starts_anew() {
    let server = FakeServer::new();
    let orphan = create(&server, &PODS, "orphan", reference("gone", "no-such-uid")).await;
    let first = watched(server.clone()).await;
    let graph = first.graph.clone();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let into = heard.clone();
    let second = graph
        .feed(Arc::new(move |uid: &str| into.lock().push(uid.to_owned())))
        .await;
    assert_eq!(
        *heard.lock(),
        std::slice::from_ref(&orphan),
        "a late listener hears of what is suspicious now"
    );
    drop(first);
    let late = create(&server, &PODS, "late", reference("gone", "no-such-uid")).await;
    settle().await;
    assert_eq!(heard.lock().pop(), Some(late));
    drop(second);
    settle().await;
    create(&server, &PODS, "unheard", reference("gone", "no-such-uid")).await;
    settle().await;
    assert_eq!(graph.dependents("no-such-uid").len(), 2, "nobody watches");
    let third = graph.feed(Arc::new(|_: &str| {})).await;
    assert_eq!(graph.dependents("no-such-uid").len(), 3);
    drop(third);
}
