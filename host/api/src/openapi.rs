//! OpenAPI v3 documents, one a group and version, as `/openapi/v3` serves them, and the v2 document of `/openapi/v2`.
//! Source: <https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-interface-definition>
//!
//! A document is made at its first request and kept as bytes. Schemas come from the kinds themselves at run time, list and
//! patch keys from the table of facts. What clients rely on: `kubectl explain` finds a kind by the
//! `x-kubernetes-group-version-kind` of an operation and a component; `kubectl apply` computes patches from the list and
//! patch extensions; `kubectl` leaves validation to the server if PATCH has a `fieldValidation` parameter.

mod gnostic;
mod paths;
mod schema;
#[cfg(test)]
mod tests;
mod v2;

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::{gvk::GroupVersionKind, resource::ResourceInfo};

/// Gives the schema of a kind: a reference to a component that it adds to the generator's definitions.
pub type SchemaProvider = Arc<dyn Fn(&mut SchemaGenerator) -> Schema + Send + Sync>;

/// The provider of a type with a schema of its own.
pub fn provider<T: JsonSchema>() -> SchemaProvider {
    Arc::new(|generator| generator.subschema_for::<T>())
}

/// A served resource.
#[derive(Clone)]
pub struct Served {
    pub resource: ResourceInfo,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verbs: Vec<String>,
    pub schema: SchemaProvider,
    pub subresources: Vec<Subresource>,
}

/// A served subresource.
#[derive(Clone)]
pub struct Subresource {
    /// `status`, `scale`, `binding`.
    pub name: String,
    /// What its bodies are.
    pub kind: GroupVersionKind,
    /// `get`, `create`, `update`, `patch`.
    pub verbs: Vec<String>,
    pub schema: SchemaProvider,
}

/// A document and the hash of its content.
#[derive(Clone, Debug)]
pub struct Document {
    pub bytes: Bytes,
    /// Hexadecimal; the `hash` parameter of the document's URL.
    pub hash: String,
}

/// The documents of everything that is served; made anew when that changes.
pub struct OpenApi {
    /// By path without slashes at its ends: `api/v1`, `apis/apps/v1`.
    documents: BTreeMap<String, Lazy>,
    v2: OnceLock<Document>,
    gnostic: OnceLock<Bytes>,
}

struct Lazy {
    served: Vec<Served>,
    hash: OnceLock<String>,
    document: OnceLock<Document>,
}

impl OpenApi {
    /// Nothing is made yet.
    pub fn new(served: impl IntoIterator<Item = Served>) -> Self {
        let mut documents: BTreeMap<String, Lazy> = BTreeMap::new();
        for each in served {
            let path = each.resource.gvr.url_prefix();
            let lazy = documents
                .entry(path.trim_start_matches('/').to_owned())
                .or_insert_with(|| Lazy {
                    served: Vec::new(),
                    hash: OnceLock::new(),
                    document: OnceLock::new(),
                });
            lazy.served.push(each);
        }
        Self {
            documents,
            v2: OnceLock::new(),
            gnostic: OnceLock::new(),
        }
    }

    /// The body of `/openapi/v3`: where the documents are.
    pub fn index(&self) -> Bytes {
        let paths: Map<String, Value> = self
            .documents
            .iter()
            .map(|(path, lazy)| {
                let url = format!("/openapi/v3/{path}?hash={}", lazy.hash());
                (path.clone(), json!({ "serverRelativeURL": url }))
            })
            .collect();
        Bytes::from(json!({ "paths": paths }).to_string())
    }

    /// The document at a path: `api/v1`, `apis/apps/v1`.
    pub fn document(&self, path: &str) -> Option<&Document> {
        let lazy = self.documents.get(path)?;
        Some(lazy.document.get_or_init(|| lazy.make()))
    }

    /// The body of `/openapi/v2`, all groups and versions in one, for clients that know no v3.
    pub fn v2(&self) -> &Document {
        self.v2.get_or_init(|| {
            let all = self.documents.values().map(|lazy| document(&lazy.served));
            Document::new(&v2::convert(all))
        })
    }
}

impl OpenApi {
    /// The same document in the protobuf form of Go clients.
    pub fn v2_protobuf(&self) -> Bytes {
        let made = self.gnostic.get_or_init(|| {
            let document = serde_json::from_slice(&self.v2().bytes).unwrap_or_default(); // made here
            gnostic::encode(&document).into()
        });
        made.clone()
    }
}

impl Lazy {
    /// Only the hash is kept: an index names all documents, and a client reads one or two of them.
    fn hash(&self) -> &str {
        self.hash.get_or_init(|| match self.document.get() {
            Some(document) => document.hash.clone(),
            None => self.make().hash,
        })
    }

    fn make(&self) -> Document {
        Document::new(&document(&self.served))
    }
}

impl Document {
    fn new(content: &Value) -> Self {
        let text = content.to_string();
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self {
            bytes: Bytes::from(text),
            hash: format!("{:016X}", hasher.finish()),
        }
    }
}

fn document(served: &[Served]) -> Value {
    let mut components = schema::Components::new();
    let mut all = Map::new();
    for each in served {
        paths::add(&mut all, each, &mut components);
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "v1.36.0" },
        "paths": all,
        "components": {
            "schemas": components.finish(),
            "securitySchemes": {
                "BearerToken": {
                    "type": "apiKey", "in": "header", "name": "authorization",
                    "description": "Bearer Token authentication",
                },
            },
        },
    })
}
