//! The component schemas of a document.

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::SchemaProvider;
use crate::{
    facts::{self, Field, ListType, Patch},
    gvk::GroupVersionKind,
};

const REFERENCE: &str = "#/components/schemas/";
const GVK: &str = "x-kubernetes-group-version-kind";

/// Collects the schemas that the operations of a document refer to.
pub(super) struct Components {
    generator: SchemaGenerator,
    /// Which component is which kind.
    kinds: Vec<(String, GroupVersionKind)>,
    /// Components that no type gives: lists.
    lists: Map<String, Value>,
}

impl Components {
    pub(super) fn new() -> Self {
        Self {
            generator: SchemaSettings::openapi3().into_generator(),
            kinds: Vec::new(),
            lists: Map::new(),
        }
    }

    /// The schema of a kind, as a reference if its provider has made a component of it.
    pub(super) fn kind(&mut self, provider: &SchemaProvider, kind: &GroupVersionKind) -> Value {
        let schema = provider(&mut self.generator).to_value();
        if let Some(name) = component(&schema) {
            self.kinds.push((name.to_owned(), kind.clone()));
        }
        schema
    }

    /// The schema of a type that is no served kind.
    pub(super) fn of<T: schemars::JsonSchema>(&mut self) -> Value {
        self.generator.subschema_for::<T>().to_value()
    }

    /// The schema of a list of a kind.
    pub(super) fn list(&mut self, item: &Value, kind: &GroupVersionKind) -> Value {
        type ListMeta = k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
        let metadata = self.of::<ListMeta>();
        let name = match component(item) {
            Some(name) => format!("{name}List"),
            None => format!("{}.{}List", kind.version, kind.kind),
        };
        let text = json!({ "type": "string" });
        let list = json!({
            "description": format!("{}List is a list of {}.", kind.kind, kind.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": text,
                "kind": text,
                "metadata": { "allOf": [metadata], "default": {} },
                "items": { "type": "array", "items": { "allOf": [item], "default": {} } },
            },
        });
        let list_kind = GroupVersionKind {
            kind: format!("{}List", kind.kind).into(),
            ..kind.clone()
        };
        self.kinds.push((name.clone(), list_kind));
        let reference = json!({ "$ref": format!("{REFERENCE}{name}") });
        self.lists.insert(name, list);
        reference
    }

    /// All components with what the table of facts adds.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        let mut schemas = self.generator.take_definitions(true);
        for (name, schema) in &mut schemas {
            if let (Some(of), Value::Object(schema)) = (facts::by_schema_name(name), &mut *schema) {
                annotate(of, schema);
            }
            if let Some(special) = special(name) {
                let description = schema.get("description").cloned();
                *schema = special;
                if let Some(description) = description {
                    schema["description"] = description;
                }
            }
        }
        schemas.append(&mut self.lists);
        for (name, kind) in self.kinds {
            let Some(Value::Object(schema)) = schemas.get_mut(&name) else {
                continue;
            };
            let entry = group_version_kind(&kind);
            match schema.entry(GVK).or_insert_with(|| json!([])) {
                Value::Array(entries) if !entries.contains(&entry) => entries.push(entry),
                _ => {}
            }
        }
        schemas
    }
}

/// The coordinates of a kind as extensions have them.
pub(super) fn group_version_kind(kind: &GroupVersionKind) -> Value {
    json!({ "group": kind.group, "version": kind.version, "kind": kind.kind })
}

fn component(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix(REFERENCE)
}

/// Types that are several JSON types.
fn special(name: &str) -> Option<Value> {
    match name {
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => Some(json!({
            "format": "int-or-string",
            "oneOf": [{ "type": "integer" }, { "type": "string" }],
        })),
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Some(json!({
            "oneOf": [{ "type": "string" }, { "type": "number" }],
        })),
        _ => None,
    }
}

fn annotate(of: &'static facts::Type, schema: &mut Map<String, Value>) {
    if of.is_atomic {
        schema.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
    }
    if of.is_typed {
        // metadata may be left out of what clients send
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            required.retain(|name| name != "metadata");
            if required.is_empty() {
                schema.remove("required");
            }
        }
    }
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return;
    };
    for field in of.json_fields() {
        if let Some(Value::Object(property)) = properties.get_mut(field.name) {
            annotate_field(field, property);
        }
    }
}

fn annotate_field(field: &Field, property: &mut Map<String, Value>) {
    let mut add = |extension: &str, value: Value| {
        property.insert(format!("x-kubernetes-{extension}"), value);
    };
    match field.list_type {
        None => {}
        Some(ListType::Atomic) => add("list-type", json!("atomic")),
        Some(ListType::Set) => add("list-type", json!("set")),
        Some(ListType::Map(keys)) => {
            add("list-type", json!("map"));
            let keys: Vec<&str> = keys.split(',').collect();
            add("list-map-keys", json!(keys));
        }
    }
    if field.is_atomic {
        add("map-type", json!("atomic"));
    }
    if let Some(strategy) = strategy(field.patch) {
        add("patch-strategy", json!(strategy));
    }
    if let Some(key) = field.patch.merge_key {
        add("patch-merge-key", json!(key));
    }
}

fn strategy(patch: Patch) -> Option<String> {
    let strategies = [
        (patch.merge, "merge"),
        (patch.replace, "replace"),
        (patch.retain_keys, "retainKeys"),
    ];
    let names: Vec<&str> = strategies
        .iter()
        .filter(|(has, _)| *has)
        .map(|(_, name)| *name)
        .collect();
    (!names.is_empty()).then(|| names.join(","))
}
