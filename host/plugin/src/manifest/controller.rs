//! The `controller` section.

use serde::{Deserialize, Serialize};

/// What a controller watches and how it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControllerSettings {
    #[serde(default)]
    pub watches: Vec<Watch>,
    /// Every key of the `self` watches runs again this often; 0: never.
    #[serde(default)]
    pub resync_seconds: u32,
    /// A key with empty name and namespace runs at start and at each resync.
    #[serde(default)]
    pub singleton: bool,
    /// Keys are uids from the owner graph.
    #[serde(default)]
    pub graph: bool,
    /// How many keys run at the same time.
    #[serde(default = "default_workers")]
    pub workers: u32,
}

fn default_workers() -> u32 {
    4
}

/// A watched resource and how its objects become keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Watch {
    /// `""` for core.
    #[serde(default)]
    pub group: String,
    pub version: String,
    /// The plural.
    pub resource: String,
    pub map: KeyMap,
    /// In Kubernetes' syntax; only matching objects make keys.
    #[serde(default)]
    pub label_selector: String,
    #[serde(default)]
    pub field_selector: String,
    /// A resource that is not served is skipped; otherwise the controller waits for it.
    #[serde(default)]
    pub optional: bool,
}

/// How an object becomes a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum KeyMap {
    /// Its namespace and name.
    #[serde(rename = "self")]
    Own,
    /// Its controller owner of this kind, or with `any` every owner of it.
    Owner {
        api_version: String,
        kind: String,
        #[serde(default)]
        any: bool,
        #[serde(default)]
        cluster_scoped: bool,
    },
    /// The value of a label as name, in the object's namespace.
    Label {
        key: String,
        #[serde(default)]
        cluster_scoped: bool,
    },
    /// The value of a field such as `spec.nodeName` as name, in no namespace.
    Field {
        path: String,
        #[serde(default)]
        namespaced: bool,
    },
    /// Its namespace as a name.
    Namespace,
    /// Always this key.
    Key {
        #[serde(default)]
        namespace: String,
        #[serde(default)]
        name: String,
    },
    /// The keys of the `self` watch's objects whose selector at this path selects the object's labels.
    Selector {
        path: String,
        /// Only for objects without a controller owner.
        #[serde(default)]
        orphans: bool,
    },
    /// What the exported `map-event` answers.
    Custom,
    /// None: the resource is only cached.
    None,
}
