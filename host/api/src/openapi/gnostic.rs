//! The protobuf form of an OpenAPI v2 document, which Go clients ask for.
//! Source: <https://github.com/google/gnostic-models/blob/main/openapiv2/OpenAPIv2.proto>
//!
//! The messages of that format are a table here; only what the documents of this server have is in it.

use serde_json::{Map, Value};

use crate::protobuf::put;

/// A message: its JSON object's members, and where `x-` members go.
struct Message {
    members: &'static [Member],
    extensions: u32,
}

/// A member: its name, the numbers of the messages that it lies in, the innermost last, and what it is.
type Member = (&'static str, &'static [u32], Form);

#[derive(Clone, Copy)]
enum Form {
    Text,
    Flag,
    Integer,
    Double,
    /// Any JSON, as text.
    Any,
    /// One message.
    One(&'static Message),
    /// An object of messages: each with its name as field 1, itself as field 2 and there within these numbers.
    Named(&'static Message, &'static [u32]),
    /// A schema, or true or false.
    SchemaOrFlag,
    Parameter,
    /// An object of lists of texts.
    Requirement,
}

use Form::{Any, Double, Flag, Integer, Named, One, Text};

static DOCUMENT: Message = Message {
    members: &[
        ("swagger", &[1], Text),
        ("info", &[2], One(&INFO)),
        ("paths", &[8, 2], Named(&PATH_ITEM, &[])),
        ("definitions", &[9, 1], Named(&SCHEMA, &[])),
        ("security", &[12], Form::Requirement),
        ("securityDefinitions", &[13, 1], Named(&API_KEY, &[2])),
    ],
    extensions: 16,
};

static INFO: Message = Message {
    members: &[("title", &[1], Text), ("version", &[2], Text)],
    extensions: 7,
};

static API_KEY: Message = Message {
    members: &[
        ("type", &[1], Text),
        ("name", &[2], Text),
        ("in", &[3], Text),
        ("description", &[4], Text),
    ],
    extensions: 5,
};

static PATH_ITEM: Message = Message {
    members: &[
        ("get", &[2], One(&OPERATION)),
        ("put", &[3], One(&OPERATION)),
        ("post", &[4], One(&OPERATION)),
        ("delete", &[5], One(&OPERATION)),
        ("patch", &[8], One(&OPERATION)),
        ("parameters", &[9], Form::Parameter),
    ],
    extensions: 10,
};

static OPERATION: Message = Message {
    members: &[
        ("tags", &[1], Text),
        ("description", &[3], Text),
        ("operationId", &[5], Text),
        ("produces", &[6], Text),
        ("consumes", &[7], Text),
        ("parameters", &[8], Form::Parameter),
        ("responses", &[9, 1], Named(&RESPONSE, &[1])),
        ("schemes", &[10], Text),
    ],
    extensions: 13,
};

static RESPONSE: Message = Message {
    members: &[
        ("description", &[1], Text),
        ("schema", &[2, 1], One(&SCHEMA)),
    ],
    extensions: 5,
};

static BODY: Message = Message {
    members: &[
        ("description", &[1], Text),
        ("name", &[2], Text),
        ("in", &[3], Text),
        ("required", &[4], Flag),
        ("schema", &[5], One(&SCHEMA)),
    ],
    extensions: 6,
};

static QUERY: Message = Message {
    members: &[
        ("required", &[1], Flag),
        ("in", &[2], Text),
        ("description", &[3], Text),
        ("name", &[4], Text),
        ("type", &[6], Text),
        ("uniqueItems", &[20], Flag),
    ],
    extensions: 23,
};

static PATH: Message = Message {
    members: &[
        ("required", &[1], Flag),
        ("in", &[2], Text),
        ("description", &[3], Text),
        ("name", &[4], Text),
        ("type", &[5], Text),
        ("uniqueItems", &[18], Flag),
    ],
    extensions: 22,
};

static SCHEMA: Message = Message {
    members: &[
        ("$ref", &[1], Text),
        ("format", &[2], Text),
        ("title", &[3], Text),
        ("description", &[4], Text),
        ("default", &[5], Any),
        ("maximum", &[7], Double),
        ("minimum", &[9], Double),
        ("maxLength", &[11], Integer),
        ("minLength", &[12], Integer),
        ("pattern", &[13], Text),
        ("maxItems", &[14], Integer),
        ("minItems", &[15], Integer),
        ("uniqueItems", &[16], Flag),
        ("required", &[19], Text),
        ("enum", &[20], Any),
        ("additionalProperties", &[21], Form::SchemaOrFlag),
        ("type", &[22, 1], Text),
        ("items", &[23, 1], One(&SCHEMA)),
        ("allOf", &[24], One(&SCHEMA)),
        ("properties", &[25, 1], Named(&SCHEMA, &[])),
    ],
    extensions: 31,
};

/// The protobuf form of a v2 document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    if let Value::Object(document) = document {
        message(&DOCUMENT, document, &mut out);
    }
    out
}

fn message(of: &'static Message, object: &Map<String, Value>, out: &mut Vec<u8>) {
    for (name, path, form) in of.members {
        if let (Some(value), [outer @ .., number]) = (object.get(*name), *path) {
            within(outer, out, |out| member(*form, *number, value, out));
        }
    }
    for (name, value) in object.iter().filter(|(name, _)| name.starts_with("x-")) {
        put::delimited(out, of.extensions, |out| {
            put::bytes(out, 1, name.as_bytes());
            any(2, value, out);
        });
    }
}

/// Writes into messages within messages.
fn within(numbers: &[u32], out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    // boxed: the closures nest as deep as the list is long
    let mut write: Box<dyn FnOnce(&mut Vec<u8>) + '_> = Box::new(write);
    for number in numbers.iter().rev() {
        let inner = write;
        write = Box::new(move |out| put::delimited(out, *number, inner));
    }
    write(out);
}

/// A member under its number; a list is one after the other.
fn member(form: Form, number: u32, value: &Value, out: &mut Vec<u8>) {
    match (form, value) {
        (Form::Requirement | Form::Parameter | Text | Any | One(_), Value::Array(items)) => {
            items
                .iter()
                .for_each(|item| member(form, number, item, out));
        }
        (Text, Value::String(text)) => put::bytes(out, number, text.as_bytes()),
        (Flag, Value::Bool(flag)) => put::number(out, number, u64::from(*flag)),
        (Integer, value) => put::number(out, number, value.as_i64().unwrap_or(0) as u64),
        (Double, value) => put::double(out, number, value.as_f64().unwrap_or(0.0)),
        (Any, value) => any(number, value, out),
        (One(of), Value::Object(object)) => {
            put::delimited(out, number, |out| message(of, object, out));
        }
        (Named(of, inside), Value::Object(all)) => {
            for (name, value) in all {
                put::delimited(out, number, |out| {
                    put::bytes(out, 1, name.as_bytes());
                    put::delimited(out, 2, |out| {
                        within(inside, out, |out| {
                            if let Value::Object(object) = value {
                                message(of, object, out);
                            }
                        });
                    });
                });
            }
        }
        (Form::SchemaOrFlag, Value::Bool(flag)) => {
            put::delimited(out, number, |out| put::number(out, 2, u64::from(*flag)));
        }
        (Form::SchemaOrFlag, schema) => {
            put::delimited(out, number, |out| member(One(&SCHEMA), 1, schema, out));
        }
        (Form::Parameter, Value::Object(object)) => {
            let (of, inside): (_, &[u32]) = match object.get("in").and_then(Value::as_str) {
                Some("body") => (&BODY, &[1, 1]),
                Some("path") => (&PATH, &[1, 2, 4]),
                _ => (&QUERY, &[1, 2, 3]),
            };
            put::delimited(out, number, |out| {
                within(inside, out, |out| message(of, object, out));
            });
        }
        (Form::Requirement, Value::Object(all)) => put::delimited(out, number, |out| {
            for (name, scopes) in all {
                put::delimited(out, 1, |out| {
                    put::bytes(out, 1, name.as_bytes());
                    put::delimited(out, 2, |out| member(Text, 1, scopes, out));
                });
            }
        }),
        _ => {} // of another type than the format knows
    }
}

/// JSON is YAML.
fn any(number: u32, value: &Value, out: &mut Vec<u8>) {
    put::delimited(out, number, |out| {
        put::bytes(out, 2, value.to_string().as_bytes());
    });
}
