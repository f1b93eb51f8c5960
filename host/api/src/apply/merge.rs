//! The stored object with what is applied laid over it. Nothing is removed by a merge.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    path::PathElement,
    schema::{Schema, Shape},
    value::{Map, Value},
    walk::indexed,
};

/// Lays `applied` over `live`. Both have been checked against the schema.
pub(super) fn merge<'a, S: Schema>(
    schema: S,
    live: &'a Value<'a>,
    applied: &'a Value<'a>,
) -> Value<'a> {
    let shape = match applied.is_null() {
        true => schema.shape(live),
        false => schema.shape(applied),
    };
    if shape.is_leaf() || (live.is_empty() && applied.is_empty()) {
        return applied.reborrow();
    }
    match shape {
        Shape::Map => fields(schema, live, applied),
        _ => elements(schema, live, applied),
    }
}

fn fields<'a, S: Schema>(schema: S, live: &'a Value<'a>, applied: &'a Value<'a>) -> Value<'a> {
    static NOTHING: Map<'static> = Vec::new();
    let mut right = applied.as_map().unwrap_or(&NOTHING).iter().peekable();
    let mut out: Map<'a> = Vec::new();
    let key = |name: &'a Cow<'a, str>| Cow::Borrowed(&**name);
    for (name, value) in live.as_map().unwrap_or(&NOTHING) {
        while let Some((new, value)) = right.next_if(|(new, _)| new < name) {
            out.push((key(new), value.reborrow()));
        }
        let merged = match right.next_if(|(new, _)| new == name) {
            None => value.reborrow(),
            Some((_, new)) => match schema.child(name) {
                Some(child) => merge(child.schema, value, new),
                None => new.reborrow(),
            },
        };
        out.push((key(name), merged));
    }
    out.extend(right.map(|(name, value)| (key(name), value.reborrow())));
    Value::Map(out)
}

/// Elements stand in the order in which they are applied; those that only the stored list has keep their place among them.
fn elements<'a, S: Schema>(schema: S, live: &'a Value<'a>, applied: &'a Value<'a>) -> Value<'a> {
    let old = indexed(schema, live.as_list().unwrap_or_default());
    let new = indexed(schema, applied.as_list().unwrap_or_default());
    let mut stored: BTreeMap<&PathElement<'a>, Option<&'a Value<'a>>> = BTreeMap::new();
    for (element, value) in &old {
        // what occurs more than once in the stored list is replaced
        stored
            .entry(element)
            .and_modify(|found| *found = None)
            .or_insert(Some(value));
    }
    let wanted: BTreeSet<&PathElement<'a>> = new.iter().map(|(element, _)| element).collect();
    let mut shared = new
        .iter()
        .map(|(element, _)| element)
        .filter(|element| stored.contains_key(element));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&PathElement<'a>> = BTreeSet::new();
    let mut out = Vec::with_capacity(old.len() + new.len());
    let (mut left, mut right) = (old.iter().peekable(), new.iter().peekable());
    while left.peek().is_some() || right.peek().is_some() {
        let before = left.peek().copied();
        let next = right.peek().copied();
        let meet = matches!((before, next), (Some((a, _)), Some((b, _))) if a == b);
        if let (Some((element, value)), false) = (before, meet) {
            let is_wanted = wanted.contains(element);
            let is_early = next.is_some() && next_shared.is_some_and(|shared| shared != element);
            if is_wanted && is_early {
                left.next(); // it comes where it is applied
                continue;
            }
            if !is_wanted {
                out.push(value.reborrow());
                left.next();
                continue;
            }
            if done.contains(element) {
                left.next();
            }
        }
        if let Some((element, value)) = next {
            out.push(match (stored.get(element), schema.element()) {
                (Some(Some(live)), Some(schema)) => merge(schema, live, value),
                _ => value.reborrow(),
            });
            done.insert(element);
            right.next();
            if meet {
                left.next();
            }
            if meet || next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    Value::List(out)
}
