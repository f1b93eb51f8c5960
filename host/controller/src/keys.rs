//! From events of watched resources to keys, as the manifest's `map` says. wit/README.md describes the kinds of maps.

mod selectors;

use std::borrow::Cow;

use pilothouse_api::{
    GroupVersionResource, Object, Status,
    selector::{FieldSelector, LabelSelector},
};
use pilothouse_client::{Cache, CacheEvent};
use pilothouse_plugin::manifest::{KeyMap, Watch};

pub use selectors::Selectors;

/// What to reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The object's own.
    pub fn of(object: &Object) -> Self {
        Self::new(&*object.header.namespace, &*object.header.name)
    }
}

/// `namespace/name`, or the name alone.
impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// One watch of a controller, ready to map.
pub struct Mapper {
    map: KeyMap,
    labels: LabelSelector,
    fields: FieldSelector,
}

/// The resource that a watch names.
pub fn resource_of(watch: &Watch) -> GroupVersionResource {
    GroupVersionResource {
        group: Cow::Owned(watch.group.clone()),
        version: Cow::Owned(watch.version.clone()),
        resource: Cow::Owned(watch.resource.clone()),
    }
}

impl Mapper {
    /// Parses the watch's selectors for the resource of `cache`.
    pub fn new(watch: &Watch, cache: &Cache) -> Result<Self, Status> {
        Ok(Self {
            map: watch.map.clone(),
            labels: LabelSelector::parse(&watch.label_selector)?,
            fields: cache.field_selector(&watch.field_selector)?,
        })
    }

    /// How the watch maps.
    pub fn map(&self) -> &KeyMap {
        &self.map
    }

    /// The keys of an event: those of the object, and of what it was before. `selectors` are those of the `self` watch.
    pub fn keys(&self, event: &CacheEvent, selectors: &Selectors) -> Vec<Key> {
        let mut keys = self.keys_of(event.object(), selectors);
        if let CacheEvent::Modified { old, .. } = event {
            for key in self.keys_of(old, selectors) {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        keys
    }

    /// Whether an event is for the plugin at all.
    pub fn wants(&self, event: &CacheEvent) -> bool {
        let old = match event {
            CacheEvent::Modified { old, .. } => self.selects(old),
            _ => false,
        };
        old || self.selects(event.object())
    }

    fn selects(&self, object: &Object) -> bool {
        self.labels.matches(&object.header) && self.fields.matches(&object.header)
    }

    fn keys_of(&self, object: &Object, selectors: &Selectors) -> Vec<Key> {
        if !self.selects(object) {
            return Vec::new();
        }
        let header = &object.header;
        let scope = |namespaced: bool| match namespaced {
            true => header.namespace.clone(),
            false => String::new(),
        };
        let named = |namespaced: bool, name: &str| match name {
            "" => Vec::new(),
            name => vec![Key::new(scope(namespaced), name)],
        };
        match &self.map {
            KeyMap::Own => vec![Key::of(object)],
            KeyMap::Owner {
                api_version,
                kind,
                any,
                cluster_scoped,
            } => {
                let owners = header.owner_references.iter();
                let wanted = owners.filter(|owner| {
                    (*any || owner.controller == Some(true))
                        && owner.kind == *kind
                        && group(&owner.api_version) == group(api_version)
                });
                wanted
                    .map(|owner| Key::new(scope(!cluster_scoped), &*owner.name))
                    .collect()
            }
            KeyMap::Label {
                key,
                cluster_scoped,
            } => named(!cluster_scoped, header.label(key).unwrap_or_default()),
            KeyMap::Field { path, namespaced } => named(*namespaced, &field(object, path)),
            KeyMap::Selector { orphans, .. } => match *orphans && header.controller().is_some() {
                true => Vec::new(),
                false => selectors.selecting(header),
            },
            KeyMap::Namespace => named(false, &header.namespace),
            KeyMap::Key { namespace, name } => vec![Key::new(&**namespace, &**name)],
            KeyMap::Custom | KeyMap::None => Vec::new(),
        }
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// A field's value as text; what is absent or no scalar is empty.
fn field(object: &Object, path: &str) -> String {
    let header = pilothouse_api::Header::decode(&object.bytes, &[path]);
    let value = header.map(|(header, _)| header.fields.into_iter().next());
    value.ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests;
