//! Reading an object's header out of its bytes, without building a tree.

use bytes::Bytes;
use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor},
};

use super::{Header, Object, OwnerReference, Revision};
use crate::status::Status;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    generation: i64,
    labels: Option<std::collections::BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<String>,
}

impl Header {
    /// Reads the header and `metadata.resourceVersion`, which is absent from stored documents. `fields` are the dotted paths
    /// of the kind's selectable fields; numbers and booleans among them are read as text.
    pub fn decode(
        json: &[u8],
        fields: &[impl AsRef<str>],
    ) -> Result<(Self, Option<Revision>), serde_json::Error> {
        let metadata = serde_json::from_slice::<Document>(json)?.metadata;
        let mut values = vec![String::new(); fields.len()];
        if !fields.is_empty() {
            let paths = fields.iter().map(|f| Some(f.as_ref())).collect();
            let mut decoder = serde_json::Deserializer::from_slice(json);
            Fields {
                paths,
                values: &mut values,
            }
            .deserialize(&mut decoder)?;
        }
        let header = Self {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            generation: metadata.generation,
            labels: metadata.labels.unwrap_or_default().into_iter().collect(),
            owner_references: metadata.owner_references.unwrap_or_default(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            deletion_timestamp: metadata.deletion_timestamp,
            fields: values,
        };
        Ok((header, metadata.resource_version.parse().ok().map(Revision)))
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

impl Fields<'_, '_> {
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

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let below = |path: &Option<&'_ str>| {
                let rest = path.as_ref()?.strip_prefix(&*key)?;
                Some(rest.len()).filter(|_| rest.is_empty() || rest.starts_with('.'))
            };
            let paths: Vec<Option<&str>> = self
                .paths
                .iter()
                .map(|path| {
                    let left = below(path)?;
                    let path = path.as_ref()?;
                    Some(path[path.len() - left..].trim_start_matches('.'))
                })
                .collect();
            if paths.iter().all(Option::is_none) {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(Fields {
                    paths,
                    values: self.values,
                })?;
            }
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
        assert_eq!(header.fields, ["node-1", "Running", "true", "", "7", ""]);
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
}
