//! Admission requests to try a plugin with: ordinary ones that its rules match, and hostile ones.

use bytes::Bytes;
use pilothouse_api::{GroupVersionKind, GroupVersionResource};
use serde_json::{Value, json};

use crate::{
    admission::{Operation, Request, User},
    manifest::{AdmissionSettings, OperationType},
};

const OPERATIONS: [Operation; 4] = [
    Operation::Create,
    Operation::Update,
    Operation::Delete,
    Operation::Connect,
];

/// A pod as people write them, about 2 kB of JSON.
pub fn pod() -> Value {
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/team/{name}:1.2.3"), "imagePullPolicy": "IfNotPresent",
            "args": ["--verbosity=2", "--listen=:8080"],
            "ports": [{ "containerPort": 8080, "name": "http", "protocol": "TCP" }],
            "env": [{ "name": "POD_NAME", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } } },
                    { "name": "LOG_FORMAT", "value": "json" }],
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
            "livenessProbe": { "httpGet": { "path": "/healthz", "port": "http", "scheme": "HTTP" }, "periodSeconds": 10 },
            "readinessProbe": { "httpGet": { "path": "/readyz", "port": "http", "scheme": "HTTP" }, "periodSeconds": 5 },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/config", "readOnly": true }],
            "securityContext": { "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true },
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-6d4cf56db6-x2x9k", "namespace": "default",
            "labels": { "app": "web", "tier": "frontend", "pod-template-hash": "6d4cf56db6" },
            "annotations": { "example.com/owner": "team-a", "example.com/revision": "42" },
        },
        "spec": {
            "containers": [container("web"), container("sidecar")],
            "volumes": [{ "name": "config", "configMap": { "name": "web-config" } }],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "nodeSelector": { "kubernetes.io/os": "linux" },
            "tolerations": [{ "key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule" }],
        },
    })
}

/// A request of an ordinary user about an object of any resource.
pub fn request(resource: &GroupVersionResource, operation: Operation, object: &Value) -> Request {
    let kind = object["kind"].as_str().unwrap_or("Thing").to_owned();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let bytes = Bytes::from(object.to_string());
    Request {
        uid: "11111111-2222-4333-8444-555555555555".to_owned(),
        kind: GroupVersionKind {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: kind.into(),
        },
        resource: resource.clone(),
        subresource: String::new(),
        name: object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        namespace: namespace.to_owned(),
        namespaced: !namespace.is_empty(),
        operation,
        user: User {
            name: "alice".to_owned(),
            uid: "alice-uid".to_owned(),
            groups: vec!["system:authenticated".to_owned()],
            extra: vec![("example.com/team".to_owned(), vec!["a".to_owned()])],
        },
        dry_run: false,
        object: (operation != Operation::Delete).then(|| bytes.clone()),
        old_object: matches!(operation, Operation::Update | Operation::Delete).then_some(bytes),
        options: Bytes::new(),
        built_in_only: false,
        namespace_object: None,
        deadline: None,
    }
}

/// Ordinary requests that the rules match.
pub fn ordinary(settings: &AdmissionSettings) -> Vec<Request> {
    let mut small = pod();
    small["metadata"]["name"] = "small".into();
    small["spec"] = json!({ "containers": [{ "name": "c", "image": "c" }] });
    let mut unnamed = small.clone();
    unnamed["metadata"] = json!({ "generateName": "job-", "namespace": "default" });
    let thing = |kind: &str, namespaced: bool| {
        let mut thing =
            json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "sample" } });
        if namespaced {
            thing["metadata"]["namespace"] = "default".into();
        }
        thing
    };
    let mut objects = vec![
        (GroupVersionResource::of("", "v1", "pods"), pod()),
        (GroupVersionResource::of("", "v1", "pods"), small),
        (GroupVersionResource::of("", "v1", "pods"), unnamed),
        (
            GroupVersionResource::of("", "v1", "namespaces"),
            thing("Namespace", false),
        ),
        (
            GroupVersionResource::of("", "v1", "configmaps"),
            thing("ConfigMap", true),
        ),
        (
            GroupVersionResource::of("", "v1", "nodes"),
            thing("Node", false),
        ),
    ];
    // What the rules name and the list above has not got.
    for rule in &settings.rules {
        let first = |list: &[String], any: &str| match list.first().map(String::as_str) {
            None | Some("*") => any.to_owned(),
            Some(word) => word.to_owned(),
        };
        for resource in rule.resources.iter().filter(|r| !r.contains(['*', '/'])) {
            let of = GroupVersionResource {
                group: first(&rule.api_groups, "").into(),
                version: first(&rule.api_versions, "v1").into(),
                resource: resource.clone().into(),
            };
            if !objects.iter().any(|(known, _)| *known == of) {
                objects.push((of, thing("Sample", true)));
            }
        }
    }
    let mut requests = Vec::new();
    for (resource, object) in &objects {
        for operation in OPERATIONS {
            let request = request(resource, operation, object);
            if matches(settings, &request) {
                requests.push(request);
            }
        }
    }
    requests
}

/// The ordinary requests with what nobody should send.
pub(super) fn hostile(settings: &AdmissionSettings) -> Vec<(String, Request)> {
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let many: Vec<String> = (0..20_000).map(|n| format!("\"k{n}\":\"v\"")).collect();
    let long = "x".repeat(1 << 20);
    let bodies: [(&str, String); 12] = [
        ("no JSON", "\u{fffd}{".to_owned()),
        ("nothing", String::new()),
        ("null", "null".to_owned()),
        ("a number", "17".to_owned()),
        ("an empty object", "{}".to_owned()),
        ("null metadata and spec", r#"{"metadata":null,"spec":null}"#.to_owned()),
        ("wrong types", r#"{"metadata":[],"spec":"x"}"#.to_owned()),
        ("a list as spec", r#"{"metadata":{"name":1},"spec":[]}"#.to_owned()),
        (
            "containers of the wrong type",
            r#"{"metadata":{"name":"x"},"spec":{"containers":{"a":1},"tolerations":7,"volumes":"x"}}"#.to_owned(),
        ),
        ("10,000 nested lists", format!(r#"{{"metadata":{{"name":"x"}},"spec":{{"x":{deep}}}}}"#)),
        ("20,000 labels", format!(r#"{{"metadata":{{"labels":{{{}}}}},"spec":{{}}}}"#, many.join(","))),
        ("a name of 1 MiB", format!(r#"{{"metadata":{{"name":"{long}"}},"spec":{{"containers":[]}}}}"#)),
    ];
    let mut requests = Vec::new();
    for ordinary in ordinary(settings).into_iter().take(4) {
        for (what, body) in &bodies {
            let mut request = ordinary.clone();
            let body = Bytes::from(body.clone());
            request.object = request.object.map(|_| body.clone());
            request.old_object = request.old_object.map(|_| body.clone());
            requests.push(((*what).to_owned(), request));
        }
        let mut bare = ordinary;
        bare.object = None;
        bare.old_object = None;
        bare.name = long.clone();
        requests.push(("no object and a name of 1 MiB".to_owned(), bare));
    }
    requests
}

fn matches(settings: &AdmissionSettings, request: &Request) -> bool {
    let operation: OperationType = request.operation.in_rules();
    let of = &request.resource;
    settings.matches(
        operation,
        &of.group,
        &of.version,
        &of.resource,
        "",
        request.namespaced,
    )
}
