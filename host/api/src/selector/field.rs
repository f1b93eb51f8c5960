//! Field selectors, bound to the selectable fields of one resource.

use std::{borrow::Cow, fmt};

use super::SelectorError;
use crate::{
    object::Header,
    resource::{ResourceInfo, SelectableField},
    status::Status,
};

/// Where a requirement finds the field in a [`Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Target {
    Name,
    Namespace,
    /// The position in [`ResourceInfo::selectable_fields`] and [`Header::fields`].
    Field(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Requirement {
    target: Target,
    label: String,
    equal: bool,
    value: String,
}

/// Requirements on fields, joined by AND.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<Requirement>,
}

impl FieldSelector {
    /// Matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Matches the object of that name.
    pub fn name(name: impl Into<String>) -> Self {
        let requirement = Requirement {
            target: Target::Name,
            label: "metadata.name".to_owned(),
            equal: true,
            value: name.into(),
        };
        Self {
            requirements: vec![requirement],
        }
    }

    /// Reads `metadata.name=x,spec.nodeName!=y,status.phase==Running` for a resource. `\`, `,` and `=` in values are
    /// escaped by `\`. A syntax error or a field that the resource does not offer is 400.
    pub fn parse(text: &str, resource: &ResourceInfo) -> Result<Self, Status> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let (label, equal, value) = split_term(term).ok_or_else(|| {
                SelectorError(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                ))
            })?;
            let value = unescape_value(value)?.into_owned();
            if label.is_empty() && value.is_empty() {
                continue;
            }
            requirements.push(Requirement {
                target: target(label, resource)?,
                label: label.to_owned(),
                equal,
                value,
            });
        }
        Ok(Self { requirements })
    }

    /// Whether the object meets every requirement; absent fields are the empty text.
    pub fn matches(&self, header: &Header) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = match requirement.target {
                Target::Name => &*header.name,
                Target::Namespace => &*header.namespace,
                Target::Field(index) => header.fields.get(index).map_or("", String::as_str),
            };
            (value == requirement.value) == requirement.equal
        })
    }

    /// Whether it restricts nothing.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The value that a field must have, if there is exactly one: `exact("metadata.name")`, `exact("spec.nodeName")`.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let mut equal = self.requirements.iter().filter(|r| r.equal);
        equal
            .find(|r| r.label == field)
            .map(|requirement| requirement.value.as_str())
    }
}

/// The string form, which [`FieldSelector::parse`] reads back.
impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let operator = if requirement.equal { "=" } else { "!=" };
            let value = escape_value(&requirement.value);
            write!(f, "{comma}{}{operator}{value}", requirement.label)?;
        }
        Ok(())
    }
}

fn target(label: &str, resource: &ResourceInfo) -> Result<Target, SelectorError> {
    let fields = &resource.selectable_fields;
    match label {
        "metadata.name" => Ok(Target::Name),
        "metadata.namespace" if resource.namespaced || fields.is_empty() => Ok(Target::Namespace),
        _ => match fields
            .iter()
            .position(|f| SelectableField::parse(f).label == label)
        {
            Some(index) => Ok(Target::Field(index)),
            None if fields.is_empty() => Err(SelectorError(format!(
                "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            ))),
            None => Err(SelectorError(format!("field label not supported: {label}"))),
        },
    }
}

/// Splits at commas that no `\` precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Splits at the first operator: the field, whether it must be equal, the value as written.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (at, _) in term.char_indices() {
        let rest = &term[at..];
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&term[..at], equal, value));
            }
        }
    }
    None
}

/// Escapes a value for use in a field selector.
pub fn escape_value(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', ',', '=']) {
        return Cow::Borrowed(value);
    }
    let mut escaped = String::with_capacity(value.len() + 2);
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    Cow::Owned(escaped)
}

fn unescape_value(value: &str) -> Result<Cow<'_, str>, SelectorError> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(Cow::Borrowed(value));
    }
    let invalid = |what: &str| {
        SelectorError(format!(
            "invalid field selector: invalid escape sequence: {what}"
        ))
    };
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                Some(c) => return Err(invalid(&format!("\\{c}"))),
                None => return Err(invalid("\\")),
            },
            ',' | '=' => {
                let code = u32::from(c);
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {code}"
                )));
            }
            c => plain.push(c),
        }
    }
    Ok(Cow::Owned(plain))
}
