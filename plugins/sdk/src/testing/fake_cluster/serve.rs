//! What the fake cluster answers to the calls of [`Cluster`].

use serde_json::{Value, json};

use super::{FakeCluster, RecordedEvent, bytes, parse, part, select};
use crate::{
    cluster::{
        Cluster, DeleteOptions, EventSubject, EventType, GraphNode, ListOptions, Owner, OwnerState,
        PatchType, Resource, Served, Status,
    },
    controller::ObjectExt,
    testing::{
        fake_objects::{Part, not_found},
        fake_patch, fake_selectors,
    },
};

impl Cluster for FakeCluster {
    fn get_raw(&self, of: &Resource, namespace: &str, name: &str) -> Result<Vec<u8>, Status> {
        self.cached(|objects| objects.get(of, namespace, name).map(bytes))
    }

    fn get_live_raw(&self, of: &Resource, namespace: &str, name: &str) -> Result<Vec<u8>, Status> {
        self.live.borrow().get(of, namespace, name).map(bytes)
    }

    fn list_raw(
        &self,
        of: &Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Vec<Vec<u8>>, Status> {
        self.cached(|objects| {
            let mut found = Vec::new();
            for object in select(objects, of, namespace) {
                if fake_selectors::matches(object, options)? {
                    found.push(bytes(object));
                }
            }
            Ok(found)
        })
    }

    fn list_owned_raw(
        &self,
        of: &Resource,
        namespace: &str,
        owner_uid: &str,
    ) -> Result<Vec<Vec<u8>>, Status> {
        self.cached(|objects| {
            let owned = select(objects, of, namespace)
                .filter(|object| object.owner_references().iter().any(|o| o.uid == owner_uid));
            Ok(owned.map(bytes).collect())
        })
    }

    fn create_raw(&self, of: &Resource, namespace: &str, object: &[u8]) -> Result<Vec<u8>, Status> {
        let object = parse(object)?;
        self.act("create", of, "", namespace, object.name(), object.clone())?;
        let created = self.live.borrow_mut().create(
            of,
            namespace,
            object,
            &self.now(),
            self.has_status(of),
        )?;
        Ok(bytes(&created))
    }

    fn update_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        object: &[u8],
    ) -> Result<Vec<u8>, Status> {
        self.write("update", of, namespace, name, object, "")
    }

    fn update_status_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        object: &[u8],
    ) -> Result<Vec<u8>, Status> {
        self.write("update", of, namespace, name, object, "status")
    }

    fn update_subresource_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: &[u8],
    ) -> Result<Vec<u8>, Status> {
        let body = parse(object)?;
        self.act("update", of, subresource, namespace, name, body.clone())?;
        let mut current = self.live.borrow().get(of, namespace, name)?.clone();
        match subresource {
            "finalize" => {
                current["spec"]["finalizers"] = body["spec"]["finalizers"].clone();
                let emptied = current.list_at("/spec/finalizers").is_empty();
                if emptied && current.is_deleting() && current.finalizers().is_empty() {
                    self.remove(of, namespace, name);
                    return Ok(bytes(&current));
                }
            }
            "scale" => current["spec"]["replicas"] = body["spec"]["replicas"].clone(),
            _ => return Err(not_found(of, name)),
        }
        if !body.resource_version().is_empty() {
            current["metadata"]["resourceVersion"] = json!(body.resource_version());
        }
        let written =
            self.live
                .borrow_mut()
                .update(of, namespace, name, current, Part::Main, true)?;
        Ok(bytes(&written))
    }

    fn create_subresource_raw(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: &[u8],
    ) -> Result<Vec<u8>, Status> {
        let body = parse(object)?;
        self.act("create", of, subresource, namespace, name, body.clone())?;
        let mut current = self.live.borrow().get(of, namespace, name)?.clone();
        match subresource {
            "binding" => {
                current["spec"]["nodeName"] = body["target"]["name"].clone();
                let written = self.live.borrow_mut().update(
                    of,
                    namespace,
                    name,
                    current,
                    Part::Main,
                    true,
                )?;
                Ok(bytes(&written))
            }
            "eviction" => {
                self.live.borrow_mut().delete(
                    of,
                    namespace,
                    name,
                    &DeleteOptions::default(),
                    &self.now(),
                )?;
                Ok(bytes(&current))
            }
            _ => Err(not_found(of, name)),
        }
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
        self.act("patch", of, subresource, namespace, name, parse(patch)?)?;
        let current = self.live.borrow().get(of, namespace, name)?.clone();
        let patched = fake_patch::apply(kind, current, patch)?;
        let written = self.live.borrow_mut().update(
            of,
            namespace,
            name,
            patched,
            part(subresource),
            self.has_status(of),
        )?;
        Ok(bytes(&written))
    }

    fn delete(
        &self,
        of: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        self.act("delete", of, "", namespace, name, Value::Null)?;
        let mut live = self.live.borrow_mut();
        if of.name == "namespaces" {
            let mut object = live.get(of, namespace, name)?.clone();
            object["status"]["phase"] = json!("Terminating");
            object["metadata"]["deletionTimestamp"] = json!(self.now());
            let key = (of.clone(), namespace.to_owned(), name.to_owned());
            live.by_key.insert(key, object);
            return Ok(());
        }
        live.delete(of, namespace, name, options, &self.now())
    }

    fn delete_collection(
        &self,
        of: &Resource,
        namespace: &str,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        self.act("deletecollection", of, "", namespace, "", Value::Null)?;
        for object in self.objects(of, namespace) {
            if fake_selectors::matches(&object, list)? {
                self.live.borrow_mut().delete(
                    of,
                    object.namespace(),
                    object.name(),
                    options,
                    &self.now(),
                )?;
            }
        }
        Ok(())
    }

    fn record_event(
        &self,
        regarding: &EventSubject,
        kind: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        self.events.borrow_mut().push(RecordedEvent {
            regarding: regarding.clone(),
            kind,
            reason: reason.to_owned(),
            action: action.to_owned(),
            note: note.to_owned(),
        });
    }

    fn served_resources(&self) -> Result<Served, Status> {
        let failed = self.undiscovered.borrow().clone();
        let kinds = self.kinds.borrow();
        let known = kinds
            .values()
            .filter(|k| !failed.contains(&k.resource.api_version()));
        Ok(Served {
            resources: known.cloned().collect(),
            failed,
        })
    }

    fn graph_node(&self, uid: &str) -> Option<GraphNode> {
        self.nodes().into_iter().find(|node| node.uid == uid)
    }

    fn graph_dependents(&self, uid: &str) -> Vec<GraphNode> {
        let mut nodes = self.nodes();
        nodes.retain(|node| node.owners.iter().any(|owner| owner.uid == uid));
        nodes
    }

    fn resolve_owner(&self, namespace: &str, owner: &Owner) -> Result<OwnerState, Status> {
        let kinds = self.kinds.borrow();
        let group = owner
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        let Some(served) = kinds
            .values()
            .find(|k| k.kind == owner.kind && k.resource.group == group)
        else {
            return Err(Status::new(
                404,
                "NotFound",
                format!("no resource of kind {}", owner.kind),
            ));
        };
        if served.namespaced && namespace.is_empty() {
            return Err(Status::new(
                400,
                "BadRequest",
                "a cluster-scoped object cannot have a namespaced owner",
            ));
        }
        let namespace = if served.namespaced { namespace } else { "" };
        let live = self.live.borrow();
        Ok(match live.get(&served.resource, namespace, &owner.name) {
            Ok(object) if object.uid() != owner.uid => OwnerState::Absent,
            Ok(object) if object.is_deleting() && object.has_finalizer("foregroundDeletion") => {
                OwnerState::Waiting
            }
            Ok(_) => OwnerState::Solid,
            Err(_) => OwnerState::Absent,
        })
    }

    fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    fn warn(&self, message: &str) {
        self.warnings.borrow_mut().push(message.to_owned());
    }
}
