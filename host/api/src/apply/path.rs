//! Steps of paths into an object, and their form in `fieldsV1`.
//! Source: <https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management>

use std::{borrow::Cow, fmt};

use super::value::{Map, Value};

/// One step. The order is that of `fieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement<'a> {
    /// `f:<name>`: a field of a struct or a key of a map.
    Field(Cow<'a, str>),
    /// `k:{…}`: the element of a list that has these values, sorted by name.
    Key(Map<'a>),
    /// `v:<JSON>`: the element of a set.
    Value(Value<'a>),
    /// `i:<index>`: known from old entries, never made.
    Index(i64),
}

impl<'a> PathElement<'a> {
    /// A field of this name.
    pub fn field(name: &'a str) -> Self {
        Self::Field(Cow::Borrowed(name))
    }

    /// Reads the form in `fieldsV1`. `Ok(None)`: a form of some later version, which is to be skipped.
    pub(super) fn read(text: Cow<'a, str>) -> Result<Option<Self>, String> {
        let bytes = text.as_bytes();
        if bytes.len() < 2 || bytes[1] != b':' {
            return Err(format!("no path element: {text:?}"));
        }
        let broken = |error: serde_json::Error| format!("no path element: {text:?}: {error}");
        let element = match bytes[0] {
            b'f' => Self::Field(match text {
                Cow::Borrowed(text) => Cow::Borrowed(&text[2..]),
                Cow::Owned(text) => Cow::Owned(text[2..].to_owned()),
            }),
            b'v' => Self::Value(Value::parse(&bytes[2..]).map_err(broken)?.into_owned()),
            b'k' => match Value::parse(&bytes[2..]).map_err(broken)?.into_owned() {
                Value::Map(keys) => Self::Key(keys),
                _ => return Err(format!("no path element: {text:?}: keys are an object")),
            },
            b'i' => {
                let index = text[2..].parse();
                Self::Index(index.map_err(|_| format!("no path element: {text:?}"))?)
            }
            _ => return Ok(None),
        };
        Ok(Some(element))
    }

    /// Writes the form in `fieldsV1`, as the text of a JSON string without its quotes.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Field(name) => {
                out.push_str("f:");
                escape(name, out);
            }
            Self::Key(keys) => {
                out.push_str("k:{");
                for (number, (name, value)) in keys.iter().enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    let mut quoted = String::with_capacity(name.len() + 2);
                    quote(name, &mut quoted);
                    escape(&quoted, out);
                    out.push(':');
                    write_value(value, out);
                }
                out.push('}');
            }
            Self::Value(value) => {
                out.push_str("v:");
                write_value(value, out);
            }
            Self::Index(index) => out.push_str(&format!("i:{index}")),
        }
    }
}

/// A value's JSON inside of a JSON string.
fn write_value(value: &Value<'_>, out: &mut String) {
    match value {
        Value::String(text) => {
            let mut quoted = String::with_capacity(text.len() + 2);
            quote(text, &mut quoted);
            escape(&quoted, out);
        }
        other => escape(&String::from_utf8_lossy(&other.to_json()), out),
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    escape(text, out);
    out.push('"');
}

/// A text as it stands between the quotes of a JSON string.
pub(super) fn escape(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest
        .bytes()
        .position(|b| b < 0x20 || b == b'"' || b == b'\\')
    {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => out.push_str(&format!("\\u{control:04x}")),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

/// As messages show it: `.spec`, `[name="web"]`, `[="a"]`, `[0]`.
impl fmt::Display for PathElement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                f.write_str("[")?;
                for (number, (name, value)) in keys.iter().enumerate() {
                    let comma = if number > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}
