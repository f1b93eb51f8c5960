use serde_json::{Value, json};

use super::*;
use crate::testing::{CONFIG_MAPS, World, settle};

const BY: CallingPlugin<'static> = CallingPlugin {
    name: "test",
    component: "test",
};

fn config_maps() -> GroupVersionResource {
    GroupVersionResource {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "configmaps".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn watched_resources_are_read_from_the_cache_and_others_live() {
    let world = World::new();
    let cluster = &world.shared.cluster;
    world.config_map("x").await;
    world.server.take_requests();
    cluster.get(BY, &config_maps(), "a", "x").await.unwrap();
    assert_eq!(world.server.take_requests().len(), 1, "live");
    let missing = cluster.list_owned(BY, &config_maps(), "a", "uid").await;
    assert_eq!(missing.unwrap_err().reason, "BadRequest");

    let informer = world.shared.informers.get(&CONFIG_MAPS);
    informer.cache().wait_synced().await;
    cluster.watch("test", &[informer]);
    cluster.get(BY, &config_maps(), "a", "x").await.unwrap();
    let absent = cluster.get(BY, &config_maps(), "a", "y").await.unwrap_err();
    assert!(absent.is_not_found());
    assert_eq!(
        cluster
            .list(BY, &config_maps(), "", "", "")
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        cluster
            .list(BY, &config_maps(), "", "app=web", "")
            .await
            .unwrap()
            .len(),
        0
    );
    assert!(
        cluster
            .list(BY, &config_maps(), "", "app==(", "")
            .await
            .is_err()
    );
    assert!(
        cluster
            .list_owned(BY, &config_maps(), "a", "uid")
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(world.server.take_requests(), []);

    cluster
        .get_live(BY, &config_maps(), "a", "x")
        .await
        .unwrap();
    assert_eq!(world.server.take_requests().len(), 1);
    let other = CallingPlugin {
        name: "other",
        ..BY
    };
    cluster.get(other, &config_maps(), "a", "x").await.unwrap();
    assert_eq!(
        world.server.take_requests().len(),
        1,
        "another plugin does not watch it"
    );
}

#[tokio::test(start_paused = true)]
async fn writes_are_made_as_the_plugins_user() {
    let world = World::new();
    let cluster = &world.shared.cluster;
    let object = json!({"metadata": {"generateName": "x-"}}).to_string();
    let created = cluster
        .create(BY, &config_maps(), "a", object.into())
        .await
        .unwrap();
    let created: Value = serde_json::from_slice(&created).unwrap();
    let name = created["metadata"]["name"].as_str().unwrap();
    let stale = json!({"metadata": {"resourceVersion": "999"}}).to_string();
    let conflict = cluster
        .update(BY, &config_maps(), "a", name, stale.into())
        .await;
    assert!(conflict.unwrap_err().is_conflict());
    let all = DeleteOptions {
        propagation: Some(Propagation::Background),
        grace_period_seconds: None,
        uid: None,
        resource_version: None,
    };
    cluster
        .delete_collection(BY, &config_maps(), "a", "", "", all)
        .await
        .unwrap();
    assert!(
        cluster
            .get(BY, &config_maps(), "a", name)
            .await
            .unwrap_err()
            .is_not_found()
    );

    let requests = world.server.take_requests();
    assert_eq!(requests.len(), 4);
    assert!(
        requests.iter().all(|r| r.user == "system:plugin:test"),
        "{requests:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn events_are_recorded_in_the_plugins_name() {
    let world = World::new();
    let subject = EventSubject {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: "a".to_owned(),
        name: "x".to_owned(),
        uid: "u".to_owned(),
    };
    let cluster = &world.shared.cluster;
    cluster
        .record_event(BY, subject, "Normal", "Created", "Creating", "made it")
        .await;
    settle().await;
    let requests = world.server.take_requests();
    assert_eq!(requests[0].body["reportingController"], "test");
    assert_eq!(requests[0].body["regarding"]["name"], "x");
}

#[tokio::test]
async fn before_it_is_connected_everything_is_unavailable() {
    let cluster = PluginCluster::new();
    let status = cluster.get(BY, &config_maps(), "a", "x").await.unwrap_err();
    assert_eq!(status.code, 503);
    assert!(cluster.served_resources(BY).await.is_err());
    assert!(cluster.graph_get(BY, "u").await.is_none());
}

#[tokio::test]
async fn discovery_names_what_is_served_and_what_is_not_known() {
    let world = World::new();
    world.server.break_discovery(&["apps/v1"]);
    let served = world.shared.cluster.served_resources(BY).await.unwrap();
    assert_eq!(served.failed, ["apps/v1"]);
    let pods = served.resources.iter().find(|r| r.name == "pods").unwrap();
    assert!(pods.namespaced && pods.verbs.contains(&"deletecollection".to_owned()));
    assert!(!served.resources.iter().any(|r| r.group == "apps"));
}
