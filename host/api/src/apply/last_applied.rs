//! The way from client-side to server-side apply: what kubectl's annotation says was applied is kubectl's.
//! Source: <https://kubernetes.io/docs/reference/using-api/server-side-apply/#migration-between-client-side-and-server-side-apply>

use std::borrow::Cow;

use super::{
    compare::compare,
    conflict::Conflict,
    schema::Schema,
    value::Value,
    walk::{field_set, type_errors},
};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The annotation, if it says anything.
fn annotation<'v>(object: &'v Value<'_>) -> Option<&'v str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations
        .get(ANNOTATION)?
        .as_str()
        .filter(|text| !text.is_empty())
}

/// The conflicts about more than what was last applied on the client side and has not changed since.
pub(super) fn outstanding<'c, S: Schema>(
    schema: S,
    live: &Value<'_>,
    api_version: &str,
    conflicts: Vec<Conflict<'c>>,
) -> Vec<Conflict<'c>> {
    let Some(text) = annotation(live) else {
        return conflicts;
    };
    let last = match Value::parse(text.as_bytes()) {
        Ok(last) if last.get("apiVersion").and_then(Value::as_str) == Some(api_version) => last,
        _ => return conflicts,
    };
    if !type_errors(schema, &last, false).is_empty() {
        return conflicts;
    }
    let since = compare(schema, &last, live);
    let applied = field_set(schema, &last)
        .difference(&since.changed)
        .difference(&since.removed);
    let left = |conflict: Conflict<'c>| {
        let fields = conflict.fields.difference(&applied);
        let manager = conflict.manager;
        (!fields.is_empty()).then_some(Conflict { manager, fields })
    };
    conflicts.into_iter().filter_map(left).collect()
}

/// Keeps the annotation, where there is one, in step with what is applied: a client-side apply may follow.
pub(super) fn refresh(object: &mut Value<'_>, config: &Value<'_>) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config
        .get_mut("metadata")
        .and_then(|m| m.get_mut("annotations"))
    {
        annotations.remove(ANNOTATION);
    }
    let mut text = String::from_utf8_lossy(&config.to_json()).into_owned();
    text.push('\n');
    let annotations = object
        .get_mut("metadata")
        .and_then(|m| m.get_mut("annotations"));
    if let Some(annotations) = annotations {
        annotations.set(ANNOTATION, Value::String(Cow::Owned(text)));
    }
}
