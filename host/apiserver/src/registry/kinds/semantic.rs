//! Comparing objects as Kubernetes does: what JSON may leave out makes no difference.

use pilothouse_api::Kind;
use serde_json::{Map, Value};

/// Which fields directly below `at` differ, as `spec.nodeName: "a" => "b"`; absent and empty values are the same.
pub(super) fn differences<K: Kind>(new: &K, old: &K, at: &str) -> Vec<String> {
    let (new, old) = (fields(new, at), fields(old, at));
    let mut keys: Vec<&String> = new.keys().chain(old.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let null = Value::Null;
    let value = |fields: &Map<String, Value>, key: &str| fields.get(key).unwrap_or(&null).clone();
    keys.into_iter()
        .map(|key| (key, value(&old, key), value(&new, key)))
        .filter(|(_, old, new)| old != new)
        .map(|(key, old, new)| format!("{at}.{key}: {old} => {new}"))
        .collect()
}

/// The part of an object's JSON that a JSON pointer names; null if there is none.
pub(super) fn value_at<K: Kind>(object: &K, pointer: &str) -> Value {
    let mut tree: Value = serde_json::from_slice(&object.encode()).unwrap_or_default();
    tree.pointer_mut(pointer).map_or(Value::Null, Value::take)
}

/// The object at a top-level field, without empty values.
fn fields<K: Kind>(object: &K, at: &str) -> Map<String, Value> {
    let mut tree: Value = serde_json::from_slice(&object.encode()).unwrap_or_default();
    match tree.get_mut(at).map(Value::take).map(without_empty) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map
                .into_iter()
                .map(|(key, value)| (key, without_empty(value)));
            Value::Object(kept.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_empty).collect()),
        value => value,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
