use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    create_errors, created, json, object, row, status_errors, with,
};

fn base() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "a"},
        "spec": {"rules": [{"host": "example.com", "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}},
        ]}}]},
    })
}

#[test]
fn rules_paths_and_backends() {
    const PATH: &str = "/spec/rules/0/http/paths/0/path";
    const BACKEND: &str = "/spec/rules/0/http/paths/0/backend";
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/spec", json!({}))],
            vec!["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
        ),
        (
            vec![("/spec", json!({"defaultBackend": {}}))],
            vec![
                "spec.defaultBackend: Invalid value: \"\": resource or service backend is required",
            ],
        ),
        (
            vec![(PATH, json!("x//y/.."))],
            vec![
                "spec.rules[0].http.paths[0].path: Invalid value: \"x//y/..\": must be an absolute path",
                "spec.rules[0].http.paths[0].path: Invalid value: \"x//y/..\": must not contain '//'",
                "spec.rules[0].http.paths[0].path: Invalid value: \"x//y/..\": cannot end with '/..'",
            ],
        ),
        (
            vec![
                (PATH, json!("x")),
                (
                    "/spec/rules/0/http/paths/0/pathType",
                    json!("ImplementationSpecific"),
                ),
            ],
            vec![
                "spec.rules[0].http.paths[0].path: Invalid value: \"x\": must be an absolute path",
            ],
        ),
        (
            vec![("/spec/rules/0/http/paths/0/pathType", json!(null))],
            vec![
                "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
            ],
        ),
        (
            vec![("/spec/rules/0/http/paths/0/pathType", json!("Regex"))],
            vec![
                "spec.rules[0].http.paths[0].pathType: Unsupported value: \"Regex\": supported values: \"Exact\", \"ImplementationSpecific\", \"Prefix\"",
            ],
        ),
        (
            vec![("/spec/rules/0/http/paths", json!([]))],
            vec!["spec.rules[0].http.paths: Required value"],
        ),
        (
            vec![("/spec/rules/0/host", json!("10.0.0.1"))],
            vec![
                "spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address",
            ],
        ),
        (vec![("/spec/rules/0/host", json!("*.example.com"))], vec![]),
        (
            vec![("/spec/rules/0/host", json!("*.*.com"))],
            vec![
                "spec.rules[0].host: Invalid value: \"*.*.com\": a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
        (
            vec![(BACKEND, json!({"service": {"name": "", "port": {}}}))],
            vec![
                "spec.rules[0].http.paths[0].backend.service.name: Required value",
                "spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
            ],
        ),
        (
            vec![(
                BACKEND,
                json!({"service": {"name": "1st", "port": {"name": "http"}}}),
            )],
            vec![],
        ),
        (
            vec![(
                BACKEND,
                json!({"service": {"name": "web", "port": {"name": "http", "number": 80}}}),
            )],
            vec![
                "spec.rules[0].http.paths[0].backend: Invalid value: \"\": cannot set both port name & port number",
            ],
        ),
        (
            vec![(
                BACKEND,
                json!({"service": {"name": "web", "port": {"number": 70000}}}),
            )],
            vec![
                "spec.rules[0].http.paths[0].backend.service.port.number: Invalid value: 70000: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            vec![(
                "/spec/rules/0/http/paths/0/backend/resource",
                json!({"kind": "Bucket", "name": "b"}),
            )],
            vec![
                "spec.rules[0].http.paths[0].backend: Invalid value: \"\": cannot set both resource and service backends",
            ],
        ),
        (
            vec![(
                BACKEND,
                json!({"resource": {"apiGroup": "x.example.com", "kind": "", "name": "a/b"}}),
            )],
            vec![
                "spec.rules[0].http.paths[0].backend.resource.kind: Required value",
                "spec.rules[0].http.paths[0].backend.resource.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        ),
        (
            vec![(
                "/spec/tls",
                json!([{"hosts": ["example.com", "*.example.com"], "secretName": "cert"}]),
            )],
            vec![],
        ),
        (
            vec![
                (
                    "/metadata/annotations",
                    json!({"kubernetes.io/ingress.class": "a"}),
                ),
                ("/spec/ingressClassName", json!("b")),
            ],
            vec![
                "annotations.kubernetes.io/ingress.class: Invalid value: \"a\": must match `ingressClassName` when both are specified",
            ],
        ),
    ] {
        assert_eq!(
            create_errors(&IngressStrategy, &with(&base(), &changes)),
            expected
        );
    }
}

#[test]
fn status_is_written_apart() {
    let sent = with(
        &base(),
        &[("/status/loadBalancer/ingress", json!([{"ip": "1.2.3.4"}]))],
    );
    let made = json(&created(&IngressStrategy, &sent));
    assert_eq!(made["status"], json!({}));
    for (ip, expected) in [
        ("1.2.3.4", vec![]),
        ("01.2.3.4", vec![]), // it was there before
        (
            "1.2.3.04",
            vec![
                "status.loadBalancer.ingress[0].ip: Invalid value: \"1.2.3.04\": must not have leading 0s",
            ],
        ),
    ] {
        let with_ip = |ip| {
            with(
                &base(),
                &[("/status/loadBalancer/ingress", json!([{"ip": ip}]))],
            )
        };
        assert_eq!(
            status_errors(&IngressStrategy, &with_ip("01.2.3.4"), &with_ip(ip)),
            expected
        );
    }
    let named = with(
        &base(),
        &[(
            "/status/loadBalancer/ingress",
            json!([{"hostname": "1.2.3.4"}]),
        )],
    );
    assert_eq!(
        status_errors(&IngressStrategy, &base(), &named),
        [
            "status.loadBalancer.ingress[0].hostname: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address"
        ]
    );
}

#[test]
fn the_old_annotation_is_warned_of() {
    let old = with(
        &base(),
        &[("/metadata/annotations", json!({CLASS_ANNOTATION: "nginx"}))],
    );
    assert_eq!(
        IngressStrategy.warnings(&object(&old)),
        [
            "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
        ]
    );
    assert!(IngressStrategy.warnings(&object(&base())).is_empty());
}

#[test]
fn rows() {
    let rules: Vec<Value> = ["a", "b", "c", "d"]
        .iter()
        .map(|host| json!({"host": host}))
        .collect();
    let ingress = with(
        &base(),
        &[
            ("/spec/rules", json!(rules)),
            ("/spec/tls", json!([{"hosts": ["a"]}])),
            ("/spec/ingressClassName", json!("nginx")),
            (
                "/status/loadBalancer/ingress",
                json!([{"ip": "1.2.3.5"}, {"hostname": "lb"}, {"ip": "1.2.3.4"}]),
            ),
        ],
    );
    let cells: Vec<Value> = row(&IngressStrategy, &ingress)
        .into_iter()
        .map(|(_, v)| v)
        .collect();
    assert_eq!(
        cells,
        [
            "web",
            "nginx",
            "a,b,c + 1 more...",
            "1.2.3.4,1.2.3.5,lb",
            "80, 443",
            "<unknown>"
        ]
    );
    let plain = with(&base(), &[("/spec", json!({"defaultBackend": {}}))]);
    let cells: Vec<Value> = row(&IngressStrategy, &plain)
        .into_iter()
        .map(|(_, v)| v)
        .collect();
    assert_eq!(cells, ["web", "<none>", "*", "", "80", "<unknown>"]);
}
