//! Documents without their managed fields, and with them again: what changes or judges an object need not read them.

use std::{borrow::Cow, fmt, ops::Range};

use memchr::memmem;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::value::Text;

const KEY: &str = "\"managedFields\"";
const METADATA: &str = "\"metadata\":{";

/// A document and the value of its `metadata.managedFields`, which it does not have any more. Malformed documents stay as
/// they are: whoever reads them says why.
pub fn split(json: &[u8]) -> (Cow<'_, [u8]>, Option<&str>) {
    let whole = (Cow::Borrowed(json), None);
    let Some(key) = memmem::find(json, KEY.as_bytes()) else {
        return whole;
    };
    let Ok(text) = std::str::from_utf8(json) else {
        return whole;
    };
    let Some((key, value)) = first_of_metadata(text, key).or_else(|| anywhere(text)) else {
        return whole;
    };
    let before = text[..key].trim_ascii_end();
    let after = text[value.end..].trim_ascii_start();
    // one comma goes with it
    let (before, after) = match (after.strip_prefix(','), before.strip_suffix(',')) {
        (Some(after), _) => (before, after),
        (None, Some(before)) => (before, after),
        (None, None) => (before, after),
    };
    let plain = [before.as_bytes(), after.as_bytes()].concat();
    (Cow::Owned(plain), Some(&text[value]))
}

/// The document with managed fields, which it did not have. They become the first of its metadata, where [`split`] finds
/// them at once. One that has no metadata stays as it is.
pub fn join(plain: Vec<u8>, managed: &str) -> Vec<u8> {
    let Some(at) = metadata_start(&plain) else {
        return plain;
    };
    let comma = if plain[at..].starts_with(b"}") {
        ""
    } else {
        ","
    };
    [
        &plain[..at],
        KEY.as_bytes(),
        b":",
        managed.as_bytes(),
        comma.as_bytes(),
        &plain[at..],
    ]
    .concat()
}

/// Behind the brace with which the metadata begins.
fn metadata_start(json: &[u8]) -> Option<usize> {
    let at = memmem::find(json, METADATA.as_bytes())?;
    if is_flat(&json[..at]) {
        return Some(at + METADATA.len());
    }
    let metadata = member(std::str::from_utf8(json).ok()?, 0, "metadata")?;
    (json.get(metadata.start) == Some(&b'{')).then_some(metadata.start + 1)
}

/// Whether the beginning of a document has no list and no second object in it.
fn is_flat(start: &[u8]) -> bool {
    memchr::memchr(b'[', start).is_none() && memchr::memchr_iter(b'{', start).count() == 1
}

/// Where the key, and the range of the value, if they stand where [`join`] puts them.
fn first_of_metadata(text: &str, key: usize) -> Option<(usize, Range<usize>)> {
    let start = text[..key].strip_suffix(METADATA)?;
    let value = key + KEY.len() + 1;
    if !is_flat(start.as_bytes()) || !text[..value].ends_with(':') {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(&text[value..]).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some((key, value..value + values.byte_offset()))
}

/// The same, wherever the metadata have them.
fn anywhere(text: &str) -> Option<(usize, Range<usize>)> {
    let metadata = member(text, 0, "metadata")?;
    let value = member(text, metadata.start, "managedFields")?;
    let before = text[..value.start].trim_ascii_end().strip_suffix(':')?;
    let key = before.trim_ascii_end().strip_suffix(KEY)?.len();
    Some((key, value))
}

/// Where the value of a member is of the object that begins at `from`.
fn member(text: &str, from: usize, name: &str) -> Option<Range<usize>> {
    let mut found: Option<&str> = None;
    let mut decoder = serde_json::Deserializer::from_str(&text[from..]);
    decoder
        .deserialize_map(Member {
            name,
            found: &mut found,
        })
        .ok()?;
    let value = found?;
    let start = value.as_ptr() as usize - text.as_ptr() as usize;
    Some(start..start + value.len())
}

/// Finds the text of an object's member.
struct Member<'n, 'f, 'de> {
    name: &'n str,
    found: &'f mut Option<&'de str>,
}

impl<'de> Visitor<'de> for Member<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        while let Some(Text(key)) = object.next_key()? {
            let value: &'de RawValue = object.next_value()?;
            if key == self.name {
                *self.found = Some(value.get());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_fields_are_taken_out_and_put_back() {
        // the document, what is left of it, the managed fields
        let cases = [
            (r#"{"a":1}"#, r#"{"a":1}"#, None),
            (
                r#"{"metadata":{"name":"x"}}"#,
                r#"{"metadata":{"name":"x"}}"#,
                None,
            ),
            (
                r#"{"kind":"A","metadata":{"managedFields":[{"m":"]}"}],"name":"x"},"b":2}"#,
                r#"{"kind":"A","metadata":{"name":"x"},"b":2}"#,
                Some(r#"[{"m":"]}"}]"#),
            ),
            (
                r#"{"metadata":{"managedFields":[]}}"#,
                r#"{"metadata":{}}"#,
                Some("[]"),
            ),
            (
                r#"{"spec":{"metadata":{"managedFields":[1]}},"metadata":{"name":"x", "managedFields" : null }}"#,
                r#"{"spec":{"metadata":{"managedFields":[1]}},"metadata":{"name":"x"}}"#,
                Some("null"),
            ),
            (
                r#"{"spec":{"metadata":{"managedFields":[1]}},"metadata":{"name":"x"}}"#,
                r#"{"spec":{"metadata":{"managedFields":[1]}},"metadata":{"name":"x"}}"#,
                None,
            ),
            (
                r#"{"metadata":{"labels":{"managedFields":"x"},"managedFields":[2],"name":"\"managedFields\":[3]"}}"#,
                r#"{"metadata":{"labels":{"managedFields":"x"},"name":"\"managedFields\":[3]"}}"#,
                Some("[2]"),
            ),
            (
                r#"[{"metadata":{"managedFields":[]}}]"#,
                r#"[{"metadata":{"managedFields":[]}}]"#,
                None,
            ),
            (
                r#"{"metadata":{"managedFields":["#,
                r#"{"metadata":{"managedFields":["#,
                None,
            ),
        ];
        for (json, plain, managed) in cases {
            let found = split(json.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found.0), plain, "{json}");
            assert_eq!(found.1, managed, "{json}");
        }
        let cases = [
            (
                r#"{"kind":"A","metadata":{"name":"x"}}"#,
                r#"{"kind":"A","metadata":{"managedFields":[1],"name":"x"}}"#,
            ),
            (
                r#"{"metadata":{}}"#,
                r#"{"metadata":{"managedFields":[1]}}"#,
            ),
            (
                r#"{"a":{"metadata":{"x":1}},"metadata":{"name":"x"}}"#,
                r#"{"a":{"metadata":{"x":1}},"metadata":{"managedFields":[1],"name":"x"}}"#,
            ),
            (r#"{"a":1}"#, r#"{"a":1}"#),
        ];
        for (plain, joined) in cases {
            let json = join(plain.as_bytes().to_vec(), "[1]");
            assert_eq!(String::from_utf8_lossy(&json), joined);
        }
    }
}
