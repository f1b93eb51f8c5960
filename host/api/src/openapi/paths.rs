//! The paths of a document and their operations.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Status};
use serde_json::{Map, Value, json};

use super::{
    Served,
    schema::{Components, group_version_kind},
};
use crate::gvk::GroupVersionKind;

/// The media types of an object.
const OBJECT_TYPES: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// The media types of PATCH; the last is for built-in kinds.
const PATCH_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
];

/// Query parameters: name, type, description.
type Parameter = (&'static str, &'static str, &'static str);

const DRY_RUN: Parameter = (
    "dryRun",
    "string",
    "All: everything happens but the change itself.",
);
const FIELD_MANAGER: Parameter = ("fieldManager", "string", "Who makes the change.");
const FIELD_VALIDATION: Parameter = (
    "fieldValidation",
    "string",
    "What to do about unknown and duplicate fields: Ignore, Warn or Strict.",
);
const FORCE: Parameter = (
    "force",
    "boolean",
    "An apply takes fields over from other managers.",
);
const WRITE: [Parameter; 3] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
const PATCH: [Parameter; 4] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
const DELETE: [Parameter; 4] = [
    DRY_RUN,
    (
        "gracePeriodSeconds",
        "integer",
        "How long the object may take to end; 0 deletes at once.",
    ),
    (
        "orphanDependents",
        "boolean",
        "Deprecated: propagationPolicy says it.",
    ),
    (
        "propagationPolicy",
        "string",
        "What becomes of dependents: Foreground, Background or Orphan.",
    ),
];
const LIST: [Parameter; 10] = [
    (
        "allowWatchBookmarks",
        "boolean",
        "The watch may have events that only tell the resource version.",
    ),
    ("continue", "string", "Where the previous page ended."),
    ("fieldSelector", "string", "Only objects with these fields."),
    ("labelSelector", "string", "Only objects with these labels."),
    ("limit", "integer", "No more objects than these."),
    (
        "resourceVersion",
        "string",
        "The version to read, or to watch from.",
    ),
    (
        "resourceVersionMatch",
        "string",
        "How resourceVersion is meant: Exact or NotOlderThan.",
    ),
    (
        "sendInitialEvents",
        "boolean",
        "The watch begins with what exists.",
    ),
    (
        "timeoutSeconds",
        "integer",
        "How long the call may last, a watch included.",
    ),
    ("watch", "boolean", "Changes instead of a list."),
];

/// Where and what an operation is, for its id and extensions.
struct Target<'a> {
    served: &'a Served,
    kind: GroupVersionKind,
    /// What follows the kind in operation ids: `Status`.
    suffix: String,
    object: Value,
}

/// Adds the paths of a resource and its subresources.
pub(super) fn add(paths: &mut Map<String, Value>, served: &Served, components: &mut Components) {
    let resource = &served.resource;
    let kind = resource.gvk();
    let object = components.kind(&served.schema, &kind);
    let prefix = resource.gvr.url_prefix();
    let plural = &resource.gvr.resource;
    let base = match resource.namespaced {
        true => format!("{prefix}/namespaces/{{namespace}}/{plural}"),
        false => format!("{prefix}/{plural}"),
    };
    let target = Target {
        served,
        kind,
        suffix: String::new(),
        object,
    };
    let has = |verb: &str| served.verbs.iter().any(|v| v == verb);
    let collection = target.collection(&has, components);
    insert(
        paths,
        &base,
        path_parameters(resource.namespaced, false),
        collection,
    );
    if resource.namespaced && has("list") {
        let mut everywhere = Map::new();
        everywhere.insert(
            "get".to_owned(),
            target.list("ForAllNamespaces", components),
        );
        insert(paths, &format!("{prefix}/{plural}"), Vec::new(), everywhere);
    }
    let item = format!("{base}/{{name}}");
    let operations = target.item(&has, components);
    insert(
        paths,
        &item,
        path_parameters(resource.namespaced, true),
        operations,
    );
    for subresource in &served.subresources {
        let target = Target {
            served,
            kind: subresource.kind.clone(),
            suffix: capitalised(&subresource.name),
            object: components.kind(&subresource.schema, &subresource.kind),
        };
        let has = |verb: &str| subresource.verbs.iter().any(|v| v == verb);
        let mut operations = target.item(&has, components);
        if has("create") {
            operations.insert("post".to_owned(), target.create());
        }
        let path = format!("{item}/{}", subresource.name);
        insert(
            paths,
            &path,
            path_parameters(resource.namespaced, true),
            operations,
        );
    }
}

fn insert(
    paths: &mut Map<String, Value>,
    path: &str,
    mut parameters: Vec<Value>,
    mut operations: Map<String, Value>,
) {
    if operations.is_empty() {
        return;
    }
    parameters.push(query(&("pretty", "string", "Indents the answer.")));
    operations.insert("parameters".to_owned(), Value::Array(parameters));
    paths.insert(path.to_owned(), Value::Object(operations));
}

impl Target<'_> {
    fn collection(
        &self,
        has: &dyn Fn(&str) -> bool,
        components: &mut Components,
    ) -> Map<String, Value> {
        let mut operations = Map::new();
        if has("list") {
            operations.insert("get".to_owned(), self.list("", components));
        }
        if has("create") {
            operations.insert("post".to_owned(), self.create());
        }
        if has("deletecollection") {
            let parameters: Vec<Parameter> = DELETE.into_iter().chain(LIST).collect();
            let status = components.of::<Status>();
            let mut operation = self.operation(
                "deletecollection",
                "delete",
                "Collection",
                &parameters,
                &status,
            );
            operation["requestBody"] = body(&["*/*"], &components.of::<DeleteOptions>());
            operations.insert("delete".to_owned(), operation);
        }
        operations
    }

    fn item(&self, has: &dyn Fn(&str) -> bool, components: &mut Components) -> Map<String, Value> {
        let mut operations = Map::new();
        if has("get") {
            operations.insert(
                "get".to_owned(),
                self.operation("get", "read", "", &[], &self.object),
            );
        }
        if has("update") {
            let mut operation = self.operation("put", "replace", "", &WRITE, &self.object);
            operation["requestBody"] = body(&["*/*"], &self.object);
            operations.insert("put".to_owned(), operation);
        }
        if has("patch") {
            let mut operation = self.operation("patch", "patch", "", &PATCH, &self.object);
            let patch = json!({ "type": "object", "description": "A patch of its media type." });
            operation["requestBody"] = body(&PATCH_TYPES, &patch);
            operations.insert("patch".to_owned(), operation);
        }
        if has("delete") {
            let status = components.of::<Status>();
            let mut operation = self.operation("delete", "delete", "", &DELETE, &status);
            operation["requestBody"] = body(&["*/*"], &components.of::<DeleteOptions>());
            operations.insert("delete".to_owned(), operation);
        }
        operations
    }

    fn create(&self) -> Value {
        let mut operation = self.operation("post", "create", "", &WRITE, &self.object);
        operation["requestBody"] = body(&["*/*"], &self.object);
        operation
    }

    fn list(&self, suffix: &str, components: &mut Components) -> Value {
        let list = components.list(&self.object, &self.kind);
        let mut operation = self.operation("list", "list", "", &LIST, &list);
        if !suffix.is_empty() {
            operation["operationId"] = json!(self.id("list", "", "", suffix));
        }
        operation
    }

    fn operation(
        &self,
        action: &str,
        verb: &str,
        scope: &str,
        parameters: &[Parameter],
        answer: &Value,
    ) -> Value {
        let namespaced = match self.served.resource.namespaced {
            true => "Namespaced",
            false => "",
        };
        let gvr = &self.served.resource.gvr;
        let parameters: Vec<Value> = parameters.iter().map(query).collect();
        json!({
            "operationId": self.id(verb, scope, namespaced, &self.suffix),
            "tags": [format!("{}_{}", uncapitalised(&group_title(&gvr.group)), gvr.version)],
            "parameters": parameters,
            "responses": {
                "200": { "description": "OK", "content": content(&OBJECT_TYPES, answer) },
                "401": { "description": "Unauthorized" },
            },
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": group_version_kind(&self.kind),
        })
    }

    /// `readAppsV1NamespacedDeploymentStatus`
    fn id(&self, verb: &str, scope: &str, namespaced: &str, suffix: &str) -> String {
        let resource = &self.served.resource;
        let group = group_title(&resource.gvr.group);
        let version = capitalised(&resource.gvr.version);
        format!(
            "{verb}{group}{version}{scope}{namespaced}{}{suffix}",
            resource.kind
        )
    }
}

fn path_parameters(namespaced: bool, named: bool) -> Vec<Value> {
    let parameter = |name: &str, description: &str| {
        json!({
            "name": name, "in": "path", "required": true, "description": description,
            "schema": { "type": "string", "uniqueItems": true },
        })
    };
    let mut parameters = Vec::new();
    if named {
        parameters.push(parameter("name", "The object's name."));
    }
    if namespaced {
        parameters.push(parameter("namespace", "The object's namespace."));
    }
    parameters
}

fn query((name, of, description): &Parameter) -> Value {
    json!({
        "name": name, "in": "query", "description": description,
        "schema": { "type": of, "uniqueItems": true },
    })
}

fn content(media_types: &[&str], schema: &Value) -> Value {
    let types = media_types
        .iter()
        .map(|media_type| ((*media_type).to_owned(), json!({ "schema": schema })));
    Value::Object(types.collect())
}

fn body(media_types: &[&str], schema: &Value) -> Value {
    json!({ "required": true, "content": content(media_types, schema) })
}

/// `Core`, `Apps`, `RbacAuthorization`.
fn group_title(group: &str) -> String {
    match group.strip_suffix(".k8s.io").unwrap_or(group) {
        "" => "Core".to_owned(),
        group => group.split('.').map(capitalised).collect(),
    }
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map(|first| first.to_ascii_uppercase())
        .into_iter()
        .chain(chars)
        .collect()
}

fn uncapitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map(|first| first.to_ascii_lowercase())
        .into_iter()
        .chain(chars)
        .collect()
}
