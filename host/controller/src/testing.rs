//! Controllers in native code, and the parts of a manager over a fake API server.

use std::{pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use pilothouse_api::GroupVersionResource;
use pilothouse_client::{
    EventRecorder, InformerSet, UserInfo, clock::ManualClock, testing::FakeServer,
};
use pilothouse_plugin::manifest::ControllerSettings;
use serde_json::{Value, json};

use crate::{
    calls::{Calls, Outcome, ReconcileError, WatchEvent},
    cluster::PluginCluster,
    gc::OwnerGraph,
    keys::Key,
    metrics::Metrics,
    runner::{ControllerRunner, Shared},
};

pub(crate) static CONFIG_MAPS: GroupVersionResource =
    GroupVersionResource::of("", "v1", "configmaps");

type Answer = Result<Outcome, ReconcileError>;
type Future = Pin<Box<dyn std::future::Future<Output = Answer> + Send>>;

/// A controller that is a closure; it writes down the keys it was called with.
pub(crate) struct Native {
    pub(crate) keys: Mutex<Vec<String>>,
    pub(crate) mapped: Mutex<Vec<WatchEvent>>,
    run: Box<dyn Fn(Key) -> Future + Send + Sync>,
    map: Box<dyn Fn(&WatchEvent) -> Result<Vec<Key>, ReconcileError> + Send + Sync>,
}

impl Native {
    pub(crate) fn new<F>(run: impl Fn(Key) -> F + Send + Sync + 'static) -> Arc<Self>
    where
        F: std::future::Future<Output = Answer> + Send + 'static,
    {
        Self::mapping(run, |_| Ok(Vec::new()))
    }

    pub(crate) fn mapping<F>(
        run: impl Fn(Key) -> F + Send + Sync + 'static,
        map: impl Fn(&WatchEvent) -> Result<Vec<Key>, ReconcileError> + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        F: std::future::Future<Output = Answer> + Send + 'static,
    {
        Arc::new(Self {
            keys: Mutex::default(),
            mapped: Mutex::default(),
            run: Box::new(move |key| Box::pin(run(key))),
            map: Box::new(map),
        })
    }

    /// Does nothing, well.
    pub(crate) fn idle() -> Arc<Self> {
        Self::new(|_| async { Ok(Outcome::Done) })
    }

    pub(crate) fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.keys.lock())
    }
}

#[async_trait]
impl Calls for Native {
    async fn reconcile(&self, key: &Key) -> Answer {
        self.keys.lock().push(key.to_string());
        (self.run)(key.clone()).await
    }

    async fn map_event(&self, event: &WatchEvent) -> Result<Vec<Key>, ReconcileError> {
        self.mapped.lock().push(event.clone());
        (self.map)(event)
    }
}

/// Everything a runner needs, over a fake server.
pub(crate) struct World {
    pub(crate) server: Arc<FakeServer>,
    pub(crate) shared: Shared,
}

impl World {
    pub(crate) fn new() -> Self {
        let server = FakeServer::new();
        let client = server.client();
        let clock = Arc::new(ManualClock::new(1_767_225_600_000, 1));
        let graph = OwnerGraph::new(client.clone(), clock.clone());
        let cluster = PluginCluster::new();
        let recorder = EventRecorder::new(client.clone(), "host", clock.clone());
        let manager = client.as_user(UserInfo::new("system:kube-controller-manager", &[]));
        cluster.connect(manager, recorder, graph.clone());
        let shared = Shared {
            informers: InformerSet::new(client, clock),
            graph,
            cluster,
            metrics: Metrics::default(),
        };
        Self { server, shared }
    }

    pub(crate) fn runner(&self, calls: Arc<dyn Calls>, settings: Value) -> ControllerRunner {
        let runner = ControllerRunner::new("test", self.shared.clone(), calls.clone());
        runner.load(calls, &self::settings(settings));
        runner
    }

    /// Creates an object as a user would.
    pub(crate) async fn create(&self, of: &GroupVersionResource, object: Value) -> Value {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let client = self.server.client();
        let created = client.create(of, namespace, object.to_string()).await;
        serde_json::from_slice(&created.unwrap().bytes).unwrap()
    }

    pub(crate) async fn config_map(&self, name: &str) -> Value {
        let object = json!({"metadata": {"namespace": "a", "name": name}});
        self.create(&CONFIG_MAPS, object).await
    }
}

pub(crate) fn settings(settings: Value) -> ControllerSettings {
    serde_json::from_value(settings).unwrap()
}

/// Lets everything run that can; the paused clock moves a little.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
