//! The world of a contract: objects with the API server's rules of versions, uids and finalizers, and seeded trouble.
//!
//! Reads other than live ones see a snapshot. In trouble it may be older than the world, but never older than what the last
//! run of the same key wrote: that much the host promises.

mod serve;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;
use pilothouse_api::{GroupResource, Status};
use serde_json::{Value, json};

use super::{super::chance::Chance, Census, Fixture, Key, OWNS};
use crate::{
    capability::{Access, Capabilities},
    cluster::{DeleteOptions, GroupVersionResource, Propagation},
};

/// Group, plural, namespace, name.
type Id = (String, String, String, String);
type Objects = BTreeMap<Id, (GroupVersionResource, Value)>;

/// Writes that are remembered.
const KEPT_WRITES: usize = 1000;

/// Snapshots that stale reads choose from.
const HISTORY: usize = 8;

/// See the module.
pub struct World {
    capabilities: Capabilities,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: Objects,
    revision: u64,
    /// What the caches show to the run under way.
    cached: Objects,
    history: VecDeque<(u64, Objects)>,
    /// By key, the revision that its last run wrote.
    wrote: BTreeMap<Key, u64>,
    random: Chance,
    troubled: bool,
    guards_ownership: bool,
    /// Uids of the fixtures, which others own, and of foreign twins.
    foreign: Vec<String>,
    attempts: u64,
    writes: u64,
    log: VecDeque<String>,
    violation: Option<(&'static str, String)>,
}

impl World {
    /// A world in which a plugin with these capabilities acts.
    pub fn new(capabilities: Capabilities) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self {
            capabilities,
            state: Mutex::default(),
        })
    }

    pub(super) fn reset(&self, fixtures: &[Fixture], seed: u64, guards_ownership: bool) {
        let mut state = State {
            random: Chance::new(seed),
            guards_ownership,
            ..State::default()
        };
        for fixture in fixtures {
            let namespace = text(&fixture.object, "/metadata/namespace").to_owned();
            let status = fixture.object["status"].clone();
            let created = state.create(&fixture.resource, &namespace, fixture.object.clone());
            if let (Ok(mut object), false) = (created, status.is_null()) {
                object["status"] = status;
                state.put(&fixture.resource, &namespace, object);
            }
        }
        *self.state.lock() = state;
    }

    pub(super) fn make_trouble(&self) {
        let mut state = self.state.lock();
        state.troubled = true;
        // somebody deletes a child now and then, or makes a twin that belongs to another
        let children: Vec<Id> = state
            .objects
            .iter()
            .filter(|(_, (_, object))| !object["metadata"]["ownerReferences"].is_null())
            .map(|(id, _)| id.clone())
            .collect();
        if children.is_empty() {
            return;
        }
        let at = state.chance(children.len() as u64) as usize;
        let id = &children[at];
        let foreign = state.objects[id].1["metadata"]["uid"].as_str();
        let is_foreign = foreign.is_some_and(|uid| state.foreign.iter().any(|f| f == uid));
        if state.chance(2) == 0 && !is_foreign {
            state.objects.remove(id);
            state.tick();
        }
    }

    pub(super) fn calm_down(&self) {
        self.state.lock().troubled = false;
    }

    /// 0 to `below` - 1.
    pub(super) fn chance(&self, below: u64) -> u64 {
        self.state.lock().chance(below)
    }

    pub(super) fn begin(&self, key: &Key) {
        let mut state = self.state.lock();
        let seen = state.wrote.get(key).copied().unwrap_or(0);
        let lag = if state.troubled {
            state.chance(4) as usize
        } else {
            0
        };
        let old = state.history.iter().rev().nth(lag);
        let old = old.filter(|(revision, _)| lag > 0 && *revision >= seen);
        state.cached = match old {
            Some((_, objects)) => objects.clone(),
            None => state.objects.clone(),
        };
    }

    pub(super) fn end(&self, key: &Key) {
        let mut state = self.state.lock();
        let revision = state.revision;
        state.wrote.insert(key.clone(), revision);
    }

    pub(super) fn objects(&self) -> Vec<(GroupVersionResource, Value)> {
        self.state.lock().objects.values().cloned().collect()
    }

    /// Objects by resource and namespace, foreign twins left out.
    pub(super) fn census(&self) -> Census {
        let state = self.state.lock();
        let mut census = Census::new();
        for ((group, resource, namespace, _), (_, object)) in &state.objects {
            if !state.is_foreign(object) {
                *census
                    .entry(format!("{resource}.{group} in {namespace:?}"))
                    .or_default() += 1;
            }
        }
        census
    }

    pub(super) fn writes(&self) -> u64 {
        self.state.lock().writes
    }

    pub(super) fn attempts(&self) -> u64 {
        self.state.lock().attempts
    }

    pub(super) fn last_writes(&self) -> String {
        let state = self.state.lock();
        let last: Vec<&str> = state.log.iter().rev().take(3).map(String::as_str).collect();
        last.join(", ")
    }

    /// What was tried to be written since the last time: `create pods default/ {…}`.
    pub(super) fn take_writes(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().log).into()
    }

    pub(super) fn take_violation(&self) -> Option<(&'static str, String)> {
        self.state.lock().violation.take()
    }
}

impl State {
    fn chance(&mut self, below: u64) -> u64 {
        self.random
            .below(usize::try_from(below).unwrap_or(usize::MAX)) as u64
    }

    fn tick(&mut self) {
        self.revision += 1;
        self.history
            .push_back((self.revision, self.objects.clone()));
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    fn put(&mut self, of: &GroupVersionResource, namespace: &str, mut object: Value) -> Value {
        object["metadata"]["resourceVersion"] = json!((self.revision + 1).to_string());
        let id = id(of, namespace, text(&object, "/metadata/name"));
        self.objects.insert(id, (of.clone(), object.clone()));
        self.tick();
        object
    }

    fn create(
        &mut self,
        of: &GroupVersionResource,
        namespace: &str,
        object: Value,
    ) -> Result<Value, Status> {
        let mut object = well_formed(object)?;
        let unique = self.revision + 1;
        let metadata = &mut object["metadata"];
        if metadata["name"].is_null() {
            let base = metadata["generateName"].as_str().unwrap_or("unnamed-");
            metadata["name"] = json!(format!("{base}{unique:05}"));
        }
        let name = text(metadata, "/name").to_owned();
        if self.objects.contains_key(&id(of, namespace, &name)) {
            return Err(Status::already_exists(&group_resource(of), &name));
        }
        metadata["uid"] = json!(format!("uid-{unique}"));
        metadata["generation"] = json!(1);
        metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        let made = self.put(of, namespace, object);
        if self.guards_ownership && self.troubled && self.chance(4) == 0 {
            self.make_twin(of, namespace, &made);
        }
        Ok(made)
    }

    /// The same labels, another owner: nobody's business but that owner's.
    fn make_twin(&mut self, of: &GroupVersionResource, namespace: &str, object: &Value) {
        if object["metadata"]["ownerReferences"].is_null() {
            return;
        }
        let mut twin = object.clone();
        let uid = format!("foreign-{}", self.revision);
        twin["metadata"]["name"] = json!(uid);
        twin["metadata"]["uid"] = json!(uid);
        twin["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "example.com/v1", "kind": "Other", "name": "other", "uid": "another-owner", "controller": true,
        }]);
        self.foreign.push(uid);
        self.put(of, namespace, twin);
    }

    fn is_foreign(&self, object: &Value) -> bool {
        let uid = text(object, "/metadata/uid");
        self.foreign.iter().any(|foreign| foreign == uid)
    }

    /// Notes a change of what belongs to another.
    fn guard(&mut self, verb: &str, of: &GroupVersionResource, namespace: &str, name: &str) {
        let object = self.objects.get(&id(of, namespace, name));
        if self.guards_ownership && object.is_some_and(|(_, object)| self.is_foreign(object)) {
            let detail = format!("it tried to {verb} {} {namespace}/{name}", of.resource);
            self.violation = Some((OWNS, detail));
        }
    }

    fn update(
        &mut self,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Value,
    ) -> Result<Value, Status> {
        let mut object = well_formed(object)?;
        self.guard("change", of, namespace, name);
        let old = self.live(of, namespace, name)?.clone();
        for field in ["resourceVersion", "uid"] {
            let given = text(&object["metadata"], &format!("/{field}"));
            if !given.is_empty() && given != text(&old["metadata"], &format!("/{field}")) {
                let resource = group_resource(of);
                return Err(Status::conflict(
                    &resource,
                    name,
                    "the object has been modified",
                ));
            }
        }
        if subresource == "status" {
            // annotations may come along, as deployment controllers have them
            let (status, metadata) = (object["status"].take(), object["metadata"].take());
            object = old.clone();
            object["status"] = status;
            keep(&mut object["metadata"], &metadata, "annotations");
        } else if subresource == "finalize" {
            let finalizers = object["spec"]["finalizers"].take();
            object = old.clone();
            object["spec"]["finalizers"] = finalizers;
        }
        for field in [
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "resourceVersion",
        ] {
            keep(&mut object["metadata"], &old["metadata"], field);
        }
        if object == old {
            return Ok(object);
        }
        if object["spec"] != old["spec"] {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = json!(generation + 1);
        }
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        if deleting && finalizers(&object).is_empty() {
            self.objects.remove(&id(of, namespace, name));
            self.tick();
            return Ok(object);
        }
        Ok(self.put(of, namespace, object))
    }

    fn delete(
        &mut self,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Status> {
        self.guard("delete", of, namespace, name);
        let mut object = self.live(of, namespace, name)?.clone();
        let differs = |wanted: &Option<String>, field: &str| {
            wanted
                .as_deref()
                .is_some_and(|w| w != text(&object["metadata"], field))
        };
        if differs(&options.uid, "/uid") || differs(&options.resource_version, "/resourceVersion") {
            return Err(Status::conflict(
                &group_resource(of),
                name,
                "precondition failed",
            ));
        }
        let finalizer = match options.propagation {
            Some(Propagation::Foreground) => Some("foregroundDeletion"),
            Some(Propagation::Orphan) => Some("orphan"),
            _ => None,
        };
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        if let Some(finalizer) = finalizer.filter(|_| !deleting) {
            let mut all = finalizers(&object);
            all.push(finalizer.to_owned());
            object["metadata"]["finalizers"] = json!(all);
        }
        if finalizers(&object).is_empty() {
            self.objects.remove(&id(of, namespace, name));
            self.tick();
        } else if !deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            self.put(of, namespace, object);
        }
        Ok(())
    }

    fn live(
        &self,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<&Value, Status> {
        find(&self.objects, of, namespace, name)
    }
}

/// As far as the world looks into objects, which come from the plugin; an API server refuses others as well.
fn well_formed(mut object: Value) -> Result<Value, Status> {
    if let Some(fields) = object.as_object_mut() {
        fields.entry("metadata").or_insert_with(|| json!({}));
    }
    let whole = object["metadata"].is_object()
        && ["spec", "status"]
            .iter()
            .all(|part| object[*part].is_null() || object[*part].is_object());
    match whole {
        true => Ok(object),
        false => Err(Status::bad_request(format!(
            "metadata, spec and status must be objects: {object}"
        ))),
    }
}

fn id(of: &GroupVersionResource, namespace: &str, name: &str) -> Id {
    (
        of.group.clone(),
        of.resource.clone(),
        namespace.to_owned(),
        name.to_owned(),
    )
}

fn find<'a>(
    objects: &'a Objects,
    of: &GroupVersionResource,
    namespace: &str,
    name: &str,
) -> Result<&'a Value, Status> {
    let found = objects.get(&id(of, namespace, name));
    found
        .map(|(_, object)| object)
        .ok_or_else(|| Status::not_found(&group_resource(of), name))
}

fn select<'a>(
    objects: &'a Objects,
    of: &'a GroupVersionResource,
    namespace: &'a str,
) -> impl Iterator<Item = &'a Value> {
    let matching = objects.iter().filter(move |((group, resource, ns, _), _)| {
        *group == of.group && *resource == of.resource && (namespace.is_empty() || ns == namespace)
    });
    matching.map(|(_, (_, object))| object)
}

fn keep(metadata: &mut Value, old: &Value, field: &str) {
    match (&old[field], metadata.as_object_mut()) {
        (Value::Null, Some(members)) => {
            members.remove(field);
        }
        (value, Some(members)) => {
            members.insert(field.to_owned(), value.clone());
        }
        (_, None) => {}
    }
}

fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array();
    let names = list.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

fn group_resource(of: &GroupVersionResource) -> GroupResource {
    GroupResource {
        group: of.group.clone().into(),
        resource: of.resource.clone().into(),
    }
}

fn conflict(access: Access<'_>, why: &str) -> Status {
    let resource = GroupResource {
        group: access.group.to_owned().into(),
        resource: access.resource.to_owned().into(),
    };
    Status::conflict(&resource, access.name, why)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn bytes(object: &Value) -> Bytes {
    object.to_string().into()
}

fn parse(json: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(json).map_err(undecodable)
}

fn undecodable(error: serde_json::Error) -> Status {
    Status::bad_request(error.to_string())
}
