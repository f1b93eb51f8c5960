//! Typed access on top of [`Cluster`]. `T` is `serde_json::Value` or a serde struct; a struct that does not carry every
//! field must not be written back with `update`, or it erases what it left out: use a patch.

use serde::{Serialize, de::DeserializeOwned};

use super::{Cluster, EventSubject, EventType, ListOptions, PatchType, Resource, Status};

/// Implemented for every [`Cluster`].
pub trait ClusterExt: Cluster {
    /// From the cache where watched; `None` if there is no such object.
    fn get<T: DeserializeOwned>(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<T>, Status> {
        found(self.get_raw(of, namespace, name))
    }

    /// From the API server; `None` if there is no such object.
    fn get_live<T: DeserializeOwned>(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<T>, Status> {
        found(self.get_live_raw(of, namespace, name))
    }

    /// From the cache where watched; empty namespace: all.
    fn list<T: DeserializeOwned>(
        &self,
        of: &Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Vec<T>, Status> {
        all(self.list_raw(of, namespace, options)?)
    }

    /// Cached objects with an owner reference to this uid.
    fn list_owned<T: DeserializeOwned>(
        &self,
        of: &Resource,
        namespace: &str,
        owner_uid: &str,
    ) -> Result<Vec<T>, Status> {
        all(self.list_owned_raw(of, namespace, owner_uid)?)
    }

    /// The created object comes back.
    fn create<T: Serialize + DeserializeOwned>(
        &self,
        of: &Resource,
        namespace: &str,
        object: &T,
    ) -> Result<T, Status> {
        decode(&self.create_raw(of, namespace, &encode(object)?)?)
    }

    /// A stale `resourceVersion` in the object is a `Conflict`.
    fn update<T: Serialize + DeserializeOwned>(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        object: &T,
    ) -> Result<T, Status> {
        decode(&self.update_raw(of, namespace, name, &encode(object)?)?)
    }

    /// Only the status of `object` counts.
    fn update_status<T: Serialize + DeserializeOwned>(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        object: &T,
    ) -> Result<T, Status> {
        decode(&self.update_status_raw(of, namespace, name, &encode(object)?)?)
    }

    /// A JSON merge patch of the object itself; put `resourceVersion` or `uid` into its metadata to make it conditional.
    fn merge_patch<T: DeserializeOwned>(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        patch: &impl Serialize,
    ) -> Result<T, Status> {
        let patch = encode(patch)?;
        decode(&self.patch_raw(of, namespace, name, "", PatchType::Merge, &patch)?)
    }

    /// A JSON merge patch of the status.
    fn merge_patch_status<T: DeserializeOwned>(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        patch: &impl Serialize,
    ) -> Result<T, Status> {
        let patch = encode(patch)?;
        decode(&self.patch_raw(of, namespace, name, "status", PatchType::Merge, &patch)?)
    }

    /// A normal event.
    fn event(&self, regarding: &EventSubject, reason: &str, action: &str, note: &str) {
        self.record_event(regarding, EventType::Normal, reason, action, note);
    }

    /// A warning event.
    fn warning(&self, regarding: &EventSubject, reason: &str, action: &str, note: &str) {
        self.record_event(regarding, EventType::Warning, reason, action, note);
    }
}

impl<C: Cluster + ?Sized> ClusterExt for C {}

fn found<T: DeserializeOwned>(answer: Result<Vec<u8>, Status>) -> Result<Option<T>, Status> {
    match answer {
        Ok(bytes) => decode(&bytes).map(Some),
        Err(status) if status.is_not_found() => Ok(None),
        Err(status) => Err(status),
    }
}

fn all<T: DeserializeOwned>(answer: Vec<Vec<u8>>) -> Result<Vec<T>, Status> {
    answer.iter().map(|bytes| decode(bytes)).collect()
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Status> {
    serde_json::from_slice(bytes)
        .map_err(|error| Status::new(500, "InternalError", format!("undecodable object: {error}")))
}

fn encode(object: &impl Serialize) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(object)
        .map_err(|error| Status::new(500, "InternalError", format!("unencodable object: {error}")))
}
