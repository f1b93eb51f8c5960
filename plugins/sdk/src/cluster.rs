//! The cluster as a plugin sees it: one object-safe trait over JSON bytes, with the host behind it in a component and a
//! [fake](crate::testing::FakeCluster) in native tests, and typed helpers on top.
//!
//! Invariant: nothing here caches; the host's informer caches answer `get`, `list` and `list_owned`.

mod ext;
mod host;
pub mod resources;
mod status;

pub use ext::ClusterExt;
pub use host::Host;
pub use status::Status;

use std::borrow::Cow;

/// A group (`""` for core), version and plural resource name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    pub name: Cow<'static, str>,
}

impl Resource {
    /// From static parts.
    pub const fn of(group: &'static str, version: &'static str, name: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            name: Cow::Borrowed(name),
        }
    }

    /// From parts found at run time, by discovery or in a manifest.
    pub fn new(group: &str, version: &str, name: &str) -> Self {
        Self {
            group: Cow::Owned(group.to_owned()),
            version: Cow::Owned(version.to_owned()),
            name: Cow::Owned(name.to_owned()),
        }
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        match &*self.group {
            "" => self.version.clone().into_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// `pods` or `deployments.apps`, as messages name it.
    pub fn group_resource(&self) -> String {
        match &*self.group {
            "" => self.name.clone().into_owned(),
            group => format!("{}.{group}", self.name),
        }
    }
}

/// How a patch body is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' strategic merge; built-in kinds only.
    Strategic,
}

/// What becomes of dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `metav1.DeleteOptions`; the default leaves everything to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub propagation: Option<Propagation>,
    pub grace_period_seconds: Option<u32>,
    /// Refuse unless the object still has this uid.
    pub uid: Option<String>,
    /// Refuse unless the object still has this resourceVersion.
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// Only this very object, not a later one of the same name.
    pub fn uid(uid: &str) -> Self {
        Self {
            uid: Some(uid.to_owned()),
            ..Self::default()
        }
    }
}

/// Label and field selectors in Kubernetes' syntax; empty selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
}

impl ListOptions {
    /// By labels: `app=web,tier!=db`.
    pub fn labels(selector: impl Into<String>) -> Self {
        Self {
            label_selector: selector.into(),
            ..Self::default()
        }
    }

    /// By fields: `spec.nodeName=node-1`.
    pub fn fields(selector: impl Into<String>) -> Self {
        Self {
            field_selector: selector.into(),
            ..Self::default()
        }
    }
}

/// A resource the API server serves, in its preferred version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedResource {
    pub resource: Resource,
    pub kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
}

/// The outcome of discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    pub resources: Vec<ServedResource>,
    /// Group versions whose resources are unknown because their server did not answer.
    pub failed: Vec<String>,
}

/// One of many writes, for [`Cluster::write_all`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    Create {
        of: Resource,
        namespace: String,
        object: Vec<u8>,
    },
    Patch {
        of: Resource,
        namespace: String,
        name: String,
        /// Empty for the object itself.
        subresource: String,
        kind: PatchType,
        patch: Vec<u8>,
    },
    Delete {
        of: Resource,
        namespace: String,
        name: String,
        options: DeleteOptions,
    },
}

/// What an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSubject {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    Normal,
    Warning,
}

impl EventType {
    /// `Normal` or `Warning`.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// One entry of the owner graph (`pilothouse:host/graph`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    pub resource: Resource,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub owners: Vec<Owner>,
    pub finalizers: Vec<String>,
    pub deleting: bool,
}

/// One of a node's owner references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
    pub block_owner_deletion: bool,
}

/// How an owner stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    Solid,
    Absent,
    /// Deleted in the foreground, waiting for its dependents.
    Waiting,
}

/// Everything a controller may ask of its host. Objects are JSON documents; see [`ClusterExt`] for typed access.
/// Calls are made as user `system:plugin:<name>`; one outside the granted capabilities is answered with `Forbidden`.
pub trait Cluster {
    /// From the cache where the plugin watches the resource, else live.
    fn get_raw(&self, of: &Resource, namespace: &str, name: &str) -> Result<Vec<u8>, Status>;
    /// Always live.
    fn get_live_raw(&self, of: &Resource, namespace: &str, name: &str) -> Result<Vec<u8>, Status>;
    /// From the cache as `get_raw`; empty namespace: all.
    fn list_raw(
        &self,
        of: &Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Vec<Vec<u8>>, Status>;
    /// Cached objects with an owner reference to this uid; only for watched resources.
    fn list_owned_raw(
        &self,
        of: &Resource,
        namespace: &str,
        owner_uid: &str,
    ) -> Result<Vec<Vec<u8>>, Status>;
    fn create_raw(&self, of: &Resource, namespace: &str, object: &[u8]) -> Result<Vec<u8>, Status>;
    fn update_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        object: &[u8],
    ) -> Result<Vec<u8>, Status>;
    fn update_status_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        object: &[u8],
    ) -> Result<Vec<u8>, Status>;
    /// PUT to a subresource: `finalize`, `scale`.
    fn update_subresource_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: &[u8],
    ) -> Result<Vec<u8>, Status>;
    /// POST to a subresource: `binding`, `eviction`.
    fn create_subresource_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: &[u8],
    ) -> Result<Vec<u8>, Status>;
    /// `subresource` is empty for the object itself.
    fn patch_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        kind: PatchType,
        patch: &[u8],
    ) -> Result<Vec<u8>, Status>;
    fn delete(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Status>;
    fn delete_collection(
        &self,
        of: &Resource,
        namespace: &str,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), Status>;
    /// Writes that the host carries out side by side, in no order. The answers are in the order of the writes; that to a
    /// deletion is empty.
    fn write_all(&self, writes: Vec<Write>) -> Vec<Result<Vec<u8>, Status>> {
        writes
            .into_iter()
            .map(|write| one_by_one(self, write))
            .collect()
    }
    /// Aggregated and rate-limited by the host; never fails the caller.
    fn record_event(
        &self,
        regarding: &EventSubject,
        kind: EventType,
        reason: &str,
        action: &str,
        note: &str,
    );
    /// What the API server serves.
    fn served_resources(&self) -> Result<Served, Status>;
    /// The owner graph's entry for a uid; only for plugins with `"graph": true`.
    fn graph_node(&self, uid: &str) -> Option<GraphNode>;
    /// Every object that refers to this uid.
    fn graph_dependents(&self, uid: &str) -> Vec<GraphNode>;
    /// How an owner stands, seen from an object in `namespace`.
    fn resolve_owner(&self, namespace: &str, owner: &Owner) -> Result<OwnerState, Status>;
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
    /// A line for the plugin's log.
    fn warn(&self, message: &str);
}

/// How a cluster that cannot do more at once writes many.
fn one_by_one<C: Cluster + ?Sized>(cluster: &C, write: Write) -> Result<Vec<u8>, Status> {
    match write {
        Write::Create {
            of,
            namespace,
            object,
        } => cluster.create_raw(&of, &namespace, &object),
        Write::Patch {
            of,
            namespace,
            name,
            subresource,
            kind,
            patch,
        } => cluster.patch_raw(&of, &namespace, &name, &subresource, kind, &patch),
        Write::Delete {
            of,
            namespace,
            name,
            options,
        } => cluster
            .delete(&of, &namespace, &name, &options)
            .map(|()| Vec::new()),
    }
}
