//! Building a JSON patch (RFC 6902).

use serde::Serialize;
use serde_json::Value;

/// A JSON patch under construction. Paths are given as unescaped segments.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Patch {
    operations: Vec<Operation>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Operation {
    op: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
}

impl Patch {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a member, replacing it if present, or inserts into a list; the segment `-` appends.
    pub fn add(&mut self, path: &[&str], value: impl Into<Value>) -> &mut Self {
        self.push("add", path, Some(value.into()))
    }

    /// Replaces an existing value.
    pub fn replace(&mut self, path: &[&str], value: impl Into<Value>) -> &mut Self {
        self.push("replace", path, Some(value.into()))
    }

    /// Removes an existing value.
    pub fn remove(&mut self, path: &[&str]) -> &mut Self {
        self.push("remove", path, None)
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The JSON form; empty if it changes nothing.
    pub fn to_json(&self) -> String {
        match self.is_empty() {
            true => String::new(),
            false => serde_json::to_string(self).unwrap_or_default(), // JSON values only: cannot fail
        }
    }

    fn push(&mut self, op: &'static str, path: &[&str], value: Option<Value>) -> &mut Self {
        let path = path
            .iter()
            .flat_map(|s| ["/".to_owned(), s.replace('~', "~0").replace('/', "~1")])
            .collect();
        self.operations.push(Operation { op, path, value });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_escaped_and_an_empty_patch_is_empty_text() {
        assert_eq!(Patch::new().to_json(), "");
        let mut patch = Patch::new();
        patch
            .add(&["metadata", "labels", "example.com/a~b"], "x")
            .remove(&["spec", "nodeName"]);
        assert_eq!(
            patch.to_json(),
            r#"[{"op":"add","path":"/metadata/labels/example.com~1a~0b","value":"x"},{"op":"remove","path":"/spec/nodeName"}]"#
        );
    }
}
