//! A list at one revision: a snapshot that shares everything with the cache and never blocks it.

use std::{ops::Bound, sync::Arc};

use pilothouse_api::{Revision, SharedObject};

use super::Objects;
use crate::engine::prefix_end;

/// Objects of a resource, or of one of its namespaces, at a revision.
#[derive(Clone)]
pub struct CacheList {
    pub revision: Revision,
    objects: Objects,
    prefix: String,
    end: String,
}

impl CacheList {
    pub(super) fn new(revision: Revision, objects: Objects, prefix: String) -> Self {
        Self {
            revision,
            objects,
            end: prefix_end(&prefix),
            prefix,
        }
    }

    /// The objects in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &SharedObject> {
        self.from(&self.prefix).map(|(_, object)| object)
    }

    /// The objects from a storage key on, with their keys. For the next page of a list start at the last key with a `\0` behind.
    pub fn from<'a>(
        &'a self,
        start: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a SharedObject)> {
        let start = start.max(self.prefix.as_str());
        let end = self.end.as_str().max(start);
        let bounds = (Bound::Included(start), Bound::Excluded(end));
        self.objects.range::<str, _>(bounds)
    }
}
