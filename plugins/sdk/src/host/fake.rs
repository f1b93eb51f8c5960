//! The host's imports in memory, for native unit tests of plugins. One world per thread; [`reset`] begins a new one.
//!
//! Writes behave as the API server's do where plugins depend on it: uid and resourceVersion are given, a stale
//! resourceVersion is a conflict, a missing object is `NotFound`. There is no defaulting, validation or garbage collection.
//! Selectors: `key=value`, `key!=value`, `key` and `!key`; fields by dotted path. Strategic merge patches are refused.

use std::{cell::RefCell, collections::BTreeMap};

use serde_json::{Value, json};

use super::{DeleteOptions, EventSubject, Level, PatchType, Resource, Status};

mod patches;

use patches::{apply, merge};

type Key = (String, String, String, String); // group, plural, namespace, name

#[derive(Default)]
struct World {
    objects: BTreeMap<Key, Value>,
    revision: u64,
    now_ms: u64,
    config: Option<Value>,
    writes: Vec<String>,
    events: Vec<String>,
    log: Vec<String>,
    failures: Vec<(String, Status)>,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

/// Empties the world of this thread.
pub fn reset() {
    WORLD.with_borrow_mut(|world| *world = World::default());
}

/// Sets the time.
pub fn set_now_ms(now_ms: u64) {
    WORLD.with_borrow_mut(|world| world.now_ms = now_ms);
}

/// Sets the plugin's configuration.
pub fn set_config(config: Value) {
    WORLD.with_borrow_mut(|world| world.config = Some(config));
}

/// Puts an object there as it is, without it counting as a write. A uid and a resourceVersion are given if absent.
pub fn put(of: Resource, mut object: Value) {
    WORLD.with_borrow_mut(|world| {
        world.stamp(&mut object);
        let key = key(of, text(&object, "namespace"), text(&object, "name"));
        world.objects.insert(key, object);
    });
}

/// An object as it is now.
pub fn find(of: Resource, namespace: &str, name: &str) -> Option<Value> {
    WORLD.with_borrow(|world| world.objects.get(&key(of, namespace, name)).cloned())
}

/// The writes so far: `create pods default/web-0`, `patch pods/status default/web-0`.
pub fn writes() -> Vec<String> {
    WORLD.with_borrow(|world| world.writes.clone())
}

/// The events so far: `Normal Reason: note`.
pub fn events() -> Vec<String> {
    WORLD.with_borrow(|world| world.events.clone())
}

/// The log so far.
pub fn logged() -> Vec<String> {
    WORLD.with_borrow(|world| world.log.clone())
}

/// Makes the next write of this text (as [`writes`] gives it) fail.
pub fn fail_next(write: &str, status: Status) {
    WORLD.with_borrow_mut(|world| world.failures.push((write.to_owned(), status)));
}

pub(super) fn log(level: Level, message: &str) {
    WORLD.with_borrow_mut(|world| world.log.push(format!("{level:?}: {message}")));
}

pub(super) fn config() -> String {
    WORLD.with_borrow(|world| {
        world
            .config
            .as_ref()
            .map_or("{}".to_owned(), Value::to_string)
    })
}

pub(super) fn now_ms() -> u64 {
    WORLD.with_borrow(|world| world.now_ms)
}

pub(super) fn count(_counter: &str, _by: u64) {}

pub(super) fn get(of: Resource, namespace: &str, name: &str) -> Result<Vec<u8>, Status> {
    match find(of, namespace, name) {
        Some(object) => Ok(bytes(&object)),
        None => Err(not_found(of, name)),
    }
}

pub(super) fn get_live(of: Resource, namespace: &str, name: &str) -> Result<Vec<u8>, Status> {
    get(of, namespace, name)
}

pub(super) fn list(
    of: Resource,
    namespace: &str,
    label_selector: &str,
    field_selector: &str,
) -> Result<Vec<Vec<u8>>, Status> {
    select(of, namespace, |object| {
        let label = |key: &str| {
            let labels = object.pointer("/metadata/labels")?;
            Some(labels.get(key)?.as_str()?.to_owned())
        };
        let field = |path: &str| {
            let value = object.pointer(&format!("/{}", path.replace('.', "/")));
            Some(value.and_then(Value::as_str).unwrap_or("").to_owned())
        };
        matches(label_selector, label) && matches(field_selector, field)
    })
}

pub(super) fn list_owned(
    of: Resource,
    namespace: &str,
    owner_uid: &str,
) -> Result<Vec<Vec<u8>>, Status> {
    select(of, namespace, |object| {
        let owners = object
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        owners.is_some_and(|owners| owners.iter().any(|o| o["uid"] == owner_uid))
    })
}

pub(super) fn create(of: Resource, namespace: &str, object: &[u8]) -> Result<Vec<u8>, Status> {
    let mut object = parse(object)?;
    WORLD.with_borrow_mut(|world| {
        let metadata = object["metadata"]
            .as_object_mut()
            .ok_or_else(|| bad("no metadata"))?;
        if !metadata.contains_key("name") {
            let base = metadata
                .get("generateName")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let name = format!("{base}{:05}", world.revision);
            metadata.insert("name".to_owned(), name.into());
        }
        if !namespace.is_empty() {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        let name = text(&object, "name").to_owned();
        world.write("create", of, "", namespace, &name)?;
        let key = key(of, namespace, &name);
        if world.objects.contains_key(&key) {
            let message = format!("{of} \"{name}\" already exists");
            return Err(status(409, "AlreadyExists", message));
        }
        world.stamp(&mut object);
        world.objects.insert(key, object.clone());
        Ok(bytes(&object))
    })
}

pub(super) fn update(
    of: Resource,
    namespace: &str,
    name: &str,
    object: &[u8],
) -> Result<Vec<u8>, Status> {
    let new = parse(object)?;
    replace(of, "", "update", namespace, name, |old| {
        let given = text(&new, "resourceVersion");
        if !given.is_empty() && given != text(old, "resourceVersion") {
            return Err(conflict(of, name));
        }
        *old = new;
        Ok(())
    })
}

pub(super) fn update_status(
    of: Resource,
    namespace: &str,
    name: &str,
    object: &[u8],
) -> Result<Vec<u8>, Status> {
    let new = parse(object)?;
    replace(of, "status", "update", namespace, name, |old| {
        let given = text(&new, "resourceVersion");
        if !given.is_empty() && given != text(old, "resourceVersion") {
            return Err(conflict(of, name));
        }
        old["status"] = new["status"].clone();
        Ok(())
    })
}

pub(super) fn patch(
    of: Resource,
    namespace: &str,
    name: &str,
    subresource: &str,
    patch_type: PatchType,
    patch: &[u8],
) -> Result<Vec<u8>, Status> {
    let patch = parse(patch)?;
    replace(
        of,
        subresource,
        "patch",
        namespace,
        name,
        |old| match patch_type {
            PatchType::Merge => {
                merge(old, &patch);
                Ok(())
            }
            PatchType::Json => apply(old, &patch),
            PatchType::Strategic => Err(status(
                415,
                "UnsupportedMediaType",
                "the fake host has no strategic merge".to_owned(),
            )),
        },
    )
}

pub(super) fn delete(
    of: Resource,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<(), Status> {
    WORLD.with_borrow_mut(|world| {
        world.write("delete", of, "", namespace, name)?;
        let key = key(of, namespace, name);
        let Some(object) = world.objects.get_mut(&key) else {
            return Err(not_found(of, name));
        };
        if options
            .uid
            .as_deref()
            .is_some_and(|uid| uid != text(object, "uid"))
        {
            return Err(conflict(of, name));
        }
        let finalizers = object
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array);
        if finalizers.is_some_and(|finalizers| !finalizers.is_empty()) {
            object["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
        } else {
            world.objects.remove(&key);
        }
        Ok(())
    })
}

pub(super) fn delete_collection(
    of: Resource,
    namespace: &str,
    label_selector: &str,
    field_selector: &str,
    options: &DeleteOptions,
) -> Result<(), Status> {
    for object in list(of, namespace, label_selector, field_selector)? {
        let object = parse(&object)?;
        delete(
            of,
            text(&object, "namespace"),
            text(&object, "name"),
            options,
        )?;
    }
    Ok(())
}

pub(super) fn create_subresource(
    of: Resource,
    namespace: &str,
    name: &str,
    subresource: &str,
    object: &[u8],
) -> Result<Vec<u8>, Status> {
    WORLD.with_borrow_mut(|world| {
        world.write("create", of, subresource, namespace, name)?;
        match world.objects.contains_key(&key(of, namespace, name)) {
            true => Ok(object.to_vec()),
            false => Err(not_found(of, name)),
        }
    })
}

pub(super) fn record_event(
    _regarding: &EventSubject,
    event_type: &str,
    reason: &str,
    _action: &str,
    note: &str,
) {
    WORLD.with_borrow_mut(|world| world.events.push(format!("{event_type} {reason}: {note}")));
}

impl World {
    fn write(
        &mut self,
        verb: &str,
        of: Resource,
        subresource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), Status> {
        let resource = match subresource {
            "" => of.name.to_owned(),
            subresource => format!("{}/{subresource}", of.name),
        };
        let name = match namespace {
            "" => name.to_owned(),
            namespace => format!("{namespace}/{name}"),
        };
        let write = format!("{verb} {resource} {name}");
        let failure = self
            .failures
            .iter()
            .position(|(failing, _)| *failing == write);
        self.writes.push(write);
        match failure {
            Some(at) => Err(self.failures.remove(at).1),
            None => Ok(()),
        }
    }

    /// Gives a new revision, and a uid if there is none.
    fn stamp(&mut self, object: &mut Value) {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        if object.pointer("/metadata/uid").is_none() {
            object["metadata"]["uid"] = format!("uid-{}", self.revision).into();
        }
    }
}

fn replace(
    of: Resource,
    subresource: &str,
    verb: &str,
    namespace: &str,
    name: &str,
    change: impl FnOnce(&mut Value) -> Result<(), Status>,
) -> Result<Vec<u8>, Status> {
    WORLD.with_borrow_mut(|world| {
        world.write(verb, of, subresource, namespace, name)?;
        let key = key(of, namespace, name);
        let mut object = world
            .objects
            .get(&key)
            .cloned()
            .ok_or_else(|| not_found(of, name))?;
        let uid = object["metadata"]["uid"].clone();
        change(&mut object)?;
        object["metadata"]["uid"] = uid;
        world.stamp(&mut object);
        let finalizers = object
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array);
        let deleting = !text(&object, "deletionTimestamp").is_empty();
        if deleting && finalizers.is_none_or(|finalizers| finalizers.is_empty()) {
            world.objects.remove(&key);
        } else {
            world.objects.insert(key, object.clone());
        }
        Ok(bytes(&object))
    })
}

fn select(
    of: Resource,
    namespace: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Result<Vec<Vec<u8>>, Status> {
    WORLD.with_borrow(|world| {
        let here = world
            .objects
            .iter()
            .filter(|((group, resource, ns, _), _)| {
                group == of.group
                    && resource == of.name
                    && (namespace.is_empty() || ns == namespace)
            });
        Ok(here
            .filter(|(_, object)| wanted(object))
            .map(|(_, object)| bytes(object))
            .collect())
    })
}

fn matches(selector: &str, value: impl Fn(&str) -> Option<String>) -> bool {
    let terms = selector
        .split(',')
        .map(str::trim)
        .filter(|term| !term.is_empty());
    terms.into_iter().all(|term| {
        if let Some((key, wanted)) = term.split_once("!=") {
            value(key).as_deref() != Some(wanted)
        } else if let Some((key, wanted)) = term.split_once('=') {
            value(key).as_deref() == Some(wanted.trim_start_matches('='))
        } else if let Some(key) = term.strip_prefix('!') {
            value(key).is_none()
        } else {
            value(term).is_some()
        }
    })
}

fn key(of: Resource, namespace: &str, name: &str) -> Key {
    (
        of.group.to_owned(),
        of.name.to_owned(),
        namespace.to_owned(),
        name.to_owned(),
    )
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn bytes(object: &Value) -> Vec<u8> {
    object.to_string().into_bytes()
}

fn parse(object: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(object).map_err(|error| bad(&error.to_string()))
}

fn status(code: u16, reason: &str, message: String) -> Status {
    Status {
        code,
        reason: reason.to_owned(),
        message,
    }
}

fn bad(message: &str) -> Status {
    status(400, "BadRequest", message.to_owned())
}

fn not_found(of: Resource, name: &str) -> Status {
    status(404, "NotFound", format!("{of} \"{name}\" not found"))
}

fn conflict(of: Resource, name: &str) -> Status {
    let message = format!(
        "Operation cannot be fulfilled on {of} \"{name}\": the object has been modified; please apply your changes to the latest version and try again"
    );
    status(409, "Conflict", message)
}

/// An object for tests: `object("v1", "Namespace", "", "default")` with metadata and nothing else.
pub fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    let metadata = match namespace {
        "" => json!({ "name": name }),
        namespace => json!({ "name": name, "namespace": namespace }),
    };
    json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::cluster;

    const PODS: Resource = Resource::core("pods");

    #[test]
    fn selectors_choose() {
        reset();
        let mut web = object("v1", "Pod", "default", "web");
        web["metadata"]["labels"] = json!({ "app": "web" });
        web["spec"] = json!({ "nodeName": "n0" });
        put(PODS, web);
        put(PODS, object("v1", "Pod", "default", "bare"));
        let count = |labels: &str, fields: &str| {
            cluster::list::<Value>(PODS, "", labels, fields).map(|found| found.len())
        };
        let cases = [
            ("", "", 2),
            ("app=web", "", 1),
            ("app==web", "", 1),
            ("app!=web", "", 1),
            ("app", "", 1),
            ("!app", "", 1),
            ("app=web,other", "", 0),
            ("", "spec.nodeName=n0", 1),
            ("", "spec.nodeName=", 1),
        ];
        for (labels, fields, expected) in cases {
            assert_eq!(count(labels, fields), Ok(expected), "{labels} {fields}");
        }
    }

    #[test]
    fn a_stale_update_conflicts_and_the_last_finalizer_deletes() {
        reset();
        let mut web = object("v1", "Pod", "default", "web");
        web["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let mut written: Value = cluster::create(PODS, "default", &web).unwrap();
        written["spec"] = json!({});
        cluster::update::<Value>(PODS, "default", "web", &written).unwrap();
        let stale = cluster::update::<Value>(PODS, "default", "web", &written).unwrap_err();
        assert!(stale.is_conflict());
        let options = DeleteOptions {
            propagation: None,
            grace_period_seconds: None,
            uid: None,
            resource_version: None,
        };
        cluster::delete(PODS, "default", "web", &options).unwrap();
        let patch = json!({ "metadata": { "finalizers": null } });
        cluster::patch::<Value>(PODS, "default", "web", "", PatchType::Merge, &patch).unwrap();
        assert_eq!(find(PODS, "default", "web"), None);
    }
}
