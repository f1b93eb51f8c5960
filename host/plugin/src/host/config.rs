//! `pilothouse:host/config`.

use super::{HostState, bindings::config};

impl config::Host for HostState {
    fn get(&mut self) -> wasmtime::Result<String> {
        Ok(self.free()?.config.as_ref().to_owned())
    }
}
