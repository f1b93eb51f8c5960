//! The cluster as the host offers it to plugins: reads of watched resources from the shared informer caches, everything else
//! and all writes through the API as user `system:plugin:<name>`.
//!
//! It exists before there is a client, since in one process the API server itself runs plugins; until it is connected it
//! answers 503.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::RwLock;
use pilothouse_api::{Object, Status, selector::LabelSelector};
use pilothouse_client::{
    Cache, Client, EventRecorder, Informer, ListParams, Regarding, UserInfo, client,
};
use pilothouse_plugin::cluster::{
    CallingPlugin, Cluster, DeleteOptions, EventSubject, GraphNode, GraphOwner,
    GroupVersionResource, OwnerState, PatchType, Propagation, Served, ServedResource,
};

use crate::{gc::OwnerGraph, written};

type Gvr = pilothouse_api::GroupVersionResource;

/// See the module.
#[derive(Default)]
pub struct PluginCluster {
    connected: OnceLock<Connected>,
    /// By plugin, the informers of what it watches.
    watched: RwLock<HashMap<String, HashMap<Gvr, Arc<Informer>>>>,
    /// Informers that every plugin reads from, whether it watches the resource or not.
    common: RwLock<HashMap<Gvr, Arc<Informer>>>,
}

struct Connected {
    client: Client,
    recorder: EventRecorder,
    graph: Arc<OwnerGraph>,
}

impl PluginCluster {
    /// Not connected.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Acts through `client` from now on, as the users of the plugins. Only the first call counts.
    pub fn connect(&self, client: Client, recorder: EventRecorder, graph: Arc<OwnerGraph>) {
        let _ = self.connected.set(Connected {
            client,
            recorder,
            graph,
        });
    }

    /// Every plugin reads this resource from the cache from now on; for plugins that are no controllers and watch nothing.
    pub fn share(&self, informer: Arc<Informer>) {
        let resource = informer.cache().resource().clone();
        self.common.write().insert(resource, informer);
    }

    /// A controller reads what it watches from these informers.
    pub(crate) fn watch(&self, plugin: &str, informers: &[Arc<Informer>]) {
        let by_resource = informers
            .iter()
            .map(|informer| (informer.cache().resource().clone(), informer.clone()));
        let by_resource = by_resource.collect();
        self.watched.write().insert(plugin.to_owned(), by_resource);
    }

    /// A controller has stopped.
    pub(crate) fn forget(&self, plugin: &str) {
        self.watched.write().remove(plugin);
    }

    fn connected(&self) -> Result<&Connected, Status> {
        self.connected
            .get()
            .ok_or_else(|| Status::new(503, "ServiceUnavailable", "the host is not connected yet"))
    }

    fn client(&self, by: CallingPlugin<'_>) -> Result<Client, Status> {
        Ok(self.connected()?.client.as_user(UserInfo::plugin(by.name)))
    }

    /// The cache from which the plugin reads a resource, if it is complete.
    fn cache(&self, by: CallingPlugin<'_>, of: &Gvr) -> Option<Arc<Cache>> {
        let watched = self.watched.read();
        let own = watched.get(by.name).and_then(|all| all.get(of));
        let informer = own.cloned().or_else(|| self.common.read().get(of).cloned());
        Some(informer?.cache().clone()).filter(|cache| cache.synced())
    }

    /// Notes what was written, for the run under way, and answers with it.
    fn written(&self, by: CallingPlugin<'_>, of: &Gvr, object: &Object) -> Bytes {
        written::wrote(self.cache(by, of), object);
        object.bytes.clone()
    }
}

#[async_trait]
impl Cluster for PluginCluster {
    async fn get(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Status> {
        let gvr = gvr(of);
        let Some(cache) = self.cache(by, &gvr) else {
            return self.get_live(by, of, namespace, name).await;
        };
        let object = cache.get(namespace, name);
        let object = object.ok_or_else(|| Status::not_found(&gvr.group_resource(), name))?;
        Ok(object.bytes.clone())
    }

    async fn get_live(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Status> {
        let object = self.client(by)?.get(&gvr(of), namespace, name).await?;
        Ok(object.bytes.clone())
    }

    async fn list(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        label_selector: &str,
        field_selector: &str,
    ) -> Result<Vec<Bytes>, Status> {
        let gvr = gvr(of);
        let objects = match self.cache(by, &gvr) {
            Some(cache) => {
                let labels = LabelSelector::parse(label_selector)?;
                cache.list(namespace, &labels, &cache.field_selector(field_selector)?)
            }
            None => {
                let params = selected(label_selector, field_selector);
                let client = self.client(by)?;
                client.list_all(&gvr, namespace, &params, &[]).await?.items
            }
        };
        Ok(objects.iter().map(|object| object.bytes.clone()).collect())
    }

    async fn list_owned(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        owner_uid: &str,
    ) -> Result<Vec<Bytes>, Status> {
        let gvr = gvr(of);
        let Some(cache) = self.cache(by, &gvr) else {
            let message = format!("plugin {} does not watch {}", by.name, gvr.group_resource());
            return Err(Status::bad_request(message));
        };
        let owned = cache.owned_by(namespace, owner_uid);
        Ok(owned.iter().map(|object| object.bytes.clone()).collect())
    }

    async fn create(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        let gvr = gvr(of);
        let created = self.client(by)?.create(&gvr, namespace, object).await?;
        Ok(self.written(by, &gvr, &created))
    }

    async fn update(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        self.update_subresource(by, of, namespace, name, "", object)
            .await
    }

    async fn update_status(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        self.update_subresource(by, of, namespace, name, "status", object)
            .await
    }

    async fn update_subresource(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        let gvr = gvr(of);
        let client = self.client(by)?;
        let updated = client
            .update_subresource(&gvr, namespace, name, subresource, object)
            .await?;
        Ok(self.written(by, &gvr, &updated))
    }

    async fn patch(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch_type: PatchType,
        patch: Bytes,
    ) -> Result<Bytes, Status> {
        let gvr = gvr(of);
        let kind = match patch_type {
            PatchType::Json => client::PatchType::Json,
            PatchType::Merge => client::PatchType::Merge,
            PatchType::Strategic => client::PatchType::Strategic,
        };
        let client = self.client(by)?;
        let patched = client
            .patch(&gvr, namespace, name, subresource, kind, patch)
            .await?;
        Ok(self.written(by, &gvr, &patched))
    }

    async fn delete(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<(), Status> {
        let gvr = gvr(of);
        let client = self.client(by)?;
        let doomed = written::doomed(self.cache(by, &gvr), namespace, name);
        client
            .delete(&gvr, namespace, name, &delete_options(options))
            .await?;
        written::deleted(doomed);
        Ok(())
    }

    async fn delete_collection(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        label_selector: &str,
        field_selector: &str,
        options: DeleteOptions,
    ) -> Result<(), Status> {
        let params = selected(label_selector, field_selector);
        let client = self.client(by)?;
        client
            .delete_collection(&gvr(of), namespace, &params, &delete_options(options))
            .await
    }

    async fn create_subresource(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        let client = self.client(by)?;
        client
            .create_subresource(&gvr(of), namespace, name, subresource, object)
            .await
    }

    async fn record_event(
        &self,
        by: CallingPlugin<'_>,
        regarding: EventSubject,
        event_type: &str,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        if let Ok(connected) = self.connected() {
            let regarding = Regarding {
                api_version: regarding.api_version,
                kind: regarding.kind,
                namespace: regarding.namespace,
                name: regarding.name,
                uid: regarding.uid,
            };
            connected
                .recorder
                .record(by.name, regarding, event_type, reason, action, note);
        }
    }

    async fn served_resources(&self, by: CallingPlugin<'_>) -> Result<Served, Status> {
        let found = self.client(by)?.discover().await?;
        let served = |r: pilothouse_client::ServedResource| ServedResource {
            group: r.gvr.group.into_owned(),
            version: r.gvr.version.into_owned(),
            name: r.gvr.resource.into_owned(),
            kind: r.kind,
            namespaced: r.namespaced,
            verbs: r.verbs,
        };
        Ok(Served {
            resources: found.resources.into_iter().map(served).collect(),
            failed: found.failed,
        })
    }

    async fn graph_get(&self, _by: CallingPlugin<'_>, uid: &str) -> Option<GraphNode> {
        self.connected().ok()?.graph.get(uid)
    }

    async fn graph_dependents(&self, _by: CallingPlugin<'_>, uid: &str) -> Vec<GraphNode> {
        let connected = self.connected();
        connected.map_or_else(|_| Vec::new(), |c| c.graph.dependents(uid))
    }

    async fn graph_resolve(
        &self,
        by: CallingPlugin<'_>,
        namespace: &str,
        owner: &GraphOwner,
    ) -> Result<OwnerState, Status> {
        let client = self.client(by)?;
        let graph = &self.connected()?.graph;
        graph.resolve(&client, namespace, owner).await
    }
}

fn gvr(of: &GroupVersionResource) -> Gvr {
    Gvr {
        group: of.group.clone().into(),
        version: of.version.clone().into(),
        resource: of.resource.clone().into(),
    }
}

fn selected(label_selector: &str, field_selector: &str) -> ListParams {
    ListParams {
        label_selector: label_selector.to_owned(),
        field_selector: field_selector.to_owned(),
        ..ListParams::default()
    }
}

fn delete_options(options: DeleteOptions) -> client::DeleteOptions {
    client::DeleteOptions {
        propagation: options.propagation.map(|propagation| match propagation {
            Propagation::Background => client::Propagation::Background,
            Propagation::Foreground => client::Propagation::Foreground,
            Propagation::Orphan => client::Propagation::Orphan,
        }),
        grace_period_seconds: options.grace_period_seconds,
        uid: options.uid,
        resource_version: options.resource_version,
    }
}

#[cfg(test)]
mod tests;
