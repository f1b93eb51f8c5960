//! A controller as the runner calls it: a plugin's component, or native code in tests.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use pilothouse_plugin::{CallError, controller::ControllerCalls, controller::MappedEvent};

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
}

/// A controller of a loaded component. Each call has an instance of its own.
pub struct PluginCalls {
    component: Arc<ControllerCalls>,
    plugin: u32,
}

impl PluginCalls {
    /// The plugin with this index in the component's manifest.
    pub fn new(component: Arc<ControllerCalls>, plugin: u32) -> Self {
        Self { component, plugin }
    }
}

#[async_trait]
impl Calls for PluginCalls {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, ReconcileError> {
        let answer = self
            .component
            .reconcile(self.plugin, &key.namespace, &key.name)
            .await?;
        match answer {
            Ok(None) => Ok(Outcome::Done),
            Ok(Some(after)) => Ok(Outcome::RequeueAfter(after)),
            Err(message) => Err(ReconcileError::Failed(message)),
        }
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
