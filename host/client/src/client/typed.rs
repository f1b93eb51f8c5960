//! Typed access to built-in kinds, for the host's own components.

use std::borrow::Cow;

use pilothouse_api::{GroupVersionResource, Kind, Status};

use super::{Client, ListParams};

/// The resource of a built-in kind.
pub fn resource_of<K: Kind>() -> GroupVersionResource {
    GroupVersionResource {
        group: Cow::Borrowed(K::GROUP),
        version: Cow::Borrowed(K::VERSION),
        resource: Cow::Borrowed(K::URL_PATH_SEGMENT),
    }
}

impl Client {
    /// One object of a kind.
    pub async fn get_kind<K: Kind>(&self, namespace: &str, name: &str) -> Result<K, Status> {
        let object = self.get(&resource_of::<K>(), namespace, name).await?;
        K::decode(&object.bytes)
    }

    /// All objects of a kind that the selectors match.
    pub async fn list_kind<K: Kind>(
        &self,
        namespace: &str,
        params: &ListParams,
    ) -> Result<Vec<K>, Status> {
        let list = self
            .list_all(&resource_of::<K>(), namespace, params, &[])
            .await?;
        list.items.iter().map(|o| K::decode(&o.bytes)).collect()
    }

    /// Creates an object in the namespace of its metadata.
    pub async fn create_kind<K: Kind>(&self, object: &K) -> Result<K, Status> {
        let namespace = object.metadata().namespace.as_deref().unwrap_or_default();
        let created = self
            .create(&resource_of::<K>(), namespace, object.encode())
            .await?;
        K::decode(&created.bytes)
    }

    /// Replaces an object, found by its metadata.
    pub async fn update_kind<K: Kind>(&self, object: &K) -> Result<K, Status> {
        let metadata = object.metadata();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        let updated = self
            .update(&resource_of::<K>(), namespace, name, object.encode())
            .await?;
        K::decode(&updated.bytes)
    }
}
