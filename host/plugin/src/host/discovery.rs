//! `pilothouse:host/discovery`. What is served is no secret: no capability is needed.

use super::{
    HostState,
    bindings::{
        cluster::Status,
        discovery::{Host, Served},
    },
    state::refusal,
};

impl Host for HostState {
    async fn served_resources(&mut self) -> wasmtime::Result<Result<Served, Status>> {
        let caller = self.free()?.clone();
        let served = caller.cluster.served_resources(caller.as_plugin()).await;
        Ok(served.map_err(refusal))
    }
}
