use std::collections::BTreeSet;

use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v1::Scale, core::v1};

use super::*;
use crate::{GroupVersionResource, plugin_kind::Plugin};

const ALL: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

fn served<T: JsonSchema + k8s_openapi::Resource>(namespaced: bool) -> Served {
    Served {
        resource: ResourceInfo {
            gvr: GroupVersionResource::of(T::GROUP, T::VERSION, T::URL_PATH_SEGMENT),
            kind: T::KIND.into(),
            singular: T::KIND.to_lowercase().into(),
            namespaced,
            short_names: Vec::new(),
            categories: Vec::new(),
            selectable_fields: Vec::new(),
            storage_prefix: T::URL_PATH_SEGMENT.into(),
        },
        verbs: ALL.map(str::to_owned).to_vec(),
        schema: provider::<T>(),
        subresources: Vec::new(),
    }
}

fn subresource<T: JsonSchema + k8s_openapi::Resource>(name: &str) -> Subresource {
    Subresource {
        name: name.to_owned(),
        kind: GroupVersionKind::of(T::GROUP, T::VERSION, T::KIND),
        verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
        schema: provider::<T>(),
    }
}

fn open_api() -> OpenApi {
    let deployment = Served {
        subresources: vec![
            subresource::<Deployment>("status"),
            subresource::<Scale>("scale"),
        ],
        ..served::<Deployment>(true)
    };
    OpenApi::new([
        served::<v1::Pod>(true),
        served::<v1::Node>(false),
        deployment,
        served::<Plugin>(false),
    ])
}

fn document(path: &str) -> Value {
    let open_api = open_api();
    let document = open_api
        .document(path)
        .unwrap_or_else(|| panic!("no {path}"));
    serde_json::from_slice(&document.bytes).unwrap()
}

fn schema<'a>(document: &'a Value, name: &str) -> &'a Value {
    let found = &document["components"]["schemas"][name];
    assert!(found.is_object(), "no component {name}");
    found
}

#[test]
fn the_index_names_every_document_by_its_hash() {
    let open_api = open_api();
    let index: Value = serde_json::from_slice(&open_api.index()).unwrap();
    let paths: Vec<&String> = index["paths"].as_object().unwrap().keys().collect();
    assert_eq!(
        paths,
        [
            "api/v1",
            "apis/apps/v1",
            "apis/plugins.pilothouse.dev/v1alpha1"
        ]
    );
    let hash = &open_api.document("apis/apps/v1").unwrap().hash;
    assert_eq!(
        index["paths"]["apis/apps/v1"]["serverRelativeURL"],
        format!("/openapi/v3/apis/apps/v1?hash={hash}")
    );
    assert_eq!(
        open_api.index(),
        self::open_api().index(),
        "a hash depends on the content alone"
    );
    assert!(open_api.document("apis/nothing/v1").is_none());
}

#[test]
fn lists_carry_their_keys() {
    let document = document("api/v1");
    let pod_spec = schema(&document, "io.k8s.api.core.v1.PodSpec");
    let containers = &pod_spec["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    let volumes = &pod_spec["properties"]["volumes"];
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(
        pod_spec["properties"]["nodeSelector"]["x-kubernetes-map-type"],
        "atomic"
    );
    let ports = &schema(&document, "io.k8s.api.core.v1.Container")["properties"]["ports"];
    assert_eq!(
        ports["x-kubernetes-list-map-keys"],
        json!(["containerPort", "protocol"])
    );
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
    let selector = schema(&document, "io.k8s.api.core.v1.NodeSelector");
    assert_eq!(selector["x-kubernetes-map-type"], "atomic");
    let port = schema(&document, "io.k8s.apimachinery.pkg.util.intstr.IntOrString");
    assert_eq!(port["format"], "int-or-string");
}

#[test]
fn kinds_are_found_by_their_coordinates() {
    let document = document("apis/apps/v1");
    let gvk = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    let deployment = schema(&document, "io.k8s.api.apps.v1.Deployment");
    assert_eq!(deployment["x-kubernetes-group-version-kind"], json!([gvk]));
    assert!(deployment["description"].as_str().unwrap().len() > 20);
    assert_eq!(deployment.get("required"), None);
    let list = schema(&document, "io.k8s.api.apps.v1.DeploymentList");
    assert_eq!(
        list["x-kubernetes-group-version-kind"][0]["kind"],
        "DeploymentList"
    );

    let paths = document["paths"].as_object().unwrap();
    let names: BTreeSet<&str> = paths.keys().map(String::as_str).collect();
    let base = "/apis/apps/v1/namespaces/{namespace}/deployments";
    let item = format!("{base}/{{name}}");
    let (status, scale) = (format!("{item}/status"), format!("{item}/scale"));
    let expected = ["/apis/apps/v1/deployments", base, &item, &status, &scale];
    assert_eq!(names, expected.into_iter().collect());
    for (path, method, id, action) in [
        (base, "get", "listAppsV1NamespacedDeployment", "list"),
        (base, "post", "createAppsV1NamespacedDeployment", "post"),
        (
            base,
            "delete",
            "deleteAppsV1CollectionNamespacedDeployment",
            "deletecollection",
        ),
        (&*item, "get", "readAppsV1NamespacedDeployment", "get"),
        (&*item, "put", "replaceAppsV1NamespacedDeployment", "put"),
        (&*item, "patch", "patchAppsV1NamespacedDeployment", "patch"),
        (
            &*item,
            "delete",
            "deleteAppsV1NamespacedDeployment",
            "delete",
        ),
        (
            &*status,
            "patch",
            "patchAppsV1NamespacedDeploymentStatus",
            "patch",
        ),
        (
            "/apis/apps/v1/deployments",
            "get",
            "listAppsV1DeploymentForAllNamespaces",
            "list",
        ),
    ] {
        let operation = &paths[path][method];
        assert_eq!(operation["operationId"], id, "{method} {path}");
        assert_eq!(operation["x-kubernetes-action"], action, "{method} {path}");
        assert_eq!(
            operation["x-kubernetes-group-version-kind"], gvk,
            "{method} {path}"
        );
    }
    let scale = &paths[&*scale]["get"]["x-kubernetes-group-version-kind"];
    assert_eq!(scale["kind"], "Scale");
    for (path, method) in [(&*item, "patch"), (&*item, "put"), (base, "post")] {
        let parameters = paths[path][method]["parameters"].as_array().unwrap();
        assert!(
            parameters.iter().any(|p| p["name"] == "fieldValidation"),
            "{method} {path}"
        );
    }
}

/// Every reference leads to a component, and one beside other words stands in `allOf`.
fn check_references(value: &Value, components: &Map<String, Value>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get("$ref") {
                let name = reference.strip_prefix("#/components/schemas/").unwrap();
                assert!(components.contains_key(name), "{name}");
                assert_eq!(object.len(), 1, "{value}");
            }
            object
                .values()
                .for_each(|value| check_references(value, components));
        }
        Value::Array(elements) => {
            elements
                .iter()
                .for_each(|value| check_references(value, components));
        }
        _ => {}
    }
}

#[test]
fn documents_are_whole() {
    for path in [
        "api/v1",
        "apis/apps/v1",
        "apis/plugins.pilothouse.dev/v1alpha1",
    ] {
        let document = document(path);
        let components = document["components"]["schemas"].as_object().unwrap();
        check_references(&document, components);
        let text = document.to_string();
        assert!(!text.contains("x-kubernetes-int-or-string"), "{path}");
        assert!(!text.contains("\"$defs\""), "{path}");
    }
}

#[test]
fn our_own_kind_explains_itself() {
    let document = document("apis/plugins.pilothouse.dev/v1alpha1");
    let plugin = schema(&document, "dev.pilothouse.plugins.v1alpha1.Plugin");
    assert_eq!(
        plugin["x-kubernetes-group-version-kind"][0]["kind"],
        "Plugin"
    );
    assert_eq!(plugin["properties"]["kind"]["type"], "string");
    let spec = schema(&document, "dev.pilothouse.plugins.v1alpha1.PluginSpec");
    assert_eq!(
        spec["properties"]["config"]["x-kubernetes-preserve-unknown-fields"],
        true
    );
    assert!(spec["properties"]["capabilities"]["description"].is_string());
    let patch = &document["paths"]["/apis/plugins.pilothouse.dev/v1alpha1/plugins/{name}"]["patch"];
    assert_eq!(
        patch["operationId"],
        "patchPluginsPilothouseDevV1alpha1Plugin"
    );
}

#[test]
fn one_v2_document_says_the_same() {
    let open_api = open_api();
    let v2: Value = serde_json::from_slice(&open_api.v2().bytes).unwrap();
    let definitions = v2["definitions"].as_object().unwrap();
    let containers = &definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(
        containers["items"]["$ref"],
        "#/definitions/io.k8s.api.core.v1.Container"
    );
    assert_eq!(
        definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["type"],
        "string"
    );
    let patch = &v2["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let parameters = patch["parameters"].as_array().unwrap();
    let found = |name: &str| parameters.iter().find(|p| p["name"] == name).unwrap();
    assert_eq!(found("fieldValidation")["type"], "string");
    assert_eq!(found("body")["in"], "body");
    assert_eq!(
        patch["responses"]["200"]["schema"]["$ref"],
        "#/definitions/io.k8s.api.apps.v1.Deployment"
    );
    let text = v2.to_string();
    for word in ["components", "requestBody", "oneOf", "nullable"] {
        assert!(!text.contains(&format!("\"{word}\"")), "{word}");
    }
}

/// The typed structs and the table come from different publications of the same definitions.
#[test]
fn the_table_of_facts_knows_every_field_of_the_typed_structs() {
    let ours = "apis/plugins.pilothouse.dev/v1alpha1";
    let documents = [document("api/v1"), document("apis/apps/v1"), document(ours)];
    let mut compared = 0;
    for document in &documents {
        for (name, component) in document["components"]["schemas"].as_object().unwrap() {
            let Some(of) = crate::facts::by_schema_name(name) else {
                assert!(
                    !name.contains("pilothouse") || name.ends_with("List"),
                    "{name}"
                );
                continue;
            };
            let mut known: BTreeSet<&str> = of.json_fields().iter().map(|f| f.name).collect();
            if of.is_typed {
                known.extend(["apiVersion", "kind"]);
            }
            let published = component["properties"].as_object();
            let published: BTreeSet<&str> = published
                .into_iter()
                .flatten()
                .map(|(name, _)| name.as_str())
                .collect();
            assert_eq!(known, published, "{name}");
            compared += 1;
        }
    }
    assert!(compared > 150, "{compared}");
}

/// Fields of a message by number.
fn parts(message: &[u8], number: u32) -> Vec<Vec<u8>> {
    let fields = crate::protobuf::wire::Fields::new(message).map(Result::unwrap);
    let found = fields.filter(|(found, _)| *found == number);
    found
        .map(|(_, payload)| payload.bytes().unwrap().to_vec())
        .collect()
}

/// The value of a name among messages that have their name as field 1 and their value as field 2.
fn named(all: &[Vec<u8>], name: &str) -> Vec<u8> {
    let found = all.iter().find(|each| parts(each, 1) == [name.as_bytes()]);
    parts(found.unwrap_or_else(|| panic!("no {name}")), 2).remove(0)
}

#[test]
fn the_v2_document_has_a_protobuf_form() {
    let document = open_api().v2_protobuf();
    assert_eq!(parts(&document, 1), [b"2.0"]);
    let definitions = parts(&parts(&document, 9)[0], 1);
    let deployment = named(&definitions, "io.k8s.api.apps.v1.Deployment");
    let kinds = parts(
        &named(&parts(&deployment, 31), "x-kubernetes-group-version-kind"),
        2,
    );
    let kinds: Value = serde_json::from_slice(&kinds[0]).unwrap();
    assert_eq!(kinds[0]["kind"], "Deployment");
    assert_eq!(parts(&parts(&deployment, 22)[0], 1), [b"object"]);
    let pod = named(&definitions, "io.k8s.api.core.v1.PodSpec");
    let containers = named(&parts(&parts(&pod, 25)[0], 1), "containers");
    let items = parts(&parts(&containers, 23)[0], 1);
    assert_eq!(
        parts(&items[0], 1),
        [b"#/definitions/io.k8s.api.core.v1.Container"]
    );

    let paths = parts(&parts(&document, 8)[0], 2);
    let path = named(
        &paths,
        "/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
    );
    let patch = parts(&path, 8).remove(0);
    let queries: Vec<Vec<u8>> = parts(&patch, 8)
        .iter()
        .flat_map(|item| parts(item, 1))
        .flat_map(|parameter| parts(&parameter, 2))
        .flat_map(|other| parts(&other, 3))
        .flat_map(|query| parts(&query, 4))
        .collect();
    assert!(
        queries.contains(&b"fieldValidation".to_vec()),
        "{queries:?}"
    );
    let response = named(&parts(&parts(&patch, 9)[0], 1), "200");
    let schema = parts(&parts(&parts(&response, 1)[0], 2)[0], 1);
    assert_eq!(
        parts(&schema[0], 1),
        [b"#/definitions/io.k8s.api.apps.v1.Deployment"]
    );
}
