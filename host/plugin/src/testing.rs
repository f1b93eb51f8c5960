//! For tests and benchmarks of this crate and of those above it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use pilothouse_api::{GroupVersionResource, Status};

use crate::{
    admission::{Operation, Request},
    clock::{Clock, SystemClock},
    shadow::Shadow,
    stats::Stats,
};

pub use crate::contract::sample::{pod, request};

/// A built component of the workspace, by its crate's name. Panics with what to do if it has not been built.
pub fn component(name: &str) -> Vec<u8> {
    let path = component_path(name);
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; run `cargo xtask build` first", path.display())
    })
}

/// Where that component is.
pub fn component_path(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/wasm32-wasip2/plugin");
    root.join(format!("{}.wasm", name.replace('-', "_")))
}

/// What is noted of a component that does not act.
pub fn shadow(component: &str) -> Arc<Shadow> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    Arc::new(Shadow::new(
        &component.into(),
        &clock,
        &Arc::new(Stats::new()),
    ))
}

/// A request of an ordinary user to create a pod.
pub fn pod_request(pod: &serde_json::Value) -> Request {
    request(
        &GroupVersionResource::of("", "v1", "pods"),
        Operation::Create,
        pod,
    )
}

/// Applies a JSON patch, for [`AdmissionPlugins::mutate`](crate::admission::AdmissionPlugins::mutate).
pub fn apply_patch(object: &mut serde_json::Value, patch: &str) -> Result<(), Status> {
    let bad = |error: &dyn std::fmt::Display| Status::bad_request(error.to_string());
    let patch: json_patch::Patch = serde_json::from_str(patch).map_err(|e| bad(&e))?;
    json_patch::patch(object, &patch).map_err(|e| bad(&e))
}
