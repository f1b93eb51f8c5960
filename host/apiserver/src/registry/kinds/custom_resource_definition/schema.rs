//! The schemas of custom resources must be structural: every field has a type, and what is said in `allOf` and its like
//! only narrows values.
//! Source: <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>

use std::collections::BTreeSet;

use pilothouse_api::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use crate::registry::kinds::checks;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const NOT_SUPPORTED: [(&str, &str); 6] = [
    ("id", "id is not supported"),
    ("additionalItems", "additionalItems is not supported"),
    ("patternProperties", "patternProperties is not supported"),
    ("definitions", "definitions is not supported"),
    ("dependencies", "dependencies is not supported"),
    ("$ref", "$ref is not supported"),
];
/// What may not stand in `allOf`, `anyOf`, `oneOf` and `not`.
const ONLY_STRUCTURE: [(&str, &str); 13] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (PRESERVE, "must be false to be structural"),
    (EMBEDDED, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"),
    (LIST_MAP_KEYS, "must be empty to be structural"),
    (LIST_TYPE, "must be undefined to be structural"),
    (MAP_TYPE, "must be undefined to be structural"),
    (VALIDATIONS, "must be empty to be structural"),
];
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const VALIDATIONS: &str = "x-kubernetes-validations";

/// Where a schema stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Root,
    Field,
    Item,
    /// In `allOf` and its like; `types`: below `x-kubernetes-int-or-string`, which says its types this way.
    Nested {
        types: bool,
    },
}

/// The schema of a version; nothing is said of one that is missing.
pub(super) fn validate(errors: &mut ErrorList, path: &Path, schema: &Value, status: bool) {
    if schema.is_null() {
        return;
    }
    let kind = text(schema, "type");
    if status && !kind.is_empty() && kind != "object" {
        let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(&path.child("type"), kind, why));
    }
    if is_true(schema, "nullable") {
        let why = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(&path.child("nullable"), why));
    }
    walk(errors, path, schema, Level::Root);
}

fn text<'a>(schema: &'a Value, field: &str) -> &'a str {
    schema[field].as_str().unwrap_or_default()
}

fn is_true(schema: &Value, field: &str) -> bool {
    schema[field] == true
}

/// Whether a field says something.
fn says(schema: &Value, field: &str) -> bool {
    match &schema[field] {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty() || field == "additionalProperties",
        _ => true,
    }
}

fn walk(errors: &mut ErrorList, path: &Path, schema: &Value, level: Level) {
    match level {
        Level::Nested { types } => validate_nested(errors, path, schema, types),
        _ => validate_structure(errors, path, schema, level),
    }
    validate_dialect(errors, path, schema);
    validate_lists_and_maps(errors, path, schema);
    validate_rules(errors, path, &schema[VALIDATIONS]);

    let nested = matches!(level, Level::Nested { .. });
    let below = |level| {
        if nested {
            Level::Nested { types: false }
        } else {
            level
        }
    };
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(
            errors,
            &path.child("properties").key(name),
            property,
            below(Level::Field),
        );
    }
    if schema["items"].is_object() {
        walk(
            errors,
            &path.child("items"),
            &schema["items"],
            below(Level::Item),
        );
    }
    if schema["additionalProperties"].is_object() {
        let path = path.child("additionalProperties");
        walk(
            errors,
            &path,
            &schema["additionalProperties"],
            below(Level::Field),
        );
    }
    let types = is_true(schema, INT_OR_STRING) || level == (Level::Nested { types: true });
    for word in ["allOf", "anyOf", "oneOf"] {
        for (i, part) in schema[word].as_array().into_iter().flatten().enumerate() {
            walk(
                errors,
                &path.child(word).index(i),
                part,
                Level::Nested { types },
            );
        }
    }
    if schema["not"].is_object() {
        walk(
            errors,
            &path.child("not"),
            &schema["not"],
            Level::Nested { types: false },
        );
    }
}

/// Every part has a type, or says why it has none.
fn validate_structure(errors: &mut ErrorList, path: &Path, schema: &Value, level: Level) {
    let kind = text(schema, "type");
    let type_path = path.child("type");
    let (embedded, int_or_string) = (is_true(schema, EMBEDDED), is_true(schema, INT_OR_STRING));
    let preserve = is_true(schema, PRESERVE);
    if kind == "array" && schema["items"].is_null() {
        errors.push(FieldError::required(
            &path.child("items"),
            "must be specified",
        ));
    }
    if level == Level::Root && says(schema, "additionalProperties") {
        let path = path.child("additionalProperties");
        errors.push(FieldError::forbidden(&path, "must not be used at the root"));
    }
    if embedded && kind != "object" {
        let why = format!("must be object if {EMBEDDED} is true");
        errors.push(match kind {
            "" => FieldError::required(&type_path, &why),
            kind => FieldError::invalid(&type_path, kind, &why),
        });
    } else if kind.is_empty() && !int_or_string && !preserve {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            _ => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&type_path, why));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(
            &type_path,
            kind,
            "must be object at the root",
        ));
    }
    if embedded && says(schema, "additionalProperties") {
        let why = format!("must not be used if {EMBEDDED} is set");
        errors.push(FieldError::forbidden(
            &path.child("additionalProperties"),
            &why,
        ));
    }
    let has_properties = says(schema, "properties");
    if embedded && !preserve && !has_properties {
        let why = format!("must not be empty if {EMBEDDED} is true without {PRESERVE}");
        errors.push(FieldError::required(&path.child("properties"), &why));
    }
    if int_or_string {
        for (field, set) in [(PRESERVE, preserve), (EMBEDDED, embedded)] {
            if set {
                let why = format!("must be false if {INT_OR_STRING} is true");
                errors.push(FieldError::invalid(&path.child(field), true, &why));
            }
        }
    }
    if level == Level::Root || embedded {
        validate_object_fields(errors, path, schema);
    }
}

/// A schema cannot say more of a whole object's metadata than how it is named.
fn validate_object_fields(errors: &mut ErrorList, path: &Path, schema: &Value) {
    let properties = path.child("properties");
    for field in ["kind", "apiVersion"] {
        let Some(property) = schema["properties"].get(field) else {
            continue;
        };
        let kind = text(property, "type");
        if kind != "string" {
            let path = properties.key(field).child("type");
            errors.push(FieldError::invalid(&path, kind, "must be string"));
        }
    }
    let Some(metadata) = schema["properties"].get("metadata") else {
        return;
    };
    let path = properties.key("metadata");
    let kind = text(metadata, "type");
    if kind != "object" {
        errors.push(FieldError::invalid(
            &path.child("type"),
            kind,
            "must be object",
        ));
    }
    let fields = metadata["properties"].as_object().into_iter().flatten();
    let only_names = fields
        .into_iter()
        .all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    let known = ["type", "description", "properties", "required"];
    let nothing_else = metadata
        .as_object()
        .is_none_or(|m| m.keys().all(|k| known.contains(&k.as_str())));
    if !only_names || !nothing_else {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(&path, why));
    }
}

fn validate_nested(errors: &mut ErrorList, path: &Path, schema: &Value, types: bool) {
    for (field, why) in ONLY_STRUCTURE {
        if says(schema, field) && !(types && field == "type") {
            errors.push(FieldError::forbidden(&path.child(field), why));
        }
    }
}

/// The part of OpenAPI that is understood.
fn validate_dialect(errors: &mut ErrorList, path: &Path, schema: &Value) {
    let kind = text(schema, "type");
    let type_path = path.child("type");
    if !kind.is_empty() && kind != "null" {
        checks::one_of(errors, &type_path, kind, &TYPES);
    }
    let mut forbid = |field: &str, bad: bool, why: &str| {
        if bad {
            errors.push(FieldError::forbidden(&path.child(field), why));
        }
    };
    forbid(
        "uniqueItems",
        is_true(schema, "uniqueItems"),
        "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
    );
    let additional = &schema["additionalProperties"];
    forbid(
        "additionalProperties",
        says(schema, "properties") && (additional.is_object() || *additional == true),
        "additionalProperties and properties are mutual exclusive",
    );
    forbid(
        "additionalProperties",
        *additional == false,
        "additionalProperties cannot be set to false",
    );
    for (field, why) in NOT_SUPPORTED {
        forbid(field, says(schema, field), why);
    }
    forbid(
        "type",
        kind == "null",
        "type cannot be set to null, use nullable as an alternative",
    );
    let items = schema["items"]
        .as_array()
        .is_some_and(|items| !items.is_empty());
    forbid(
        "items",
        items,
        "items must be a schema object and not an array",
    );
    if schema[PRESERVE] == false {
        let path = path.child(PRESERVE);
        errors.push(FieldError::invalid(
            &path,
            false,
            "must be true or undefined",
        ));
    }
}

/// What the extensions for server-side apply ask of each other.
fn validate_lists_and_maps(errors: &mut ErrorList, path: &Path, schema: &Value) {
    let kind = text(schema, "type");
    let needs_type = |errors: &mut ErrorList, wanted: &str, extension: &str| {
        let why = format!("must be {wanted} if {extension} is specified");
        let path = path.child("type");
        errors.push(match kind {
            "" => FieldError::required(&path, &why),
            kind => FieldError::invalid(&path, kind, &why),
        });
    };
    if says(schema, MAP_TYPE) {
        if kind != "object" {
            needs_type(errors, "object", MAP_TYPE);
        }
        let map_type = text(schema, MAP_TYPE);
        checks::one_of(
            errors,
            &path.child(MAP_TYPE),
            map_type,
            &["atomic", "granular"],
        );
    }
    let list_type = text(schema, LIST_TYPE);
    let list_path = path.child(LIST_TYPE);
    if !list_type.is_empty() {
        if kind != "array" {
            needs_type(errors, "array", LIST_TYPE);
        }
        checks::one_of(errors, &list_path, list_type, &["atomic", "set", "map"]);
    }
    if says(schema, LIST_MAP_KEYS) && list_type != "map" {
        let why = format!("must be map if {LIST_MAP_KEYS} is non-empty");
        errors.push(match list_type {
            "" => FieldError::required(&list_path, &why),
            other => FieldError::invalid(&list_path, other, &why),
        });
    }
    if list_type == "map" {
        validate_list_map(errors, path, schema);
    }
}

fn validate_list_map(errors: &mut ErrorList, path: &Path, schema: &Value) {
    let keys_path = path.child(LIST_MAP_KEYS);
    let (items, keys) = (&schema["items"], &schema[LIST_MAP_KEYS]);
    if !says(schema, LIST_MAP_KEYS) {
        let why = format!("must not be empty if {LIST_TYPE} is map");
        errors.push(FieldError::required(&keys_path, &why));
    }
    if items.is_null() {
        let why = format!("must have a schema if {LIST_TYPE} is map");
        errors.push(FieldError::required(&path.child("items"), &why));
        return;
    }
    let kind = text(items, "type");
    if kind != "object" {
        let why = format!("must be object if parent array's {LIST_TYPE} is map");
        errors.push(FieldError::invalid(
            &path.child("items").child("type"),
            kind,
            &why,
        ));
        return;
    }
    let mut seen = BTreeSet::new();
    let required: BTreeSet<&str> = items["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for key in keys
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        let property_path = path.child("items").child("properties").key(key);
        match items["properties"].get(key) {
            None => errors.push(FieldError::invalid(
                &keys_path,
                keys.clone(),
                "entries must all be names of item properties",
            )),
            Some(property) => {
                if matches!(text(property, "type"), "array" | "object") {
                    let why = format!("must be a scalar type if parent array's {LIST_TYPE} is map");
                    errors.push(FieldError::invalid(
                        &property_path.child("type"),
                        kind,
                        &why,
                    ));
                }
                if property["default"].is_null() && !required.contains(key) {
                    let why = format!(
                        "this property is in {LIST_MAP_KEYS}, so it must have a default or be a required property"
                    );
                    errors.push(FieldError::required(&property_path.child("default"), &why));
                }
            }
        }
        if !seen.insert(key) {
            let why = "must not contain duplicate entries";
            errors.push(FieldError::invalid(&keys_path, keys.clone(), why));
        }
    }
}

/// Rules in the Common Expression Language: what can be said without compiling them.
fn validate_rules(errors: &mut ErrorList, path: &Path, rules: &Value) {
    for (i, rule) in rules.as_array().into_iter().flatten().enumerate() {
        let path = path.child(VALIDATIONS).index(i);
        let lines = |text: &str| text.contains(['\n', '\r']);
        let (expression, message) = (text(rule, "rule"), text(rule, "message"));
        let message_path = path.child("message");
        if expression.trim().is_empty() {
            errors.push(FieldError::required(
                &path.child("rule"),
                "rule is not specified",
            ));
        } else if !message.is_empty() && message.trim().is_empty() {
            let why = "must be non-empty if specified";
            errors.push(FieldError::invalid(&message_path, message, why));
        } else if lines(message.trim()) {
            let why = "must not contain line breaks";
            errors.push(FieldError::invalid(&message_path, message, why));
        } else if lines(expression.trim()) && message.trim().is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(&message_path, why));
        }
        let expression = text(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(&path.child("messageExpression"), why));
        }
        let reason = text(rule, "reason");
        if !reason.is_empty() {
            checks::one_of(errors, &path.child("reason"), reason, &REASONS);
        }
        let field = text(rule, "fieldPath");
        let field_path = path.child("fieldPath");
        if !field.is_empty() && field.trim().is_empty() {
            let why = "must be non-empty if specified";
            errors.push(FieldError::invalid(&field_path, field, why));
        } else if lines(field) {
            let why = "must not contain line breaks";
            errors.push(FieldError::invalid(&field_path, field, why));
        }
    }
}
