//! An in-memory cluster for native tests of controllers: resourceVersion and uid conflicts, generated names, finalizers,
//! graceful pod deletion, status apart from the rest, selectors, a cache that can be made stale, injected refusals.

mod serve;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet, VecDeque},
};

use serde_json::{Value, json};

use super::fake_objects::{Objects, Part};
use crate::{
    cluster::{EventSubject, EventType, GraphNode, Owner, Resource, ServedResource, Status},
    controller::ObjectExt,
};

/// One accepted or refused write.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: &'static str,
    pub resource: Resource,
    pub subresource: String,
    pub namespace: String,
    /// Empty for a create with a generated name.
    pub name: String,
    /// The body; null for deletes.
    pub body: Value,
}

/// An event as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    pub regarding: EventSubject,
    pub kind: EventType,
    pub reason: String,
    pub action: String,
    pub note: String,
}

/// The cluster. Single-threaded, like a plugin instance.
pub struct FakeCluster {
    live: RefCell<Objects>,
    /// What cached reads see while the cache is stale.
    frozen: RefCell<Option<Objects>>,
    kinds: RefCell<BTreeMap<Resource, ServedResource>>,
    with_status: RefCell<BTreeSet<Resource>>,
    failures: RefCell<VecDeque<(&'static str, Resource, Status)>>,
    actions: RefCell<Vec<Action>>,
    events: RefCell<Vec<RecordedEvent>>,
    warnings: RefCell<Vec<String>>,
    undiscovered: RefCell<Vec<String>>,
    now_ms: Cell<u64>,
}

const BUILT_IN: &[(&str, &str, &str, &str, bool, bool)] = &[
    ("", "v1", "configmaps", "ConfigMap", true, false),
    ("", "v1", "endpoints", "Endpoints", true, false),
    ("", "v1", "events", "Event", true, false),
    ("", "v1", "namespaces", "Namespace", false, true),
    ("", "v1", "nodes", "Node", false, true),
    ("", "v1", "pods", "Pod", true, true),
    (
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        true,
        true,
    ),
    ("", "v1", "secrets", "Secret", true, false),
    ("", "v1", "services", "Service", true, true),
    ("", "v1", "serviceaccounts", "ServiceAccount", true, false),
    (
        "apps",
        "v1",
        "controllerrevisions",
        "ControllerRevision",
        true,
        false,
    ),
    ("apps", "v1", "deployments", "Deployment", true, true),
    ("apps", "v1", "replicasets", "ReplicaSet", true, true),
    ("coordination.k8s.io", "v1", "leases", "Lease", true, false),
    (
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        "EndpointSlice",
        true,
        false,
    ),
    (
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        false,
        false,
    ),
];

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

impl Default for FakeCluster {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeCluster {
    /// Empty, serving the built-in kinds, at a fixed time in 2026.
    pub fn new() -> Self {
        let cluster = Self {
            live: RefCell::default(),
            frozen: RefCell::default(),
            kinds: RefCell::default(),
            with_status: RefCell::default(),
            failures: RefCell::default(),
            actions: RefCell::default(),
            events: RefCell::default(),
            warnings: RefCell::default(),
            undiscovered: RefCell::default(),
            now_ms: Cell::new(1_767_225_600_000),
        };
        for (group, version, name, kind, namespaced, has_status) in BUILT_IN {
            cluster.serve(
                &Resource::of(group, version, name),
                kind,
                *namespaced,
                *has_status,
            );
        }
        cluster
    }

    /// Serves another resource.
    pub fn serve(&self, resource: &Resource, kind: &str, namespaced: bool, has_status: bool) {
        let served = ServedResource {
            resource: resource.clone(),
            kind: kind.to_owned(),
            namespaced,
            verbs: VERBS.map(str::to_owned).to_vec(),
        };
        self.kinds.borrow_mut().insert(resource.clone(), served);
        if has_status {
            self.with_status.borrow_mut().insert(resource.clone());
        }
    }

    /// Discovery of these group versions fails from now on.
    pub fn fail_discovery(&self, group_versions: &[&str]) {
        *self.undiscovered.borrow_mut() = group_versions.iter().map(|s| (*s).to_owned()).collect();
    }

    /// Puts an object into the cluster as somebody else would, status included; not recorded as an action.
    /// The namespace is the object's.
    pub fn add(&self, of: &Resource, object: Value) -> Value {
        let namespace = object.namespace().to_owned();
        let status = object["status"].clone();
        let created = self
            .live
            .borrow_mut()
            .create(of, &namespace, object, &self.now(), false);
        let mut created = match created {
            Ok(created) => created,
            Err(status) => panic!("test object: {status}"),
        };
        if status.is_null() {
            return created;
        }
        created["status"] = status;
        self.set(of, created)
    }

    /// Overwrites an object as somebody else would, status included; not recorded as an action.
    pub fn set(&self, of: &Resource, mut object: Value) -> Value {
        object["metadata"]["resourceVersion"] = Value::Null;
        let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
        let updated =
            self.live
                .borrow_mut()
                .update(of, &namespace, &name, object, Part::Main, false);
        match updated {
            Ok(updated) => updated,
            Err(status) => panic!("test object: {status}"),
        }
    }

    /// The object as it is now.
    pub fn object(&self, of: &Resource, namespace: &str, name: &str) -> Option<Value> {
        self.live.borrow().get(of, namespace, name).ok().cloned()
    }

    /// All objects of a resource in a namespace (empty: all), by name.
    pub fn objects(&self, of: &Resource, namespace: &str) -> Vec<Value> {
        select(&self.live.borrow(), of, namespace)
            .cloned()
            .collect()
    }

    /// Removes an object at once, finalizers or not, as nobody could; not recorded.
    pub fn remove(&self, of: &Resource, namespace: &str, name: &str) {
        let key = (of.clone(), namespace.to_owned(), name.to_owned());
        self.live.borrow_mut().by_key.remove(&key);
    }

    /// Ends the grace period of every deleting pod, as kubelets would.
    pub fn finish_pod_deletions(&self) {
        let pods = Resource::of("", "v1", "pods");
        for mut pod in self.objects(&pods, "") {
            if pod.is_deleting() {
                pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
                let (namespace, name) = (pod.namespace().to_owned(), pod.name().to_owned());
                match pod.finalizers().is_empty() {
                    true => self.remove(&pods, &namespace, &name),
                    false => drop(self.set(&pods, pod)),
                }
            }
        }
    }

    /// Cached reads see the cluster as it is at this moment until [`Self::thaw`].
    pub fn freeze_cache(&self) {
        *self.frozen.borrow_mut() = Some(self.live.borrow().clone());
    }

    /// The cache catches up and stays up to date.
    pub fn thaw(&self) {
        *self.frozen.borrow_mut() = None;
    }

    /// Refuses the next write of this verb on this resource.
    pub fn fail_next(&self, verb: &'static str, of: &Resource, status: Status) {
        self.failures
            .borrow_mut()
            .push_back((verb, of.clone(), status));
    }

    /// The revision of the last change to anything.
    pub fn revision(&self) -> u64 {
        self.live.borrow().revision
    }

    /// The writes since the last call, in order, refused ones included.
    pub fn take_actions(&self) -> Vec<Action> {
        self.actions.take()
    }

    /// The events since the last call.
    pub fn take_events(&self) -> Vec<RecordedEvent> {
        self.events.take()
    }

    /// The warnings logged since the last call.
    pub fn take_warnings(&self) -> Vec<String> {
        self.warnings.take()
    }

    /// Moves the clock forward.
    pub fn advance_ms(&self, ms: u64) {
        self.now_ms.set(self.now_ms.get() + ms);
    }

    /// The present time as `metav1.Time`.
    pub fn now(&self) -> String {
        crate::objects::Time::from_ms(self.now_ms.get()).to_string()
    }

    fn cached<R>(&self, read: impl FnOnce(&Objects) -> R) -> R {
        match self.frozen.borrow().as_ref() {
            Some(frozen) => read(frozen),
            None => read(&self.live.borrow()),
        }
    }

    fn has_status(&self, of: &Resource) -> bool {
        self.with_status.borrow().contains(of)
    }

    /// Records a write and says whether it is refused.
    fn act(
        &self,
        verb: &'static str,
        of: &Resource,
        subresource: &str,
        namespace: &str,
        name: &str,
        body: Value,
    ) -> Result<(), Status> {
        self.actions.borrow_mut().push(Action {
            verb,
            resource: of.clone(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            body,
        });
        if !self.kinds.borrow().contains_key(of) {
            return Err(Status::new(
                404,
                "NotFound",
                "the server could not find the requested resource",
            ));
        }
        let mut failures = self.failures.borrow_mut();
        let at = failures.iter().position(|(v, r, _)| *v == verb && r == of);
        match at.and_then(|at| failures.remove(at)) {
            Some((_, _, status)) => Err(status),
            None => Ok(()),
        }
    }

    fn write(
        &self,
        verb: &'static str,
        of: &Resource,
        namespace: &str,
        name: &str,
        object: &[u8],
        subresource: &str,
    ) -> Result<Vec<u8>, Status> {
        let object = parse(object)?;
        self.act(verb, of, subresource, namespace, name, object.clone())?;
        let part = part(subresource);
        let written = self.live.borrow_mut().update(
            of,
            namespace,
            name,
            object,
            part,
            self.has_status(of),
        )?;
        Ok(bytes(&written))
    }

    fn nodes(&self) -> Vec<GraphNode> {
        let live = self.live.borrow();
        live.by_key
            .iter()
            .map(|((resource, _, _), object)| graph_node(resource, object))
            .collect()
    }
}

fn select<'a>(
    objects: &'a Objects,
    of: &'a Resource,
    namespace: &'a str,
) -> impl Iterator<Item = &'a Value> {
    let matching = move |((resource, ns, _), _): &(&(Resource, String, String), &Value)| {
        resource == of && (namespace.is_empty() || ns == namespace)
    };
    objects
        .by_key
        .iter()
        .filter(matching)
        .map(|(_, object)| object)
}

fn graph_node(resource: &Resource, object: &Value) -> GraphNode {
    let owners = object.owner_references().into_iter().map(|o| Owner {
        api_version: o.api_version,
        kind: o.kind,
        name: o.name,
        uid: o.uid,
        controller: o.controller == Some(true),
        block_owner_deletion: o.block_owner_deletion == Some(true),
    });
    GraphNode {
        resource: resource.clone(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        uid: object.uid().to_owned(),
        owners: owners.collect(),
        finalizers: object.finalizers().into_iter().map(str::to_owned).collect(),
        deleting: object.is_deleting(),
    }
}

fn part(subresource: &str) -> Part {
    match subresource {
        "status" => Part::Status,
        _ => Part::Main,
    }
}

fn parse(object: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(object)
        .map_err(|error| Status::new(400, "BadRequest", error.to_string()))
}

fn bytes(object: &Value) -> Vec<u8> {
    object.to_string().into_bytes()
}
