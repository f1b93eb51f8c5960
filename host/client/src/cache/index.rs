//! Indexes of a cache: from a value that objects have to the objects.

use std::collections::{BTreeMap, HashMap};

use pilothouse_api::{Object, SharedObject};

/// Namespace and name.
pub(super) type ObjectKey = (String, String);

/// What is indexed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Index {
    /// The uids of all owners; always present.
    Owner,
    /// A label's value.
    Label(String),
    /// A selectable field by its position in the headers, and its path.
    Field(usize, String),
}

impl Index {
    fn values<'o>(&self, object: &'o Object) -> Vec<&'o str> {
        let header = &object.header;
        match self {
            Index::Owner => {
                let uids = header.owner_references.iter();
                uids.map(|owner| owner.uid.as_str()).collect()
            }
            Index::Label(key) => header.label(key).into_iter().collect(),
            Index::Field(at, _) => {
                let value = header.fields.get(*at).map(String::as_str);
                value.filter(|v| !v.is_empty()).into_iter().collect()
            }
        }
    }
}

/// One index with its contents.
pub(super) struct IndexMap {
    pub(super) index: Index,
    by_value: HashMap<String, BTreeMap<ObjectKey, SharedObject>>,
}

impl IndexMap {
    pub(super) fn new(index: Index) -> Self {
        Self {
            index,
            by_value: HashMap::new(),
        }
    }

    pub(super) fn insert(&mut self, object: &SharedObject) {
        for value in self.index.values(object) {
            let key = (object.header.namespace.clone(), object.header.name.clone());
            self.by_value
                .entry(value.to_owned())
                .or_default()
                .insert(key, object.clone());
        }
    }

    pub(super) fn remove(&mut self, object: &Object) {
        let key = (object.header.namespace.clone(), object.header.name.clone());
        for value in self.index.values(object) {
            if let Some(objects) = self.by_value.get_mut(value) {
                objects.remove(&key);
                if objects.is_empty() {
                    self.by_value.remove(value);
                }
            }
        }
    }

    pub(super) fn get(&self, value: &str) -> impl Iterator<Item = &SharedObject> {
        self.by_value
            .get(value)
            .into_iter()
            .flat_map(BTreeMap::values)
    }
}
