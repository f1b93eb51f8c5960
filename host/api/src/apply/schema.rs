//! What server-side apply must know of a type: what is owned field by field, element by element, or only as a whole.
//! Source: <https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy>
//!
//! The walks ask a trait, so that the table of facts drives them for built-in kinds and a structural schema for custom ones.

use super::{
    path::PathElement,
    value::{Value, get},
};
use crate::facts::{self, Kind, ListType, Type};

/// A place in a type.
pub trait Schema: Copy {
    /// How a value at this place is owned.
    fn shape(self, value: &Value<'_>) -> Shape;

    /// A field. `None`: there is no such field.
    fn child(self, name: &str) -> Option<Child<Self>>;

    /// The place of a list's elements.
    fn element(self) -> Option<Self>;

    /// The names of the fields that tell a list's elements apart, joined by commas; empty for sets.
    fn keys(&self) -> &str;

    /// What stands for a missing key field of an element.
    fn key_default(self, key: &str) -> Option<Value<'static>>;

    /// Whether what stands here is owned only as a whole, whatever it is.
    fn is_atomic(self) -> bool;
}

/// A field of an object.
#[derive(Clone, Copy, Debug)]
pub struct Child<S> {
    pub schema: S,
    /// The type names it: it is a struct's field and no map's key.
    pub is_named: bool,
    /// It is a struct that is empty where it is absent.
    pub is_always_there: bool,
}

impl<S> Child<S> {
    /// An entry of a map.
    pub fn entry(schema: S) -> Self {
        Self {
            schema,
            is_named: false,
            is_always_there: false,
        }
    }

    /// A field of a struct.
    pub fn named(schema: S) -> Self {
        Self {
            schema,
            is_named: true,
            is_always_there: false,
        }
    }
}

/// How a value is owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Scalar(Scalar),
    /// An object, as a whole.
    AtomicMap,
    /// A list, as a whole.
    AtomicList,
    /// An object, field by field.
    Map,
    /// A list of scalars or of objects with keys, element by element.
    List,
}

impl Shape {
    /// Whether it is owned as a whole.
    pub(super) fn is_leaf(self) -> bool {
        !matches!(self, Self::Map | Self::List)
    }
}

/// What a scalar may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    Numeric,
    String,
    Boolean,
    Any,
}

/// The path element of a list's element. Errors say why it has none.
pub(super) fn list_element<'a, S: Schema>(
    schema: S,
    element: &'a Value<'a>,
) -> Result<PathElement<'a>, String> {
    let keys = schema.keys();
    let map = match element {
        Value::Map(map) if !keys.is_empty() => map,
        Value::Null if !keys.is_empty() => {
            return Err("associative list with keys may not have a null element".to_owned());
        }
        _ if !keys.is_empty() => {
            return Err("associative list with keys may not have non-map elements".to_owned());
        }
        Value::Map(_) => {
            return Err(
                "associative list without keys has an element that's a map type".to_owned(),
            );
        }
        Value::List(_) => {
            return Err("not supported: associative list with lists as elements".to_owned());
        }
        Value::Null => {
            return Err(
                "associative list without keys has an element that's an explicit null".to_owned(),
            );
        }
        scalar => return Ok(PathElement::Value(scalar.reborrow())),
    };
    let mut found: super::value::Map<'a> = Vec::with_capacity(2);
    for key in keys.split(',') {
        if let Some(value) = get(map, key) {
            let at = map.binary_search_by(|(name, _)| (**name).cmp(key));
            let name = at.map_or(key.to_owned().into(), |at| {
                std::borrow::Cow::Borrowed(&*map[at].0)
            });
            found.push((name, value.reborrow()));
        } else if let Some(default) = schema.key_default(key) {
            found.push((key.to_owned().into(), default));
        }
    }
    if found.is_empty() {
        let names: Vec<&str> = keys.split(',').collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields {names:?} (and doesn't have default values for any key fields)"
        ));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(PathElement::Key(found))
}

/// A place in a built-in type.
#[derive(Clone, Copy, Debug)]
pub enum BuiltIn {
    Object {
        of: &'static Type,
        atomic: bool,
    },
    /// A field that holds a list or map.
    Collection(&'static facts::Field),
    One(Kind),
    /// Anything, objects field by field.
    Anything,
    /// Anything as a whole.
    Opaque,
}

impl BuiltIn {
    /// A kind's objects.
    pub fn kind(of: &'static Type) -> Self {
        Self::Object { of, atomic: false }
    }

    fn field(field: &'static facts::Field) -> Self {
        if let Some(of) = struct_of(field) {
            let atomic = !field.is_granular && (field.is_atomic || of.is_atomic);
            return Self::Object { of, atomic };
        }
        match field.shape {
            facts::Shape::One(Kind::StringList) => Self::Collection(field),
            facts::Shape::One(kind) => Self::one(kind),
            facts::Shape::List(_) | facts::Shape::Map(_) => Self::Collection(field),
        }
    }

    fn one(kind: Kind) -> Self {
        match kind {
            Kind::Message(of) if of.get().is_opaque => Self::Anything,
            Kind::Message(of) => Self::Object {
                of: of.get(),
                atomic: of.get().is_atomic,
            },
            Kind::Json | Kind::FieldsV1 => Self::Anything,
            Kind::RawExtension => Self::Opaque,
            scalar => Self::One(scalar),
        }
    }

    fn list_type(field: &facts::Field) -> ListType {
        match (field.list_type, field.patch.merge, field.patch.merge_key) {
            (Some(list_type), _, _) => list_type,
            // lists that say nothing else merge as strategic merge patches merge them
            (None, true, Some(key)) => ListType::Map(key),
            (None, true, None) => ListType::Set,
            (None, false, _) => ListType::Atomic,
        }
    }
}

impl Schema for BuiltIn {
    fn shape(self, value: &Value<'_>) -> Shape {
        match self {
            Self::Object { atomic: true, .. } => Shape::AtomicMap,
            Self::Object { .. } => Shape::Map,
            Self::Collection(field) => match field.shape {
                facts::Shape::Map(_) if field.is_atomic => Shape::AtomicMap,
                facts::Shape::Map(_) => Shape::Map,
                _ if Self::list_type(field) == ListType::Atomic => Shape::AtomicList,
                _ => Shape::List,
            },
            Self::One(kind) => Shape::Scalar(match kind {
                Kind::Bool => Scalar::Boolean,
                Kind::Int32 | Kind::Int64 | Kind::Double => Scalar::Numeric,
                Kind::String | Kind::Bytes | Kind::Duration => Scalar::String,
                _ => Scalar::Any,
            }),
            Self::Anything => match value {
                Value::Map(_) | Value::Null => Shape::Map,
                Value::List(_) => Shape::AtomicList,
                _ => Shape::Scalar(Scalar::Any),
            },
            Self::Opaque => match value {
                Value::Map(_) | Value::Null => Shape::AtomicMap,
                Value::List(_) => Shape::AtomicList,
                _ => Shape::Scalar(Scalar::Any),
            },
        }
    }

    fn child(self, name: &str) -> Option<Child<Self>> {
        match self {
            Self::Object { of, .. } => match of.json_field(name) {
                Some(field) => Some(Child {
                    is_always_there: struct_of(field).is_some() && !field.is_pointer,
                    ..Child::named(Self::field(field))
                }),
                None if of.is_typed && matches!(name, "apiVersion" | "kind") => {
                    Some(Child::named(Self::One(Kind::String)))
                }
                None => None,
            },
            Self::Collection(field) => match field.shape {
                facts::Shape::Map(kind) => Some(Child::entry(Self::one(kind))),
                _ => None,
            },
            Self::Anything | Self::Opaque => Some(Child::entry(self)),
            Self::One(_) => None,
        }
    }

    fn element(self) -> Option<Self> {
        match self {
            Self::Collection(field) => match field.shape {
                facts::Shape::List(kind) => Some(Self::one(kind)),
                facts::Shape::One(Kind::StringList) => Some(Self::One(Kind::String)),
                _ => None,
            },
            Self::Anything | Self::Opaque => Some(Self::Opaque),
            _ => None,
        }
    }

    fn keys(&self) -> &str {
        match self {
            Self::Collection(field) => match Self::list_type(field) {
                ListType::Map(keys) => keys,
                _ => "",
            },
            _ => "",
        }
    }

    fn key_default(self, key: &str) -> Option<Value<'static>> {
        let Self::Collection(field) = self else {
            return None;
        };
        let Kind::Message(of) = field.shape.kind() else {
            return None;
        };
        let default = of.get().json_field(key)?.default?;
        Value::parse(default.as_bytes()).ok()
    }

    fn is_atomic(self) -> bool {
        match self {
            Self::Object { atomic, .. } => atomic,
            Self::Collection(_) => self.shape(&Value::Null).is_leaf(),
            Self::One(_) | Self::Anything | Self::Opaque => false,
        }
    }
}

/// The type of a field that holds one struct.
fn struct_of(field: &facts::Field) -> Option<&'static Type> {
    match field.shape {
        facts::Shape::One(Kind::Message(of)) => Some(of.get()).filter(|of| !of.is_opaque),
        _ => None,
    }
}

/// An object of a type in which nothing has been set. Structs that are no pointers are there, and empty; so are the scalars
/// and lists that JSON never omits.
pub fn empty_object(of: &'static Type) -> Value<'static> {
    let mut map = Vec::new();
    for field in of.json_fields() {
        if field.is_pointer {
            continue;
        }
        if let Some(of) = struct_of(field) {
            map.push((field.name.into(), empty_object(of)));
            continue;
        }
        let value = match field.shape {
            _ if !field.is_always_present => continue,
            facts::Shape::One(kind) => match kind {
                Kind::String => Value::String("".into()),
                Kind::Bool => Value::Bool(false),
                Kind::Int32 | Kind::Int64 => Value::Int(0),
                Kind::Double => Value::Float(0.0),
                _ => Value::Null,
            },
            facts::Shape::List(_) | facts::Shape::Map(_) => Value::Null,
        };
        map.push((field.name.into(), value));
    }
    Value::Map(map)
}
