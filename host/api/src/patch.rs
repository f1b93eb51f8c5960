//! The three patches that need nothing but the object: JSON patch, merge patch, strategic merge patch.
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#patch-and-apply>
//!
//! Invariants: a patch is read once and may be applied any number of times; applying leaves the object alone and returns
//! the result; no directive of a strategic merge patch ever reaches a result.

mod order;
mod strategic;
#[cfg(test)]
mod tests;

use json_patch::PatchOperation;
use serde_json::{Map, Value};

use crate::{facts, status::Status};

/// What a PATCH request's body is, by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7396.
    Merge,
    /// Merges lists by key; built-in kinds only.
    Strategic,
    /// Server-side apply; not read here.
    Apply,
}

impl PatchType {
    /// From a `Content-Type`, whose parameters do not matter.
    pub fn from_content_type(content_type: &str) -> Option<Self> {
        let media_type = content_type.split(';').next().unwrap_or(content_type);
        Some(match media_type.trim() {
            "application/json-patch+json" => Self::Json,
            "application/merge-patch+json" => Self::Merge,
            "application/strategic-merge-patch+json" => Self::Strategic,
            "application/apply-patch+yaml" => Self::Apply,
            _ => return None,
        })
    }
}

/// The most operations of one JSON patch.
const MAX_OPERATIONS: usize = 10_000;

/// How much the `copy` operations of one JSON patch may add, in bytes of JSON: copies of copies grow exponentially.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// A patch, read and ready to be applied.
#[derive(Clone, Debug)]
pub struct Patch(Body);

#[derive(Clone, Debug)]
enum Body {
    /// Operations as they came: one that makes no sense fails when it is applied.
    Json(Vec<Value>),
    Merge(Map<String, Value>),
    Strategic(Map<String, Value>),
}

impl Patch {
    /// RFC 6902. No list of objects: 400; more than 10,000 operations: 413.
    pub fn json(body: &[u8]) -> Result<Self, Status> {
        let operations: Vec<Map<String, Value>> = read(body)?;
        if operations.len() > MAX_OPERATIONS {
            let count = operations.len();
            return Err(Status::too_large(format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
            )));
        }
        let operations = operations.into_iter().map(Value::Object).collect();
        Ok(Self(Body::Json(operations)))
    }

    /// RFC 7396. No object: 400.
    pub fn merge(body: &[u8]) -> Result<Self, Status> {
        read(body).map(Body::Merge).map(Self)
    }

    /// Strategic merge. No object: 400.
    pub fn strategic(body: &[u8]) -> Result<Self, Status> {
        read(body).map(Body::Strategic).map(Self)
    }

    /// The patched object. `schema` is what a strategic merge goes by; the others do not look at it.
    ///
    /// Errors: 422 for a JSON patch operation that fails, `test` included, and for lists of lists; 400 for directives that
    /// make no sense.
    pub fn apply(
        &self,
        current: &Value,
        schema: Option<&'static facts::Type>,
    ) -> Result<Value, Status> {
        let mut patched = current.clone();
        self.apply_in_place(&mut patched, schema)?;
        Ok(patched)
    }

    /// The same without a copy; after an error the object is of no use.
    pub fn apply_in_place(
        &self,
        object: &mut Value,
        schema: Option<&'static facts::Type>,
    ) -> Result<(), Status> {
        match &self.0 {
            Body::Json(operations) => apply_json(object, operations),
            Body::Merge(patch) => {
                json_patch::merge(object, &Value::Object(patch.clone()));
                Ok(())
            }
            Body::Strategic(patch) => {
                let mut fields = match object.take() {
                    Value::Object(fields) => fields,
                    _ => Map::new(),
                };
                strategic::apply(&mut fields, patch.clone(), schema)?;
                *object = Value::Object(fields);
                Ok(())
            }
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Status> {
    serde_json::from_slice(body)
        .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))
}

fn apply_json(object: &mut Value, operations: &[Value]) -> Result<(), Status> {
    let mut copied = 0;
    for operation in operations {
        let operation: PatchOperation =
            serde_json::from_value(operation.clone()).map_err(|_| unprocessable())?;
        if let PatchOperation::Copy(copy) = &operation {
            copied += object.pointer(copy.from.as_str()).map_or(0, encoded_len);
            if copied > MAX_COPIED_BYTES {
                return Err(unprocessable());
            }
        }
        json_patch::patch(object, &[operation]).map_err(|_| unprocessable())?;
    }
    Ok(())
}

fn encoded_len(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(elements) => elements.iter().map(|e| encoded_len(e) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields
                .iter()
                .map(|(name, value)| name.len() + encoded_len(value) + 4)
                .sum::<usize>()
                + 2
        }
    }
}

/// 422 in upstream's words, which do not say what failed.
fn unprocessable() -> Status {
    let message = "the server rejected our request due to an error in our request";
    let mut status = Status::new(422, "Invalid", message);
    status.details = Some(Box::default());
    status
}
