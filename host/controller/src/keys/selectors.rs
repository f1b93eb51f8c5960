//! The selectors of a controller's own objects, parsed once, for watches mapped by `selector`.

use std::collections::{BTreeMap, HashMap};

use parking_lot::RwLock;
use pilothouse_api::{Header, Object, selector::LabelSelector};
use pilothouse_client::CacheEvent;
use serde_json::Value;

use super::Key;

/// Per namespace and name, the selector at `path`. Fed by the events of the `self` watch.
#[derive(Default)]
pub struct Selectors {
    /// JSON pointer; `None` if no watch asks.
    pointer: Option<String>,
    by_namespace: RwLock<HashMap<String, HashMap<String, LabelSelector>>>,
}

impl Selectors {
    /// Reads selectors at a dotted path, such as `spec.selector`.
    pub fn at(path: &str) -> Self {
        Self {
            pointer: Some(format!("/{}", path.replace('.', "/"))),
            by_namespace: RwLock::default(),
        }
    }

    /// Follows the controller's own objects.
    pub fn follow(&self, event: &CacheEvent) {
        let Some(pointer) = &self.pointer else {
            return;
        };
        let object = event.object();
        let header = &object.header;
        let mut all = self.by_namespace.write();
        let namespace = all.entry(header.namespace.clone()).or_default();
        let selector = match event {
            CacheEvent::Deleted(_) => None,
            _ => read(object, pointer),
        };
        match selector {
            Some(selector) => drop(namespace.insert(header.name.clone(), selector)),
            None => drop(namespace.remove(&header.name)),
        }
        if namespace.is_empty() {
            all.remove(&header.namespace);
        }
    }

    /// The keys of the objects in the same namespace that select an object.
    pub(super) fn selecting(&self, header: &Header) -> Vec<Key> {
        let all = self.by_namespace.read();
        let namespace = all.get(&header.namespace);
        let selecting = namespace
            .into_iter()
            .flatten()
            .filter(|(_, selector)| selector.matches(header));
        selecting
            .map(|(name, _)| Key::new(&*header.namespace, &**name))
            .collect()
    }
}

/// A `LabelSelector` or a plain map of labels; an empty or invalid one selects nothing.
fn read(object: &Object, pointer: &str) -> Option<LabelSelector> {
    let document: Value = serde_json::from_slice(&object.bytes).ok()?;
    let selector = document.pointer(pointer)?;
    let members = selector.as_object().filter(|m| !m.is_empty())?;
    if members.values().all(Value::is_string) {
        let labels = members
            .iter()
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()));
        return Some(LabelSelector::from_map(&labels.collect::<BTreeMap<_, _>>()));
    }
    let meta = serde_json::from_value(selector.clone()).ok()?;
    let selector = LabelSelector::from_meta(Some(&meta)).ok()?;
    (!selector.is_everything()).then_some(selector)
}
