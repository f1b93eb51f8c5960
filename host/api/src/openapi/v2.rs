//! OpenAPI v2 out of v3.

use serde_json::{Map, Value, json};

/// One v2 document of many v3 documents.
pub(super) fn convert(documents: impl Iterator<Item = Value>) -> Value {
    let mut paths = Map::new();
    let mut definitions = Map::new();
    for mut document in documents {
        if let Value::Object(all) = document["paths"].take() {
            paths.extend(all.into_iter().map(|(path, item)| (path, path_item(item))));
        }
        if let Value::Object(all) = document["components"]["schemas"].take() {
            definitions.extend(all.into_iter().map(|(name, of)| (name, schema(of))));
        }
    }
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": "v1.36.0" },
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": {
            "BearerToken": {
                "type": "apiKey", "in": "header", "name": "authorization",
                "description": "Bearer Token authentication",
            },
        },
        "security": [{ "BearerToken": [] }],
    })
}

fn path_item(item: Value) -> Value {
    let Value::Object(item) = item else {
        return item;
    };
    let members = item.into_iter().map(|(name, member)| match &*name {
        "parameters" => (name, parameters(member)),
        _ => (name, operation(member)),
    });
    Value::Object(members.collect())
}

fn operation(mut operation: Value) -> Value {
    let mut all = match parameters(operation["parameters"].take()) {
        Value::Array(all) => all,
        _ => Vec::new(),
    };
    if let Value::Object(body) = operation["requestBody"].take() {
        let (consumes, of) = content(body.get("content"));
        all.push(json!({ "name": "body", "in": "body", "required": true, "schema": of }));
        operation["consumes"] = consumes;
    }
    if let Value::Object(responses) = operation["responses"].take() {
        let mut converted = Map::new();
        for (code, response) in responses {
            let mut plain = json!({ "description": response["description"] });
            if response.get("content").is_some() {
                let (produces, of) = content(response.get("content"));
                plain["schema"] = of;
                operation["produces"] = produces;
            }
            converted.insert(code, plain);
        }
        operation["responses"] = Value::Object(converted);
    }
    operation["parameters"] = Value::Array(all);
    operation["schemes"] = json!(["https"]);
    if let Value::Object(operation) = &mut operation {
        operation.remove("requestBody");
    }
    operation
}

/// The media types of a body and its schema.
fn content(content: Option<&Value>) -> (Value, Value) {
    let Some(Value::Object(content)) = content else {
        return (json!([]), json!({}));
    };
    let media_types: Vec<&String> = content.keys().collect();
    let of = content.values().next().map(|body| body["schema"].clone());
    (json!(media_types), schema(of.unwrap_or_default()))
}

/// A parameter's schema stands in the parameter itself.
fn parameters(parameters: Value) -> Value {
    let Value::Array(parameters) = parameters else {
        return parameters;
    };
    let plain = parameters.into_iter().map(|mut parameter| {
        let of = parameter["schema"].take();
        if let (Value::Object(parameter), Value::Object(of)) = (&mut parameter, of) {
            parameter.remove("schema");
            parameter.extend(of);
        }
        parameter
    });
    Value::Array(plain.collect())
}

/// References lead to definitions, and words may stand beside them; a choice of types is a text.
fn schema(value: Value) -> Value {
    match value {
        Value::Array(elements) => Value::Array(elements.into_iter().map(schema).collect()),
        Value::Object(mut object) => {
            if let Some(Value::Array(all)) = object.get("allOf")
                && let [Value::Object(only)] = all.as_slice()
            {
                let only = only.clone();
                object.remove("allOf");
                object.extend(only);
            }
            if object.remove("oneOf").is_some() {
                object.insert("type".to_owned(), json!("string"));
            }
            object.remove("nullable");
            if let Some(Value::String(reference)) = object.get_mut("$ref") {
                *reference = reference.replace("#/components/schemas/", "#/definitions/");
            }
            let members = object
                .into_iter()
                .map(|(name, value)| (name, schema(value)));
            Value::Object(members.collect())
        }
        other => other,
    }
}
