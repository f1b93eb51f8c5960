//! The store behind [`FakeCluster`](super::FakeCluster): the rules of creating, updating and deleting one object.
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/>

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    cluster::{DeleteOptions, Propagation, Resource, Status},
    controller::ObjectExt,
    objects::Time,
};

pub(super) type ObjectKey = (Resource, String, String);

/// All objects and the revision counter.
#[derive(Clone, Default)]
pub(super) struct Objects {
    pub(super) by_key: BTreeMap<ObjectKey, Value>,
    pub(super) revision: u64,
    generated: u64,
}

/// What a write touches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Status,
}

impl Objects {
    pub(super) fn get(&self, of: &Resource, namespace: &str, name: &str) -> Result<&Value, Status> {
        let key = (of.clone(), namespace.to_owned(), name.to_owned());
        self.by_key.get(&key).ok_or_else(|| not_found(of, name))
    }

    pub(super) fn create(
        &mut self,
        of: &Resource,
        namespace: &str,
        mut object: Value,
        now: &str,
        has_status: bool,
    ) -> Result<Value, Status> {
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        if !object.resource_version().is_empty() {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Status::new(500, "InternalError", message));
        }
        let in_body = object.namespace();
        if !in_body.is_empty() && in_body != namespace {
            let message = format!(
                "the namespace of the object ({in_body}) is not that of the request ({namespace})"
            );
            return Err(Status::new(400, "BadRequest", message));
        }
        self.generated += 1;
        if object.name().is_empty() {
            let base = object.str_at("/metadata/generateName");
            if base.is_empty() {
                let message = "metadata.name: Required value: name or generateName is required";
                return Err(Status::new(422, "Invalid", message));
            }
            object["metadata"]["name"] = json!(format!("{base}{}", suffix(self.generated)));
        }
        let key = (of.clone(), namespace.to_owned(), object.name().to_owned());
        if self.by_key.contains_key(&key) {
            let message = format!("{} \"{}\" already exists", of.group_resource(), key.2);
            return Err(Status::new(409, "AlreadyExists", message));
        }
        let metadata = &mut object["metadata"];
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        metadata["uid"] = json!(format!("00000000-0000-4000-8000-{:012x}", self.generated));
        metadata["creationTimestamp"] = json!(now);
        metadata["generation"] = json!(1);
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("deletionTimestamp");
            metadata.remove("deletionGracePeriodSeconds");
        }
        if has_status && let Some(object) = object.as_object_mut() {
            object.remove("status");
        }
        if of.name == "pods" {
            object["status"] = json!({"phase": "Pending"});
        }
        Ok(self.put(key, object))
    }

    pub(super) fn update(
        &mut self,
        of: &Resource,
        namespace: &str,
        name: &str,
        mut object: Value,
        part: Part,
        has_status: bool,
    ) -> Result<Value, Status> {
        let old = self.get(of, namespace, name)?.clone();
        let why = if !object.resource_version().is_empty()
            && object.resource_version() != old.resource_version()
        {
            "the object has been modified; please apply your changes to the latest version and try again"
        } else if !object.uid().is_empty() && object.uid() != old.uid() {
            "Precondition failed: UID in precondition differs from that of the object"
        } else {
            ""
        };
        if !why.is_empty() {
            return Err(conflict(of, name, why));
        }
        match part {
            Part::Status => {
                // Built-in kinds take annotations by way of their status; a Deployment's revision depends on it.
                let status = object["status"].take();
                let annotations = object["metadata"]["annotations"].take();
                object = old.clone();
                set_or_remove(&mut object, "status", status);
                set_or_remove(&mut object["metadata"], "annotations", annotations);
            }
            Part::Main => {
                if has_status {
                    set_or_remove(&mut object, "status", old["status"].clone());
                }
                for field in [
                    "name",
                    "namespace",
                    "uid",
                    "creationTimestamp",
                    "deletionTimestamp",
                    "deletionGracePeriodSeconds",
                ] {
                    let value = old["metadata"][field].clone();
                    set_or_remove(&mut object["metadata"], field, value);
                }
                if old.is_deleting() && object.finalizers().iter().any(|f| !old.has_finalizer(f)) {
                    let message = "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted";
                    return Err(Status::new(422, "Invalid", message));
                }
                let moved = object["spec"] != old["spec"];
                object["metadata"]["generation"] = json!(old.generation() + i64::from(moved));
            }
        }
        object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        let key = (of.clone(), namespace.to_owned(), name.to_owned());
        if object == old {
            return Ok(object); // nothing changed: no revision, no event
        }
        let graceful = object
            .int_at("/metadata/deletionGracePeriodSeconds")
            .unwrap_or(0)
            > 0;
        // A namespace is also held by the finalizers of its spec.
        let held = !object.finalizers().is_empty()
            || (of.name == "namespaces" && !object.list_at("/spec/finalizers").is_empty());
        if object.is_deleting() && !held && !graceful {
            self.revision += 1;
            self.by_key.remove(&key);
            return Ok(object);
        }
        Ok(self.put(key, object))
    }

    pub(super) fn delete(
        &mut self,
        of: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        now: &str,
    ) -> Result<(), Status> {
        let mut object = self.get(of, namespace, name)?.clone();
        let stale_uid = options.uid.as_ref().is_some_and(|uid| uid != object.uid());
        let stale_version = options
            .resource_version
            .as_ref()
            .is_some_and(|v| v != object.resource_version());
        if stale_uid || stale_version {
            return Err(conflict(of, name, "Precondition failed"));
        }
        let key = (of.clone(), namespace.to_owned(), name.to_owned());
        let finalizer = match options.propagation {
            Some(Propagation::Foreground) => Some("foregroundDeletion"),
            Some(Propagation::Orphan) => Some("orphan"),
            _ => None,
        };
        if let Some(finalizer) = finalizer
            && !object.is_deleting()
        {
            let mut all: Vec<String> = object.finalizers().into_iter().map(str::to_owned).collect();
            all.retain(|f| f != "foregroundDeletion" && f != "orphan");
            all.push(finalizer.to_owned());
            object["metadata"]["finalizers"] = json!(all);
        }
        let grace = grace_seconds(of, &object, options);
        if object.finalizers().is_empty() && grace == 0 {
            self.revision += 1;
            self.by_key.remove(&key);
            return Ok(());
        }
        if !object.is_deleting() {
            object["metadata"]["deletionTimestamp"] = json!(later(now, grace));
            object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
            object["metadata"]["generation"] = json!(object.generation() + 1);
            self.put(key, object);
        }
        Ok(())
    }

    fn put(&mut self, key: ObjectKey, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.by_key.insert(key, object.clone());
        object
    }
}

/// The deletion timestamp is when the grace period ends.
fn later(now: &str, seconds: u32) -> Time {
    let now = serde_json::from_value::<Time>(json!(now)).unwrap_or_default();
    now.plus_seconds(seconds.into())
}

/// Pods that run on a node end gracefully; everything else at once.
fn grace_seconds(of: &Resource, object: &Value, options: &DeleteOptions) -> u32 {
    let ended = matches!(object.str_at("/status/phase"), "Succeeded" | "Failed");
    if of.name != "pods" || object.str_at("/spec/nodeName").is_empty() || ended {
        return 0;
    }
    let default = object
        .int_at("/spec/terminationGracePeriodSeconds")
        .unwrap_or(30);
    options.grace_period_seconds.unwrap_or(default as u32)
}

fn set_or_remove(object: &mut Value, field: &str, value: Value) {
    match (value, object.as_object_mut()) {
        (Value::Null, Some(object)) => {
            object.remove(field);
        }
        (value, Some(object)) => {
            object.insert(field.to_owned(), value);
        }
        (_, None) => {}
    }
}

/// Five characters of the alphabet that Kubernetes generates names from, a different one for each number.
fn suffix(mut n: u64) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut text = String::new();
    for _ in 0..5 {
        text.insert(0, ALPHABET[(n % ALPHABET.len() as u64) as usize] as char);
        n /= ALPHABET.len() as u64;
    }
    text
}

pub(super) fn not_found(of: &Resource, name: &str) -> Status {
    Status::new(
        404,
        "NotFound",
        format!("{} \"{name}\" not found", of.group_resource()),
    )
}

fn conflict(of: &Resource, name: &str, why: &str) -> Status {
    let message = format!(
        "Operation cannot be fulfilled on {} \"{name}\": {why}",
        of.group_resource()
    );
    Status::new(409, "Conflict", message)
}
