//! The host's imports as a [`Cluster`].

use super::{
    Cluster, DeleteOptions, EventSubject, EventType, GraphNode, ListOptions, Owner, OwnerState,
    PatchType, Propagation, Resource, Served, ServedResource, Status, Write,
};
use crate::{
    bindings::host::pilothouse::host::{cluster as wit, discovery, graph, log},
    host,
};

/// The cluster behind the host. In a native build its calls panic: tests use [`crate::testing::FakeCluster`].
#[derive(Clone, Copy, Debug)]
pub struct Host;

impl Cluster for Host {
    fn get_raw(&self, of: &Resource, namespace: &str, name: &str) -> Result<Vec<u8>, Status> {
        Ok(wit::get(&of.into(), namespace, name)?)
    }

    fn get_live_raw(&self, of: &Resource, namespace: &str, name: &str) -> Result<Vec<u8>, Status> {
        Ok(wit::get_live(&of.into(), namespace, name)?)
    }

    fn list_raw(
        &self,
        of: &Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Vec<Vec<u8>>, Status> {
        let (labels, fields) = (&options.label_selector, &options.field_selector);
        Ok(wit::list(&of.into(), namespace, labels, fields)?)
    }

    fn list_owned_raw(
        &self,
        of: &Resource,
        namespace: &str,
        owner_uid: &str,
    ) -> Result<Vec<Vec<u8>>, Status> {
        Ok(wit::list_owned(&of.into(), namespace, owner_uid)?)
    }

    fn create_raw(&self, of: &Resource, namespace: &str, object: &[u8]) -> Result<Vec<u8>, Status> {
        Ok(wit::create(&of.into(), namespace, object)?)
    }

    fn update_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        object: &[u8],
    ) -> Result<Vec<u8>, Status> {
        Ok(wit::update(&of.into(), namespace, name, object)?)
    }

    fn update_status_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        object: &[u8],
    ) -> Result<Vec<u8>, Status> {
        Ok(wit::update_status(&of.into(), namespace, name, object)?)
    }

    fn update_subresource_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: &[u8],
    ) -> Result<Vec<u8>, Status> {
        let of = of.into();
        Ok(wit::update_subresource(
            &of,
            namespace,
            name,
            subresource,
            object,
        )?)
    }

    fn create_subresource_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: &[u8],
    ) -> Result<Vec<u8>, Status> {
        let of = of.into();
        Ok(wit::create_subresource(
            &of,
            namespace,
            name,
            subresource,
            object,
        )?)
    }

    fn patch_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        kind: PatchType,
        patch: &[u8],
    ) -> Result<Vec<u8>, Status> {
        let (of, kind) = (of.into(), kind.into());
        Ok(wit::patch(&of, namespace, name, subresource, kind, patch)?)
    }

    fn delete(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        Ok(wit::delete(&of.into(), namespace, name, &options.into())?)
    }

    fn delete_collection(
        &self,
        of: &Resource,
        namespace: &str,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        let (labels, fields) = (&list.label_selector, &list.field_selector);
        let (of, options) = (of.into(), options.into());
        Ok(wit::delete_collection(
            &of, namespace, labels, fields, &options,
        )?)
    }

    fn write_all(&self, writes: Vec<Write>) -> Vec<Result<Vec<u8>, Status>> {
        let writes: Vec<wit::Write> = writes.into_iter().map(wit::Write::from).collect();
        let answers = wit::write_all(&writes).into_iter();
        answers.map(|answer| answer.map_err(Status::from)).collect()
    }

    fn record_event(
        &self,
        regarding: &EventSubject,
        kind: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let regarding = wit::EventSubject {
            api_version: regarding.api_version.clone(),
            kind: regarding.kind.clone(),
            namespace: regarding.namespace.clone(),
            name: regarding.name.clone(),
            uid: regarding.uid.clone(),
        };
        wit::record_event(&regarding, kind.as_str(), reason, action, note);
    }

    fn served_resources(&self) -> Result<Served, Status> {
        let served = discovery::served_resources()?;
        let resource = |r: discovery::ServedResource| ServedResource {
            resource: Resource::new(&r.group, &r.version, &r.name),
            kind: r.kind,
            namespaced: r.namespaced,
            verbs: r.verbs,
        };
        Ok(Served {
            resources: served.resources.into_iter().map(resource).collect(),
            failed: served.failed,
        })
    }

    fn graph_node(&self, uid: &str) -> Option<GraphNode> {
        graph::get(uid).map(GraphNode::from)
    }

    fn graph_dependents(&self, uid: &str) -> Vec<GraphNode> {
        let nodes = graph::dependents(uid).into_iter();
        nodes.map(GraphNode::from).collect()
    }

    fn resolve_owner(&self, namespace: &str, owner: &Owner) -> Result<OwnerState, Status> {
        let owner = graph::Owner {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        };
        Ok(match graph::resolve(namespace, &owner)? {
            graph::OwnerState::Solid => OwnerState::Solid,
            graph::OwnerState::Absent => OwnerState::Absent,
            graph::OwnerState::Waiting => OwnerState::Waiting,
        })
    }

    fn now_ms(&self) -> u64 {
        host::now_ms()
    }

    fn warn(&self, message: &str) {
        host::log(log::Level::Warn, message);
    }
}

impl From<&Resource> for wit::GroupVersionResource {
    fn from(of: &Resource) -> Self {
        Self {
            group: of.group.clone().into_owned(),
            version: of.version.clone().into_owned(),
            resource: of.name.clone().into_owned(),
        }
    }
}

impl From<PatchType> for wit::PatchType {
    fn from(kind: PatchType) -> Self {
        match kind {
            PatchType::Json => Self::Json,
            PatchType::Merge => Self::Merge,
            PatchType::Strategic => Self::Strategic,
        }
    }
}

impl From<Write> for wit::Write {
    fn from(write: Write) -> Self {
        match write {
            Write::Create {
                of,
                namespace,
                object,
            } => Self::Create(wit::Creation {
                of: (&of).into(),
                namespace,
                object,
            }),
            Write::Patch {
                of,
                namespace,
                name,
                subresource,
                kind,
                patch,
            } => Self::Patch(wit::Patching {
                of: (&of).into(),
                namespace,
                name,
                subresource,
                type_: kind.into(),
                patch,
            }),
            Write::Delete {
                of,
                namespace,
                name,
                options,
            } => Self::Delete(wit::Deletion {
                of: (&of).into(),
                namespace,
                name,
                options: (&options).into(),
            }),
        }
    }
}

impl From<&DeleteOptions> for wit::DeleteOptions {
    fn from(options: &DeleteOptions) -> Self {
        Self {
            propagation: options.propagation.map(|propagation| match propagation {
                Propagation::Background => wit::Propagation::Background,
                Propagation::Foreground => wit::Propagation::Foreground,
                Propagation::Orphan => wit::Propagation::Orphan,
            }),
            grace_period_seconds: options.grace_period_seconds,
            uid: options.uid.clone(),
            resource_version: options.resource_version.clone(),
        }
    }
}

impl From<wit::Status> for Status {
    fn from(status: wit::Status) -> Self {
        Self {
            code: status.code,
            reason: status.reason,
            message: status.message,
        }
    }
}

impl From<graph::Node> for GraphNode {
    fn from(node: graph::Node) -> Self {
        let owner = |o: graph::Owner| Owner {
            api_version: o.api_version,
            kind: o.kind,
            name: o.name,
            uid: o.uid,
            controller: o.controller,
            block_owner_deletion: o.block_owner_deletion,
        };
        Self {
            resource: Resource::new(&node.of.group, &node.of.version, &node.of.resource),
            namespace: node.namespace,
            name: node.name,
            uid: node.uid,
            owners: node.owners.into_iter().map(owner).collect(),
            finalizers: node.finalizers,
            deleting: node.deleting,
        }
    }
}
