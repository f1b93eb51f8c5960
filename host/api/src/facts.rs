//! Facts of all built-in API types of Kubernetes v1.36: names, numbers, types, list and patch keys. Strategic merge,
//! server-side apply, protobuf, strict decoding and OpenAPI read this one table, so that nobody writes code per kind.
//!
//! The table is `facts/v1.36.txt`, written by `facts/extract.py` from the published definitions, and `facts/pilothouse.txt`
//! with our own kind; it is read at first use. Its lines:
//!
//! ```text
//! @ <number> <schema package> <protobuf package> <group, `core`, `-` for none> <version>      a package, then its types
//! <Name> [kind | typed] [atomic] [opaque]                                                     a type, then its fields
//!  <JSON name> <protobuf number> <shape>[?][!] [proto=…] [list=…] [map=…] [patch=<strategy>:<merge key>] [default=<JSON>]
//! ```
//!
//! A JSON name `~x` is an inline message whose fields stand in the parent's JSON; `-x` has no JSON name of its own. A shape
//! is `[` for a list or `{` for a map with string keys, then a letter (see [`Kind`]) or `.Type`, `<package>.Type`.

mod read;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::OnceLock};

use crate::gvk::GroupVersionKind;

static TABLE: &str = concat!(
    include_str!("../facts/v1.36.txt"),
    include_str!("../facts/pilothouse.txt"),
);

/// A package of types: one version of one group, or what they share.
#[derive(Debug)]
pub struct Package {
    /// The prefix of schema names: `io.k8s.api.apps.v1`.
    pub schema: &'static str,
    /// The protobuf package: `k8s.io.api.apps.v1`.
    pub proto: &'static str,
    /// The group and version that its kinds belong to; `None` for packages without kinds.
    pub group_version: Option<(&'static str, &'static str)>,
}

/// A message type, in JSON an object.
#[derive(Debug)]
pub struct Type {
    /// The name in its package: `Deployment`.
    pub name: &'static str,
    pub package: &'static Package,
    /// Whether it is a kind of the package's group and version.
    pub is_kind: bool,
    /// Whether its JSON has `apiVersion` and `kind`.
    pub is_typed: bool,
    /// Whether server-side apply owns it only as a whole.
    pub is_atomic: bool,
    /// Whether its JSON form is something else than an object of its fields.
    pub is_opaque: bool,
    /// In protobuf order.
    fields: Vec<Field>,
    /// What the JSON object has, inline messages' fields included, sorted by name.
    json: OnceLock<Vec<&'static Field>>,
}

/// One field of a [`Type`].
#[derive(Debug)]
pub struct Field {
    /// The name in JSON; for inline messages that in protobuf.
    pub name: &'static str,
    /// The name in protobuf.
    pub proto_name: &'static str,
    /// The number in protobuf.
    pub number: u32,
    pub shape: Shape,
    /// Whether its message's fields stand directly in the parent's JSON.
    pub is_inline: bool,
    /// Whether absent and zero differ: a pointer in Go.
    pub is_pointer: bool,
    /// Whether JSON has it even if it is zero or empty.
    pub is_always_present: bool,
    pub list_type: Option<ListType>,
    /// Whether server-side apply owns the map or struct only as a whole.
    pub is_atomic: bool,
    /// Whether it owns the struct field by field although the struct's type is atomic.
    pub is_granular: bool,
    pub patch: Patch,
    /// The published default as JSON.
    pub default: Option<&'static str>,
}

/// How often a field's kind occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    One(Kind),
    List(Kind),
    /// Keys are strings.
    Map(Kind),
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `s`
    String,
    /// `y`: base64 in JSON.
    Bytes,
    /// `b`
    Bool,
    /// `i`
    Int32,
    /// `l`
    Int64,
    /// `d`
    Double,
    /// `Q`: a string or number in JSON, a message with the string as field 1 in protobuf.
    Quantity,
    /// `I`
    IntOrString,
    /// `T`: whole seconds.
    Time,
    /// `M`
    MicroTime,
    /// `D`: a string in JSON.
    Duration,
    /// `F`: the object `fieldsV1` in JSON, its bytes as field 1 in protobuf.
    FieldsV1,
    /// `R`: any object (`runtime.RawExtension`), its bytes as field 1 in protobuf.
    RawExtension,
    /// `J`: any JSON, its bytes as field 1 in protobuf.
    Json,
    /// `W`: a list of strings that protobuf wraps in a message with `items` as field 1.
    StringList,
    Message(TypeRef),
}

/// A reference to a [`Type`] of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeRef(u16);

/// How server-side apply merges a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    /// Keys, joined by commas.
    Map(&'static str),
}

/// How strategic merge patches treat a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// Lists merge instead of being replaced.
    pub merge: bool,
    /// Objects are replaced instead of being merged.
    pub replace: bool,
    /// Clients compute patches with `$retainKeys`.
    pub retain_keys: bool,
    /// What tells the elements of a merged list apart; `None`: their values do.
    pub merge_key: Option<&'static str>,
}

/// The whole table.
struct Facts {
    types: Vec<Type>,
    by_name: HashMap<(&'static str, &'static str), TypeRef>,
    by_kind: HashMap<(&'static str, &'static str, &'static str), TypeRef>,
}

fn facts() -> &'static Facts {
    static FACTS: OnceLock<Facts> = OnceLock::new();
    FACTS.get_or_init(|| {
        // the table is part of the program and read by the tests
        read::table(TABLE).unwrap_or_else(|error| panic!("table of facts: {error}"))
    })
}

/// The type of a built-in kind.
pub fn by_kind(gvk: &GroupVersionKind) -> Option<&'static Type> {
    let facts = facts();
    let found = facts.by_kind.get(&(&*gvk.group, &*gvk.version, &*gvk.kind));
    found.map(|found| found.get())
}

/// The type with a schema name: `io.k8s.api.apps.v1.Deployment`.
pub fn by_schema_name(name: &str) -> Option<&'static Type> {
    let (package, name) = name.rsplit_once('.')?;
    let found = facts().by_name.get(&(package, name));
    found.map(|found| found.get())
}

/// All types, package by package.
pub fn types() -> &'static [Type] {
    &facts().types
}

/// `metav1.ObjectMeta`.
pub fn object_meta() -> Option<&'static Type> {
    by_schema_name("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
}

impl TypeRef {
    /// The type.
    pub fn get(self) -> &'static Type {
        &facts().types[usize::from(self.0)]
    }
}

impl Type {
    /// `io.k8s.api.apps.v1.Deployment`.
    pub fn schema_name(&self) -> String {
        format!("{}.{}", self.package.schema, self.name)
    }

    /// The fields in protobuf order; inline messages are one field each.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field with a number in protobuf.
    pub fn by_number(&self, number: u32) -> Option<&Field> {
        let at = self.fields.binary_search_by_key(&number, |f| f.number);
        at.ok().map(|at| &self.fields[at])
    }

    /// The fields of the JSON object, those of inline messages included, sorted by name; without `apiVersion` and `kind`.
    pub fn json_fields(&'static self) -> &'static [&'static Field] {
        self.json.get_or_init(|| {
            let mut all = Vec::with_capacity(self.fields.len());
            for field in &self.fields {
                match (field.is_inline, field.shape) {
                    (true, Shape::One(Kind::Message(inline))) => {
                        all.extend_from_slice(inline.get().json_fields());
                    }
                    _ => all.push(field),
                }
            }
            all.sort_by_key(|field| field.name);
            all
        })
    }

    /// The field with a name in JSON.
    pub fn json_field(&'static self, name: &str) -> Option<&'static Field> {
        let fields = self.json_fields();
        let at = fields.binary_search_by_key(&name, |f| f.name);
        at.ok().map(|at| fields[at])
    }
}

impl Shape {
    /// What one element is.
    pub fn kind(self) -> Kind {
        match self {
            Self::One(kind) | Self::List(kind) | Self::Map(kind) => kind,
        }
    }
}
