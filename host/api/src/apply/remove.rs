//! A document without some of its fields.

use super::{
    path::PathElement,
    schema::{Schema, Shape, list_element},
    set::FieldSet,
    value::Value,
};

/// Leaves out every path of the set with all that is below it. A list or object that loses all it had becomes null.
pub(super) fn remove<'a, S: Schema>(schema: S, value: Value<'a>, set: &FieldSet<'_>) -> Value<'a> {
    let shape = schema.shape(&value);
    match value {
        Value::Map(map) if shape == Shape::Map && !map.is_empty() => {
            let mut kept = Vec::with_capacity(map.len());
            for (name, value) in map {
                let value = match set.at(&PathElement::field(&name)) {
                    Some(found) if found.is_member => continue,
                    Some(found) => match schema.child(&name) {
                        Some(child) => remove(child.schema, value, &found.below),
                        None => value,
                    },
                    None => value,
                };
                kept.push((name, value));
            }
            match kept.is_empty() {
                true => Value::Null,
                false => Value::Map(kept),
            }
        }
        Value::List(list) if shape == Shape::List && !list.is_empty() => {
            let mut kept = Vec::with_capacity(list.len());
            for value in list {
                let found = match list_element(schema, &value) {
                    Ok(element) => set.at(&element),
                    Err(_) => None,
                };
                match (found, schema.element()) {
                    (Some(found), _) if found.is_member => {}
                    (Some(found), Some(schema)) => kept.push(remove(schema, value, &found.below)),
                    _ => kept.push(value),
                }
            }
            match kept.is_empty() {
                true => Value::Null,
                false => Value::List(kept),
            }
        }
        other => other,
    }
}
