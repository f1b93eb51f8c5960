//! A stored or cached object: immutable, shared, already encoded.
//!
//! Invariants: `bytes` is one JSON document with `metadata.resourceVersion` equal to `revision`; `header` is what was read
//! from those bytes and nothing else. Reads hand out `bytes` as they are; only writers and judges build a tree.

mod decode;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The storage revision; its outward form is `metadata.resourceVersion`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `metadata.ownerReferences[*]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// The few parts of an object that caches, selectors and informers look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub name: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub uid: String,
    pub generation: i64,
    /// Sorted by key.
    pub labels: Vec<(String, String)>,
    pub owner_references: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
    pub deletion_timestamp: Option<String>,
    /// The kind's selectable fields in the order of its table.
    pub fields: Vec<String>,
}

/// An object as it is stored in caches and handed to readers.
#[derive(Clone, Debug)]
pub struct Object {
    pub revision: Revision,
    pub header: Header,
    pub bytes: Bytes,
}

/// Shared by caches, watchers and informers.
pub type SharedObject = Arc<Object>;

impl Header {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self
            .labels
            .binary_search_by(|(k, _)| k.as_str().cmp(key))
            .ok()?;
        Some(&self.labels[at].1)
    }

    /// The owner whose `controller` is true.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references
            .iter()
            .find(|o| o.controller == Some(true))
    }
}
