//! A JSON document as apply walks it: borrowed from its text where that has no escapes, objects sorted by key.

use std::{borrow::Cow, cmp::Ordering, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
    ser::{SerializeMap, SerializeSeq},
};

/// Any JSON value. Equality and order are those of numbers, not of their types: 1 equals 1.0.
#[derive(Clone, Debug, Default)]
pub enum Value<'a> {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    String(Cow<'a, str>),
    List(Vec<Value<'a>>),
    Map(Map<'a>),
}

/// The fields of an object, sorted by name, each name once.
pub type Map<'a> = Vec<(Cow<'a, str>, Value<'a>)>;

impl<'a> Value<'a> {
    /// Reads a document.
    pub fn parse(json: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// Compact JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default() // string keys into memory: cannot fail
    }

    /// A field of an object.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        get(self.as_map()?, name)
    }

    /// A field of an object, made one if it is none, set.
    pub fn set(&mut self, name: &'a str, value: Value<'a>) {
        if !matches!(self, Self::Map(_)) {
            *self = Self::Map(Map::new());
        }
        if let Self::Map(map) = self {
            match map.binary_search_by(|(key, _)| (**key).cmp(name)) {
                Ok(at) => map[at].1 = value,
                Err(at) => map.insert(at, (Cow::Borrowed(name), value)),
            }
        }
    }

    /// Takes a field out of an object.
    pub fn remove(&mut self, name: &str) -> Option<Value<'a>> {
        let Self::Map(map) = self else { return None };
        let at = map.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        Some(map.remove(at).1)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value<'a>> {
        let Self::Map(map) = self else { return None };
        let at = map.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        Some(&mut map[at].1)
    }

    pub fn as_map(&self) -> Option<&Map<'a>> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&[Value<'a>]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Null, or a list or object without entries.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            _ => false,
        }
    }

    /// The same value with texts of its own.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Int(value),
            Self::Float(value) => Value::Float(value),
            Self::String(text) => Value::String(Cow::Owned(text.into_owned())),
            Self::List(list) => Value::List(list.into_iter().map(Value::into_owned).collect()),
            Self::Map(map) => {
                let owned = |(key, value): (Cow<'_, str>, Value<'_>)| {
                    (Cow::Owned(key.into_owned()), value.into_owned())
                };
                Value::Map(map.into_iter().map(owned).collect())
            }
        }
    }

    /// The same value, borrowing this one's texts.
    pub(super) fn reborrow(&'a self) -> Value<'a> {
        match self {
            Self::String(text) => Value::String(Cow::Borrowed(text)),
            Self::List(list) => Value::List(list.iter().map(Value::reborrow).collect()),
            Self::Map(map) => {
                let borrowed = map
                    .iter()
                    .map(|(key, value)| (Cow::Borrowed(&**key), value.reborrow()));
                Value::Map(borrowed.collect())
            }
            scalar => scalar.clone(),
        }
    }
}

/// The value of a key in a sorted map.
pub(super) fn get<'m, 'a>(map: &'m Map<'a>, name: &str) -> Option<&'m Value<'a>> {
    let at = map.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
    Some(&map[at].1)
}

impl Value<'_> {
    /// Numbers, strings, booleans, lists, objects, null.
    fn rank(&self) -> u8 {
        match self {
            Self::Int(_) | Self::Float(_) => 0,
            Self::String(_) => 1,
            Self::Bool(_) => 2,
            Self::List(_) => 3,
            Self::Map(_) => 4,
            Self::Null => 5,
        }
    }
}

impl Ord for Value<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Int(a), Self::Float(b)) => (*a as f64).total_cmp(b),
            (Self::Float(a), Self::Int(b)) => a.total_cmp(&(*b as f64)),
            (Self::String(a), Self::String(b)) => a.cmp(b),
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::List(a), Self::List(b)) => a.cmp(b),
            (Self::Map(a), Self::Map(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for Value<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value<'_> {}

/// As messages show values: strings quoted, the rest as JSON.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(text) => write!(f, "{text:?}"),
            other => f.write_str(&String::from_utf8_lossy(&other.to_json())),
        }
    }
}

/// A string of a document, borrowed from it if possible.
pub(super) struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Texts)
    }
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value<'de>, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value<'de>, E> {
        Ok(i64::try_from(value).map_or(Value::Float(value as f64), Value::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value<'de>, E> {
        Ok(Value::Float(value))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value<'de>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value<'de>, A::Error> {
        let mut map = Map::new();
        let mut sorted = true;
        while let Some(Text(key)) = object.next_key()? {
            sorted &= map.last().is_none_or(|(last, _)| *last < key);
            map.push((key, object.next_value()?));
        }
        if !sorted {
            map.reverse(); // of equal keys the last one stays
            map.sort_by(|a, b| a.0.cmp(&b.0));
            map.dedup_by(|later, first| later.0 == first.0);
        }
        Ok(Value::Map(map))
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::String(text) => serializer.serialize_str(text),
            Self::List(list) => {
                let mut values = serializer.serialize_seq(Some(list.len()))?;
                for value in list {
                    values.serialize_element(value)?;
                }
                values.end()
            }
            Self::Map(map) => {
                let mut fields = serializer.serialize_map(Some(map.len()))?;
                for (key, value) in map {
                    fields.serialize_entry(&**key, value)?;
                }
                fields.end()
            }
        }
    }
}
