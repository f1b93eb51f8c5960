//! Protobuf bodies from and to JSON, for every built-in kind, by the table of facts.
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding>
//!
//! A body is the bytes `k8s\0` and a `runtime.Unknown`: apiVersion and kind, and the object's own message. Protobuf writes
//! fields that JSON leaves out when they are zero; those are left out here too. Fields that the table does not know are
//! skipped, as in JSON.

mod encode;
pub(crate) mod put;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use crate::{
    facts::{self, Field, Kind, Shape, Type},
    gvk::GroupVersionKind,
};
pub use encode::{Encoder, from_json, watch_event};
use wire::{Fields, Payload};

/// What a protobuf body begins with.
pub const MAGIC: &[u8] = b"k8s\0";

/// Messages in messages: no object of the API is as deep.
const MAX_DEPTH: usize = 64;

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("the body does not begin with the bytes of a Kubernetes protobuf message")]
    NoMagic,
    #[error("the message is cut off or damaged")]
    Damaged,
    #[error("messages are nested too deeply")]
    TooDeep,
    #[error("no kind {kind:?} of version {api_version:?} is known in protobuf")]
    UnknownKind { api_version: String, kind: String },
    #[error("{0} is no list")]
    Unsupported(String),
    /// What is to be written is not what the kind's JSON looks like.
    #[error("the object cannot be written as protobuf: {0}")]
    Json(String),
}

type Result<T, E = ProtobufError> = std::result::Result<T, E>;

/// The object of a body as JSON, `apiVersion` and `kind` included.
pub fn to_json(body: &[u8]) -> Result<Vec<u8>> {
    let object = envelope(body, MAX_DEPTH)?;
    Ok(object.to_string().into_bytes())
}

/// A stored value as JSON, which most are already; upstream's API server stores protobuf unless told otherwise.
pub fn stored_as_json(value: &[u8]) -> Result<Cow<'_, [u8]>> {
    match value.starts_with(MAGIC) {
        true => to_json(value).map(Cow::Owned),
        false => Ok(Cow::Borrowed(value)),
    }
}

/// `runtime.Unknown`: 1 is apiVersion and kind, 2 the object.
#[derive(Default)]
struct Unknown<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Unknown<'a> {
    /// Reads what stands behind the magic bytes.
    fn read(body: &'a [u8]) -> Result<Self> {
        let bytes = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
        let mut unknown = Self::default();
        for field in Fields::new(bytes) {
            match field? {
                (1, payload) => {
                    for field in Fields::new(payload.bytes()?) {
                        match field? {
                            (1, payload) => unknown.api_version = payload.text()?.to_owned(),
                            (2, payload) => unknown.kind = payload.text()?.to_owned(),
                            _ => {}
                        }
                    }
                }
                (2, payload) => unknown.raw = payload.bytes()?,
                _ => {}
            }
        }
        Ok(unknown)
    }
}

/// A text or bytes of a body's object, by its field number, for kinds that are not published and have no JSON form here.
pub fn raw_field(body: &[u8], number: u32) -> Result<&[u8]> {
    let mut found = &[][..];
    for field in Fields::new(Unknown::read(body)?.raw) {
        match field? {
            (at, payload) if at == number => found = payload.bytes()?,
            _ => {}
        }
    }
    Ok(found)
}

fn envelope(body: &[u8], depth: usize) -> Result<Value> {
    let Unknown {
        api_version,
        kind,
        raw,
    } = Unknown::read(body)?;
    let Some(schema) = schema_of(&api_version, &kind) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    let mut object = message(schema, raw, depth)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// Kinds of `meta.k8s.io` come under several versions: options under that of their resource, `Status` under `v1`.
fn schema_of(api_version: &str, kind: &str) -> Option<&'static Type> {
    facts::by_kind(&GroupVersionKind::parse(api_version, kind)).or_else(|| {
        let name = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}");
        facts::by_schema_name(&name).filter(|found| found.is_typed)
    })
}

fn message(schema: &'static Type, bytes: &[u8], depth: usize) -> Result<Map<String, Value>> {
    let depth = depth.checked_sub(1).ok_or(ProtobufError::TooDeep)?;
    let mut object = Map::new();
    for field in Fields::new(bytes) {
        let (number, payload) = field?;
        if let Some(field) = schema.by_number(number) {
            add(&mut object, field, payload, depth)?;
        }
    }
    Ok(object)
}

fn add(
    object: &mut Map<String, Value>,
    field: &Field,
    payload: Payload<'_>,
    depth: usize,
) -> Result<()> {
    match field.shape {
        Shape::One(Kind::Message(inner)) if field.is_inline => {
            object.extend(message(inner.get(), payload.bytes()?, depth)?);
        }
        Shape::One(kind) => {
            let value = value(kind, payload, depth)?;
            let kept = field.is_pointer || field.is_always_present || !is_zero(&value);
            if kept && !value.is_null() {
                object.insert(field.name.to_owned(), value);
            }
        }
        Shape::List(kind) => {
            let list = object.entry(field.name).or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                add_items(list, kind, payload, depth)?;
            }
        }
        Shape::Map(kind) => {
            let (mut key, mut entry) = (String::new(), None);
            for part in Fields::new(payload.bytes()?) {
                match part? {
                    (1, payload) => key = payload.text()?.to_owned(),
                    (2, payload) => entry = Some(value(kind, payload, depth)?),
                    _ => {}
                }
            }
            let map = object.entry(field.name).or_insert_with(|| json!({}));
            if let Value::Object(map) = map {
                map.insert(key, entry.unwrap_or_else(|| empty(kind)));
            }
        }
    }
    Ok(())
}

/// One item, or numbers packed together.
fn add_items(list: &mut Vec<Value>, kind: Kind, payload: Payload<'_>, depth: usize) -> Result<()> {
    match (kind, payload) {
        (Kind::Int32 | Kind::Int64 | Kind::Bool, Payload::Bytes(packed)) => {
            for number in wire::varints(packed) {
                list.push(value(kind, Payload::Varint(number?), depth)?);
            }
        }
        _ => list.push(value(kind, payload, depth)?),
    }
    Ok(())
}

fn value(kind: Kind, payload: Payload<'_>, depth: usize) -> Result<Value> {
    Ok(match kind {
        Kind::String => payload.text()?.into(),
        Kind::Bytes => STANDARD.encode(payload.bytes()?).into(),
        Kind::Bool => (payload.varint()? != 0).into(),
        Kind::Int32 => i64::from(payload.varint()? as i32).into(),
        Kind::Int64 => (payload.varint()? as i64).into(),
        Kind::Double => payload.double()?.into(),
        Kind::Quantity => payload.only_text()?.into(),
        Kind::IntOrString => int_or_string(payload.bytes()?)?,
        Kind::Time => time(payload.bytes()?, "%Y-%m-%dT%H:%M:%SZ")?,
        Kind::MicroTime => time(payload.bytes()?, "%Y-%m-%dT%H:%M:%S.%6fZ")?,
        Kind::Duration => duration(payload.only_varint()? as i64).into(),
        Kind::FieldsV1 | Kind::RawExtension | Kind::Json => embedded(payload.only_bytes()?, depth)?,
        Kind::StringList => {
            let texts = Fields::new(payload.bytes()?).map(|field| field?.1.text().map(Value::from));
            Value::Array(texts.collect::<Result<_>>()?)
        }
        Kind::Message(inner) => {
            let inner = inner.get();
            let object = message(inner, payload.bytes()?, depth)?;
            match inner.is_opaque {
                true => chosen(object),
                false => Value::Object(object),
            }
        }
    })
}

/// The JSON of a choice: the object if there is one, else the list, else whether anything is allowed.
fn chosen(choices: Map<String, Value>) -> Value {
    let (objects, others): (Vec<_>, Vec<_>) = choices
        .into_iter()
        .map(|(_, value)| value)
        .partition(Value::is_object);
    let all = objects.into_iter().chain(others);
    all.into_iter().next().unwrap_or(Value::Null)
}

/// What a map's entry holds that has no value.
fn empty(kind: Kind) -> Value {
    match kind {
        Kind::Bool => false.into(),
        Kind::Int32 | Kind::Int64 | Kind::Double => 0.into(),
        Kind::StringList => json!([]),
        Kind::Message(_) | Kind::FieldsV1 | Kind::RawExtension => json!({}),
        _ => "".into(),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

/// JSON within the message, or another protobuf object.
fn embedded(bytes: &[u8], depth: usize) -> Result<Value> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    if bytes.starts_with(MAGIC) {
        return envelope(bytes, depth.checked_sub(1).ok_or(ProtobufError::TooDeep)?);
    }
    serde_json::from_slice(bytes).map_err(|_| ProtobufError::Damaged)
}

/// 1 is the type (1: text), 2 the number, 3 the text.
fn int_or_string(bytes: &[u8]) -> Result<Value> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    for field in Fields::new(bytes) {
        match field? {
            (1, payload) => is_text = payload.varint()? == 1,
            (2, payload) => number = payload.varint()? as i32,
            (3, payload) => text = payload.text()?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

/// 1 is seconds, 2 nanoseconds since the epoch; nothing is no time.
fn time(bytes: &[u8], format: &str) -> Result<Value> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    for field in Fields::new(bytes) {
        match field? {
            (1, payload) => seconds = payload.varint()? as i64,
            (2, payload) => nanos = payload.varint()? as i32,
            _ => {}
        }
    }
    let time = jiff::Timestamp::new(seconds, nanos).map_err(|_| ProtobufError::Damaged)?;
    Ok(time.strftime(format).to_string().into())
}

/// As Go writes a duration: `1h0m0s`, `1m30s`, `1.5s`, `0s`.
fn duration(nanos: i64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let sign = if nanos < 0 { "-" } else { "" };
    let all = nanos.unsigned_abs();
    let (hours, minutes) = (all / SECOND / 3600, all / SECOND / 60 % 60);
    let fraction = format!("{:09}", all % SECOND);
    let fraction = match fraction.trim_end_matches('0') {
        "" => String::new(),
        digits => format!(".{digits}"),
    };
    let seconds = format!("{}{fraction}s", all / SECOND % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}"),
    }
}
