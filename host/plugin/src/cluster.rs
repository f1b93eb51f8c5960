//! What the host offers plugins of the cluster. The controller manager implements it over informer caches and the client; the
//! API server over its own caches.
//!
//! The capabilities have been checked before a method is called; the implementation acts as user `system:plugin:<plugin>`, so
//! that the authorizer has the last word. Methods mirror `pilothouse:host/{cluster, discovery, graph}`.

use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_api::Status;

pub use crate::host::bindings::{
    cluster::{DeleteOptions, EventSubject, GroupVersionResource, PatchType, Propagation},
    discovery::{Served, ServedResource},
    graph::{Node as GraphNode, Owner as GraphOwner, OwnerState},
};

/// Who calls: the plugin's entry in its component's manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallingPlugin<'a> {
    /// `deployment-controller`; its user is `system:plugin:deployment-controller`.
    pub name: &'a str,
    /// The component that it is part of.
    pub component: &'a str,
}

impl CallingPlugin<'_> {
    /// The user that the plugin acts as.
    pub fn user_name(&self) -> String {
        format!("system:plugin:{}", self.name)
    }
}

/// Reads and writes of the cluster. Objects are JSON. What an implementation leaves out is refused with 403.
#[async_trait]
#[expect(unused_variables, reason = "a refusal does not look at what was asked")]
pub trait Cluster: Send + Sync + 'static {
    /// From the informer cache where the plugin watches the resource, else live.
    async fn get(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Status> {
        Err(not_offered(by, "this access to the cluster"))
    }

    /// Always live.
    async fn get_live(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Status> {
        Err(not_offered(by, "this access to the cluster"))
    }

    /// From the cache as `get`. Empty namespace: all. Selectors in Kubernetes' syntax; empty: everything.
    async fn list(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        label_selector: &str,
        field_selector: &str,
    ) -> Result<Vec<Bytes>, Status> {
        Err(not_offered(by, "this access to the cluster"))
    }

    /// Cached objects with an owner reference to this uid; only for watched resources.
    async fn list_owned(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        owneruid: &str,
    ) -> Result<Vec<Bytes>, Status> {
        Err(not_offered(by, "this access to the cluster"))
    }

    async fn create(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        Err(not_offered(by, "this access to the cluster"))
    }

    async fn update(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        Err(not_offered(by, "this access to the cluster"))
    }

    async fn update_status(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        Err(not_offered(by, "this access to the cluster"))
    }

    /// PUT to another subresource: `finalize` of namespaces, `scale`.
    async fn update_subresource(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        Err(not_offered(by, "this access to the cluster"))
    }

    /// `subresource` is empty for the object itself.
    #[expect(
        clippy::too_many_arguments,
        reason = "the arguments of the WIT function"
    )]
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
        Err(not_offered(by, "this access to the cluster"))
    }

    async fn delete(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<(), Status> {
        Err(not_offered(by, "this access to the cluster"))
    }

    /// Everything in a namespace that the selectors match. Empty namespace: cluster-scoped resources.
    async fn delete_collection(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        label_selector: &str,
        field_selector: &str,
        options: DeleteOptions,
    ) -> Result<(), Status> {
        Err(not_offered(by, "this access to the cluster"))
    }

    /// POST to a subresource: `binding` and `eviction` of pods.
    async fn create_subresource(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        Err(not_offered(by, "this access to the cluster"))
    }

    /// Aggregated and rate-limited by the implementation; failures are its own.
    async fn record_event(
        &self,
        by: CallingPlugin<'_>,
        regarding: EventSubject,
        event_type: &str,
        reason: &str,
        action: &str,
        note: &str,
    ) {
    }

    /// An access was refused for want of a capability; nothing was asked of the cluster. For contracts and audits.
    fn refused(&self, by: CallingPlugin<'_>, why: &Status) {}

    /// What the API server serves; only controllers get an answer.
    async fn served_resources(&self, by: CallingPlugin<'_>) -> Result<Served, Status> {
        Err(not_offered(by, "discovery"))
    }

    /// A node of the owner graph; only for controllers whose manifest says `graph`.
    async fn graph_get(&self, by: CallingPlugin<'_>, uid: &str) -> Option<GraphNode> {
        None
    }

    /// Every object that refers to this uid.
    async fn graph_dependents(&self, by: CallingPlugin<'_>, uid: &str) -> Vec<GraphNode> {
        Vec::new()
    }

    /// How an owner stands.
    async fn graph_resolve(
        &self,
        by: CallingPlugin<'_>,
        namespace: &str,
        owner: &GraphOwner,
    ) -> Result<OwnerState, Status> {
        Err(not_offered(by, "the owner graph"))
    }
}

fn not_offered(by: CallingPlugin<'_>, what: &str) -> Status {
    let user = by.user_name();
    Status::new(
        403,
        "Forbidden",
        format!("{user} is not offered {what} here"),
    )
}

/// No cluster: every access is refused. For loading and for contracts that need none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCluster;

impl Cluster for NoCluster {}
