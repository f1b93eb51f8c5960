//! Strategic merge patch.
//! Source: <https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md>
//!
//! Objects merge key by key, null deletes; lists are replaced unless the type says that they merge, by key or as sets. The
//! directives: `$patch: replace | delete | merge` in an object or list element, `$retainKeys`, `$setElementOrder/<list>`,
//! `$deleteFromPrimitiveList/<list>`.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{
    order::{arrange, identity},
    unprocessable,
};
use crate::{
    facts::{self, Kind, Shape, Type},
    status::Status,
};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

type Object = Map<String, Value>;

/// Applies a patch to an object of a type.
pub(super) fn apply(
    original: &mut Object,
    patch: Object,
    schema: Option<&'static Type>,
) -> Result<(), Status> {
    let schema = schema.map_or(Schema::Free, Schema::Type);
    merge_object(original, patch, schema)
}

/// What is known of an object's fields.
#[derive(Clone, Copy)]
enum Schema {
    Type(&'static Type),
    /// A map whose values are of one kind.
    MapOf(Kind),
    /// Nothing: objects merge, lists are replaced.
    Free,
}

impl Schema {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Message(message) => Self::Type(message.get()),
            _ => Self::Free,
        }
    }

    /// How a field merges, and what its value (for lists and maps: an element) is.
    fn field(self, name: &str) -> (facts::Patch, Self) {
        match self {
            Self::Free => (facts::Patch::default(), Self::Free),
            Self::MapOf(kind) => (facts::Patch::default(), Self::of(kind)),
            Self::Type(of) => match of.json_field(name) {
                None => (facts::Patch::default(), Self::Free),
                Some(field) => {
                    let schema = match field.shape {
                        Shape::One(kind) | Shape::List(kind) => Self::of(kind),
                        Shape::Map(kind) => Self::MapOf(kind),
                    };
                    (field.patch, schema)
                }
            },
        }
    }
}

fn merge_object(original: &mut Object, mut patch: Object, schema: Schema) -> Result<(), Status> {
    match patch.remove(PATCH) {
        None => {}
        Some(directive) if directive == "merge" => {}
        Some(directive) if directive == "replace" => {
            *original = without_directives(patch);
            return Ok(());
        }
        Some(directive) if directive == "delete" => {
            original.clear();
            return Ok(());
        }
        Some(other) => return Err(unknown_directive(&other, &patch)),
    }
    retain_keys(original, &mut patch)?;
    delete_from_primitive_lists(original, &mut patch)?;
    merge_ordered_lists(original, &mut patch, schema)?;
    for (name, value) in patch {
        merge_field(original, name, value, schema)?;
    }
    Ok(())
}

fn merge_field(
    original: &mut Object,
    name: String,
    value: Value,
    schema: Schema,
) -> Result<(), Status> {
    let (strategy, schema) = schema.field(&name);
    match (original.get_mut(&name), value) {
        (_, Value::Null) => {
            original.remove(&name);
        }
        (Some(Value::Object(original)), Value::Object(patch)) => match strategy.replace {
            true => *original = without_directives(patch),
            false => merge_object(original, patch, schema)?,
        },
        (Some(Value::Array(original)), Value::Array(patch)) => match strategy.merge {
            true => {
                let order = identities(&patch, strategy.merge_key);
                let live = std::mem::take(original);
                *original = merge_list(live, patch, strategy.merge_key, schema, &order)?;
            }
            false => *original = patch.into_iter().filter_map(clean).collect(),
        },
        (_, value) => match clean(value) {
            Some(value) => {
                original.insert(name, value);
            }
            None => {
                original.remove(&name);
            }
        },
    }
    Ok(())
}

/// Merges two lists; `order` are the identities in the order that the patch wants.
fn merge_list(
    live: Vec<Value>,
    patch: Vec<Value>,
    merge_key: Option<&str>,
    schema: Schema,
    order: &[Value],
) -> Result<Vec<Value>, Status> {
    let elements = || live.iter().chain(&patch);
    if elements().any(Value::is_array) {
        return Err(unprocessable()); // lists of lists
    }
    let objects = elements().filter(|element| element.is_object()).count();
    if objects == 0 {
        let live_order = live.clone();
        let mut known: HashSet<Value> = live.iter().cloned().collect();
        let mut merged = live;
        merged.extend(patch.into_iter().filter(|new| known.insert(new.clone())));
        return Ok(arrange(merged, order, &live_order, None));
    }
    if objects < live.len() + patch.len() {
        return Err(Status::bad_request("list element types are not identical"));
    }
    let Some(key) = merge_key else {
        return Err(Status::bad_request("cannot merge lists without merge key"));
    };
    let live_order = identities(&live, merge_key);
    let merged = merge_keyed(live, patch, key, schema)?;
    Ok(arrange(merged, order, &live_order, merge_key))
}

/// Elements that are told apart by a key: those of the patch are deleted, merged into what has the key, or added.
fn merge_keyed(
    live: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    schema: Schema,
) -> Result<Vec<Value>, Status> {
    let Changes {
        elements,
        deleted,
        replace,
    } = changes(patch, key)?;
    if replace {
        let elements = elements.into_iter().map(without_directives);
        return Ok(elements.map(Value::Object).collect());
    }
    let mut merged = live;
    merged.retain(|known| !deleted.contains(&known[key]));
    let mut places: HashMap<Value, usize> = HashMap::new();
    for (place, known) in merged.iter().enumerate() {
        places.entry(known[key].clone()).or_insert(place);
    }
    for element in elements {
        let wanted = key_of(&element, key)?.clone();
        match places.get(&wanted).map(|place| &mut merged[*place]) {
            Some(Value::Object(known)) => merge_object(known, element, schema)?,
            _ => {
                places.insert(wanted, merged.len());
                merged.push(Value::Object(without_directives(element)));
            }
        }
    }
    Ok(merged)
}

/// The elements of a list's patch by their directives.
struct Changes {
    elements: Vec<Object>,
    deleted: HashSet<Value>,
    replace: bool,
}

fn changes(patch: Vec<Value>, key: &str) -> Result<Changes, Status> {
    let mut changes = Changes {
        elements: Vec::new(),
        deleted: HashSet::new(),
        replace: false,
    };
    for element in patch {
        let Value::Object(mut element) = element else {
            continue; // only objects come here
        };
        match element.remove(PATCH) {
            None => changes.elements.push(element),
            Some(directive) if directive == "merge" => changes.elements.push(element),
            Some(directive) if directive == "replace" => changes.replace = true, // says no more
            Some(directive) if directive == "delete" => {
                changes.deleted.insert(key_of(&element, key)?.clone());
            }
            Some(other) => return Err(unknown_directive(&other, &element)),
        }
    }
    Ok(changes)
}

fn key_of<'a>(element: &'a Object, key: &str) -> Result<&'a Value, Status> {
    element.get(key).ok_or_else(|| {
        let element = Value::Object(element.clone());
        Status::bad_request(format!(
            "map: {element} does not contain declared merge key: {key}"
        ))
    })
}

/// `$retainKeys`: the only keys that remain; a patch may set no others.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), Status> {
    let bad_format = || Status::bad_request("invalid patch format of retainKeys");
    let keys = match patch.remove(RETAIN_KEYS) {
        None => return Ok(()),
        Some(Value::Array(keys)) => keys,
        Some(_) => return Err(bad_format()),
    };
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let retained = |name: &str| keys.contains(name);
    let sets_another = patch
        .iter()
        .any(|(name, value)| !value.is_null() && list_directive(name).is_none() && !retained(name));
    if sets_another {
        return Err(bad_format());
    }
    original.retain(|name, _| retained(name));
    Ok(())
}

/// `$deleteFromPrimitiveList/<list>`: values that leave the list.
fn delete_from_primitive_lists(original: &mut Object, patch: &mut Object) -> Result<(), Status> {
    for (name, values) in take_directives(patch, DELETE_FROM_PRIMITIVE_LIST)? {
        let Value::Array(values) = values else {
            return Err(bad_list_format(DELETE_FROM_PRIMITIVE_LIST));
        };
        if let Some(Value::Array(list)) = original.get_mut(&name) {
            let values: HashSet<Value> = values.into_iter().collect();
            list.retain(|value| !values.contains(value));
        }
    }
    Ok(())
}

/// `$setElementOrder/<list>`: the order of the list, whose own patch may come along.
fn merge_ordered_lists(
    original: &mut Object,
    patch: &mut Object,
    schema: Schema,
) -> Result<(), Status> {
    for (name, order) in take_directives(patch, SET_ELEMENT_ORDER)? {
        let bad_format = || bad_list_format(SET_ELEMENT_ORDER);
        let Value::Array(order) = order else {
            return Err(bad_format());
        };
        let (strategy, schema) = schema.field(&name);
        let key = strategy.merge_key;
        if key.is_some_and(|key| order.iter().any(|element| element.get(key).is_none())) {
            return Err(bad_format());
        }
        let order = identities(&order, key);
        let changes = match patch.remove(&name) {
            None => None,
            Some(Value::Array(changes)) => Some(changes),
            Some(Value::Null) => {
                original.remove(&name);
                continue;
            }
            Some(_) => return Err(bad_format()),
        };
        if !follows(changes.as_deref().unwrap_or_default(), &order, key) {
            let text = format!("The order in patch list doesn't match {SET_ELEMENT_ORDER} list");
            return Err(Status::bad_request(text));
        }
        let merged = match (original.remove(&name), changes) {
            (Some(Value::Array(live)), changes) => match (strategy.merge, changes) {
                (true, changes) => {
                    merge_list(live, changes.unwrap_or_default(), key, schema, &order)?
                }
                (false, None) => arrange(live.clone(), &order, &identities(&live, key), key),
                (false, Some(changes)) => changes.into_iter().filter_map(clean).collect(),
            },
            (None, Some(changes)) => {
                let added = changes.into_iter().filter_map(clean).collect();
                arrange(added, &order, &[], key)
            }
            (None, None) => continue,
            (Some(_), _) => return Err(bad_format()),
        };
        original.insert(name, Value::Array(merged));
    }
    Ok(())
}

/// Whether the elements that are not deleted come in this order and are all named by it.
fn follows(changes: &[Value], order: &[Value], merge_key: Option<&str>) -> bool {
    let mut rest = order.iter();
    changes
        .iter()
        .filter(|element| element.get(PATCH).is_none())
        .all(|element| rest.any(|next| next == identity(element, merge_key)))
}

fn identities(elements: &[Value], merge_key: Option<&str>) -> Vec<Value> {
    elements
        .iter()
        .map(|element| identity(element, merge_key).clone())
        .collect()
}

/// The list that a directive is for: `$setElementOrder/ports` is for `ports`.
fn list_directive(name: &str) -> Option<&str> {
    let (directive, list) = name.split_once('/')?;
    matches!(directive, SET_ELEMENT_ORDER | DELETE_FROM_PRIMITIVE_LIST).then_some(list)
}

/// Takes the directives with a prefix out of a patch: the lists they are for and their values.
fn take_directives(patch: &mut Object, directive: &str) -> Result<Vec<(String, Value)>, Status> {
    let mut found = Vec::new();
    let names: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(directive))
        .cloned()
        .collect();
    for name in names {
        let list = name
            .strip_prefix(directive)
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or_else(|| bad_list_format(directive))?;
        if let Some(value) = patch.remove(&name) {
            found.push((list.to_owned(), value));
        }
    }
    Ok(found)
}

fn bad_list_format(directive: &str) -> Status {
    Status::bad_request(match directive {
        SET_ELEMENT_ORDER => "invalid patch format of setElementOrder list",
        _ => "invalid patch format of primitive list",
    })
}

fn unknown_directive(directive: &Value, patch: &Object) -> Status {
    let directive = directive
        .as_str()
        .map_or_else(|| directive.to_string(), str::to_owned);
    let patch = Value::Object(patch.clone());
    Status::bad_request(format!("unknown patch type: {directive} in map: {patch}"))
}

/// What a value of a patch adds where nothing was before: no nulls in objects, no directives. `None`: nothing at all.
fn clean(value: Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.get(PATCH).is_some_and(|d| d == "delete") => None,
        Value::Object(object) => Some(Value::Object(without_directives(object))),
        Value::Array(elements) => Some(Value::Array(
            elements.into_iter().filter_map(clean).collect(),
        )),
        other => Some(other),
    }
}

fn without_directives(object: Object) -> Object {
    let is_directive =
        |name: &str| name == PATCH || name == RETAIN_KEYS || list_directive(name).is_some();
    object
        .into_iter()
        .filter(|(name, value)| !value.is_null() && !is_directive(name))
        .filter_map(|(name, value)| clean(value).map(|value| (name, value)))
        .collect()
}
