//! What a write changes: the fields that it adds or modifies, and those that it removes.

use std::{borrow::Cow, cmp::Ordering};

use super::{
    path::PathElement,
    schema::{Schema, Shape},
    set::{FieldSet, Node},
    value::{Map, Value},
    walk::indexed,
};

/// The difference of two documents of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    /// Added and modified, containers that are new included.
    pub changed: FieldSet<'a>,
    /// Removed, with everything below.
    pub removed: FieldSet<'a>,
}

impl<'a> Changes<'a> {
    /// Without what a filter leaves out.
    pub(super) fn filtered(self, filter: impl Fn(FieldSet<'a>) -> FieldSet<'a>) -> Self {
        Self {
            changed: filter(self.changed),
            removed: filter(self.removed),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Compares two documents.
pub fn compare<'a, S: Schema>(schema: S, old: &'a Value<'a>, new: &'a Value<'a>) -> Changes<'a> {
    let found = node(schema, Some(old), Some(new));
    Changes {
        changed: found.changed,
        removed: found.removed,
    }
}

/// What happened at one place and below it.
#[derive(Default)]
struct Found<'a> {
    is_changed: bool,
    is_removed: bool,
    changed: FieldSet<'a>,
    removed: FieldSet<'a>,
}

static NULL: Value<'static> = Value::Null;
static EMPTY: Value<'static> = Value::Map(Vec::new());

/// One side of a comparison; `None` if it has nothing at this place.
type Side<'a> = Option<&'a Value<'a>>;

fn node<'a, S: Schema>(schema: S, old: Side<'a>, new: Side<'a>) -> Found<'a> {
    match (old, new) {
        (None, None) => Found::default(),
        (Some(old), None) => container_or_leaf(schema, schema.shape(old), Some(old), None),
        (None, Some(new)) => container_or_leaf(schema, schema.shape(new), None, Some(new)),
        (Some(old), Some(new)) => {
            let shape = schema.shape(new);
            let before = schema.shape(old);
            if shape == before || old.is_null() || new.is_null() {
                let shape = if new.is_null() { before } else { shape };
                return container_or_leaf(schema, shape, Some(old), Some(new));
            }
            // what may be anything became something else
            let mut found = container_or_leaf(schema, shape, Some(&NULL), Some(new));
            match before.is_leaf() {
                true => found.is_changed = true,
                false => {
                    let gone = container_or_leaf(schema, before, Some(old), Some(&NULL));
                    found.removed = found.removed.union(gone.removed);
                }
            }
            found
        }
    }
}

fn container_or_leaf<'a, S: Schema>(
    schema: S,
    shape: Shape,
    old: Side<'a>,
    new: Side<'a>,
) -> Found<'a> {
    let is_empty = |side: Side<'_>| side.is_none_or(Value::is_empty);
    // null and empty stay told apart because both count as leaves
    if shape.is_leaf() || (is_empty(old) && is_empty(new)) {
        return Found {
            is_changed: new.is_some_and(|new| old != Some(new)),
            is_removed: new.is_none(),
            ..Found::default()
        };
    }
    let mut nodes = match shape {
        Shape::Map => fields(schema, old, new),
        _ => elements(schema, old, new),
    };
    nodes.is_changed = old.is_none();
    nodes.is_removed = new.is_none();
    nodes
}

/// Collects what was found below, in the order of the path elements.
#[derive(Default)]
struct Collected<'a> {
    changed: Vec<Node<'a>>,
    removed: Vec<Node<'a>>,
}

impl<'a> Collected<'a> {
    fn add(&mut self, element: PathElement<'a>, found: Found<'a>) {
        if found.is_removed || !found.removed.is_empty() {
            self.removed.push(Node {
                element: element.clone(),
                is_member: found.is_removed,
                below: found.removed,
            });
        }
        if found.is_changed || !found.changed.is_empty() {
            self.changed.push(Node {
                element,
                is_member: found.is_changed,
                below: found.changed,
            });
        }
    }

    fn done(self) -> Found<'a> {
        Found {
            changed: FieldSet::from_nodes(self.changed),
            removed: FieldSet::from_nodes(self.removed),
            ..Found::default()
        }
    }
}

fn fields<'a, S: Schema>(schema: S, old: Side<'a>, new: Side<'a>) -> Found<'a> {
    static NOTHING: Map<'static> = Vec::new();
    let is_there = (old.is_some(), new.is_some());
    let old = old.and_then(Value::as_map).unwrap_or(&NOTHING);
    let new = new.and_then(Value::as_map).unwrap_or(&NOTHING);
    let mut out = Collected::default();
    let (mut left, mut right) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return out.done(),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let before = if order.is_le() { left.next() } else { None };
        let after = if order.is_ge() { right.next() } else { None };
        let Some((name, _)) = after.or(before) else {
            return out.done();
        };
        let Some(child) = schema.child(name) else {
            continue;
        };
        let value = |field: Option<&'a (Cow<'a, str>, Value<'a>)>, is_there: bool| match field {
            Some((_, value)) => Some(value),
            None => (child.is_always_there && is_there).then_some(&EMPTY),
        };
        let found = node(
            child.schema,
            value(before, is_there.0),
            value(after, is_there.1),
        );
        out.add(PathElement::field(name), found);
    }
}

/// A list's elements grouped by their path elements, sorted.
type Groups<'a> = Vec<(PathElement<'a>, Vec<&'a Value<'a>>)>;

fn groups<'a, S: Schema>(schema: S, side: Side<'a>) -> Groups<'a> {
    let list = side.and_then(Value::as_list).unwrap_or_default();
    let mut found = indexed(schema, list);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let mut groups: Groups<'a> = Vec::with_capacity(found.len());
    for (element, value) in found {
        match groups.last_mut() {
            Some((last, values)) if *last == element => values.push(value),
            _ => groups.push((element, vec![value])),
        }
    }
    groups
}

fn elements<'a, S: Schema>(schema: S, old: Side<'a>, new: Side<'a>) -> Found<'a> {
    let Some(child) = schema.element() else {
        return Found::default();
    };
    let mut out = Collected::default();
    let mut left = groups(schema, old).into_iter().peekable();
    let mut right = groups(schema, new).into_iter().peekable();
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return out.done(),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let before = if order.is_le() { left.next() } else { None };
        let after = if order.is_ge() { right.next() } else { None };
        let olds = before.as_ref().map_or(&[][..], |(_, values)| values);
        let news = after.as_ref().map_or(&[][..], |(_, values)| values);
        let found = duplicates(child, olds, news);
        if let Some((element, _)) = after.or(before) {
            out.add(element, found);
        }
    }
}

/// Elements of one path element. Where it occurs more than once, it counts as a whole.
fn duplicates<'a, S: Schema>(
    schema: S,
    olds: &[&'a Value<'a>],
    news: &[&'a Value<'a>],
) -> Found<'a> {
    let whole = |is_changed: bool, is_removed: bool| Found {
        is_changed,
        is_removed,
        ..Found::default()
    };
    match (olds, news) {
        ([_, _, ..], [_, _, ..]) => whole(olds != news, false),
        ([_, _, ..], []) => whole(false, true),
        ([_, _, ..], [new]) => {
            let mut found = node(schema, None, Some(new));
            found.is_removed = true;
            found
        }
        ([], [_, _, ..]) => whole(true, false),
        ([old], [_, _, ..]) => {
            let mut found = node(schema, Some(old), None);
            found.is_changed = true;
            found
        }
        _ => node(schema, olds.first().copied(), news.first().copied()),
    }
}
