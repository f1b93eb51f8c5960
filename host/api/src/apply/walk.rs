//! A typed document's fields as a set, and what is wrong with its types.

use super::{
    path::PathElement,
    schema::{Scalar, Schema, Shape, list_element},
    set::{FieldSet, Node},
    value::Value,
};

/// Every leaf and every element that a document mentions.
pub fn field_set<'a, S: Schema>(schema: S, value: &'a Value<'a>) -> FieldSet<'a> {
    below(schema, value).1
}

/// Whether a value itself is mentioned, and what is below it.
fn below<'a, S: Schema>(schema: S, value: &'a Value<'a>) -> (bool, FieldSet<'a>) {
    match (schema.shape(value), value) {
        (Shape::Map, Value::Map(map)) => {
            let mut nodes = Vec::with_capacity(map.len());
            for (name, value) in map {
                let Some(child) = schema.child(name) else {
                    continue;
                };
                let (is_member, below) = below(child.schema, value);
                let is_empty = value.is_null() || value.as_map().is_some_and(Vec::is_empty);
                nodes.push(Node {
                    element: PathElement::field(name),
                    is_member: is_member || is_empty || !child.is_named,
                    below,
                });
            }
            (false, FieldSet::from_nodes(nodes))
        }
        (Shape::List, Value::List(list)) => (false, elements(schema, list)),
        (Shape::Map | Shape::List, _) => (false, FieldSet::default()),
        _ => (true, FieldSet::default()),
    }
}

/// The elements of a list. One that occurs more than once is mentioned as a whole.
fn elements<'a, S: Schema>(schema: S, list: &'a [Value<'a>]) -> FieldSet<'a> {
    let mut found = indexed(schema, list);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let mut nodes: Vec<Node<'a>> = Vec::with_capacity(found.len());
    for (element, value) in found {
        match nodes.last_mut() {
            Some(last) if last.element == element => last.below = FieldSet::default(),
            _ => nodes.push(Node {
                element,
                is_member: true,
                below: schema
                    .element()
                    .map(|schema| below(schema, value).1)
                    .unwrap_or_default(),
            }),
        }
    }
    FieldSet::from_nodes(nodes)
}

/// A list's elements with their path elements; what has none is left out, it has been refused before.
pub(super) fn indexed<'a, S: Schema>(
    schema: S,
    list: &'a [Value<'a>],
) -> Vec<(PathElement<'a>, &'a Value<'a>)> {
    let known = |value: &'a Value<'a>| Some((list_element(schema, value).ok()?, value));
    list.iter().filter_map(known).collect()
}

/// What is wrong with a document's types: `.spec.foo: field not declared in schema`. `duplicates` are allowed in what is
/// stored, not in what is applied.
pub fn type_errors<S: Schema>(schema: S, value: &Value<'_>, duplicates: bool) -> Vec<String> {
    let mut errors = Vec::new();
    check(schema, value, duplicates, "", &mut errors);
    errors
}

fn check<S: Schema>(
    schema: S,
    value: &Value<'_>,
    duplicates: bool,
    path: &str,
    errors: &mut Vec<String>,
) {
    let why = match (schema.shape(value), value) {
        (_, Value::Null) => return,
        (Shape::Scalar(scalar), value) => match scalar_error(scalar, value) {
            Some(why) => why,
            None => return,
        },
        (Shape::Map | Shape::AtomicMap, Value::Map(map)) => {
            for (name, value) in map {
                let path = format!("{path}.{name}");
                match schema.child(name) {
                    Some(child) => check(child.schema, value, duplicates, &path, errors),
                    None => errors.push(format!("{path}: field not declared in schema")),
                }
            }
            return;
        }
        (Shape::List, Value::List(list)) => {
            return check_elements(schema, list, duplicates, path, errors);
        }
        (Shape::AtomicList, Value::List(list)) => {
            if let Some(schema) = schema.element() {
                for (index, value) in list.iter().enumerate() {
                    check(
                        schema,
                        value,
                        duplicates,
                        &format!("{path}[{index}]"),
                        errors,
                    );
                }
            }
            return;
        }
        (Shape::Map | Shape::AtomicMap, other) => format!("expected map, got &{{{}}}", go(other)),
        (Shape::List | Shape::AtomicList, other) => {
            format!("expected list, got &{{{}}}", go(other))
        }
    };
    fail(errors, path, &why);
}

fn fail(errors: &mut Vec<String>, path: &str, why: &str) {
    errors.push(match path {
        "" => why.to_owned(),
        path => format!("{path}: {why}"),
    });
}

/// The elements of a list that merges. After one that cannot be told apart nothing more can be said of the list.
fn check_elements<S: Schema>(
    schema: S,
    list: &[Value<'_>],
    duplicates: bool,
    path: &str,
    errors: &mut Vec<String>,
) {
    let mut seen = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        let element = match list_element(schema, value) {
            Ok(element) => element,
            Err(why) => return fail(errors, path, &format!("element {index}: {why}")),
        };
        if !duplicates && seen.contains(&element) {
            fail(
                errors,
                path,
                &format!("duplicate entries for key {element}"),
            );
        }
        if let Some(schema) = schema.element() {
            check(
                schema,
                value,
                duplicates,
                &format!("{path}{element}"),
                errors,
            );
        }
        seen.push(element);
    }
}

fn scalar_error(scalar: Scalar, value: &Value<'_>) -> Option<String> {
    let is_number = matches!(value, Value::Int(_) | Value::Float(_));
    let is_right = match scalar {
        Scalar::Numeric => is_number,
        Scalar::String => matches!(value, Value::String(_)),
        Scalar::Boolean => matches!(value, Value::Bool(_)),
        Scalar::Any => !matches!(value, Value::List(_) | Value::Map(_)),
    };
    (!is_right).then(|| match scalar {
        Scalar::Numeric => format!("expected numeric (int or float), got {}", go_type(value)),
        Scalar::String => format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            match value {
                Value::List(_) | Value::Map(_) => format!("{}{{{}}}", go_type(value), go(value)),
                other => other.to_string(),
            }
        ),
        Scalar::Boolean => format!("expected boolean, got &{{{}}}", go(value)),
        Scalar::Any => format!("expected any scalar, got &{{{}}}", go(value)),
    })
}

/// The names that Kubernetes' messages give to types of JSON.
fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Map(_) => "map[string]interface {}",
    }
}

/// A value as those messages show it.
fn go(value: &Value<'_>) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.to_string(),
        Value::List(list) => {
            let values: Vec<String> = list.iter().map(go).collect();
            format!("[{}]", values.join(" "))
        }
        Value::Map(map) => {
            let fields: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", go(v))).collect();
            format!("map[{}]", fields.join(" "))
        }
        scalar => scalar.to_string(),
    }
}
