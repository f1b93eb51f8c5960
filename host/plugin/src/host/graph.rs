//! `pilothouse:host/graph`. Who may look is the cluster's decision: it keeps a graph only for plugins whose manifest says so.

use super::{
    HostState,
    bindings::{
        cluster::Status,
        graph::{Host, Node, Owner, OwnerState},
    },
    state::refusal,
};

impl Host for HostState {
    async fn get(&mut self, uid: String) -> wasmtime::Result<Option<Node>> {
        let caller = self.free()?.clone();
        Ok(caller.cluster.graph_get(caller.as_plugin(), &uid).await)
    }

    async fn dependents(&mut self, uid: String) -> wasmtime::Result<Vec<Node>> {
        let caller = self.free()?.clone();
        Ok(caller
            .cluster
            .graph_dependents(caller.as_plugin(), &uid)
            .await)
    }

    async fn resolve(
        &mut self,
        namespace: String,
        owner: Owner,
    ) -> wasmtime::Result<Result<OwnerState, Status>> {
        let caller = self.free()?.clone();
        let by = caller.as_plugin();
        let state = caller.cluster.graph_resolve(by, &namespace, &owner).await;
        Ok(state.map_err(refusal))
    }
}
