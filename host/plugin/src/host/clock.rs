//! `pilothouse:host/clock`.

use super::{HostState, bindings::clock};

impl clock::Host for HostState {
    fn now_ms(&mut self) -> wasmtime::Result<u64> {
        Ok(self.free()?.clock.now_ms())
    }
}
