//! `pilothouse:host/metrics`.

use super::{HostState, bindings::metrics};

impl metrics::Host for HostState {
    fn add(&mut self, counter: String, by: u64) -> wasmtime::Result<()> {
        self.free()?.stats.add(&counter, by);
        Ok(())
    }
}
