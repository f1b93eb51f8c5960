//! Field sets as `fieldsV1`: an object whose keys are path elements, `.` for the path itself.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor,
};

use super::{
    compare::Changes,
    path::PathElement,
    set::{FieldSet, Node},
    value::Text,
};

impl<'a> FieldSet<'a> {
    /// Reads `fieldsV1`. Path elements of unknown forms are left out; malformed ones are errors.
    pub fn from_json(json: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json).map(|Read { below, .. }| below)
    }

    /// Compact JSON.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(1024);
        self.write_json(&mut out);
        out
    }

    /// Writes compact JSON behind what is there.
    pub(super) fn write_json(&self, out: &mut String) {
        out.push('{');
        write_nodes(self.nodes(), out);
        out.push('}');
    }
}

fn write_nodes(nodes: &[Node<'_>], out: &mut String) {
    for (number, node) in nodes.iter().enumerate() {
        out.push_str(if number > 0 { ",\"" } else { "\"" });
        node.element.write(out);
        out.push_str("\":{");
        if node.is_member && !node.below.is_empty() {
            out.push_str("\".\":{},");
        }
        write_nodes(node.below.nodes(), out);
        out.push('}');
    }
}

/// What an object of `fieldsV1` says: whether its own path is a member, and the members below.
struct Read<'a> {
    is_member: bool,
    below: FieldSet<'a>,
}

impl<'de> Deserialize<'de> for Read<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Objects)
    }
}

struct Objects;

impl<'de> Visitor<'de> for Objects {
    type Value = Read<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of path elements")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Read<'de>, A::Error> {
        let mut is_member = false;
        let mut nodes = Vec::new();
        while let Some(Text(key)) = object.next_key()? {
            if key == "." {
                is_member = true;
                object.next_value::<IgnoredAny>()?;
                continue;
            }
            let Some(element) = PathElement::read(key).map_err(A::Error::custom)? else {
                object.next_value::<IgnoredAny>()?;
                continue;
            };
            let found: Read<'de> = object.next_value()?;
            nodes.push(Node {
                element,
                is_member: found.is_member,
                below: found.below,
            });
        }
        Ok(Read {
            is_member: is_member || nodes.is_empty(),
            below: FieldSet::from_nodes(nodes),
        })
    }
}

/// Whether any changed or removed path is in a set that is still text. What the changes do not touch is skipped unread.
pub(super) fn overlaps(json: &str, changes: &Changes<'_>) -> Result<bool, serde_json::Error> {
    let seed = Overlap([Some(&changes.changed), Some(&changes.removed)]);
    let found = seed.deserialize(&mut serde_json::Deserializer::from_str(json))?;
    Ok(found.below)
}

/// Looks for paths of these sets.
struct Overlap<'s, 'a>([Option<&'s FieldSet<'a>>; 2]);

/// Whether an object's own path is a member, and whether one below it is in the sets too.
#[derive(Default)]
struct Overlapping {
    is_member: bool,
    below: bool,
}

impl<'de> DeserializeSeed<'de> for Overlap<'_, '_> {
    type Value = Overlapping;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Overlapping, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Overlap<'_, '_> {
    type Value = Overlapping;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Objects.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Overlapping, A::Error> {
        let mut found = Overlapping {
            is_member: true, // unless there is more in the object
            below: false,
        };
        let mut is_named = false;
        while let Some(Text(key)) = object.next_key()? {
            is_named |= key == ".";
            if key == "." || found.below {
                object.next_value::<IgnoredAny>()?;
                continue;
            }
            found.is_member = false;
            let element = PathElement::read(key).map_err(A::Error::custom)?;
            let nodes = self.0.map(|set| set?.at(element.as_ref()?));
            if nodes.iter().all(Option::is_none) {
                object.next_value::<IgnoredAny>()?;
                continue;
            }
            let below = nodes.map(|node| node.map(|node| &node.below));
            let there = object.next_value_seed(Overlap(below))?;
            let is_member = nodes.iter().flatten().any(|node| node.is_member);
            found.below = there.below || (there.is_member && is_member);
        }
        found.is_member |= is_named;
        Ok(found)
    }
}
