//! Every key that a controller could be called with in a world.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    cluster::GroupVersionResource,
    manifest::{ControllerSettings, KeyMap},
};

/// What to reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// Keys of the objects of watched resources, in order. Watches mapped by selector or by the plugin add none: their keys are
/// those of the `self` watch.
pub(super) fn all(
    settings: &ControllerSettings,
    objects: &[(GroupVersionResource, Value)],
) -> Vec<Key> {
    let mut keys = BTreeSet::new();
    if settings.singleton {
        keys.insert(Key::default());
    }
    for (resource, object) in objects {
        if settings.graph {
            keys.insert(Key::new("", text(object, "/metadata/uid")));
        }
        for watch in &settings.watches {
            let watched = watch.group == resource.group && watch.resource == resource.resource;
            if watched {
                keys.extend(keys_of(&watch.map, object));
            }
        }
    }
    keys.into_iter().collect()
}

fn keys_of(map: &KeyMap, object: &Value) -> Vec<Key> {
    let namespace = text(object, "/metadata/namespace");
    let key = |namespaced: bool, name: &str| match name {
        "" => Vec::new(),
        name => vec![Key::new(if namespaced { namespace } else { "" }, name)],
    };
    match map {
        KeyMap::Own => key(true, text(object, "/metadata/name")),
        KeyMap::Owner {
            kind,
            cluster_scoped,
            ..
        } => {
            let owners = object["metadata"]["ownerReferences"].as_array();
            let owners = owners.into_iter().flatten();
            owners
                .filter(|owner| owner["kind"] == **kind)
                .flat_map(|owner| key(!cluster_scoped, text(owner, "/name")))
                .collect()
        }
        KeyMap::Label {
            key: label,
            cluster_scoped,
        } => {
            let value = object["metadata"]["labels"][label].as_str();
            key(!cluster_scoped, value.unwrap_or_default())
        }
        KeyMap::Field { path, namespaced } => {
            let pointer = format!("/{}", path.replace('.', "/"));
            key(*namespaced, text(object, &pointer))
        }
        KeyMap::Namespace => key(false, namespace),
        KeyMap::Key { namespace, name } => vec![Key::new(namespace, name)],
        KeyMap::Selector { .. } | KeyMap::Custom | KeyMap::None => Vec::new(),
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
