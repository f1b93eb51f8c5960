//! JSON to protobuf in one pass, without building a tree.
//!
//! Fields stand in the order of the JSON, those of inline messages behind all others; readers take any order. What JSON leaves
//! out is left out. A null is nothing, except in a list, where it is a zero.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{MAGIC, ProtobufError, Result, put, schema_of};
use crate::facts::{Field, Kind, Shape, Type};

/// Writes objects of one kind as protobuf.
#[derive(Clone, Debug)]
pub struct Encoder {
    schema: &'static Type,
    /// The magic bytes, apiVersion and kind.
    head: Vec<u8>,
}

impl Encoder {
    /// For objects with this `apiVersion` and `kind`; `None` for those that have no protobuf form.
    pub fn new(api_version: &str, kind: &str) -> Option<Self> {
        let schema = schema_of(api_version, kind)?;
        let mut head = MAGIC.to_vec();
        put::delimited(&mut head, 1, |type_meta| {
            put::bytes(type_meta, 1, api_version.as_bytes());
            put::bytes(type_meta, 2, kind.as_bytes());
        });
        Some(Self { schema, head })
    }

    /// The body that says the same as a JSON object of this kind.
    pub fn body(&self, json: &[u8]) -> Result<Vec<u8>> {
        let mut body = Vec::with_capacity(self.head.len() + json.len());
        body.extend_from_slice(&self.head);
        let written = put::delimited(&mut body, 2, |object| write(self.schema, json, object));
        written.map(|()| body)
    }

    /// The body of a list: this encoder is the list's, `metadata` the JSON of its `metadata`, `items` the JSON of its items.
    pub fn list<'a>(
        &self,
        metadata: &[u8],
        items: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<u8>> {
        let parts = |name: &str| match self.schema.json_field(name)?.shape.kind() {
            Kind::Message(part) => Some((self.schema.json_field(name)?.number, part.get())),
            _ => None,
        };
        let (Some(of_metadata), Some(of_items)) = (parts("metadata"), parts("items")) else {
            return Err(ProtobufError::Unsupported(self.schema.schema_name()));
        };
        let mut body = self.head.clone();
        let written = put::delimited(&mut body, 2, |list| {
            let mut part = |(number, schema), json: &[u8]| {
                put::delimited(list, number, |bytes| write(schema, json, bytes))
            };
            part(of_metadata, metadata)?;
            items.into_iter().try_for_each(|item| part(of_items, item))
        });
        written.map(|()| body)
    }
}

/// The body that says the same as a JSON object, which says itself what it is.
pub fn from_json(json: &[u8]) -> Result<Vec<u8>> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct TypeMeta {
        api_version: String,
        kind: String,
    }
    let of: TypeMeta = serde_json::from_slice(json).map_err(unreadable)?;
    match Encoder::new(&of.api_version, &of.kind) {
        Some(encoder) => encoder.body(json),
        None => Err(ProtobufError::UnknownKind {
            api_version: of.api_version,
            kind: of.kind,
        }),
    }
}

/// One event of a watch with the four bytes of its length in front: `kind` is `ADDED` and the like, `body` a whole body.
pub fn watch_event(kind: &str, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 4];
    frame.reserve(body.len() + kind.len() + 24);
    put::bytes(&mut frame, 1, kind.as_bytes());
    put::delimited(&mut frame, 2, |object| put::bytes(object, 1, body));
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX); // an event is as large as an object
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

fn unreadable(error: serde_json::Error) -> ProtobufError {
    ProtobufError::Json(error.to_string())
}

/// Writes the fields of a JSON object.
fn write(schema: &'static Type, json: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let text = std::str::from_utf8(json).map_err(|error| ProtobufError::Json(error.to_string()))?;
    let mut decoder = serde_json::Deserializer::from_str(text);
    let message = Message { schema, out };
    decoder.deserialize_map(message).map_err(unreadable)?;
    decoder.end().map_err(unreadable)
}

/// The fields of an object, one after the other.
struct Message<'o> {
    schema: &'static Type,
    out: &'o mut Vec<u8>,
}

impl<'de> Visitor<'de> for Message<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "an object ({})", self.schema.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut inlines = Vec::new();
        while let Some(field) = map.next_key_seed(Name(self.schema))? {
            match field.and_then(|field| home(self.schema, field, self.out, &mut inlines)) {
                Some((field, out)) => map.next_value_seed(Content { field, out })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        close(inlines, self.out);
        Ok(())
    }
}

/// An inline message: its fields stand in the JSON of its parent.
struct Inline {
    number: u32,
    bytes: Vec<u8>,
    inlines: Vec<Inline>,
}

/// Where a field goes: to the message itself or to one of its inline messages.
fn home<'a>(
    schema: &'static Type,
    field: &'static Field,
    out: &'a mut Vec<u8>,
    inlines: &'a mut Vec<Inline>,
) -> Option<(&'static Field, &'a mut Vec<u8>)> {
    let own = schema.by_number(field.number);
    if own.is_some_and(|own| std::ptr::eq(own, field)) {
        return Some((field, out));
    }
    for parent in schema.fields().iter().filter(|parent| parent.is_inline) {
        let Kind::Message(inner) = parent.shape.kind() else {
            continue;
        };
        let found = inner.get().json_field(field.name);
        if !found.is_some_and(|found| std::ptr::eq(found, field)) {
            continue;
        }
        let at = match inlines.iter().position(|i| i.number == parent.number) {
            Some(at) => at,
            None => {
                inlines.push(Inline {
                    number: parent.number,
                    bytes: Vec::new(),
                    inlines: Vec::new(),
                });
                inlines.len() - 1
            }
        };
        let inline = &mut inlines[at];
        return home(inner.get(), field, &mut inline.bytes, &mut inline.inlines);
    }
    None
}

/// Writes the inline messages behind the fields of their parent.
fn close(inlines: Vec<Inline>, out: &mut Vec<u8>) {
    for mut inline in inlines {
        close(inline.inlines, &mut inline.bytes);
        put::bytes(out, inline.number, &inline.bytes);
    }
}

/// Reads a key as the field that it names; `None` for what has no place in protobuf: `apiVersion`, `kind`, the unknown.
struct Name(&'static Type);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<&'static Field>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<&'static Field>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.json_field(name))
    }
}

/// All that a field holds.
struct Content<'o> {
    field: &'static Field,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Content<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.field.shape {
            Shape::One(kind) => {
                let number = self.field.number;
                let out = self.out;
                let one = Value { kind, number, out };
                one.deserialize(deserializer).map(|_written| ())
            }
            Shape::List(_) | Shape::Map(_) => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Content<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shape = match self.field.shape {
            Shape::Map(_) => "an object",
            _ => "a list",
        };
        write!(f, "{shape} ({})", self.field.name)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        match self.field.shape {
            Shape::List(kind) => items(list, kind, self.field.number, self.out),
            _ => Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Shape::Map(kind) = self.field.shape else {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Map, &self));
        };
        while let Some(key) = map.next_key::<String>()? {
            put::delimited(self.out, self.field.number, |out| {
                put::bytes(out, 1, key.as_bytes());
                let number = 2;
                map.next_value_seed(Value { kind, number, out })
            })?;
        }
        Ok(())
    }
}

fn items<'de, A: SeqAccess<'de>>(
    mut list: A,
    kind: Kind,
    number: u32,
    out: &mut Vec<u8>,
) -> Result<(), A::Error> {
    while let Some(written) = list.next_element_seed(Value { kind, number, out })? {
        if !written {
            zero(kind, number, out);
        }
    }
    Ok(())
}

/// An item that is null.
fn zero(kind: Kind, number: u32, out: &mut Vec<u8>) {
    match kind {
        Kind::Bool | Kind::Int32 | Kind::Int64 => put::number(out, number, 0),
        Kind::Double => put::double(out, number, 0.0),
        _ => put::bytes(out, number, b""),
    }
}

/// One value under a number. Says whether there was one: not for null.
struct Value<'o> {
    kind: Kind,
    number: u32,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        match self.kind {
            Kind::FieldsV1 | Kind::RawExtension | Kind::Json => {
                let raw = <&RawValue>::deserialize(deserializer)?.get();
                if raw == "null" {
                    return Ok(false);
                }
                put::delimited(self.out, self.number, |out| {
                    put::bytes(out, 1, raw.as_bytes())
                });
                Ok(true)
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.kind)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        match self.kind {
            Kind::Bool => put::number(self.out, self.number, u64::from(value)),
            Kind::Message(inner) => match alternative(inner.get(), Shape::One(Kind::Bool)) {
                Some(field) => put::delimited(self.out, self.number, |out| {
                    put::number(out, field.number, u64::from(value));
                }),
                None => return Err(E::invalid_type(serde::de::Unexpected::Bool(value), &self)),
            },
            _ => return Err(E::invalid_type(serde::de::Unexpected::Bool(value), &self)),
        }
        Ok(true)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        match self.kind {
            Kind::Int32 | Kind::Int64 => put::number(self.out, self.number, value as u64),
            Kind::Double => put::double(self.out, self.number, value as f64),
            Kind::IntOrString => put::delimited(self.out, self.number, |out| {
                put::number(out, 1, 0);
                put::number(out, 2, value as u64);
            }),
            Kind::Quantity => self.wrapped(value.to_string().as_bytes()),
            _ => return Err(E::invalid_type(serde::de::Unexpected::Signed(value), &self)),
        }
        Ok(true)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        match self.kind {
            Kind::Double => put::double(self.out, self.number, value),
            Kind::Quantity => self.wrapped(value.to_string().as_bytes()),
            Kind::Int32 | Kind::Int64 if value.fract() == 0.0 && value.abs() < 9e15 => {
                put::number(self.out, self.number, value as i64 as u64);
            }
            _ => return Err(E::invalid_type(serde::de::Unexpected::Float(value), &self)),
        }
        Ok(true)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        match self.kind {
            Kind::String => put::bytes(self.out, self.number, text.as_bytes()),
            Kind::Bytes => {
                let bytes = STANDARD.decode(text).map_err(E::custom)?;
                put::bytes(self.out, self.number, &bytes);
            }
            Kind::Quantity => self.wrapped(text.as_bytes()),
            Kind::IntOrString => put::delimited(self.out, self.number, |out| {
                put::number(out, 1, 1);
                put::bytes(out, 3, text.as_bytes());
            }),
            Kind::Time | Kind::MicroTime => {
                let time: jiff::Timestamp = text.parse().map_err(E::custom)?;
                put::delimited(self.out, self.number, |out| {
                    put::number(out, 1, time.as_second() as u64);
                    put::number(out, 2, i64::from(time.subsec_nanosecond()) as u64);
                });
            }
            Kind::Duration => {
                let nanos = duration(text).ok_or_else(|| E::custom("no duration"))?;
                put::delimited(self.out, self.number, |out| {
                    put::number(out, 1, nanos as u64)
                });
            }
            _ => return Err(E::invalid_type(serde::de::Unexpected::Str(text), &self)),
        }
        Ok(true)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<bool, A::Error> {
        let (number, kind) = match self.kind {
            Kind::StringList => (1, Kind::String),
            Kind::Message(inner) => match inner.get().fields().iter().find_map(list_of) {
                Some(found) if inner.get().is_opaque => found,
                _ => return Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self)),
            },
            _ => return Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self)),
        };
        put::delimited(self.out, self.number, |out| items(list, kind, number, out))?;
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<bool, A::Error> {
        let Kind::Message(inner) = self.kind else {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Map, &self));
        };
        let schema = inner.get();
        put::delimited(self.out, self.number, |out| {
            if !schema.is_opaque {
                return Message { schema, out }.visit_map(map);
            }
            // a choice, of which the object is one
            if let Some(allows) = alternative(schema, Shape::One(Kind::Bool)) {
                put::number(out, allows.number, 1);
            }
            let object = schema.fields().iter().find_map(|field| match field.shape {
                Shape::One(Kind::Message(object)) => Some((field.number, object.get())),
                _ => None,
            });
            let (number, schema) = object.ok_or_else(|| A::Error::custom("not an object"))?;
            put::delimited(out, number, |out| Message { schema, out }.visit_map(map))
        })?;
        Ok(true)
    }
}

impl Value<'_> {
    /// A message with one text in it.
    fn wrapped(self, text: &[u8]) {
        put::delimited(self.out, self.number, |out| put::bytes(out, 1, text));
    }
}

/// The field of a choice that has this shape.
fn alternative(schema: &'static Type, shape: Shape) -> Option<&'static Field> {
    if !schema.is_opaque {
        return None;
    }
    schema.fields().iter().find(|field| field.shape == shape)
}

fn list_of(field: &Field) -> Option<(u32, Kind)> {
    match field.shape {
        Shape::List(kind) => Some((field.number, kind)),
        _ => None,
    }
}

/// Nanoseconds of a Go duration: `1h0m0s`, `1.5s`, `-1s`.
pub(super) fn duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let unit = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let value: f64 = rest[..unit].parse().ok()?;
        rest = &rest[unit..];
        let end = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        nanos += value
            * match &rest[..end] {
                "h" => 3600e9,
                "m" => 60e9,
                "s" => 1e9,
                "ms" => 1e6,
                "us" | "µs" => 1e3,
                "ns" => 1.0,
                _ => return None,
            };
        rest = &rest[end..];
    }
    let nanos = nanos as i64;
    (!text.is_empty()).then_some(if negative { -nanos } else { nanos })
}
