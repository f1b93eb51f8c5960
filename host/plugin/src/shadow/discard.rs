//! The cluster as a plugin sees it that does not act: reads are real, writes are answered as if they had been made, and are
//! noted as differences.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_api::Status;

use super::{DifferenceKind, Shadow};
use crate::cluster::{
    CallingPlugin, Cluster, DeleteOptions, EventSubject, GraphNode, GraphOwner,
    GroupVersionResource, OwnerState, PatchType, Served,
};

/// A cluster without its writes.
pub struct Discarding {
    cluster: Arc<dyn Cluster>,
    shadow: Arc<Shadow>,
}

impl Discarding {
    pub(crate) fn new(cluster: Arc<dyn Cluster>, shadow: Arc<Shadow>) -> Self {
        Self { cluster, shadow }
    }

    fn note(&self, verb: &str, of: &GroupVersionResource, namespace: &str, name: &str, body: &str) {
        let resource = &of.resource;
        let about = match namespace {
            "" => format!("{verb} {resource} {name}"),
            namespace => format!("{verb} {resource} {namespace}/{name}"),
        };
        let kind = DifferenceKind::Write;
        self.shadow
            .differs(kind, about, "nothing was written", body);
    }
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The name that a new object has or is to be made of.
fn name_of(object: &Bytes) -> String {
    let object: serde_json::Value = serde_json::from_slice(object).unwrap_or_default();
    let metadata = &object["metadata"];
    let name = metadata["name"]
        .as_str()
        .or(metadata["generateName"].as_str());
    name.unwrap_or_default().to_owned()
}

#[async_trait]
impl Cluster for Discarding {
    async fn get(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Status> {
        self.cluster.get(by, of, namespace, name).await
    }

    async fn get_live(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Status> {
        self.cluster.get_live(by, of, namespace, name).await
    }

    async fn list(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        label_selector: &str,
        field_selector: &str,
    ) -> Result<Vec<Bytes>, Status> {
        let listed = self
            .cluster
            .list(by, of, namespace, label_selector, field_selector);
        listed.await
    }

    async fn list_owned(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        owneruid: &str,
    ) -> Result<Vec<Bytes>, Status> {
        self.cluster.list_owned(by, of, namespace, owneruid).await
    }

    async fn create(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        self.note("create", of, namespace, &name_of(&object), &text(&object));
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
        self.note("update", of, namespace, name, &text(&object));
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
        self.note("update status of", of, namespace, name, &text(&object));
        Ok(object)
    }

    async fn update_subresource(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        let verb = format!("update {subresource} of");
        self.note(&verb, of, namespace, name, &text(&object));
        Ok(object)
    }

    /// Answers with the object as it is.
    async fn patch(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        _: PatchType,
        patch: Bytes,
    ) -> Result<Bytes, Status> {
        let verb = match subresource {
            "" => "patch".to_owned(),
            subresource => format!("patch {subresource} of"),
        };
        self.note(&verb, of, namespace, name, &text(&patch));
        self.cluster.get(by, of, namespace, name).await
    }

    async fn delete(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        _: DeleteOptions,
    ) -> Result<(), Status> {
        self.note("delete", of, namespace, name, "");
        Ok(())
    }

    async fn delete_collection(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        label_selector: &str,
        field_selector: &str,
        _: DeleteOptions,
    ) -> Result<(), Status> {
        let selected = format!("{label_selector} {field_selector}");
        self.note("delete all", of, namespace, selected.trim(), "");
        Ok(())
    }

    async fn create_subresource(
        &self,
        _: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        let verb = format!("create {subresource} of");
        self.note(&verb, of, namespace, name, &text(&object));
        Ok(object)
    }

    /// An Event would tell of what was not done.
    async fn record_event(
        &self,
        _: CallingPlugin<'_>,
        _: EventSubject,
        _: &str,
        _: &str,
        _: &str,
        _: &str,
    ) {
    }

    fn refused(&self, by: CallingPlugin<'_>, why: &Status) {
        self.cluster.refused(by, why);
    }

    async fn served_resources(&self, by: CallingPlugin<'_>) -> Result<Served, Status> {
        self.cluster.served_resources(by).await
    }

    async fn graph_get(&self, by: CallingPlugin<'_>, uid: &str) -> Option<GraphNode> {
        self.cluster.graph_get(by, uid).await
    }

    async fn graph_dependents(&self, by: CallingPlugin<'_>, uid: &str) -> Vec<GraphNode> {
        self.cluster.graph_dependents(by, uid).await
    }

    async fn graph_resolve(
        &self,
        by: CallingPlugin<'_>,
        namespace: &str,
        owner: &GraphOwner,
    ) -> Result<OwnerState, Status> {
        self.cluster.graph_resolve(by, namespace, owner).await
    }
}
