//! The world as plugins reach it.

use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_api::{Header, Status, selector::LabelSelector};
use serde_json::Value;

use super::super::CAPABILITIES;
use super::{
    KEPT_WRITES, State, World, bytes, conflict, finalizers, find, parse, select, text, undecodable,
};
use crate::{
    capability::Access,
    cluster::{
        CallingPlugin, Cluster, DeleteOptions, EventSubject, GraphNode, GraphOwner,
        GroupVersionResource, OwnerState, PatchType, Served,
    },
};

impl World {
    fn read<T>(
        &self,
        access: Access<'_>,
        read: impl FnOnce(&State) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut state = self.state.lock();
        self.allow(&mut state, access)?;
        read(&state)
    }

    fn write<T>(
        &self,
        access: Access<'_>,
        namespace: &str,
        body: &[u8],
        write: impl FnOnce(&mut State) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut state = self.state.lock();
        self.allow(&mut state, access)?;
        let Access {
            verb,
            resource,
            subresource,
            name,
            ..
        } = access;
        state.attempts += 1;
        let body = String::from_utf8_lossy(body);
        state.log.push_back(format!(
            "{verb} {resource}/{subresource} {namespace}/{name} {body}"
        ));
        if state.log.len() > KEPT_WRITES {
            state.log.pop_front();
        }
        if state.troubled && verb != "create" && state.chance(4) == 0 {
            return Err(conflict(access, "somebody was faster"));
        }
        let before = state.revision;
        let written = write(&mut state)?;
        state.writes += u64::from(state.revision != before);
        Ok(written)
    }

    fn allow(&self, state: &mut State, access: Access<'_>) -> Result<(), Status> {
        if self.capabilities.allow(access) {
            return Ok(());
        }
        let Access {
            verb,
            resource,
            subresource,
            ..
        } = access;
        let detail = format!("it may not {verb} {resource}/{subresource}");
        let detail = detail.trim_end_matches('/').to_owned();
        state.violation = Some((CAPABILITIES, detail.clone()));
        Err(Status::new(403, "Forbidden", detail))
    }
}

impl State {
    fn graph_nodes(&self) -> impl Iterator<Item = GraphNode> {
        self.objects
            .values()
            .map(|(of, object)| graph_node(of, object))
    }
}

fn access<'a>(
    verb: &'a str,
    of: &'a GroupVersionResource,
    subresource: &'a str,
    name: &'a str,
) -> Access<'a> {
    Access {
        verb,
        group: &of.group,
        resource: &of.resource,
        subresource,
        name,
    }
}

#[async_trait]
impl Cluster for World {
    async fn get(
        &self,
        _by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Status> {
        self.read(access("get", of, "", name), |state| {
            find(&state.cached, of, namespace, name).map(bytes)
        })
    }

    async fn get_live(
        &self,
        _by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Status> {
        self.read(access("get", of, "", name), |state| {
            state.live(of, namespace, name).map(bytes)
        })
    }

    async fn list(
        &self,
        _by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        label_selector: &str,
        field_selector: &str,
    ) -> Result<Vec<Bytes>, Status> {
        let labels = LabelSelector::parse(label_selector)?;
        self.read(access("list", of, "", ""), |state| {
            let found = select(&state.cached, of, namespace);
            let found = found.filter(|object| {
                let header = Header::decode(&bytes(object), &[""; 0]);
                header.is_ok_and(|(header, _)| labels.matches(&header))
                    && fields_match(object, field_selector)
            });
            Ok(found.map(bytes).collect())
        })
    }

    async fn list_owned(
        &self,
        _by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        owner_uid: &str,
    ) -> Result<Vec<Bytes>, Status> {
        self.read(access("list", of, "", ""), |state| {
            let owned = select(&state.cached, of, namespace).filter(|object| {
                let owners = object["metadata"]["ownerReferences"].as_array();
                owners
                    .into_iter()
                    .flatten()
                    .any(|owner| owner["uid"] == *owner_uid)
            });
            Ok(owned.map(bytes).collect())
        })
    }

    async fn create(
        &self,
        _by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        let body = object;
        let mut object = parse(&body)?;
        if let Some(object) = object.as_object_mut() {
            object.remove("status");
        }
        let name = text(&object, "/metadata/name").to_owned();
        self.write(access("create", of, "", &name), namespace, &body, |state| {
            state
                .create(of, namespace, object)
                .map(|object| bytes(&object))
        })
    }

    async fn update(
        &self,
        _by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        self.update_subresource(_by, of, namespace, name, "", object)
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
        _by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        let body = object;
        let object = parse(&body)?;
        self.write(
            access("update", of, subresource, name),
            namespace,
            &body,
            |state| {
                let updated = state.update(of, namespace, name, subresource, object);
                updated.map(|object| bytes(&object))
            },
        )
    }

    async fn patch(
        &self,
        _by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch_type: PatchType,
        patch: Bytes,
    ) -> Result<Bytes, Status> {
        let patch_bytes = patch;
        self.write(
            access("patch", of, subresource, name),
            namespace,
            &patch_bytes,
            |state| {
                let mut object = state.live(of, namespace, name)?.clone();
                match patch_type {
                    PatchType::Json => {
                        let patch: json_patch::Patch =
                            serde_json::from_slice(&patch_bytes).map_err(undecodable)?;
                        json_patch::patch(&mut object, &patch)
                            .map_err(|error| Status::new(422, "Invalid", error.to_string()))?;
                    }
                    // strategic merge differs in lists only, which controllers write whole
                    PatchType::Merge | PatchType::Strategic => {
                        json_patch::merge(&mut object, &parse(&patch_bytes)?)
                    }
                }
                let updated = state.update(of, namespace, name, subresource, object);
                updated.map(|object| bytes(&object))
            },
        )
    }

    async fn delete(
        &self,
        _by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<(), Status> {
        self.write(access("delete", of, "", name), namespace, b"", |state| {
            state.delete(of, namespace, name, &options)
        })
    }

    async fn delete_collection(
        &self,
        _by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        label_selector: &str,
        _field_selector: &str,
        options: DeleteOptions,
    ) -> Result<(), Status> {
        let labels = LabelSelector::parse(label_selector)?;
        self.write(
            access("deletecollection", of, "", ""),
            namespace,
            b"",
            |state| {
                let names: Vec<String> = select(&state.objects, of, namespace)
                    .filter(|object| {
                        let header = Header::decode(&bytes(object), &[""; 0]);
                        header.is_ok_and(|(header, _)| labels.matches(&header))
                    })
                    .map(|object| text(object, "/metadata/name").to_owned())
                    .collect();
                names
                    .iter()
                    .try_for_each(|name| state.delete(of, namespace, name, &options))
            },
        )
    }

    async fn create_subresource(
        &self,
        _by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        let body = object.clone();
        self.write(
            access("create", of, subresource, name),
            namespace,
            &body,
            |state| {
                match subresource {
                    "eviction" => state.delete(of, namespace, name, &no_options())?,
                    _ => {
                        let mut pod = state.live(of, namespace, name)?.clone();
                        pod["spec"]["nodeName"] = parse(&object)?["target"]["name"].clone();
                        state.update(of, namespace, name, "", pod)?;
                    }
                }
                Ok(object)
            },
        )
    }

    async fn record_event(
        &self,
        _by: CallingPlugin<'_>,
        _regarding: EventSubject,
        _event_type: &str,
        _reason: &str,
        _action: &str,
        _note: &str,
    ) {
    }

    fn refused(&self, _by: CallingPlugin<'_>, why: &Status) {
        let violation = (CAPABILITIES, why.message.clone());
        self.state.lock().violation = Some(violation);
    }

    async fn served_resources(&self, _by: CallingPlugin<'_>) -> Result<Served, Status> {
        Ok(Served {
            resources: Vec::new(),
            failed: Vec::new(),
        })
    }

    async fn graph_get(&self, _by: CallingPlugin<'_>, uid: &str) -> Option<GraphNode> {
        self.state.lock().graph_nodes().find(|node| node.uid == uid)
    }

    async fn graph_dependents(&self, _by: CallingPlugin<'_>, uid: &str) -> Vec<GraphNode> {
        let state = self.state.lock();
        let dependents = state
            .graph_nodes()
            .filter(|node| node.owners.iter().any(|owner| owner.uid == uid));
        dependents.collect()
    }

    async fn graph_resolve(
        &self,
        _by: CallingPlugin<'_>,
        namespace: &str,
        owner: &GraphOwner,
    ) -> Result<OwnerState, Status> {
        let state = self.state.lock();
        let found = state.graph_nodes().find(|node| node.uid == owner.uid);
        Ok(match found {
            Some(node) if !node.namespace.is_empty() && node.namespace != namespace => {
                OwnerState::Absent
            }
            Some(node) if node.name != owner.name => OwnerState::Absent,
            Some(node)
                if node.deleting && node.finalizers.iter().any(|f| f == "foregroundDeletion") =>
            {
                OwnerState::Waiting
            }
            Some(_) => OwnerState::Solid,
            None => OwnerState::Absent,
        })
    }
}

/// `path=value` terms.
fn fields_match(object: &Value, selector: &str) -> bool {
    selector
        .split(',')
        .filter(|term| !term.is_empty())
        .all(|term| {
            let (path, value) = term.split_once('=').unwrap_or((term, ""));
            let negated = path.ends_with('!');
            let pointer = format!("/{}", path.trim_end_matches('!').replace('.', "/"));
            (text(object, &pointer) == value.trim_start_matches('=')) != negated
        })
}

fn graph_node(of: &GroupVersionResource, object: &Value) -> GraphNode {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owner = |reference: &Value| GraphOwner {
        api_version: text(reference, "/apiVersion").to_owned(),
        kind: text(reference, "/kind").to_owned(),
        name: text(reference, "/name").to_owned(),
        uid: text(reference, "/uid").to_owned(),
        controller: reference["controller"] == true,
        block_owner_deletion: reference["blockOwnerDeletion"] == true,
    };
    GraphNode {
        of: of.clone(),
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
        uid: text(object, "/metadata/uid").to_owned(),
        owners: owners.into_iter().flatten().map(owner).collect(),
        finalizers: finalizers(object),
        deleting: !object["metadata"]["deletionTimestamp"].is_null(),
    }
}

fn no_options() -> DeleteOptions {
    DeleteOptions {
        propagation: None,
        grace_period_seconds: None,
        uid: None,
        resource_version: None,
    }
}
