//! Field validation: what a client's JSON says that nobody will read.
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation>
//!
//! One pass over the bytes with the table of facts, without a tree; a document without a finding costs the memory of its
//! longest path and of the keys of its maps. Malformed JSON and wrong types are left to the decoder.

#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::{
    facts::{Field, Kind, Shape, Type},
    quantity::Quantity,
    status::Status,
};

/// No more findings than these are kept.
const MAX_FINDINGS: usize = 100;

/// What was found, in document order, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// `unknown field "spec.foo"`, `duplicate field "spec.replicas"`; texts of warnings.
    pub strict: Vec<String>,
    /// Why the document cannot be decoded whatever the validation: a malformed quantity, which no decoder looks at.
    pub invalid: Option<String>,
}

impl Findings {
    /// The refusal under `fieldValidation=Strict`, 400; `None` if there is nothing to refuse.
    pub fn refusal(&self, kind: &str, version: &str) -> Option<Status> {
        let why = match (&self.invalid, self.strict.as_slice()) {
            (Some(invalid), _) => invalid.clone(),
            (None, []) => return None,
            (None, texts) => format!("strict decoding error: {}", texts.join(", ")),
        };
        Some(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
        )))
    }
}

/// Looks at a document. Without a schema only duplicates are found, in objects of every depth.
pub fn check(json: &[u8], schema: Option<&'static Type>) -> Findings {
    let mut walk = Walk {
        path: Vec::new(),
        findings: Findings::default(),
    };
    let expected = schema.map_or(Expected::Anything, Expected::Object);
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let seed = Seed {
        walk: &mut walk,
        expected,
    };
    // an error is one of syntax: the decoder will say the same
    let _ = seed.deserialize(&mut deserializer);
    walk.findings
}

/// What stands at a place of the document.
#[derive(Clone, Copy)]
enum Expected {
    Object(&'static Type),
    List(Kind),
    Map(Kind),
    Quantity,
    /// A scalar, or what the type's own decoder reads.
    Opaque,
    /// Whatever; its duplicates count.
    Anything,
}

impl Expected {
    fn shape(shape: Shape) -> Self {
        match shape {
            Shape::One(kind) => Self::kind(kind),
            Shape::List(kind) => Self::List(kind),
            Shape::Map(kind) => Self::Map(kind),
        }
    }

    fn kind(kind: Kind) -> Self {
        match kind {
            Kind::Message(of) if of.get().is_opaque => Self::Opaque,
            Kind::Message(of) => Self::Object(of.get()),
            Kind::Quantity => Self::Quantity,
            _ => Self::Opaque,
        }
    }
}

enum Step<'de> {
    Field(&'static str),
    Key(Cow<'de, str>),
    Index(usize),
}

struct Walk<'de> {
    path: Vec<Step<'de>>,
    findings: Findings,
}

impl Walk<'_> {
    /// `spec.containers[0].name`
    fn path(&self, last: &str) -> String {
        let mut path = String::new();
        for step in &self.path {
            let key: &str = match step {
                Step::Field(name) => name,
                Step::Key(key) => key,
                Step::Index(index) => {
                    path.push_str(&format!("[{index}]"));
                    continue;
                }
            };
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
        }
        match path.is_empty() {
            true => last.to_owned(),
            false => format!("{path}.{last}"),
        }
    }

    fn found(&mut self, what: &str, name: &str) {
        if self.findings.strict.len() >= MAX_FINDINGS {
            return;
        }
        let text = format!("{what} field {:?}", self.path(name));
        if !self.findings.strict.contains(&text) {
            self.findings.strict.push(text);
        }
    }
}

struct Seed<'w, 'de> {
    walk: &'w mut Walk<'de>,
    expected: Expected,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.expected {
            Expected::Opaque => deserializer.deserialize_ignored_any(IgnoredAny).map(drop),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Seed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        match self.expected {
            Expected::Object(of) => self.object(of, map),
            Expected::Map(kind) => self.entries(Expected::kind(kind), map),
            Expected::Anything => self.entries(Expected::Anything, map),
            _ => IgnoredAny.visit_map(map).map(drop),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let element = match self.expected {
            Expected::List(kind) => Expected::kind(kind),
            Expected::Anything => Expected::Anything,
            _ => return IgnoredAny.visit_seq(seq).map(drop),
        };
        for index in 0.. {
            self.walk.path.push(Step::Index(index));
            let seed = Seed {
                walk: &mut *self.walk,
                expected: element,
            };
            let more = seq.next_element_seed(seed)?;
            self.walk.path.pop();
            if more.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if let Expected::Quantity = self.expected {
            // whitespace at the ends is forgiven in JSON
            if let Err(error) = Quantity::parse(text.trim()) {
                let invalid = &mut self.walk.findings.invalid;
                invalid.get_or_insert_with(|| error.to_string());
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

impl<'de> Seed<'_, 'de> {
    fn object<A: MapAccess<'de>>(self, of: &'static Type, mut map: A) -> Result<(), A::Error> {
        let fields = of.json_fields();
        // one bit a field, and two for `apiVersion` and `kind`; no type has more
        let mut seen = 0u128;
        while let Some(key) = map.next_key_seed(Key)? {
            let Some((place, field)) = known(of, fields, &key) else {
                self.walk.found("unknown", &key);
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let bit = 1u128.checked_shl(place).unwrap_or(0);
            if seen & bit != 0 {
                self.walk.found("duplicate", &key);
            }
            seen |= bit;
            let Some(field) = field else {
                map.next_value::<IgnoredAny>()?; // apiVersion or kind
                continue;
            };
            self.walk.path.push(Step::Field(field.name));
            map.next_value_seed(Seed {
                walk: &mut *self.walk,
                expected: Expected::shape(field.shape),
            })?;
            self.walk.path.pop();
        }
        Ok(())
    }

    fn entries<A: MapAccess<'de>>(self, value: Expected, mut map: A) -> Result<(), A::Error> {
        let mut seen: HashSet<Cow<'de, str>> = HashSet::new();
        while let Some(key) = map.next_key_seed(Key)? {
            if !seen.insert(key.clone()) {
                self.walk.found("duplicate", &key);
            }
            self.walk.path.push(Step::Key(key));
            map.next_value_seed(Seed {
                walk: &mut *self.walk,
                expected: value,
            })?;
            self.walk.path.pop();
        }
        Ok(())
    }
}

/// The bit of a known key and its field; `apiVersion` and `kind` have none.
fn known(
    of: &'static Type,
    fields: &[&'static Field],
    key: &str,
) -> Option<(u32, Option<&'static Field>)> {
    match key {
        "apiVersion" if of.is_typed => return Some((126, None)),
        "kind" if of.is_typed => return Some((127, None)),
        _ => {}
    }
    let place = fields.binary_search_by_key(&key, |field| field.name).ok()?;
    Some((u32::try_from(place).ok()?, Some(fields[place])))
}

/// A key, borrowed from the document unless it has escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}
