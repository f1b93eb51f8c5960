use serde_json::{Value, json};

use super::*;
use crate::registry::kinds::testing::{create_errors, created, json, row, status_errors, with};

fn hooks() -> Value {
    json!({
        "metadata": {"name": "checks"},
        "webhooks": [{
            "name": "a.example.com",
            "clientConfig": {"service": {"namespace": "default", "name": "hook"}},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    })
}

#[test]
fn webhook_defaults() {
    let expected = json!({
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 10,
        "namespaceSelector": {},
        "objectSelector": {},
    });
    let validating = json(&created(&ValidatingWebhooksStrategy, &hooks()));
    let mutating = json(&created(&MutatingWebhooksStrategy, &hooks()));
    for made in [&validating, &mutating] {
        let hook = &made["webhooks"][0];
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&hook[field], value, "{field}");
        }
        assert_eq!(hook["rules"][0]["scope"], "*");
        assert_eq!(hook["clientConfig"]["service"]["port"], 443);
    }
    assert_eq!(validating["webhooks"][0].get("reinvocationPolicy"), None);
    assert_eq!(mutating["webhooks"][0]["reinvocationPolicy"], "Never");
}

#[test]
fn webhook_fields() {
    for (changes, expected) in [
        (vec![], vec![]),
        (vec![("/webhooks", json!([]))], vec![]),
        (
            vec![("/webhooks/0/name", json!("a.com"))],
            vec![
                "webhooks[0].name: Invalid value: \"a.com\": should be a domain with at least three segments separated by dots",
            ],
        ),
        (
            vec![("/webhooks/0/name", json!(""))],
            vec!["webhooks[0].name: Required value"],
        ),
        (
            vec![("/webhooks/-", hooks()["webhooks"][0].clone())],
            vec!["webhooks[1].name: Duplicate value: \"a.example.com\""],
        ),
        (
            vec![("/webhooks/0/sideEffects", json!("Some"))],
            vec![
                "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
            ],
        ),
        (
            vec![("/webhooks/0/sideEffects", json!(null))],
            vec!["webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"],
        ),
        (
            vec![("/webhooks/0/timeoutSeconds", json!(31))],
            vec![
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
            ],
        ),
        (
            vec![
                ("/webhooks/0/failurePolicy", json!("Shrug")),
                ("/webhooks/0/matchPolicy", json!("Near")),
            ],
            vec![
                "webhooks[0].failurePolicy: Unsupported value: \"Shrug\": supported values: \"Fail\", \"Ignore\"",
                "webhooks[0].matchPolicy: Unsupported value: \"Near\": supported values: \"Equivalent\", \"Exact\"",
            ],
        ),
        (
            vec![("/webhooks/0/admissionReviewVersions", json!([]))],
            vec![
                "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
            ],
        ),
        (
            vec![("/webhooks/0/admissionReviewVersions", json!(["v2", "v2"]))],
            vec![
                "webhooks[0].admissionReviewVersions[1]: Invalid value: \"v2\": duplicate version",
                "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\",\"v2\"]: must include at least one of v1, v1beta1",
            ],
        ),
        (
            vec![(
                "/webhooks/0/matchConditions",
                json!([{"name": "a", "expression": "true"}, {"name": "a", "expression": " "}, {"name": "", "expression": "x"}]),
            )],
            vec![
                "webhooks[0].matchConditions[1].expression: Required value",
                "webhooks[0].matchConditions[1].name: Duplicate value: \"a\"",
                "webhooks[0].matchConditions[2].name: Required value",
            ],
        ),
    ] {
        let object = with(&hooks(), &changes);
        assert_eq!(
            create_errors(&ValidatingWebhooksStrategy, &object),
            expected
        );
        assert_eq!(create_errors(&MutatingWebhooksStrategy, &object), expected);
    }
    let object = with(
        &hooks(),
        &[("/webhooks/0/reinvocationPolicy", json!("Always"))],
    );
    assert_eq!(
        create_errors(&MutatingWebhooksStrategy, &object),
        [
            "webhooks[0].reinvocationPolicy: Unsupported value: \"Always\": supported values: \"IfNeeded\", \"Never\""
        ]
    );
}

#[test]
fn where_webhooks_are() {
    const CLIENT: &str = "webhooks[0].clientConfig";
    for (client, expected) in [
        (json!({"url": "https://example.com/check"}), vec![]),
        (json!({"url": "https://example.com:8443"}), vec![]),
        (
            json!({}),
            vec![": Required value: exactly one of url or service is required"],
        ),
        (
            json!({"url": "https://a", "service": {"name": "a", "namespace": "b"}}),
            vec![": Required value: exactly one of url or service is required"],
        ),
        (
            json!({"url": "http://u:p@example.com/?q=1#f"}),
            vec![
                ".url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                ".url: Invalid value: \"u:p\": user information is not permitted in the URL",
                ".url: Invalid value: \"f\": fragments are not permitted in the URL",
                ".url: Invalid value: \"q=1\": query parameters are not permitted in the URL",
            ],
        ),
        (
            json!({"url": "https:///x"}),
            vec![
                ".url: Invalid value: \"\": host must be specified; desired format: https://host[/path]",
            ],
        ),
        (
            json!({"service": {"name": "", "namespace": "", "port": 0, "path": "x//y"}}),
            vec![
                ".service.name: Required value",
                ".service.namespace: Required value",
                ".service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
                ".service.path: Invalid value: \"x//y\": must start with a '/'",
                ".service.path: Invalid value: \"x//y\": segment[1] may not be empty",
            ],
        ),
        (
            json!({"service": {"name": "a", "namespace": "b", "path": "/check/"}}),
            vec![],
        ),
    ] {
        let object = with(&hooks(), &[("/webhooks/0/clientConfig", client)]);
        let expected: Vec<String> = expected.iter().map(|e| format!("{CLIENT}{e}")).collect();
        assert_eq!(
            create_errors(&ValidatingWebhooksStrategy, &object),
            expected
        );
    }
}

#[test]
fn rules() {
    const RULE: &str = "webhooks[0].rules[0]";
    for (changes, expected) in [
        (
            vec![("resources", json!(["pods", "pods/status", "*/scale"]))],
            vec![],
        ),
        (vec![("resources", json!(["*", "pods/status"]))], vec![]),
        (
            vec![("resources", json!([]))],
            vec![".resources: Required value"],
        ),
        (
            vec![("resources", json!([""]))],
            vec![".resources[0]: Required value"],
        ),
        (
            vec![("resources", json!(["*/*", "pods"]))],
            vec![
                ".resources: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources",
            ],
        ),
        (
            vec![("resources", json!(["*", "pods"]))],
            vec![
                ".resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources",
            ],
        ),
        (
            vec![(
                "resources",
                json!(["pods/*", "pods/status", "*/scale", "jobs/scale"]),
            )],
            vec![
                ".resources[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
                ".resources[3]: Invalid value: \"jobs/scale\": if '*/scale' is present, must not specify jobs/scale",
            ],
        ),
        (
            vec![("operations", json!(["*", "PATCH"]))],
            vec![
                ".operations: Invalid value: [\"*\",\"PATCH\"]: if '*' is present, must not specify other operations",
                ".operations[1]: Unsupported value: \"PATCH\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
            ],
        ),
        (
            vec![
                ("apiGroups", json!([])),
                ("apiVersions", json!(["*", ""])),
                ("scope", json!("Galaxy")),
            ],
            vec![
                ".apiGroups: Required value",
                ".apiVersions: Invalid value: [\"*\",\"\"]: if '*' is present, must not specify other API versions",
                ".apiVersions[1]: Required value",
                ".scope: Unsupported value: \"Galaxy\": supported values: \"*\", \"Cluster\", \"Namespaced\"",
            ],
        ),
    ] {
        let mut object = hooks();
        for (field, value) in changes {
            object["webhooks"][0]["rules"][0][field] = value;
        }
        let expected: Vec<String> = expected.iter().map(|e| format!("{RULE}{e}")).collect();
        assert_eq!(
            create_errors(&ValidatingWebhooksStrategy, &object),
            expected
        );
    }
}

fn constraints() -> Value {
    json!({"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]})
}

fn validating() -> Value {
    json!({
        "metadata": {"name": "p.example.com"},
        "spec": {"matchConstraints": constraints(), "validations": [{"expression": "object.spec.replicas < 5"}]},
    })
}

fn mutating() -> Value {
    json!({
        "metadata": {"name": "p.example.com"},
        "spec": {
            "matchConstraints": constraints(),
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}],
        },
    })
}

#[test]
fn policy_defaults() {
    for made in [
        json(&created(&ValidatingPolicyStrategy, &validating())),
        json(&created(&MutatingPolicyStrategy, &mutating())),
    ] {
        let spec = &made["spec"];
        assert_eq!(spec["failurePolicy"], "Fail");
        let matched = &spec["matchConstraints"];
        assert_eq!(matched["matchPolicy"], "Equivalent");
        assert_eq!(
            (&matched["namespaceSelector"], &matched["objectSelector"]),
            (&json!({}), &json!({}))
        );
        assert_eq!(matched["resourceRules"][0]["scope"], "*");
    }
}

#[test]
fn what_policies_share() {
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![(
                "/spec/paramKind",
                json!({"apiVersion": "rules.example.com/v1", "kind": "Limit"}),
            )],
            vec![],
        ),
        (
            vec![(
                "/spec/paramKind",
                json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            )],
            vec![],
        ),
        (
            vec![("/spec/paramKind", json!({}))],
            vec![
                "spec.paramKind.apiVersion: Required value",
                "spec.paramKind.kind: Required value",
            ],
        ),
        (
            vec![(
                "/spec/paramKind",
                json!({"apiVersion": "a/b/c", "kind": "Limit"}),
            )],
            vec![
                "spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
            ],
        ),
        (
            vec![(
                "/spec/paramKind",
                json!({"apiVersion": "a/", "kind": "Limit"}),
            )],
            vec!["spec.paramKind.apiVersion: Invalid value: \"a/\": version must be specified"],
        ),
        (
            vec![("/spec/matchConstraints", json!(null))],
            vec!["spec.matchConstraints: Required value"],
        ),
        (
            vec![("/spec/matchConstraints", json!({}))],
            vec!["spec.matchConstraints.resourceRules: Required value"],
        ),
        (
            vec![(
                "/spec/matchConstraints/resourceRules/0/resourceNames",
                json!(["a", "a", "b/c"]),
            )],
            vec![
                "spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: \"a\"",
                "spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: \"b/c\": may not contain '/'",
            ],
        ),
        (
            vec![(
                "/spec/variables",
                json!([{"name": "in", "expression": ""}, {"name": "", "expression": "x"}]),
            )],
            vec![
                "spec.variables[0].name: Invalid value: \"in\": name is not a valid CEL identifier",
                "spec.variables[0].expression: Required value: expression is not specified",
                "spec.variables[1].name: Required value: name is not specified",
            ],
        ),
    ] {
        let validating = with(&validating(), &changes);
        assert_eq!(
            create_errors(&ValidatingPolicyStrategy, &validating),
            expected
        );
        let mutating = with(&mutating(), &changes);
        assert_eq!(create_errors(&MutatingPolicyStrategy, &mutating), expected);
    }
}

#[test]
fn validations_and_audit_annotations() {
    for (changes, expected) in [
        (
            vec![("/spec/validations", json!([]))],
            vec![
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ],
        ),
        (
            vec![
                ("/spec/validations", json!([])),
                (
                    "/spec/auditAnnotations",
                    json!([{"key": "a", "valueExpression": "'x'"}]),
                ),
            ],
            vec![],
        ),
        (
            vec![(
                "/spec/validations/0",
                json!({"expression": " ", "message": "a\nb", "messageExpression": " ", "reason": "Whim"}),
            )],
            vec![
                "spec.validations[0].expression: Required value: expression is not specified",
                "spec.validations[0].messageExpression: Invalid value: \" \": must be non-empty if specified",
                "spec.validations[0].message: Invalid value: \"a\\nb\": message must not contain line breaks",
                "spec.validations[0].reason: Unsupported value: \"Whim\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
            ],
        ),
        (
            vec![(
                "/spec/auditAnnotations",
                json!([{"key": "a", "valueExpression": ""}, {"key": "a", "valueExpression": "x".repeat(5121)}]),
            )],
            vec![
                "spec.auditAnnotations[0].valueExpression: Required value: valueExpression is not specified",
                "spec.auditAnnotations[1].valueExpression: Required value: must not exceed 5120 bytes in length",
                "spec.auditAnnotations[1].key: Duplicate value: \"a\"",
            ],
        ),
    ] {
        let policy = with(&validating(), &changes);
        assert_eq!(create_errors(&ValidatingPolicyStrategy, &policy), expected);
    }
    let warned = with(
        &validating(),
        &[(
            "/status",
            json!({"typeChecking": {"expressionWarnings": [{"fieldRef": " ", "warning": ""}]}}),
        )],
    );
    assert_eq!(
        status_errors(&ValidatingPolicyStrategy, &validating(), &warned),
        [
            "status.typeChecking.expressionWarnings[0].warning: Required value",
            "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
        ]
    );
    assert_eq!(
        json(&created(&ValidatingPolicyStrategy, &warned))["status"],
        json!({})
    );
}

#[test]
fn mutations() {
    for (changes, expected) in [
        (
            vec![("/spec/mutations", json!([]))],
            vec!["spec.mutations: Required value: mutations must contain at least one item"],
        ),
        (
            vec![("/spec/reinvocationPolicy", json!(null))],
            vec!["spec.reinvocationPolicy: Required value"],
        ),
        (
            vec![("/spec/mutations/0", json!({"patchType": "Magic"}))],
            vec![
                "spec.mutations[0].patchType: Unsupported value: \"Magic\": supported values: \"ApplyConfiguration\", \"JSONPatch\"",
            ],
        ),
        (
            vec![(
                "/spec/mutations/0",
                json!({"patchType": "ApplyConfiguration", "jsonPatch": {"expression": "x"}}),
            )],
            vec![
                "spec.mutations[0].applyConfiguration: Required value",
                "spec.mutations[0].jsonPatch: Forbidden: may not be set if patchType is ApplyConfiguration",
            ],
        ),
        (
            vec![("/spec/mutations/0/jsonPatch", json!({"expression": ""}))],
            vec![
                "spec.mutations[0].jsonPatch.expression: Required value: expression is not specified",
            ],
        ),
    ] {
        let policy = with(&mutating(), &changes);
        assert_eq!(create_errors(&MutatingPolicyStrategy, &policy), expected);
    }
}

#[test]
fn bindings() {
    let base = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p.example.com", "validationActions": ["Deny"]}});
    let parameters = |value: Value| vec![("/spec/paramRef", value)];
    for (changes, shared, of_validating) in [
        (vec![], vec![], vec![]),
        (
            vec![("/spec/policyName", json!(""))],
            vec!["spec.policyName: Required value"],
            vec![],
        ),
        (
            parameters(json!({})),
            vec![
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
            ],
            vec![],
        ),
        (
            parameters(json!({"name": "x", "selector": {}, "parameterNotFoundAction": "Shrug"})),
            vec![
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.parameterNotFoundAction: Unsupported value: \"Shrug\": supported values: \"Deny\", \"Allow\"",
            ],
            vec![],
        ),
        (
            vec![(
                "/spec/validationActions",
                json!(["Deny", "Warn", "Deny", "Cry"]),
            )],
            vec![],
            vec![
                "spec.validationActions[2]: Duplicate value: \"Deny\"",
                "spec.validationActions[3]: Unsupported value: \"Cry\": supported values: \"Audit\", \"Deny\", \"Warn\"",
                "spec.validationActions: Invalid value: [\"Deny\",\"Warn\",\"Deny\",\"Cry\"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
            ],
        ),
        (
            vec![("/spec/validationActions", json!([]))],
            vec![],
            vec![
                "spec.validationActions: Required value: at least one validation action is required",
            ],
        ),
    ] {
        let binding = with(&base, &changes);
        assert_eq!(create_errors(&MutatingBindingStrategy, &binding), shared);
        let all = [shared, of_validating].concat();
        assert_eq!(create_errors(&ValidatingBindingStrategy, &binding), all);
    }
}

#[test]
fn rows() {
    let cells = |row: Vec<(&'static str, Value)>| -> Vec<Value> {
        row.into_iter().map(|(_, value)| value).collect()
    };
    assert_eq!(
        cells(row(&ValidatingWebhooksStrategy, &hooks())),
        [json!("checks"), json!(1), json!("<unknown>")]
    );
    let policy = with(
        &validating(),
        &[(
            "/spec/paramKind",
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
        )],
    );
    assert_eq!(
        cells(row(&ValidatingPolicyStrategy, &policy)),
        [
            json!("p.example.com"),
            json!(1),
            json!("v1/ConfigMap"),
            json!("<unknown>")
        ]
    );
    assert_eq!(
        cells(row(&MutatingPolicyStrategy, &mutating())),
        [
            json!("p.example.com"),
            json!(1),
            json!("<unset>"),
            json!("<unknown>")
        ]
    );
    let binding = |parameters: Value| json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": parameters}});
    for (parameters, shown) in [
        (json!(null), "<unset>"),
        (json!({"name": "x"}), "*/x"),
        (json!({"name": "x", "namespace": "a"}), "a/x"),
        (json!({"selector": {"matchLabels": {"a": "b"}}}), "a=b"),
    ] {
        assert_eq!(
            cells(row(&ValidatingBindingStrategy, &binding(parameters))),
            ["b", "p", shown, "<unknown>"]
        );
    }
}
