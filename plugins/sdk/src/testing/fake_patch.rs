//! JSON patch, merge patch and as much of strategic merge as controllers use: lists of objects merge by their usual key.

use serde_json::{Map, Value};

use crate::cluster::{PatchType, Status};

pub(super) fn apply(kind: PatchType, mut target: Value, patch: &[u8]) -> Result<Value, Status> {
    let undecodable = |e: serde_json::Error| Status::new(400, "BadRequest", e.to_string());
    match kind {
        PatchType::Json => {
            let operations: json_patch::Patch =
                serde_json::from_slice(patch).map_err(undecodable)?;
            json_patch::patch(&mut target, &operations)
                .map_err(|e| Status::new(422, "Invalid", e.to_string()))?;
        }
        PatchType::Merge => {
            let patch: Value = serde_json::from_slice(patch).map_err(undecodable)?;
            json_patch::merge(&mut target, &patch);
        }
        PatchType::Strategic => {
            let patch: Value = serde_json::from_slice(patch).map_err(undecodable)?;
            strategic(&mut target, &patch, "");
        }
    }
    Ok(target)
}

fn merge_key(field: &str) -> Option<&'static str> {
    match field {
        "ownerReferences" => Some("uid"),
        "conditions" => Some("type"),
        "containers" | "initContainers" | "volumes" | "env" => Some("name"),
        _ => None,
    }
}

fn strategic(target: &mut Value, patch: &Value, field: &str) {
    match patch {
        Value::Object(members) => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            for (key, value) in members {
                match value {
                    Value::Null => {
                        target.as_object_mut().map(|object| object.remove(key));
                    }
                    value => strategic(&mut target[key.as_str()], value, key),
                }
            }
        }
        Value::Array(items) => match merge_key(field) {
            Some(key) => merge_list(target, items, key),
            None => *target = patch.clone(),
        },
        scalar => *target = scalar.clone(),
    }
}

fn merge_list(target: &mut Value, items: &[Value], key: &str) {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Some(list) = target.as_array_mut() else {
        return;
    };
    for item in items {
        let at = list.iter().position(|old| old[key] == item[key]);
        match (at, item["$patch"].as_str()) {
            (Some(at), Some("delete")) => {
                list.remove(at);
            }
            (None, Some("delete")) => {}
            (Some(at), _) => strategic(&mut list[at], item, ""),
            (None, _) => list.push(item.clone()),
        }
    }
}
