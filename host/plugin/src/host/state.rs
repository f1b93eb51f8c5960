//! The data of a plugin's `wasmtime::Store`: who is called now, what is left of its limits, and its WASI world.

use std::{ops::Deref, sync::Arc, time::Duration};

use pilothouse_api::Status;
use tokio::time::{Instant, timeout};
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::{PluginLog, WriteRate, bindings, wasi};
use crate::{
    capability::{Access, Capabilities},
    clock::Clock,
    cluster::{CallingPlugin, Cluster},
    limits::{Budget, Limits},
    revision::{Serial, Trapped},
    stats::Stats,
};

/// One plugin of a component, as the host's imports see it. Constant for a revision.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) name: Arc<str>,
    pub(crate) component: Arc<str>,
    pub(crate) capabilities: Capabilities,
    /// `spec.config` as JSON.
    pub(crate) config: Arc<str>,
    pub(crate) log: Arc<PluginLog>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) writes: Arc<WriteRate>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) serial: Serial,
    pub(crate) trapped: Trapped,
}

/// The data of a plugin's store.
pub struct HostState {
    pub(crate) caller: Arc<Caller>,
    pub(crate) budget: Budget,
    /// When the call under way is up.
    pub(crate) until: Instant,
    pub(super) wasi: WasiCtx,
    stderr: wasi::LogStream,
    pub(super) table: ResourceTable,
}

impl HostState {
    pub(crate) fn new(caller: Arc<Caller>, limits: Limits) -> Self {
        let budget = Budget::new(limits);
        let (wasi, stderr) = wasi::denied(&caller, &budget.log_bytes);
        Self {
            wasi,
            stderr,
            table: ResourceTable::new(),
            until: Instant::now(),
            budget,
            caller,
        }
    }

    /// Counts a call and checks the capability. The outer error ends the guest call.
    pub(super) fn access(
        &mut self,
        access: Access<'_>,
    ) -> wasmtime::Result<Result<Granted, Status>> {
        self.budget.host_call()?;
        let caller = Arc::clone(&self.caller);
        Ok(match caller.capabilities.allow(access) {
            true => Ok(Granted {
                caller,
                until: self.until,
            }),
            false => {
                let status = forbidden(&caller, access);
                caller.cluster.refused(caller.as_plugin(), &status);
                Err(status)
            }
        })
    }

    /// As [`Self::access`], for a write: waits for the component's turn, or refuses a component that is far too fast.
    pub(super) async fn write_access(
        &mut self,
        access: Access<'_>,
    ) -> wasmtime::Result<Result<Granted, Status>> {
        let caller = match self.access(access)? {
            Ok(granted) => granted,
            Err(status) => return Ok(Err(status)),
        };
        let per_second = self.budget.limits().writes_per_second;
        match caller.writes.take(caller.clock.monotonic(), per_second) {
            Ok(Duration::ZERO) => {}
            Ok(wait) => tokio::time::sleep(wait).await,
            Err(_) => return Ok(Err(too_fast(&caller.component, per_second))),
        }
        Ok(Ok(caller))
    }

    /// What the guest wrote to stderr since the last time; a panic's message is there.
    pub(crate) fn take_stderr(&self) -> String {
        self.stderr.take_recent()
    }

    /// Counts a call that needs no capability.
    pub(super) fn free(&mut self) -> wasmtime::Result<&Arc<Caller>> {
        self.budget.host_call()?;
        Ok(&self.caller)
    }
}

/// An access that the capabilities allow.
pub(super) struct Granted {
    caller: Arc<Caller>,
    until: Instant,
}

/// What a guest keeps of its time, as a part of what is left, to say that the cluster did not answer.
const LAST_WORDS: u32 = 10;

impl Granted {
    /// Waits for the cluster, but not until the call's own time is up: a cluster that hangs is no failure of the plugin, which
    /// hears of it in time to refuse.
    pub(super) async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let left = self.until.saturating_duration_since(Instant::now());
        let patience = left - left / LAST_WORDS;
        match timeout(patience, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(Status::new(
                504,
                "Timeout",
                format!("the API server has not answered the plugin in {patience:.1?}"),
            )),
        }
    }
}

impl Deref for Granted {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Caller {
    pub(super) fn as_plugin(&self) -> CallingPlugin<'_> {
        CallingPlugin {
            name: &self.name,
            component: &self.component,
        }
    }
}

impl WasiView for HostState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

fn forbidden(caller: &Caller, access: Access<'_>) -> Status {
    let (plugin, component) = (&caller.name, &caller.component);
    let resource = match access.subresource {
        "" => access.resource.to_owned(),
        subresource => format!("{}/{subresource}", access.resource),
    };
    let group = access.group;
    let verb = access.verb;
    let message = format!(
        "plugin {plugin} has no capability to {verb} resource \"{resource}\" in API group \"{group}\": its \
         manifest must ask for it, and spec.capabilities of Plugin {component} or --plugin-dir-policy grant it"
    );
    Status::new(403, "Forbidden", message)
}

fn too_fast(component: &str, per_second: u32) -> Status {
    let message = format!(
        "plugin {component} writes faster than {per_second} objects a second for long; \
         let it write less, or raise spec.limits.writesPerSecond of its Plugin object"
    );
    Status::new(429, "TooManyRequests", message)
}

/// The outward form of a refusal.
pub(super) fn refusal(status: Status) -> bindings::cluster::Status {
    bindings::cluster::Status {
        code: status.code,
        reason: status.reason,
        message: status.message,
    }
}
