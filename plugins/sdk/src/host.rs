//! The imports of the host: log, configuration, clock, counters, and the cluster within the granted capabilities.
//!
//! On wasm these are the real imports; natively they are the in-memory fake of [`fake`], one per thread.

use std::fmt;

use serde::de::DeserializeOwned;

#[cfg(not(target_arch = "wasm32"))]
pub mod fake;
#[cfg(target_arch = "wasm32")]
mod guest;

#[cfg(not(target_arch = "wasm32"))]
use fake as imports;
#[cfg(target_arch = "wasm32")]
use guest as imports;

pub use crate::bindings::host::pilothouse::host::{
    cluster::{
        DeleteOptions, EventSubject, GroupVersionResource as RawResource, PatchType, Propagation,
        Status,
    },
    log::Level,
};

/// Writes a line to the plugin's log.
pub fn log(level: Level, message: &str) {
    imports::log(level, message);
}

/// `spec.config` of the Plugin object; a type's own defaults fill what is absent. Wrong JSON for the type is an error text.
pub fn config<T: DeserializeOwned>() -> Result<T, String> {
    serde_json::from_str(&imports::config()).map_err(|error| format!("spec.config: {error}"))
}

/// Milliseconds since the Unix epoch, as the host grants them.
pub fn now_ms() -> u64 {
    imports::now_ms()
}

/// Adds to one of the plugin's counters.
pub fn count(counter: &str, by: u64) {
    imports::count(counter, by);
}

/// A resource as a constant: group (`""` for core), version and plural.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    pub group: &'static str,
    pub version: &'static str,
    pub name: &'static str,
}

impl Resource {
    /// A resource of the core group's v1.
    pub const fn core(name: &'static str) -> Self {
        Self {
            group: "",
            version: "v1",
            name,
        }
    }

    /// Any resource.
    pub const fn new(group: &'static str, version: &'static str, name: &'static str) -> Self {
        Self {
            group,
            version,
            name,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            "" => f.write_str(self.name),
            group => write!(f, "{}.{group}", self.name),
        }
    }
}

impl Status {
    /// Whether the reason is `NotFound`.
    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound"
    }

    /// Whether the reason is `Conflict`.
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// Whether the reason is `AlreadyExists`.
    pub fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    fn undecodable(error: serde_json::Error) -> Self {
        Self {
            code: 500,
            reason: "InternalError".to_owned(),
            message: format!("cannot read the object: {error}"),
        }
    }
}

/// Reads and writes of the cluster as user `system:plugin:<name>`, within the granted capabilities. Objects are read into any
/// type, best a small one with the few fields that matter, and written from any type.
pub mod cluster {
    use serde::Serialize;

    use super::*;

    /// One object, from the informer cache where the plugin watches the resource, else live.
    pub fn get<T: DeserializeOwned>(
        of: Resource,
        namespace: &str,
        name: &str,
    ) -> Result<T, Status> {
        decode(&imports::get(of, namespace, name)?)
    }

    /// One object, always live.
    pub fn get_live<T: DeserializeOwned>(
        of: Resource,
        namespace: &str,
        name: &str,
    ) -> Result<T, Status> {
        decode(&imports::get_live(of, namespace, name)?)
    }

    /// All objects of a namespace (empty: all namespaces) that match the selectors in Kubernetes' syntax (empty: everything).
    pub fn list<T: DeserializeOwned>(
        of: Resource,
        namespace: &str,
        label_selector: &str,
        field_selector: &str,
    ) -> Result<Vec<T>, Status> {
        let items = imports::list(of, namespace, label_selector, field_selector)?;
        items.iter().map(|item| decode(item)).collect()
    }

    /// Cached objects with an owner reference to this uid.
    pub fn list_owned<T: DeserializeOwned>(
        of: Resource,
        namespace: &str,
        owner_uid: &str,
    ) -> Result<Vec<T>, Status> {
        let items = imports::list_owned(of, namespace, owner_uid)?;
        items.iter().map(|item| decode(item)).collect()
    }

    /// Creates an object; what was written comes back.
    pub fn create<T: DeserializeOwned>(
        of: Resource,
        namespace: &str,
        object: &impl Serialize,
    ) -> Result<T, Status> {
        decode(&imports::create(of, namespace, &encode(object)?)?)
    }

    /// Replaces an object.
    pub fn update<T: DeserializeOwned>(
        of: Resource,
        namespace: &str,
        name: &str,
        object: &impl Serialize,
    ) -> Result<T, Status> {
        decode(&imports::update(of, namespace, name, &encode(object)?)?)
    }

    /// Replaces an object's status.
    pub fn update_status<T: DeserializeOwned>(
        of: Resource,
        namespace: &str,
        name: &str,
        object: &impl Serialize,
    ) -> Result<T, Status> {
        decode(&imports::update_status(
            of,
            namespace,
            name,
            &encode(object)?,
        )?)
    }

    /// Patches an object, or a subresource of it if that is not empty.
    pub fn patch<T: DeserializeOwned>(
        of: Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch_type: PatchType,
        patch: &impl Serialize,
    ) -> Result<T, Status> {
        let patch = encode(patch)?;
        decode(&imports::patch(
            of,
            namespace,
            name,
            subresource,
            patch_type,
            &patch,
        )?)
    }

    /// Deletes an object.
    pub fn delete(
        of: Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        imports::delete(of, namespace, name, options)
    }

    /// Deletes everything in a namespace that the selectors match. Empty namespace: cluster-scoped resources.
    pub fn delete_collection(
        of: Resource,
        namespace: &str,
        label_selector: &str,
        field_selector: &str,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        imports::delete_collection(of, namespace, label_selector, field_selector, options)
    }

    /// POSTs to a subresource, such as `binding` and `eviction` of pods.
    pub fn create_subresource<T: DeserializeOwned>(
        of: Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: &impl Serialize,
    ) -> Result<T, Status> {
        let object = encode(object)?;
        decode(&imports::create_subresource(
            of,
            namespace,
            name,
            subresource,
            &object,
        )?)
    }

    /// An Event, aggregated and rate-limited by the host. `event_type` is Normal or Warning.
    pub fn record_event(
        regarding: &EventSubject,
        event_type: &str,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        imports::record_event(regarding, event_type, reason, action, note);
    }

    fn decode<T: DeserializeOwned>(object: &[u8]) -> Result<T, Status> {
        serde_json::from_slice(object).map_err(Status::undecodable)
    }

    fn encode(object: &impl Serialize) -> Result<Vec<u8>, Status> {
        serde_json::to_vec(object).map_err(Status::undecodable)
    }
}
