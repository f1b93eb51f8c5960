//! The built controllers as components, run by the controller manager over an API server in memory.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::StreamExt;
use pilothouse_api::GroupVersionResource;
use pilothouse_client::{
    DeleteOptions, PatchType, Propagation, SystemClock, WatchEvent, WatchParams,
    testing::FakeServer,
};
use pilothouse_controller::{ControllerManager, Handle, PluginCluster};
use pilothouse_plugin::{ActiveComponent, Engine, EngineConfig, Revision, Settings, testing};
use serde_json::{Value, json};

static DEPLOYMENTS: GroupVersionResource = GroupVersionResource::of("apps", "v1", "deployments");
static SETS: GroupVersionResource = GroupVersionResource::of("apps", "v1", "replicasets");
static PODS: GroupVersionResource = GroupVersionResource::of("", "v1", "pods");

struct Manager {
    server: Arc<FakeServer>,
    handle: Handle,
    revisions: Vec<ActiveComponent>,
}

async fn manager(components: &[&str]) -> Manager {
    let server = FakeServer::new();
    let cluster = PluginCluster::new();
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let mut revisions = Vec::new();
    for name in components {
        let wasm = testing::component(name);
        let revision =
            Revision::load(&engine, name, &wasm, Settings::default(), cluster.clone()).await;
        revisions.push(ActiveComponent {
            revision: Arc::new(revision.unwrap()),
            built_in: true,
            quarantined: false,
            candidate: None,
        });
    }
    let clock = Arc::new(SystemClock);
    let handle = ControllerManager::start(server.client(), cluster, "test", clock);
    handle.set(&revisions);
    Manager {
        server,
        handle,
        revisions,
    }
}

impl Manager {
    async fn create(&self, of: &GroupVersionResource, object: Value) {
        let client = self.server.client();
        client.create(of, "a", object.to_string()).await.unwrap();
    }

    /// Follows the pods until there are so many that are not being deleted.
    async fn until_pods(&self, count: usize) {
        let watch = WatchParams {
            resource_version: "0".to_owned(),
            ..WatchParams::default()
        };
        let client = self.server.client();
        let mut events = client
            .watch(&PODS, "a", &watch, Arc::new([]))
            .await
            .unwrap();
        let mut pods = BTreeSet::new();
        let follow = async {
            // the history from the beginning, then what happens
            let now = self.server.revision();
            let mut seen = 0;
            while pods.len() != count || seen < now {
                match events.next().await.unwrap().unwrap() {
                    WatchEvent::Added(pod) => drop(pods.insert(pod.header.name.clone())),
                    WatchEvent::Deleted(pod) => drop(pods.remove(&pod.header.name)),
                    WatchEvent::Bookmark { revision, .. } => seen = revision.0,
                    WatchEvent::Modified(_) => {}
                }
            }
        };
        let followed = tokio::time::timeout(Duration::from_secs(30), follow).await;
        assert!(followed.is_ok(), "there are not {count} pods but {pods:?}");
    }
}

fn deployment(replicas: u32) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "a"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_becomes_pods_and_its_deletion_takes_them_along() {
    let manager = manager(&[
        "controller-deployment",
        "controller-replicaset",
        "controller-garbage-collector",
    ])
    .await;
    manager.create(&DEPLOYMENTS, deployment(3)).await;
    manager.until_pods(3).await;

    let client = manager.server.client();
    let scale = json!({"spec": {"replicas": 1}}).to_string();
    let scaled = client.patch(&DEPLOYMENTS, "a", "web", "", PatchType::Merge, scale);
    scaled.await.unwrap();
    manager.until_pods(1).await;

    // a pod that somebody deletes is replaced
    let pods = client
        .list(&PODS, "a", &Default::default(), &[])
        .await
        .unwrap();
    let victim = &pods.items[0].header.name;
    client
        .delete(&PODS, "a", victim, &DeleteOptions::default())
        .await
        .unwrap();
    manager.until_pods(1).await;

    let background = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    client
        .delete(&DEPLOYMENTS, "a", "web", &background)
        .await
        .unwrap();
    manager.until_pods(0).await;
    let sets = client
        .list(&SETS, "a", &Default::default(), &[])
        .await
        .unwrap();
    assert!(sets.items.is_empty());

    for request in manager.server.take_requests() {
        let made_by_controllers = request.user.starts_with("system:plugin:");
        assert!(
            made_by_controllers || request.user == "tester",
            "{request:?}"
        );
    }
    manager.handle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreground_deletion_waits_for_the_dependents() {
    let manager = manager(&["controller-replicaset", "controller-garbage-collector"]).await;
    let mut set = deployment(2);
    set["metadata"]["name"] = json!("set");
    manager.create(&SETS, set).await;
    manager.until_pods(2).await;
    let client = manager.server.client();
    let foreground = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        ..DeleteOptions::default()
    };
    client.delete(&SETS, "a", "set", &foreground).await.unwrap();
    manager.until_pods(0).await;
    let from = WatchParams {
        resource_version: "0".to_owned(),
        ..WatchParams::default()
    };
    let mut sets = client.watch(&SETS, "a", &from, Arc::new([])).await.unwrap();
    let gone = async { while !matches!(sets.next().await, Some(Ok(WatchEvent::Deleted(_)))) {} };
    let gone = tokio::time::timeout(Duration::from_secs(30), gone).await;
    assert!(gone.is_ok(), "the set is gone after its pods");
    manager.handle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_come_and_go_with_their_components() {
    let manager = manager(&["controller-replicaset"]).await;
    let names = manager.handle.controllers();
    assert!(
        names.contains(&"replicaset-controller".to_owned()),
        "{names:?}"
    );
    manager.handle.set(&manager.revisions);
    assert_eq!(manager.handle.controllers(), names);
    manager.handle.set(&[]);
    assert!(manager.handle.controllers().is_empty());
}
