//! Objects that people might write, out of the samples by chance; and of a failing one, the smallest that still fails.

use serde_json::{Map, Value, json};

use crate::contract::chance::Chance;

/// Where a value is within an object.
type Place = Vec<Step>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// As many edits are made of an object.
const EDITS: usize = 6;

/// Attempts to make a failing object smaller, each a few calls of the plugin.
pub(super) const ATTEMPTS: usize = 400;
pub(super) const FEW_ATTEMPTS: usize = 20;

/// An object like this one that an API server could hand to admission: fields may be absent, empty, repeated or odd, but every
/// value has the type that it had.
pub(super) fn alike(object: &Value, chance: &mut Chance) -> Value {
    let mut object = object.clone();
    for _ in 0..=chance.below(EDITS) {
        let places = places(&object);
        let Some(place) = places.get(chance.below(places.len())) else {
            break;
        };
        match chance.below(4) {
            0 => remove(&mut object, place),
            1 => repeat(&mut object, place),
            2 => mark(&mut object, chance),
            _ => {
                if let Some(value) = at(&mut object, place) {
                    oddly(value, chance);
                }
            }
        }
    }
    object
}

/// An object like this one in which some values are of another type.
pub(super) fn unlike(object: &Value, chance: &mut Chance) -> Value {
    let mut object = alike(object, chance);
    for _ in 0..=chance.below(EDITS) {
        let places = places(&object);
        let Some(place) = places.get(chance.below(places.len())) else {
            break;
        };
        let others = [
            Value::Null,
            json!(true),
            json!(-1),
            json!(1e300),
            json!("x"),
            json!([]),
            json!({}),
            json!([[{}]]),
        ];
        if let Some(value) = at(&mut object, place) {
            *value = others[chance.below(others.len())].clone();
        }
    }
    object
}

/// Every object that lacks one part of this one, larger parts first.
pub(super) fn smaller(object: &Value) -> impl Iterator<Item = Value> + '_ {
    let mut places = places(object);
    places.sort_by_key(Vec::len);
    places.into_iter().map(|place| {
        let mut smaller = object.clone();
        remove(&mut smaller, &place);
        smaller
    })
}

/// Of everything within, without what says which object it is.
fn places(object: &Value) -> Vec<Place> {
    const KEPT: [&str; 4] = ["apiVersion", "kind", "name", "spec"]; // an API server has filled in the spec
    let mut found = Vec::new();
    walk(object, &mut Vec::new(), &mut found);
    found.retain(|place| match place.as_slice() {
        [Step::Key(key)] => !KEPT.contains(&key.as_str()) && key != "metadata",
        [Step::Key(metadata), Step::Key(key)] => {
            metadata != "metadata" || !(KEPT.contains(&key.as_str()) || key == "namespace")
        }
        _ => true,
    });
    found
}

fn walk(value: &Value, place: &mut Place, found: &mut Vec<Place>) {
    let steps: Vec<(Step, &Value)> = match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (Step::Key(key.clone()), value))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (Step::Index(index), item))
            .collect(),
        _ => return,
    };
    for (step, inner) in steps {
        place.push(step);
        found.push(place.clone());
        walk(inner, place, found);
        place.pop();
    }
}

fn at<'a>(object: &'a mut Value, place: &[Step]) -> Option<&'a mut Value> {
    place.iter().try_fold(object, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(index),
    })
}

fn remove(object: &mut Value, place: &[Step]) {
    let Some((last, around)) = place.split_last() else {
        return;
    };
    match (at(object, around), last) {
        (Some(Value::Object(fields)), Step::Key(key)) => drop(fields.remove(key)),
        (Some(Value::Array(items)), Step::Index(index)) if *index < items.len() => {
            items.remove(*index);
        }
        _ => {}
    }
}

/// A list's element once more.
fn repeat(object: &mut Value, place: &[Step]) {
    let Some((Step::Index(index), around)) = place.split_last() else {
        return;
    };
    if let Some(Value::Array(items)) = at(object, around)
        && let Some(item) = items.get(*index).cloned()
    {
        items.push(item);
    }
}

/// A label or an annotation more.
fn mark(object: &mut Value, chance: &mut Chance) {
    const KEYS: [&str; 6] = ["app", "team", "a", "example.com/b", "a/b~c", "ü"];
    const VALUES: [&str; 4] = ["", "x", "true", "a/b~1 \"ü\""];
    let map = ["labels", "annotations"][chance.below(2)];
    let key = KEYS[chance.below(KEYS.len())];
    let value = VALUES[chance.below(VALUES.len())];
    let marks = &mut object["metadata"][map];
    if !marks.is_object() {
        *marks = Value::Object(Map::new());
    }
    marks[key] = value.into();
}

/// Another value of the same type.
fn oddly(value: &mut Value, chance: &mut Chance) {
    const TEXTS: [&str; 5] = ["", "0", "-", "a.b/c~d", "ünïcödé \u{1f980}"];
    match value {
        Value::Object(fields) => fields.clear(),
        Value::Array(items) => items.clear(),
        Value::String(text) => *text = TEXTS[chance.below(TEXTS.len())].to_owned(),
        Value::Number(number) => {
            const NUMBERS: [i64; 4] = [0, 1, -1, i32::MAX as i64];
            *number = NUMBERS[chance.below(NUMBERS.len())].into();
        }
        Value::Bool(yes) => *yes = !*yes,
        Value::Null => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::sample;

    #[test]
    fn a_seed_makes_the_same_objects_again() {
        let pod = sample::pod();
        let make = |seed| {
            let mut chance = Chance::new(seed);
            (0..20)
                .map(|_| alike(&pod, &mut chance))
                .collect::<Vec<_>>()
        };
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
        for object in make(3) {
            assert_eq!(object["metadata"]["name"], pod["metadata"]["name"]);
            assert_eq!(object["kind"], "Pod");
        }
    }

    #[test]
    fn every_part_can_be_left_out() {
        let object = json!({"kind": "Pod", "metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"list": [1, 2]}});
        let all: Vec<String> = smaller(&object).map(|object| object.to_string()).collect();
        assert_eq!(all.len(), 5, "{all:?}");
        assert!(all[0].len() < all.last().unwrap().len());
        assert!(all.iter().all(|object| object.contains(r#""name":"a""#)));
    }
}
