//! `metadata.managedFields` as text and as entries.
//!
//! Entries keep the text of their `fieldsV1` until somebody has to look into it: most writes look into their own only.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{compare::Changes, fields_v1, path::escape, set::FieldSet, value::Text};

/// How a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    /// The text in an entry.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who owns: what tells entries apart. Appliers are the same whatever version they apply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager<'a> {
    pub name: Cow<'a, str>,
    pub operation: Operation,
    pub api_version: Cow<'a, str>,
    /// Empty for the main resource.
    pub subresource: Cow<'a, str>,
}

impl Manager<'_> {
    /// Whether an entry of one would be the entry of the other.
    pub(super) fn is(&self, other: &Manager<'_>) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// As conflicts name it: `"kubectl" with subresource "scale" using apps/v1`.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

/// One entry.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    pub manager: Manager<'a>,
    /// Whole seconds.
    pub time: Option<jiff::Timestamp>,
    pub fields: Fields<'a>,
}

/// An entry's fields, read or not.
#[derive(Clone, Debug)]
pub(super) enum Fields<'a> {
    Text(&'a str),
    Set(FieldSet<'a>),
}

impl<'a> Fields<'a> {
    /// Reads them.
    pub(super) fn set(&self) -> Result<FieldSet<'a>, String> {
        match self {
            Self::Text(text) => FieldSet::from_json(text).map_err(|error| error.to_string()),
            Self::Set(set) => Ok(set.clone()),
        }
    }

    /// Whether any changed or removed field is among them.
    pub(super) fn touched_by(&self, changes: &Changes<'_>) -> Result<bool, String> {
        match self {
            Self::Text(text) => {
                fields_v1::overlaps(text, changes).map_err(|error| error.to_string())
            }
            Self::Set(set) => Ok(set.overlaps(&changes.changed) || set.overlaps(&changes.removed)),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wire<'a> {
    #[serde(borrow)]
    manager: Option<Text<'a>>,
    #[serde(borrow)]
    operation: Option<Text<'a>>,
    #[serde(borrow)]
    api_version: Option<Text<'a>>,
    #[serde(borrow)]
    time: Option<Text<'a>>,
    #[serde(borrow)]
    fields_type: Option<Text<'a>>,
    #[serde(borrow)]
    fields_v1: Option<&'a RawValue>,
    #[serde(borrow)]
    subresource: Option<Text<'a>>,
}

impl Wire<'_> {
    fn is_empty(&self) -> bool {
        let texts = [
            &self.manager,
            &self.operation,
            &self.api_version,
            &self.time,
            &self.fields_type,
            &self.subresource,
        ];
        self.fields_v1.is_none()
            && texts
                .into_iter()
                .flatten()
                .all(|Text(text)| text.is_empty())
    }
}

/// What a document says about its managed fields.
#[derive(Debug)]
pub(super) enum Managed<'a> {
    /// `[]` or `[{}]`: nobody is to own anything.
    Reset,
    Entries(Vec<Entry<'a>>),
}

/// Reads the value of `metadata.managedFields`, without looking into `fieldsV1`. Errors say what no entry may have.
pub(super) fn read(json: &str) -> Result<Managed<'_>, String> {
    let wires: Option<Vec<Wire<'_>>> =
        serde_json::from_str(json).map_err(|error| error.to_string())?;
    match wires.as_deref() {
        None => return Ok(Managed::Entries(Vec::new())),
        Some([]) => return Ok(Managed::Reset),
        Some([one]) if one.is_empty() => return Ok(Managed::Reset),
        Some(_) => {}
    }
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for (index, wire) in wires.into_iter().flatten().enumerate() {
        let entry = entry(wire, index)?;
        entries.retain(|other| !other.manager.is(&entry.manager));
        entries.push(entry);
    }
    Ok(Managed::Entries(entries))
}

fn entry(wire: Wire<'_>, index: usize) -> Result<Entry<'_>, String> {
    let operation = match text(&wire.operation) {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    match text(&wire.fields_type) {
        "FieldsV1" => {}
        "" => {
            return Err(format!(
                "missing fieldsType in managed fields entry {index}"
            ));
        }
        other => {
            return Err(format!(
                "invalid fieldsType {other:?} in managed fields entry {index}"
            ));
        }
    }
    let time = match &wire.time {
        None => None,
        Some(Text(text)) => Some(
            text.parse()
                .map_err(|error| format!("time {text:?}: {error}"))?,
        ),
    };
    let manager = Manager {
        name: wire.manager.map(|Text(text)| text).unwrap_or_default(),
        operation,
        api_version: wire.api_version.map(|Text(text)| text).unwrap_or_default(),
        subresource: wire.subresource.map(|Text(text)| text).unwrap_or_default(),
    };
    if manager.api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    Ok(Entry {
        manager,
        time,
        fields: Fields::Text(wire.fields_v1.map_or("{}", RawValue::get)),
    })
}

fn text<'t>(text: &'t Option<Text<'_>>) -> &'t str {
    text.as_ref().map_or("", |Text(text)| text)
}

/// Appliers first, then by time, oldest first.
pub(super) fn sort(entries: &mut [Entry<'_>]) {
    let seconds = |entry: &Entry<'_>| entry.time.map_or(0, |time| time.as_second());
    entries.sort_by(|a, b| {
        let order = a.manager.operation.cmp(&b.manager.operation);
        order
            .then_with(|| seconds(a).cmp(&seconds(b)))
            .then_with(|| a.manager.cmp(&b.manager))
    });
}

/// Writes entries as the value of `metadata.managedFields`. `None`: there are none, and the field is to be absent.
pub(super) fn write(entries: &[Entry<'_>]) -> Option<String> {
    if entries.is_empty() {
        return None;
    }
    let mut out = String::with_capacity(1024);
    out.push('[');
    for (number, entry) in entries.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        let manager = &entry.manager;
        out.push_str("{\"manager\":\"");
        escape(&manager.name, &mut out);
        out.push_str("\",\"operation\":\"");
        out.push_str(manager.operation.name());
        out.push_str("\",\"apiVersion\":\"");
        escape(&manager.api_version, &mut out);
        if let Some(time) = entry.time {
            out.push_str("\",\"time\":\"");
            out.push_str(&time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        }
        out.push_str("\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
        match &entry.fields {
            Fields::Text(text) => out.push_str(text),
            Fields::Set(set) => set.write_json(&mut out),
        }
        if !manager.subresource.is_empty() {
            out.push_str(",\"subresource\":\"");
            escape(&manager.subresource, &mut out);
            out.push('"');
        }
        out.push('}');
    }
    out.push(']');
    Some(out)
}

/// Whether two texts say the same but for the times of their entries.
pub fn same_but_times(a: &str, b: &str) -> bool {
    let (Ok(Managed::Entries(a)), Ok(Managed::Entries(b))) = (read(a), read(b)) else {
        return false;
    };
    let same_fields = |a: &Fields<'_>, b: &Fields<'_>| match (a, b) {
        (Fields::Text(a), Fields::Text(b)) => a == b,
        _ => false,
    };
    a.len() == b.len()
        && a.iter()
            .zip(&b)
            .all(|(a, b)| a.manager == b.manager && same_fields(&a.fields, &b.fields))
}
