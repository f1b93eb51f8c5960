//! Reading an object's header out of its bytes in one pass, without building a tree.

use std::ops::Range;

use bytes::Bytes;
use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{Header, Object, OwnerReference, Revision};
use crate::{protobuf, resource::SelectableField, status::Status};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata<'a> {
    name: String,
    namespace: String,
    uid: String,
    #[serde(borrow)]
    resource_version: Option<&'a RawValue>,
    generation: i64,
    labels: Option<std::collections::BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<String>,
}

/// A document taken apart.
struct Document<'a> {
    header: Header,
    /// The text of `metadata`, if there is one.
    metadata: Option<&'a str>,
    /// The text of `metadata.resourceVersion`, with its quotes.
    resource_version: Option<&'a str>,
}

impl<'a> Document<'a> {
    fn read(json: &'a [u8], fields: &[impl AsRef<str>]) -> Result<Self, serde_json::Error> {
        let fields: Vec<SelectableField<'_>> = fields
            .iter()
            .map(|field| SelectableField::parse(field.as_ref()))
            .collect();
        let mut values = vec![String::new(); fields.len()];
        let mut metadata = None;
        let json = std::str::from_utf8(json).map_err(serde_json::Error::custom)?;
        let mut decoder = serde_json::Deserializer::from_str(json);
        decoder.deserialize_map(TopLevel {
            metadata: &mut metadata,
            fields: Fields {
                paths: fields.iter().map(|field| Some(field.path)).collect(),
                values: &mut values,
            },
        })?;
        decoder.end()?;
        for (value, field) in values.iter_mut().zip(&fields) {
            if value.is_empty() {
                value.push_str(field.absent);
            }
        }
        let read: Metadata<'a> = match metadata {
            Some(text) => serde_json::from_str(text)?,
            None => Metadata::default(),
        };
        let header = Header {
            name: read.name,
            namespace: read.namespace,
            uid: read.uid,
            generation: read.generation,
            labels: read.labels.unwrap_or_default().into_iter().collect(),
            owner_references: read.owner_references.unwrap_or_default(),
            finalizers: read.finalizers.unwrap_or_default(),
            deletion_timestamp: read.deletion_timestamp,
            fields: values,
        };
        Ok(Self {
            header,
            metadata,
            resource_version: read.resource_version.map(RawValue::get),
        })
    }
}

impl Header {
    /// Reads the header and `metadata.resourceVersion`, which is absent from stored documents. `fields` are the kind's
    /// selectable fields; numbers and booleans among them are read as text.
    pub fn decode(
        json: &[u8],
        fields: &[impl AsRef<str>],
    ) -> Result<(Self, Option<Revision>), serde_json::Error> {
        let document = Document::read(json, fields)?;
        let revision = match document.resource_version {
            Some(text) => serde_json::from_str::<Option<String>>(text)?,
            None => None,
        };
        let revision = revision.and_then(|r| r.parse().ok()).map(Revision);
        Ok((document.header, revision))
    }
}

impl Object {
    /// From a document of an API server's response, which carries its `resourceVersion`. What is no object with a name is
    /// refused as an internal error: the server sent it.
    pub fn from_response(bytes: Bytes, fields: &[impl AsRef<str>]) -> Result<Self, Status> {
        let (header, revision) = Header::decode(&bytes, fields).map_err(|error| {
            Status::internal(format!("undecodable object in a response: {error}"))
        })?;
        Ok(Self {
            revision: revision.unwrap_or_default(),
            header,
            bytes,
        })
    }
}

impl Object {
    /// From a stored document, which is given its `resourceVersion`: one that it carries is replaced. `fields` are the
    /// kind's selectable fields. White space around the document is dropped. Protobuf, which another API server may have
    /// stored, becomes JSON.
    pub fn from_stored(
        value: &[u8],
        revision: Revision,
        fields: &[impl AsRef<str>],
    ) -> Result<Self, serde_json::Error> {
        let value = protobuf::stored_as_json(value).map_err(serde_json::Error::custom)?;
        let json = value.trim_ascii();
        let document = Document::read(json, fields)?;
        let metadata = document
            .metadata
            .filter(|text| text.starts_with('{'))
            .ok_or_else(|| serde_json::Error::custom("the document has no metadata"))?;
        let (replaced, comma) = match document.resource_version {
            Some(text) => (position(json, text), ""),
            None => {
                let start = position(json, metadata).start + 1;
                let rest = metadata[1..].trim_ascii_start();
                (start..start, if rest.starts_with('}') { "" } else { "," })
            }
        };
        let text = match document.resource_version {
            Some(_) => format!("\"{revision}\""),
            None => format!("\"resourceVersion\":\"{revision}\"{comma}"),
        };
        let mut bytes = Vec::with_capacity(json.len() - replaced.len() + text.len());
        bytes.extend_from_slice(&json[..replaced.start]);
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(&json[replaced.end..]);
        Ok(Self {
            revision,
            header: document.header,
            bytes: bytes.into(),
        })
    }
}

impl Object {
    /// The same object with another `resourceVersion`, as watches show one that left their sight.
    pub fn at_revision(&self, revision: Revision) -> Result<Self, serde_json::Error> {
        let mut object = Self::from_stored(&self.bytes, revision, &[""; 0])?;
        object.header = self.header.clone();
        Ok(object)
    }
}

/// Where in `whole` its part `part` lies.
fn position(whole: &[u8], part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// The document itself: keeps the text of `metadata`, reads selectable fields from everything.
struct TopLevel<'m, 'de, 'p, 'v> {
    metadata: &'m mut Option<&'de str>,
    fields: Fields<'p, 'v>,
}

impl<'de> Visitor<'de> for TopLevel<'_, 'de, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if key != "metadata" {
                self.fields.enter(&key, &mut map)?;
                continue;
            }
            let text = map.next_value::<&'de RawValue>()?.get();
            if self.metadata.replace(text).is_some() {
                return Err(A::Error::duplicate_field("metadata"));
            }
            if let Some(below) = self.fields.below("metadata") {
                let mut decoder = serde_json::Deserializer::from_str(text);
                below.deserialize(&mut decoder).map_err(A::Error::custom)?;
            }
        }
        Ok(())
    }
}

/// Collects the scalars at dotted paths. `paths[i]` is what is left of the i-th path at this depth, `None` if another branch.
struct Fields<'a, 'v> {
    paths: Vec<Option<&'a str>>,
    values: &'v mut [String],
}

impl<'de> DeserializeSeed<'de> for Fields<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Fields<'a, '_> {
    /// What is left to look for below a key, if anything.
    fn below(&mut self, key: &str) -> Option<Fields<'a, '_>> {
        let below = |path: &Option<&'a str>| {
            let rest = path.as_ref()?.strip_prefix(key)?;
            match rest {
                "" => Some(rest),
                rest => rest.strip_prefix('.'),
            }
        };
        if !self.paths.iter().any(|path| below(path).is_some()) {
            return None;
        }
        Some(Fields {
            paths: self.paths.iter().map(below).collect(),
            values: self.values,
        })
    }

    /// Reads or skips the value of a key.
    fn enter<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match self.below(key) {
            Some(fields) => map.next_value_seed(fields),
            None => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }

    fn scalar(self, text: &str) {
        for (path, value) in self.paths.iter().zip(self.values) {
            if *path == Some("") {
                text.clone_into(value);
            }
        }
    }
}

impl<'de> Visitor<'de> for Fields<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.scalar(text);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.scalar(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.scalar(&value.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.scalar(&value.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.scalar(&value.to_string());
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            self.enter(&key, &mut map)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-0","namespace":"default","uid":"u1",
        "resourceVersion":"42","generation":3,"labels":{"b":"2","a":"1"},"finalizers":["x"],"deletionTimestamp":"2026-01-01T00:00:00Z",
        "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"u0","controller":true}]},
        "spec":{"nodeName":"node-1","hostNetwork":true,"containers":[{"name":"c"}]},"status":{"phase":"Running","count":7}}"#;

    #[test]
    fn the_header_and_the_asked_fields_are_read() {
        let fields = [
            "spec.nodeName",
            "status.phase",
            "spec.hostNetwork",
            "spec.node",
            "status.count",
            "spec.containers",
            "spec.unschedulable?false",
            "spec.network=spec.hostNetwork?false",
        ];
        let object = Object::from_response(Bytes::from_static(POD.as_bytes()), &fields).unwrap();
        assert_eq!(object.revision, Revision(42));
        let header = &object.header;
        assert_eq!(
            (&*header.name, &*header.namespace, &*header.uid),
            ("web-0", "default", "u1")
        );
        assert_eq!(header.generation, 3);
        assert_eq!(header.label("a"), Some("1"));
        assert_eq!(header.label("c"), None);
        assert_eq!(header.controller().map(|o| o.uid.as_str()), Some("u0"));
        assert_eq!(header.finalizers, ["x"]);
        assert!(header.deletion_timestamp.is_some());
        assert_eq!(
            header.fields,
            ["node-1", "Running", "true", "", "7", "", "false", "true"]
        );
        assert_eq!(&object.bytes[..], POD.as_bytes());
    }

    #[test]
    fn nulls_are_empty_and_a_wrong_type_is_an_error() {
        let json = br#"{"metadata":{"name":"a","labels":null,"ownerReferences":null,"finalizers":null,"deletionTimestamp":null}}"#;
        let (header, revision) = Header::decode(json, &["spec.x"]).unwrap();
        assert_eq!((header.name.as_str(), revision), ("a", None));
        assert!(Header::decode(br#"{"metadata":{"name":1}}"#, &[""; 0]).is_err());
        assert!(Header::decode(b"[]x", &[""; 0]).is_err());
    }

    #[test]
    fn a_stored_document_gets_its_resource_version() {
        let cases = [
            (
                r#"{"metadata":{"name":"a"}}"#,
                r#"{"metadata":{"resourceVersion":"7","name":"a"}}"#,
            ),
            (
                "{\"metadata\":{\"name\":\"a\"}}\n",
                r#"{"metadata":{"resourceVersion":"7","name":"a"}}"#,
            ),
            (
                r#"{"metadata":{}}"#,
                r#"{"metadata":{"resourceVersion":"7"}}"#,
            ),
            (
                r#"{"metadata":{ }}"#,
                r#"{"metadata":{"resourceVersion":"7" }}"#,
            ),
            (
                r#"{"spec":{"metadata":{"name":"not me"}},"metadata":{"name":"a"}}"#,
                r#"{"spec":{"metadata":{"name":"not me"}},"metadata":{"resourceVersion":"7","name":"a"}}"#,
            ),
            (
                r#"{"metadata":{"name":"a","resourceVersion":"123456"}}"#,
                r#"{"metadata":{"name":"a","resourceVersion":"7"}}"#,
            ),
            (
                r#"{"metadata":{"resourceVersion" : "" ,"name":"a"}}"#,
                r#"{"metadata":{"resourceVersion" : "7" ,"name":"a"}}"#,
            ),
            (
                " {\n \"metadata\" :\t{\r\n\"name\" : \"a\" } } \n",
                "{\n \"metadata\" :\t{\"resourceVersion\":\"7\",\r\n\"name\" : \"a\" } }",
            ),
            (
                r#"{"\u006detadata":{"na\u006de":"a"}}"#,
                r#"{"\u006detadata":{"resourceVersion":"7","na\u006de":"a"}}"#,
            ),
        ];
        for (stored, expected) in cases {
            let object = Object::from_stored(stored.as_bytes(), Revision(7), &[""; 0]).unwrap();
            assert_eq!(std::str::from_utf8(&object.bytes), Ok(expected), "{stored}");
            let (header, revision) = Header::decode(&object.bytes, &[""; 0]).unwrap();
            assert_eq!(revision, Some(Revision(7)), "{stored}");
            assert_eq!(header, object.header, "{stored}");
            assert!(header.name == "a" || !stored.contains("name"), "{stored}");
        }
    }

    #[test]
    fn a_stored_pod_is_read_and_kept() {
        let fields = [
            "spec.nodeName",
            "spec.unschedulable",
            "metadata.uid",
            "reason",
        ];
        let object = Object::from_stored(POD.as_bytes(), Revision(1 << 40), &fields).unwrap();
        assert_eq!(object.header.fields, ["node-1", "", "u1", ""]);
        let expected = POD.replace("\"42\"", "\"1099511627776\"");
        assert_eq!(std::str::from_utf8(&object.bytes), Ok(expected.as_str()));

        let later = object.at_revision(Revision(8)).unwrap();
        assert_eq!(
            (later.revision, &later.header),
            (Revision(8), &object.header)
        );
        let expected = POD.replace("\"42\"", "\"8\"");
        assert_eq!(std::str::from_utf8(&later.bytes), Ok(expected.as_str()));
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        for stored in [
            "",
            "null",
            "[]",
            "{}",
            r#"{"metadata":null}"#,
            r#"{"metadata":[]}"#,
            r#"{"metadata":{"name":"a"}"#,
            r#"{"metadata":{"name":"a"}}}"#,
            r#"{"metadata":{"name":"a"},"metadata":{"name":"b"}}"#,
            r#"{"metadata":{"name":"a","name":"b"}}"#,
            r#"{"metadata":{"name":"a"},"spec":{]}"#,
            "k8s\0\x0a\x09",
        ] {
            let result = Object::from_stored(stored.as_bytes(), Revision(7), &["spec.x"]);
            assert!(result.is_err(), "{stored}");
        }
        let not_text = b"{\"metadata\":{\"name\":\"a\"},\"spec\":\"\xff\"}";
        assert!(Object::from_stored(not_text, Revision(7), &[""; 0]).is_err());
    }
}
