//! The objects of a cache and their indexes.

use std::collections::BTreeMap;

use pilothouse_api::{
    SharedObject,
    selector::{FieldSelector, LabelSelector},
};

use super::{
    CacheEvent,
    index::{Index, IndexMap},
};

/// By namespace, then by name.
pub(super) struct State {
    objects: BTreeMap<String, BTreeMap<String, SharedObject>>,
    indexes: Vec<IndexMap>,
    len: usize,
}

impl State {
    pub(super) fn new(indexes: Vec<Index>) -> Self {
        let mut all = vec![IndexMap::new(Index::Owner)];
        all.extend(indexes.into_iter().map(IndexMap::new));
        Self {
            objects: BTreeMap::new(),
            indexes: all,
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&SharedObject> {
        self.objects.get(namespace)?.get(name)
    }

    /// Of one namespace, or of all if it is empty. Cluster-scoped objects are in the namespace "".
    pub(super) fn in_namespace<'a>(
        &'a self,
        namespace: &'a str,
    ) -> Box<dyn Iterator<Item = &'a SharedObject> + 'a> {
        match namespace {
            "" => Box::new(self.objects.values().flat_map(BTreeMap::values)),
            one => Box::new(self.objects.get(one).into_iter().flat_map(BTreeMap::values)),
        }
    }

    pub(super) fn indexed<'a>(
        &'a self,
        index: &Index,
        value: &'a str,
    ) -> impl Iterator<Item = &'a SharedObject> + 'a {
        let map = self.indexes.iter().find(|map| map.index == *index);
        map.into_iter().flat_map(move |map| map.get(value))
    }

    /// The objects that an index leaves for selectors that ask for one value of it; `None` if no index helps.
    pub(super) fn narrowed<'a>(
        &'a self,
        labels: &'a LabelSelector,
        fields: &'a FieldSelector,
    ) -> Option<Box<dyn Iterator<Item = &'a SharedObject> + 'a>> {
        for map in &self.indexes {
            let value = match &map.index {
                Index::Owner => None,
                Index::Label(key) => labels.exact(key),
                Index::Field(_, path) => fields.exact(path),
            };
            if let Some(value) = value.filter(|v| !v.is_empty()) {
                return Some(Box::new(map.get(value)));
            }
        }
        None
    }

    pub(super) fn upsert(&mut self, object: SharedObject) -> Option<CacheEvent> {
        let header = &object.header;
        let objects = self.objects.entry(header.namespace.clone()).or_default();
        let old = objects.insert(header.name.clone(), object.clone());
        for index in &mut self.indexes {
            if let Some(old) = &old {
                index.remove(old);
            }
            index.insert(&object);
        }
        match old {
            None => {
                self.len += 1;
                Some(CacheEvent::Added(object))
            }
            // the same version again, from a relist or a resumed watch
            Some(old) if old.revision == object.revision => None,
            Some(old) => Some(CacheEvent::Modified { old, new: object }),
        }
    }

    pub(super) fn remove(&mut self, last: &SharedObject) -> Option<CacheEvent> {
        let header = &last.header;
        let objects = self.objects.get_mut(&header.namespace)?;
        let old = objects.remove(&header.name)?;
        if objects.is_empty() {
            self.objects.remove(&header.namespace);
        }
        self.len -= 1;
        for index in &mut self.indexes {
            index.remove(&old);
        }
        Some(CacheEvent::Deleted(last.clone()))
    }

    /// An object that was replaced by another of the same name while nobody watched is a deletion and an addition.
    pub(super) fn replace(&mut self, objects: Vec<SharedObject>) -> Vec<CacheEvent> {
        let mut gone = std::mem::take(&mut self.objects);
        let mut events = Vec::new();
        let mut kept = Vec::with_capacity(objects.len());
        for object in objects {
            let header = &object.header;
            let old = gone
                .get_mut(&header.namespace)
                .and_then(|objects| objects.remove(&header.name));
            match old {
                Some(old) if old.header.uid == header.uid => {
                    self.objects
                        .entry(header.namespace.clone())
                        .or_default()
                        .insert(header.name.clone(), old);
                }
                Some(old) => {
                    self.forget(&old);
                    events.push(CacheEvent::Deleted(old));
                }
                None => {}
            }
            kept.push(object);
        }
        for old in gone.into_values().flat_map(BTreeMap::into_values) {
            self.forget(&old);
            events.push(CacheEvent::Deleted(old));
        }
        events.extend(kept.into_iter().filter_map(|object| self.upsert(object)));
        events
    }

    /// Takes an object that is already out of `objects` out of the indexes.
    fn forget(&mut self, object: &SharedObject) {
        self.len -= 1;
        for index in &mut self.indexes {
            index.remove(object);
        }
    }
}
