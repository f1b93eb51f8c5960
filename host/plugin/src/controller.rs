//! Controllers: typed calls of `pilothouse:controller`. Each call has an instance of its own, so that a trap hurts one call and
//! a controller without work holds no memory.

mod bindings;

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::{
    error::CallError,
    instance::{Call, PluginInstance},
    limits::Limits,
    record::{self, Recording},
    revision::Revision,
};
use bindings::{map_event, reconcile, types};

/// What happened to a watched object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// An event of a `custom` watch.
#[derive(Clone, Copy, Debug)]
pub struct MappedEvent<'a> {
    /// The index of the watch in the manifest.
    pub watch: u32,
    pub change: Change,
    /// JSON; the last state if the object was deleted.
    pub object: &'a [u8],
    pub old: Option<&'a [u8]>,
}

/// When to run again, or why the reconcile failed, as the plugin says.
pub type Reconciled = Result<Option<Duration>, String>;

/// An answer as a record has it.
pub(crate) fn written_run(ran: &Result<Reconciled, CallError>) -> Value {
    match ran {
        Ok(Ok(None)) => json!({ "done": true }),
        Ok(Ok(Some(after))) => json!({ "requeueAfterMs": after.as_millis() as u64 }),
        Ok(Err(why)) => json!({ "failed": why }),
        Err(error) => record::failed(error),
    }
}

/// Limits of controllers whose owner has not set any.
fn unhurried() -> Limits {
    Limits {
        time_ms: 5_000,
        wait_ms: 60_000,
        ..Limits::default()
    }
}

/// The exports of one revision.
pub struct ControllerCalls {
    revision: Arc<Revision>,
    reconcile: Option<reconcile::GuestIndices>,
    map_event: Option<map_event::GuestIndices>,
}

impl ControllerCalls {
    /// Looks the exports up once. Nobody waits for a reconcile, so where the plugin's owner has not set limits it may take
    /// longer than a call in a request's way.
    pub fn new(revision: Arc<Revision>) -> Self {
        let limits = &revision.settings().limits;
        let but_for_writes = |limits: Limits| Limits {
            writes_per_second: revision.settings().limits.writes_per_second,
            ..limits
        };
        let revision = match *limits == but_for_writes(Limits::default()) {
            true => Arc::new(revision.with_limits(but_for_writes(unhurried()))),
            false => revision,
        };
        let pre = revision.instance_pre();
        Self {
            reconcile: reconcile::GuestIndices::new(pre).ok(),
            map_event: map_event::GuestIndices::new(pre).ok(),
            revision,
        }
    }

    /// The revision that is called.
    pub fn revision(&self) -> &Arc<Revision> {
        &self.revision
    }

    /// One reconcile of a plugin; the namespace is empty for cluster-scoped objects.
    pub async fn reconcile(
        &self,
        plugin: u32,
        namespace: &str,
        name: &str,
    ) -> Result<Reconciled, CallError> {
        if let Some(recording) = Recording::of(&self.revision) {
            let calls = Self::new(Arc::clone(&recording.revision));
            let ran = calls.run(plugin, namespace, name).await;
            let input = json!({ "namespace": namespace, "name": name });
            recording.end(plugin, "controller/reconcile", input, written_run(&ran));
            return ran;
        }
        self.run(plugin, namespace, name).await
    }

    async fn run(&self, plugin: u32, namespace: &str, name: &str) -> Result<Reconciled, CallError> {
        let indices = self.reconcile.as_ref();
        let indices = indices.ok_or_else(|| self.missing(plugin, "controller/reconcile"))?;
        let mut instance = self.revision.instantiate().await?;
        let guest = self.load(&mut instance, |store, exports| indices.load(store, exports))?;
        let call = Call {
            plugin,
            interface: "controller/reconcile",
            deadline: None,
        };
        let key = types::KeyParam { namespace, name };
        let (store, running) = instance.enter(call)?;
        let outcome = running.wait(guest.call_reconcile(store, plugin, key)).await;
        let answer = instance.leave(running, outcome)?;
        Ok(answer.map(|outcome| match outcome {
            reconcile::Outcome::Done => None,
            reconcile::Outcome::RequeueAfterMs(ms) => Some(Duration::from_millis(ms)),
        }))
    }

    /// The keys (namespace, name) that an event concerns.
    pub async fn map_event(
        &self,
        plugin: u32,
        event: &MappedEvent<'_>,
    ) -> Result<Vec<(String, String)>, CallError> {
        let indices = self.map_event.as_ref();
        let indices = indices.ok_or_else(|| self.missing(plugin, "controller/map-event"))?;
        let mut instance = self.revision.instantiate().await?;
        let guest = self.load(&mut instance, |store, exports| indices.load(store, exports))?;
        let call = Call {
            plugin,
            interface: "controller/map-event",
            deadline: None,
        };
        let change = match event.change {
            Change::Added => map_event::Change::Added,
            Change::Modified => map_event::Change::Modified,
            Change::Deleted => map_event::Change::Deleted,
        };
        let (store, running) = instance.enter(call)?;
        let mapping =
            guest.call_map_event(store, plugin, event.watch, change, event.object, event.old);
        let outcome = running.wait(mapping).await;
        let keys = instance.leave(running, outcome)?;
        Ok(keys
            .into_iter()
            .map(|key| (key.namespace, key.name))
            .collect())
    }

    fn load<G>(
        &self,
        instance: &mut PluginInstance,
        load: impl FnOnce(
            &mut wasmtime::Store<crate::host::HostState>,
            &wasmtime::component::Instance,
        ) -> wasmtime::Result<G>,
    ) -> Result<G, CallError> {
        let (store, exports) = instance.parts();
        load(store, exports).map_err(|error| CallError::Unavailable {
            plugin: Arc::clone(self.revision.component()),
            why: format!("{error:#}"),
        })
    }

    fn missing(&self, plugin: u32, interface: &str) -> CallError {
        CallError::Unavailable {
            plugin: Arc::clone(self.revision.plugin_name(plugin)),
            why: format!("it does not export {interface}"),
        }
    }
}
