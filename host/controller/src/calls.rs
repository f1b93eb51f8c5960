//! A controller as the runner calls it: a plugin's component, or native code in tests.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use pilothouse_plugin::{
    CallError,
    controller::{ControllerCalls, MappedEvent},
    shadow::DifferenceKind,
    weighs,
};

use crate::keys::Key;

pub use pilothouse_plugin::controller::Change;

/// How a reconcile ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    RequeueAfter(Duration),
}

/// How it ended badly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReconcileError {
    /// The plugin said so.
    #[error("{0}")]
    Failed(String),
    /// A trap or a limit.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// An event of a `custom` watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// The index of the watch in the manifest.
    pub watch: u32,
    pub change: Change,
    pub object: bytes::Bytes,
    pub old: Option<bytes::Bytes>,
}

/// What a controller exports.
#[async_trait]
pub trait Calls: Send + Sync + 'static {
    /// `pilothouse:controller/reconcile`.
    async fn reconcile(&self, key: &Key) -> Result<Outcome, ReconcileError>;

    /// `pilothouse:controller/map-event`.
    async fn map_event(&self, event: &WatchEvent) -> Result<Vec<Key>, ReconcileError>;

    /// A reconcile is over and the caches have seen what it wrote.
    fn settled(&self, _key: &Key) {}
}

/// A controller of a loaded component. Each call has an instance of its own.
pub struct PluginCalls {
    component: Arc<ControllerCalls>,
    plugin: u32,
    beside: Option<Beside>,
}

/// The same controller of a candidate. One that decides reconciles its share of the keys; one that does not reconciles what the
/// other one is done with, and whatever it would still write is a difference.
struct Beside {
    component: Arc<ControllerCalls>,
    plugin: u32,
    weight: u8,
}

impl PluginCalls {
    /// The plugin with this index in the component's manifest.
    pub fn new(component: Arc<ControllerCalls>, plugin: u32) -> Self {
        Self {
            component,
            plugin,
            beside: None,
        }
    }

    /// With the controller of this name of a candidate, if it has one.
    pub fn beside(mut self, name: &str, candidate: &Arc<ControllerCalls>, weight: u8) -> Self {
        let plugins = (0..).zip(&candidate.revision().manifest().plugins);
        let mut same =
            plugins.filter(|(_, entry)| entry.name == name && entry.controller.is_some());
        self.beside = same.next().map(|(plugin, _)| Beside {
            component: Arc::clone(candidate),
            plugin,
            weight,
        });
        self
    }

    async fn serving(&self, key: &Key) -> Result<Outcome, ReconcileError> {
        outcome(
            self.component
                .reconcile(self.plugin, &key.namespace, &key.name)
                .await?,
        )
    }
}

fn outcome(answer: Result<Option<Duration>, String>) -> Result<Outcome, ReconcileError> {
    match answer {
        Ok(None) => Ok(Outcome::Done),
        Ok(Some(after)) => Ok(Outcome::RequeueAfter(after)),
        Err(message) => Err(ReconcileError::Failed(message)),
    }
}

#[async_trait]
impl Calls for PluginCalls {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, ReconcileError> {
        let beside = self.beside.as_ref();
        let deciding = beside.filter(|beside| weighs(beside.weight, &[&key.namespace, &key.name]));
        let Some(candidate) = deciding else {
            return self.serving(key).await;
        };
        let calls = &candidate.component;
        match calls
            .reconcile(candidate.plugin, &key.namespace, &key.name)
            .await
        {
            Ok(answer) => outcome(answer),
            Err(error) => {
                tracing::warn!(%key, %error, "a candidate failed; the version that serves reconciles");
                self.serving(key).await
            }
        }
    }

    fn settled(&self, key: &Key) {
        let Some(candidate) = self.beside.as_ref().filter(|beside| beside.weight == 0) else {
            return;
        };
        let Some(shadow) = candidate.component.revision().shadow().cloned() else {
            return;
        };
        let (calls, plugin, key) = (
            Arc::clone(&candidate.component),
            candidate.plugin,
            key.clone(),
        );
        let noted = Arc::clone(&shadow);
        shadow.some_time(|| async move {
            let answer = calls.reconcile(plugin, &key.namespace, &key.name).await;
            noted.compared();
            if let Err(error) = answer {
                let (kind, about) = (DifferenceKind::Failure, format!("reconcile {key}"));
                noted.differs(kind, about, "reconciled", &error.to_string());
            }
        });
    }

    async fn map_event(&self, event: &WatchEvent) -> Result<Vec<Key>, ReconcileError> {
        let mapped = MappedEvent {
            watch: event.watch,
            change: event.change,
            object: &event.object,
            old: event.old.as_deref(),
        };
        let keys = self.component.map_event(self.plugin, &mapped).await?;
        let keys = keys.into_iter();
        Ok(keys
            .map(|(namespace, name)| Key::new(namespace, name))
            .collect())
    }
}
