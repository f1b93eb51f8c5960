//! What a plugin may use. All limits are always on.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use serde::{Deserialize, Serialize};

use crate::error::Limit;

/// The limits of one plugin component; per call unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Running time in the guest, in ticks of 1 ms; what it waits for the host does not count.
    pub time_ms: u64,
    /// Time in all, waits included.
    pub wait_ms: u64,
    /// WebAssembly instructions, which unlike time are the same in every run; `None`: not counted. Counting costs time.
    pub instructions: Option<u64>,
    /// Linear memory of an instance.
    pub memory_bytes: usize,
    /// Elements of an instance's tables.
    pub table_elements: usize,
    /// Core instances within one component instance.
    pub instances: usize,
    /// Bytes handed to the host in one step: a result, or the arguments of an import.
    pub output_bytes: usize,
    /// Calls of the interfaces of `pilothouse:host`.
    pub host_calls: u32,
    /// Objects written a second, by all calls of the component together. Twice as many may be saved up for a burst; beyond that
    /// writes wait, and those that had to wait longer than a second are refused with 429.
    pub writes_per_second: u32,
    /// Bytes of log lines; the rest is dropped and counted.
    pub log_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time_ms: 250,
            wait_ms: 10_000,
            instructions: None,
            memory_bytes: 64 << 20,
            table_elements: 100_000,
            instances: 64,
            output_bytes: 8 << 20,
            host_calls: 10_000,
            writes_per_second: 2_000,
            log_bytes: 64 << 10,
        }
    }
}

impl Limits {
    /// No limit; what an operator who sets no maxima allows.
    pub const NONE: Self = Self {
        time_ms: u64::MAX,
        wait_ms: u64::MAX,
        instructions: None,
        memory_bytes: usize::MAX,
        table_elements: usize::MAX,
        instances: usize::MAX,
        output_bytes: usize::MAX,
        host_calls: u32::MAX,
        writes_per_second: u32::MAX,
        log_bytes: usize::MAX,
    };

    /// Whichever is lower, limit by limit.
    pub fn at_most(&self, maxima: &Self) -> Self {
        Self {
            time_ms: self.time_ms.min(maxima.time_ms),
            wait_ms: self.wait_ms.min(maxima.wait_ms),
            instructions: match (self.instructions, maxima.instructions) {
                (Some(asked), Some(most)) => Some(asked.min(most)),
                (asked, most) => asked.or(most),
            },
            memory_bytes: self.memory_bytes.min(maxima.memory_bytes),
            table_elements: self.table_elements.min(maxima.table_elements),
            instances: self.instances.min(maxima.instances),
            output_bytes: self.output_bytes.min(maxima.output_bytes),
            host_calls: self.host_calls.min(maxima.host_calls),
            writes_per_second: self.writes_per_second.min(maxima.writes_per_second),
            log_bytes: self.log_bytes.min(maxima.log_bytes),
        }
    }
}

/// What is left of the limits in one instance, and which was hit.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    ticks: u64,
    /// The most linear memory so far, in bytes.
    pub(crate) memory_peak: usize,
    host_calls: u32,
    /// Shared with the streams of WASI.
    pub(crate) log_bytes: Arc<AtomicUsize>,
    hit: Option<Limit>,
}

/// Ticks that a guest runs before it gives other tasks of its thread a turn.
const SLICE_TICKS: u64 = 5;

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        let mut budget = Self {
            limits,
            ticks: 0,
            memory_peak: 0,
            host_calls: 0,
            log_bytes: Arc::default(),
            hit: None,
        };
        budget.refill();
        budget
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// For the next call. What remains is memory in use.
    pub(crate) fn refill(&mut self) {
        self.ticks = self.limits.time_ms.max(1);
        self.host_calls = self.limits.host_calls;
        self.log_bytes.store(self.limits.log_bytes, Relaxed);
        self.hit = None;
    }

    /// Ticks until the guest must be looked at again; 0: its time is used up.
    pub(crate) fn next_slice(&mut self) -> u64 {
        let slice = self.ticks.min(SLICE_TICKS);
        self.ticks -= slice;
        if slice == 0 {
            self.hit = Some(Limit::Time(self.limits.time_ms));
        }
        slice
    }

    /// Counts a call of the host.
    pub(crate) fn host_call(&mut self) -> Result<(), LimitHit> {
        match self.host_calls.checked_sub(1) {
            Some(left) => {
                self.host_calls = left;
                Ok(())
            }
            None => {
                self.hit = Some(Limit::HostCalls(self.limits.host_calls));
                Err(LimitHit)
            }
        }
    }

    /// The limit that was hit in this call. A guest may live with a refused growth, so this only explains a trap.
    pub(crate) fn hit(&self) -> Option<Limit> {
        self.hit
    }
}

/// Ends a guest call from within; [`Budget::hit`] says which limit it was.
#[derive(Debug, thiserror::Error)]
#[error("a limit of the plugin was exceeded")]
pub(crate) struct LimitHit;

impl wasmtime::ResourceLimiter for Budget {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let granted = desired <= self.limits.memory_bytes;
        if granted {
            self.memory_peak = self.memory_peak.max(desired);
        } else {
            self.hit = Some(Limit::Memory(self.limits.memory_bytes));
        }
        Ok(granted)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let granted = desired <= self.limits.table_elements;
        if !granted {
            self.hit = Some(Limit::TableElements(self.limits.table_elements));
        }
        Ok(granted)
    }

    fn instances(&self) -> usize {
        self.limits.instances
    }

    fn tables(&self) -> usize {
        self.limits.instances
    }

    fn memories(&self) -> usize {
        8
    }
}
