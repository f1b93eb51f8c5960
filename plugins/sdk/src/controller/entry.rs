//! A controller's entry in the manifest; wit/README.md describes the fields.

use serde::Serialize;
use serde_json::{Value, json};

use crate::{cluster::Resource, manifest::Capability};

/// What a controller says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    pub(super) name: String,
    pub(super) capabilities: Vec<Capability>,
    pub(super) settings: Settings,
}

/// The `controller` section of a plugin in the manifest.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    watches: Vec<Watch>,
    #[serde(skip_serializing_if = "is_default")]
    resync_seconds: u32,
    #[serde(skip_serializing_if = "is_default")]
    singleton: bool,
    #[serde(skip_serializing_if = "is_default")]
    graph: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    workers: Option<u32>,
}

/// A watched resource and how its objects become keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Watch {
    group: String,
    version: String,
    resource: String,
    map: Value,
    #[serde(skip_serializing_if = "String::is_empty")]
    label_selector: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    field_selector: String,
    #[serde(skip_serializing_if = "is_default")]
    optional: bool,
}

impl Entry {
    /// A controller that watches nothing and may do nothing yet.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn watch(mut self, watch: Watch) -> Self {
        self.settings.watches.push(watch);
        self
    }

    /// Grants verbs on resources (`pods`, `pods/status`, `*`) of one group (`""` for core).
    #[must_use]
    pub fn may(mut self, verbs: &[&str], group: &str, resources: &[&str]) -> Self {
        self.capabilities
            .push(Capability::new(verbs, group, resources));
        self
    }

    /// Every key of the `self` watches runs again this often.
    #[must_use]
    pub fn resync_seconds(mut self, seconds: u32) -> Self {
        self.settings.resync_seconds = seconds;
        self
    }

    /// A key with empty name and namespace runs at start and at each resync.
    #[must_use]
    pub fn singleton(mut self) -> Self {
        self.settings.singleton = true;
        self
    }

    /// Keys are uids from the owner graph.
    #[must_use]
    pub fn graph(mut self) -> Self {
        self.settings.graph = true;
        self
    }

    /// How many keys run at the same time.
    #[must_use]
    pub fn workers(mut self, workers: u32) -> Self {
        self.settings.workers = Some(workers);
        self
    }
}

impl Watch {
    /// The key is the object's own namespace and name.
    pub fn own(resource: &Resource) -> Self {
        Self::mapped(resource, json!("self"))
    }

    /// The key is the controller owner of this kind, in the object's namespace.
    pub fn owned_by(resource: &Resource, api_version: &str, kind: &str) -> Self {
        Self::mapped(
            resource,
            json!({"owner": {"apiVersion": api_version, "kind": kind}}),
        )
    }

    /// The key's name is the value of a label, in the object's namespace.
    pub fn by_label(resource: &Resource, key: &str) -> Self {
        Self::mapped(resource, json!({"label": {"key": key}}))
    }

    /// The key's name is the value of a field such as `spec.nodeName`, in no namespace.
    pub fn by_field(resource: &Resource, path: &str) -> Self {
        Self::mapped(resource, json!({"field": {"path": path}}))
    }

    /// The keys are those of the `own` watch's objects whose selector at `path` selects the object.
    pub fn selected_by(resource: &Resource, path: &str) -> Self {
        Self::mapped(resource, json!({"selector": {"path": path}}))
    }

    /// As [`Self::selected_by`], only for objects that no controller owns and that may thus be adopted.
    pub fn orphans_selected_by(resource: &Resource, path: &str) -> Self {
        Self::mapped(
            resource,
            json!({"selector": {"path": path, "orphans": true}}),
        )
    }

    /// The key's name is the object's namespace.
    pub fn by_namespace(resource: &Resource) -> Self {
        Self::mapped(resource, json!("namespace"))
    }

    /// Every event makes this key.
    pub fn fixed_key(resource: &Resource, namespace: &str, name: &str) -> Self {
        Self::mapped(
            resource,
            json!({"key": {"namespace": namespace, "name": name}}),
        )
    }

    /// [`Reconciler::map_event`](super::Reconciler::map_event) says which keys.
    pub fn custom(resource: &Resource) -> Self {
        Self::mapped(resource, json!("custom"))
    }

    /// No key; the resource is only cached.
    pub fn cached(resource: &Resource) -> Self {
        Self::mapped(resource, json!("none"))
    }

    /// Only objects with these labels make keys.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.label_selector = selector.to_owned();
        self
    }

    /// Only objects with these fields make keys.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.field_selector = selector.to_owned();
        self
    }

    /// Skipped if the resource is not served.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    fn mapped(resource: &Resource, map: Value) -> Self {
        Self {
            group: resource.group.clone().into_owned(),
            version: resource.version.clone().into_owned(),
            resource: resource.name.clone().into_owned(),
            map,
            label_selector: String::new(),
            field_selector: String::new(),
            optional: false,
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
