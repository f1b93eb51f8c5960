//! Metadata of objects that are JSON trees, for controllers that work on kinds they do not know, and for tests.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{cluster::EventSubject, objects::OwnerReference};

/// Metadata of a JSON tree. Absent strings are `""`, absent maps and lists empty.
pub trait ObjectExt {
    fn name(&self) -> &str;
    fn namespace(&self) -> &str;
    fn uid(&self) -> &str;
    fn resource_version(&self) -> &str;
    fn generation(&self) -> i64;
    /// RFC 3339, to the second.
    fn creation_timestamp(&self) -> &str;
    fn label(&self, key: &str) -> Option<&str>;
    fn annotation(&self, key: &str) -> Option<&str>;
    fn labels(&self) -> BTreeMap<String, String>;
    fn annotations(&self) -> BTreeMap<String, String>;
    fn finalizers(&self) -> Vec<&str>;
    fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers().contains(&name)
    }
    /// `metadata.deletionTimestamp` is set.
    fn is_deleting(&self) -> bool;
    fn owner_references(&self) -> Vec<OwnerReference>;
    /// The owner whose `controller` is true.
    fn controller(&self) -> Option<OwnerReference> {
        self.owner_references()
            .into_iter()
            .find(|owner| owner.controller == Some(true))
    }
    /// Whether the object with this uid controls it.
    fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| owner.uid == uid)
    }
    /// A string at a JSON pointer, `""` if absent.
    fn str_at(&self, pointer: &str) -> &str;
    /// An integer at a JSON pointer.
    fn int_at(&self, pointer: &str) -> Option<i64>;
    /// A list at a JSON pointer, empty if absent.
    fn list_at(&self, pointer: &str) -> &[Value];
    /// Sets `metadata.<map>.<key>`, making the map if needed.
    fn set_metadata(&mut self, map: &str, key: &str, value: &str);
    /// As the subject of an event.
    fn subject(&self, api_version: &str, kind: &str) -> EventSubject;
}

impl ObjectExt for Value {
    fn name(&self) -> &str {
        self.str_at("/metadata/name")
    }

    fn namespace(&self) -> &str {
        self.str_at("/metadata/namespace")
    }

    fn uid(&self) -> &str {
        self.str_at("/metadata/uid")
    }

    fn resource_version(&self) -> &str {
        self.str_at("/metadata/resourceVersion")
    }

    fn generation(&self) -> i64 {
        self.int_at("/metadata/generation").unwrap_or(0)
    }

    fn creation_timestamp(&self) -> &str {
        self.str_at("/metadata/creationTimestamp")
    }

    fn label(&self, key: &str) -> Option<&str> {
        self["metadata"]["labels"][key].as_str()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self["metadata"]["annotations"][key].as_str()
    }

    fn labels(&self) -> BTreeMap<String, String> {
        string_map(&self["metadata"]["labels"])
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        string_map(&self["metadata"]["annotations"])
    }

    fn finalizers(&self) -> Vec<&str> {
        self.list_at("/metadata/finalizers")
            .iter()
            .filter_map(Value::as_str)
            .collect()
    }

    fn is_deleting(&self) -> bool {
        !self["metadata"]["deletionTimestamp"].is_null()
    }

    fn owner_references(&self) -> Vec<OwnerReference> {
        self.list_at("/metadata/ownerReferences")
            .iter()
            .filter_map(|reference| OwnerReference::deserialize(reference).ok())
            .collect()
    }

    fn str_at(&self, pointer: &str) -> &str {
        self.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    fn int_at(&self, pointer: &str) -> Option<i64> {
        self.pointer(pointer).and_then(Value::as_i64)
    }

    fn list_at(&self, pointer: &str) -> &[Value] {
        self.pointer(pointer)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    fn set_metadata(&mut self, map: &str, key: &str, value: &str) {
        if !self["metadata"].is_object() {
            self["metadata"] = json!({});
        }
        if !self["metadata"][map].is_object() {
            self["metadata"][map] = json!({});
        }
        self["metadata"][map][key] = json!(value);
    }

    fn subject(&self, api_version: &str, kind: &str) -> EventSubject {
        EventSubject {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
        }
    }
}

fn string_map(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs
        .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
        .collect()
}
