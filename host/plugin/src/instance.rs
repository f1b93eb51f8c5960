//! One instance of a component in its own `wasmtime::Store`, and the frame around every call of it.
//!
//! A call is `enter` → the guest's function → `leave`. Between the two the instance counts as dead, so one whose call was
//! dropped half-way, trapped or hit a limit is never used again.
//!
//! ```text
//! let (store, running) = instance.enter(call)?;
//! let outcome = running.wait(guest.call_mutate(store, …)).await;
//! let value = instance.leave(running, outcome)?;
//! ```

use std::{future::Future, sync::Arc};

use tokio::time::{Duration, Instant, timeout_at};
use tracing::Instrument;
use wasmtime::{Store, StoreContextMut, UpdateDeadline, component::Instance};

use crate::{
    engine::{one_line, place},
    error::{CallError, Limit},
    host::{Caller, HostState},
    limits::LimitHit,
};

/// Which plugin is called, in which interface, and how long the caller can wait.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The plugin's index in the manifest.
    pub plugin: u32,
    /// As in messages and counters: `admission/mutate`.
    pub interface: &'static str,
    /// When the caller's own time is up.
    pub deadline: Option<Instant>,
}

/// A running instance. Dropping it frees everything.
pub struct PluginInstance {
    store: Store<HostState>,
    instance: Instance,
    callers: Arc<[Arc<Caller>]>,
    dead: bool,
}

/// A call under way.
#[must_use]
pub struct Running {
    caller: Arc<Caller>,
    interface: &'static str,
    span: tracing::Span,
    started: std::time::Instant,
    /// What the caller had left at the start.
    left: Option<Duration>,
    until: Instant,
    /// What it means if `until` passes.
    late: Limit,
}

/// What came out of the guest: its value, a trap, or nothing in time.
pub struct Outcome<T>(Option<wasmtime::Result<T>>);

impl PluginInstance {
    pub(crate) fn new(
        store: Store<HostState>,
        instance: Instance,
        callers: Arc<[Arc<Caller>]>,
    ) -> Self {
        Self {
            store,
            instance,
            callers,
            dead: false,
        }
    }

    /// The store and the instance, to look up typed exports; not to call them.
    pub fn parts(&mut self) -> (&mut Store<HostState>, &Instance) {
        (&mut self.store, &self.instance)
    }

    /// Whether it can be called no more.
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Makes ready for a call.
    pub fn enter(&mut self, call: Call) -> Result<(&mut Store<HostState>, Running), CallError> {
        let caller = self
            .callers
            .get(call.plugin as usize)
            .unwrap_or(&self.callers[0]);
        let caller = Arc::clone(caller);
        if self.dead {
            return Err(CallError::Unavailable {
                plugin: Arc::clone(&caller.name),
                why: "its instance has ended".to_owned(),
            });
        }
        self.dead = true;
        let state = self.store.data_mut();
        let running = Running::new(Arc::clone(&caller), call, state.budget.limits().wait_ms);
        state.caller = caller;
        state.until = running.until;
        state.budget.refill();
        let slice = state.budget.next_slice();
        let output = state.budget.limits().output_bytes;
        self.store.set_hostcall_fuel(output);
        refuel(&mut self.store);
        self.store.set_epoch_deadline(slice);
        Ok((&mut self.store, running))
    }

    /// Counts the call and judges its outcome.
    pub fn leave<T>(&mut self, running: Running, outcome: Outcome<T>) -> Result<T, CallError> {
        let result = match outcome.0 {
            Some(Ok(value)) => {
                self.dead = false;
                Ok(value)
            }
            Some(Err(error)) => Err(self.failure(&running, &error)),
            None => Err(running.limit(running.late)),
        };
        let failure = result.as_ref().err().and_then(CallError::cause);
        let took = running.started.elapsed();
        running.caller.stats.call(took, failure);
        if let Some(left) = running.left {
            running.caller.stats.share(took, left);
        }
        running
            .caller
            .stats
            .memory(self.store.data().budget.memory_peak);
        let limit = self.store.data().budget.limits().instructions;
        if let (Some(limit), Ok(left)) = (limit, self.store.get_fuel()) {
            running
                .caller
                .stats
                .instructions(limit.saturating_sub(left));
        }
        if failure.is_some() {
            (running.caller.trapped)(running.caller.serial);
        }
        result
    }

    fn failure(&self, running: &Running, error: &wasmtime::Error) -> CallError {
        let state = self.store.data();
        let trap = error.downcast_ref::<wasmtime::Trap>();
        if let (Some(wasmtime::Trap::OutOfFuel), Some(limit)) =
            (trap, state.budget.limits().instructions)
        {
            return running.limit(Limit::Instructions(limit));
        }
        let own = error.downcast_ref::<LimitHit>().is_some() || trap.is_some();
        if let Some(limit) = state.budget.hit().filter(|_| own) {
            return running.limit(limit);
        }
        let mut message = one_line(error);
        if let Some(place) = place(error) {
            message = format!("{message}, in {place}");
        }
        if message.contains(OUTPUT_EXHAUSTED) {
            return running.limit(Limit::Output(state.budget.limits().output_bytes));
        }
        let said = state.take_stderr();
        CallError::Trap {
            plugin: Arc::clone(&running.caller.name),
            interface: running.interface,
            cause: match said.as_str() {
                "" => message,
                said => format!("{said} ({message})"),
            },
        }
    }
}

/// Gives a store the instructions of one call, if they are counted.
pub(crate) fn refuel(store: &mut Store<HostState>) {
    if let Some(instructions) = store.data().budget.limits().instructions {
        // only an engine that does not count refuses, and there is no limit then
        drop(store.set_fuel(instructions));
    }
}

/// How wasmtime says that a guest hands over more than its store's host call fuel; the error has no public type.
const OUTPUT_EXHAUSTED: &str = "fuel allocated for hostcalls has been exhausted";

impl Running {
    fn new(caller: Arc<Caller>, call: Call, wait_ms: u64) -> Self {
        let own = Instant::now() + Duration::from_millis(wait_ms);
        let (until, late) = match call.deadline {
            Some(deadline) if deadline < own => (deadline, Limit::Deadline),
            _ => (own, Limit::Wait(wait_ms)),
        };
        let span = tracing::debug_span!(
            "plugin_call",
            plugin = &*caller.name,
            component = &*caller.component,
            extension_point = call.interface,
        );
        Self {
            caller,
            interface: call.interface,
            span,
            started: std::time::Instant::now(),
            left: call
                .deadline
                .map(|d| d.saturating_duration_since(Instant::now())),
            until,
            late,
        }
    }

    /// Waits for the guest as long as it may take.
    pub async fn wait<T>(&self, guest: impl Future<Output = wasmtime::Result<T>>) -> Outcome<T> {
        let guest = timeout_at(self.until, guest);
        Outcome(guest.instrument(self.span.clone()).await.ok())
    }

    fn limit(&self, limit: Limit) -> CallError {
        CallError::Limit {
            plugin: Arc::clone(&self.caller.name),
            interface: self.interface,
            limit,
        }
    }
}

/// Called when a guest's slice of time is over: it goes on after others of its thread, or its time is up.
pub(crate) fn slice_over(
    mut store: StoreContextMut<'_, HostState>,
) -> wasmtime::Result<UpdateDeadline> {
    match store.data_mut().budget.next_slice() {
        0 => Err(LimitHit.into()),
        ticks => Ok(UpdateDeadline::Yield(ticks)),
    }
}
