//! The two kinds of patches that the fake host applies.

use serde_json::{Map, Value};

use super::{Status, bad, status};

/// RFC 7386.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (key, value) in patch {
        match value {
            Value::Null => _ = target.remove(key),
            value => merge(target.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}

/// The operations `add`, `replace`, `remove` and `test` of RFC 6902.
pub(super) fn apply(target: &mut Value, patch: &Value) -> Result<(), Status> {
    let operations = patch
        .as_array()
        .ok_or_else(|| bad("a JSON patch is a list"))?;
    for operation in operations {
        let path = operation["path"].as_str().ok_or_else(|| bad("no path"))?;
        let failed = || {
            status(
                422,
                "Invalid",
                format!("the operation on {path:?} does not apply"),
            )
        };
        let (parent, last) = path.rsplit_once('/').ok_or_else(failed)?;
        let last = last.replace("~1", "/").replace("~0", "~");
        let parent = target.pointer_mut(parent).ok_or_else(failed)?;
        let value = &operation["value"];
        let op = operation["op"].as_str().unwrap_or_default();
        let done = match parent {
            Value::Object(map) => match op {
                "add" => {
                    map.insert(last, value.clone());
                    true
                }
                "replace" => map.insert(last, value.clone()).is_some(),
                "remove" => map.remove(&last).is_some(),
                "test" => map.get(&last) == Some(value),
                _ => false,
            },
            Value::Array(list) => {
                let at = match last.as_str() {
                    "-" => list.len(),
                    at => at.parse().map_err(|_| failed())?,
                };
                match op {
                    "add" if at <= list.len() => {
                        list.insert(at, value.clone());
                        true
                    }
                    "replace" if at < list.len() => {
                        list[at] = value.clone();
                        true
                    }
                    "remove" if at < list.len() => {
                        list.remove(at);
                        true
                    }
                    "test" => list.get(at) == Some(value),
                    _ => false,
                }
            }
            _ => false,
        };
        if !done {
            return Err(failed());
        }
    }
    Ok(())
}
