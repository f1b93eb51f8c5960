//! The objects of the fake API server: the rules of writes that clients depend on, and the history that watches read.

use std::collections::BTreeMap;

use pilothouse_api::{GroupVersionResource, Status};
use serde_json::{Value, json};

use crate::discovery::ServedResource;

/// Resource, namespace, name.
type Key = (GroupVersionResource, String, String);

#[derive(Default)]
pub(super) struct Objects {
    by_key: BTreeMap<Key, Value>,
    pub(super) revision: u64,
    pub(super) history: Vec<Event>,
    /// Watches from before this revision are too old.
    pub(super) oldest: u64,
}

#[derive(Clone)]
pub(super) struct Event {
    pub(super) resource: GroupVersionResource,
    pub(super) namespace: String,
    pub(super) revision: u64,
    pub(super) kind: &'static str,
    pub(super) object: Value,
}

/// What a write is about.
pub(super) struct Target<'a> {
    pub(super) served: &'a ServedResource,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) subresource: &'a str,
}

impl Target<'_> {
    fn key(&self, name: &str) -> Key {
        let gvr = self.served.gvr.clone();
        (gvr, self.namespace.to_owned(), name.to_owned())
    }

    fn conflict(&self, why: &str) -> Status {
        Status::conflict(&self.served.gvr.group_resource(), self.name, why)
    }
}

impl Objects {
    pub(super) fn get(&self, at: &Target<'_>) -> Result<&Value, Status> {
        self.by_key
            .get(&at.key(at.name))
            .ok_or_else(|| Status::not_found(&at.served.gvr.group_resource(), at.name))
    }

    /// Of a namespace, or of all if it is empty.
    pub(super) fn list(&self, resource: &GroupVersionResource, namespace: &str) -> Vec<Value> {
        let matching = self.by_key.iter().filter(|((gvr, ns, _), _)| {
            gvr == resource && (namespace.is_empty() || ns == namespace)
        });
        matching.map(|(_, object)| object.clone()).collect()
    }

    pub(super) fn create(&mut self, at: &Target<'_>, mut object: Value) -> Result<Value, Status> {
        let metadata = &mut object["metadata"];
        if metadata["name"].is_null() {
            let base = metadata["generateName"].as_str().unwrap_or("unnamed-");
            metadata["name"] = json!(format!("{base}{:05}", self.revision));
        }
        let name = text(metadata, "name").to_owned();
        let key = at.key(&name);
        if self.by_key.contains_key(&key) {
            let resource = at.served.gvr.group_resource();
            return Err(Status::already_exists(&resource, &name));
        }
        let uid = format!("uid-{}", self.revision + 1);
        set(
            metadata,
            "namespace",
            json!(at.namespace),
            !at.namespace.is_empty(),
        );
        metadata["uid"] = json!(uid);
        metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        metadata["generation"] = json!(1);
        object["kind"] = json!(at.served.kind);
        object["apiVersion"] = json!(at.served.gvr.api_version());
        Ok(self.put(key, object, "ADDED"))
    }

    pub(super) fn update(&mut self, at: &Target<'_>, mut object: Value) -> Result<Value, Status> {
        let old = self.get(at)?.clone();
        let given = |field: &str| {
            let value = text(&object["metadata"], field);
            (!value.is_empty()).then_some(value)
        };
        if given("resourceVersion").is_some_and(|v| v != text(&old["metadata"], "resourceVersion"))
        {
            return Err(at.conflict("the object has been modified; please apply your changes to the latest version and try again"));
        }
        if given("uid").is_some_and(|v| v != text(&old["metadata"], "uid")) {
            return Err(at.conflict("the UID in the precondition differs"));
        }
        if at.subresource == "status" {
            // annotations may come along, as deployment controllers have them
            let status = object["status"].take();
            let annotations = object["metadata"]["annotations"].take();
            object = old.clone();
            object["status"] = status;
            let present = !annotations.is_null();
            set(&mut object["metadata"], "annotations", annotations, present);
        }
        for field in [
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "resourceVersion",
        ] {
            let value = old["metadata"][field].clone();
            let present = !value.is_null();
            set(&mut object["metadata"], field, value, present);
        }
        if object == old {
            return Ok(object);
        }
        if object["spec"] != old["spec"] {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = json!(generation + 1);
        }
        let key = at.key(at.name);
        if !object["metadata"]["deletionTimestamp"].is_null() && finalizers(&object).is_empty() {
            return Ok(self.remove(key, object));
        }
        Ok(self.put(key, object, "MODIFIED"))
    }

    pub(super) fn delete(&mut self, at: &Target<'_>, options: &Value) -> Result<Value, Status> {
        let mut object = self.get(at)?.clone();
        for field in ["uid", "resourceVersion"] {
            let wanted = text(&options["preconditions"], field);
            if !wanted.is_empty() && wanted != text(&object["metadata"], field) {
                return Err(at.conflict("Precondition failed"));
            }
        }
        let finalizer = match text(options, "propagationPolicy") {
            "Foreground" => Some("foregroundDeletion"),
            "Orphan" => Some("orphan"),
            _ => None,
        };
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        if let Some(finalizer) = finalizer.filter(|_| !deleting) {
            let mut all = finalizers(&object);
            all.push(finalizer.to_owned());
            object["metadata"]["finalizers"] = json!(all);
        }
        let key = at.key(at.name);
        if finalizers(&object).is_empty() {
            return Ok(self.remove(key, object));
        }
        if deleting {
            return Ok(object);
        }
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        Ok(self.put(key, object, "MODIFIED"))
    }

    fn put(&mut self, key: Key, mut object: Value, kind: &'static str) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.by_key.insert(key.clone(), object.clone());
        self.record(key, kind, &object);
        object
    }

    fn remove(&mut self, key: Key, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.by_key.remove(&key);
        self.record(key, "DELETED", &object);
        object
    }

    fn record(&mut self, (resource, namespace, _): Key, kind: &'static str, object: &Value) {
        self.history.push(Event {
            resource,
            namespace,
            revision: self.revision,
            kind,
            object: object.clone(),
        });
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn set(metadata: &mut Value, field: &str, value: Value, present: bool) {
    if present {
        metadata[field] = value;
    } else if let Some(members) = metadata.as_object_mut() {
        members.remove(field);
    }
}

fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array();
    let names = list.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}
