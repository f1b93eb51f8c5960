//! A small cluster in memory that plugins can read during a contract. Writes go nowhere and are counted.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use pilothouse_api::{GroupResource, Status};
use serde_json::{Value, json};

use crate::cluster::{CallingPlugin, Cluster, DeleteOptions, GroupVersionResource, PatchType};

type Key = (String, String, String); // plural, namespace, name

/// Objects by plural, namespace and name; selectors are not looked at.
#[derive(Default)]
pub struct SampleCluster {
    objects: Mutex<BTreeMap<Key, Bytes>>,
    writes: Mutex<Vec<String>>,
    refusals: Mutex<Vec<String>>,
}

impl SampleCluster {
    /// What every cluster has: the namespace `default` with its service account, and the system priority classes.
    pub fn new() -> Arc<Self> {
        let cluster = Self::default();
        for name in ["default", "kube-system"] {
            let namespace =
                json!({ "metadata": { "name": name }, "status": { "phase": "Active" } });
            cluster.put("namespaces", "", &namespace);
            let account = json!({ "metadata": { "name": "default", "namespace": name } });
            cluster.put("serviceaccounts", name, &account);
        }
        let classes = [
            ("system-cluster-critical", 2_000_000_000_i64),
            ("system-node-critical", 2_000_001_000),
        ];
        for (name, value) in classes {
            let class = json!({ "metadata": { "name": name }, "value": value });
            cluster.put("priorityclasses", "", &class);
        }
        Arc::new(cluster)
    }

    /// Puts an object there, by its `metadata.name`, without counting it as a write.
    pub fn put(&self, resource: &str, namespace: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.objects.lock().insert(key, object.to_string().into());
    }

    /// Takes the writes since the last time: `create configmaps default`.
    pub fn take_writes(&self) -> Vec<String> {
        std::mem::take(&mut self.writes.lock())
    }

    /// Takes what was refused for want of a capability since the last time.
    pub fn take_refusals(&self) -> Vec<String> {
        std::mem::take(&mut self.refusals.lock())
    }

    fn write(&self, verb: &str, of: &GroupVersionResource, namespace: &str, name: &str) {
        let write = format!("{verb} {} {namespace}/{name}", of.resource);
        self.writes.lock().push(write);
    }
}

fn not_found(of: &GroupVersionResource, name: &str) -> Status {
    let resource = GroupResource {
        group: of.group.clone().into(),
        resource: of.resource.clone().into(),
    };
    Status::not_found(&resource, name)
}

#[async_trait]
impl Cluster for SampleCluster {
    fn refused(&self, _by: CallingPlugin<'_>, why: &Status) {
        self.refusals.lock().push(why.message.clone());
    }

    async fn get(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Status> {
        let key = (of.resource.clone(), namespace.to_owned(), name.to_owned());
        let found = self.objects.lock().get(&key).cloned();
        found.ok_or_else(|| not_found(of, name))
    }

    async fn get_live(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Status> {
        self.get(by, of, namespace, name).await
    }

    async fn list(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        _label_selector: &str,
        _field_selector: &str,
    ) -> Result<Vec<Bytes>, Status> {
        let objects = self.objects.lock();
        let here = objects.iter().filter(|((resource, ns, _), _)| {
            *resource == of.resource && (namespace.is_empty() || ns == namespace)
        });
        Ok(here.map(|(_, object)| object.clone()).collect())
    }

    async fn create(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        self.write("create", of, namespace, "");
        Ok(object)
    }

    async fn update(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        self.write("update", of, namespace, name);
        Ok(object)
    }

    async fn update_status(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        self.write("update status of", of, namespace, name);
        Ok(object)
    }

    async fn update_subresource(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        _subresource: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        self.write("update a subresource of", of, namespace, name);
        Ok(object)
    }

    async fn patch(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        _subresource: &str,
        _patch_type: PatchType,
        _patch: Bytes,
    ) -> Result<Bytes, Status> {
        self.write("patch", of, namespace, name);
        self.get(by, of, namespace, name).await
    }

    async fn delete(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        _options: DeleteOptions,
    ) -> Result<(), Status> {
        self.write("delete", of, namespace, name);
        Ok(())
    }

    async fn delete_collection(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        _label_selector: &str,
        _field_selector: &str,
        _options: DeleteOptions,
    ) -> Result<(), Status> {
        self.write("delete all", of, namespace, "");
        Ok(())
    }

    async fn create_subresource(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        _subresource: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        self.write("create a subresource of", of, namespace, name);
        Ok(object)
    }
}
