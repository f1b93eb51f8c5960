//! Helpers of the strategies' table tests: objects from JSON, errors as the texts that clients see.

use pilothouse_api::{Kind, field::ErrorList};
use pilothouse_client::UserInfo;
use serde_json::Value;

use crate::registry::strategy::{Context, Strategy};

pub(super) const NOW: &str = "2026-01-02T03:04:05Z";

pub(super) fn now() -> jiff::Timestamp {
    NOW.parse().expect("a time")
}

pub(super) fn context() -> Context {
    Context {
        user: UserInfo::new("alice", &[]),
        now: now(),
        dry_run: false,
    }
}

/// The typed object of a JSON document.
pub(super) fn object<K: Kind>(json: &Value) -> K {
    K::decode(&serde_json::to_vec(json).expect("JSON")).expect("an object of the kind")
}

/// The JSON document of a typed object.
pub(super) fn json<K: Kind>(object: &K) -> Value {
    serde_json::from_slice(&object.encode()).expect("JSON")
}

/// `path: message` for each error.
pub(super) fn texts(errors: &ErrorList) -> Vec<String> {
    errors
        .iter()
        .map(|e| format!("{}: {}", e.path, e.message))
        .collect()
}

/// The document with values set at JSON pointers; `null` removes. Missing objects on the way are made; `-` appends to a list.
pub(super) fn with(base: &Value, changes: &[(&str, Value)]) -> Value {
    let mut tree = base.clone();
    for (pointer, value) in changes {
        set(&mut tree, pointer, value.clone());
    }
    tree
}

fn set(tree: &mut Value, pointer: &str, value: Value) {
    let (head, rest) = match pointer.trim_start_matches('/').split_once('/') {
        Some((head, rest)) => (head, Some(rest)),
        None => (pointer.trim_start_matches('/'), None),
    };
    let head = head.replace("~1", "/");
    let slot = match tree {
        Value::Array(items) => {
            let at = head.parse().unwrap_or(items.len());
            if at == items.len() {
                items.push(Value::Null);
            }
            &mut items[at]
        }
        other => {
            if !other.is_object() {
                *other = Value::Object(serde_json::Map::new());
            }
            let map = other.as_object_mut().expect("just made");
            if rest.is_none() && value.is_null() {
                map.remove(&head);
                return;
            }
            map.entry(head).or_insert(Value::Null)
        }
    };
    match rest {
        Some(rest) => set(slot, rest, value),
        None => *slot = value,
    }
}

/// The object as it is after defaulting.
pub(super) fn defaulted<S: Strategy>(strategy: &S, json: &Value) -> S::Object {
    let mut object = object(json);
    strategy.default(&mut object);
    object
}

/// The object as it would be stored by a create.
pub(super) fn created<S: Strategy>(strategy: &S, json: &Value) -> S::Object {
    let mut object = defaulted(strategy, json);
    strategy.prepare_for_create(&context(), &mut object);
    object
}

/// What a create is refused for.
pub(super) fn create_errors<S: Strategy>(strategy: &S, json: &Value) -> Vec<String> {
    let object = created(strategy, json);
    let mut errors = strategy.validate(&object);
    errors.extend(strategy.validate_create(&object));
    texts(&errors)
}

/// What an update of the main resource, from `old` to `new`, is refused for.
pub(super) fn update_errors<S: Strategy>(strategy: &S, old: &Value, new: &Value) -> Vec<String> {
    let old = defaulted(strategy, old);
    let mut new = defaulted(strategy, new);
    strategy.prepare_for_update(&context(), &mut new, &old);
    let mut errors = strategy.validate(&new);
    errors.extend(strategy.validate_update(&new, &old));
    texts(&errors)
}

/// What an update of the status, from `old` to `new`, is refused for.
pub(super) fn status_errors<S: Strategy>(strategy: &S, old: &Value, new: &Value) -> Vec<String> {
    let (mut new, old) = (object::<S::Object>(new), object::<S::Object>(old));
    let prepare = strategy.prepare_for_status_update().expect("a status");
    prepare(&mut new, &old);
    texts(&strategy.validate_status_update(&new, &old))
}

/// A row beside the names of its columns; also checks that there are as many cells as columns.
pub(super) fn row<S: Strategy>(strategy: &S, json: &Value) -> Vec<(&'static str, Value)> {
    let columns = strategy.columns();
    let cells = strategy.row(&object(json), now());
    assert_eq!(columns.len(), cells.len(), "cells and columns");
    columns.iter().map(|c| c.name).zip(cells).collect()
}
