use serde_json::{Value, json};

use super::*;
use crate::registry::kinds::testing::{create_errors, created, json, object, update_errors, with};

fn base() -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                }},
            }],
        },
    })
}

const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

#[test]
fn names_conversion_and_stored_versions_are_filled_in() {
    let made = json(&created(&CustomResourceDefinitionStrategy, &base()));
    assert_eq!(
        made["spec"]["names"],
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"})
    );
    assert_eq!(made["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
}

#[test]
fn fields() {
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/metadata/name", json!("widget"))],
            vec![
                "metadata.name: Invalid value: \"widget\": must be spec.names.plural+\".\"+spec.group",
            ],
        ),
        (
            vec![
                ("/metadata/name", json!("widgets.example")),
                ("/spec/group", json!("example")),
            ],
            vec![
                "spec.group: Invalid value: \"example\": should be a domain with at least one dot",
            ],
        ),
        (
            vec![("/spec/scope", json!("Galactic"))],
            vec![
                "spec.scope: Unsupported value: \"Galactic\": supported values: \"Cluster\", \"Namespaced\"",
            ],
        ),
        (
            vec![(SCHEMA, json!(null))],
            vec!["spec.versions[0].schema.openAPIV3Schema: Required value"],
        ),
        (
            vec![("/spec/names/listKind", json!("Widget"))],
            vec![
                "spec.names.listKind: Invalid value: \"Widget\": kind and listKind may not be the same",
            ],
        ),
        (
            vec![("/spec/preserveUnknownFields", json!(true))],
            vec![
                "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
            ],
        ),
        (
            vec![("/spec/versions/0/deprecationWarning", json!("old"))],
            vec![
                "spec.versions[0].deprecationWarning: Invalid value: \"old\": can only be set for deprecated versions",
            ],
        ),
        (
            vec![(
                "/spec/versions/0/additionalPrinterColumns",
                json!([{"name": "", "type": "text", "jsonPath": "spec"}]),
            )],
            vec![
                "spec.additionalPrinterColumns[0].name: Required value",
                "spec.additionalPrinterColumns[0].type: Invalid value: \"text\": must be one of boolean,date,integer,number,string",
                "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"spec\": must be a simple json path starting with .",
            ],
        ),
        (
            vec![(
                "/spec/versions/0/subresources",
                json!({"scale": {"specReplicasPath": ".status.x", "statusReplicasPath": ""}}),
            )],
            vec![
                "spec.subresources.scale.specReplicasPath: Invalid value: \".status.x\": should be a json path under .spec",
                "spec.subresources.scale.statusReplicasPath: Required value",
            ],
        ),
        (
            vec![(
                "/spec/versions/0/selectableFields",
                json!([{"jsonPath": ".spec.size"}, {"jsonPath": ".spec.color"}, {"jsonPath": ".spec"}]),
            )],
            vec![
                "spec.versions[0].selectableFields[1].jsonPath: Invalid value: \".spec.color\": is an invalid path: does not refer to a valid field",
                "spec.versions[0].selectableFields[2].jsonPath: Invalid value: \".spec\": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            ],
        ),
        (
            vec![("/spec/conversion", json!({"strategy": "Webhook"}))],
            vec![
                "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
                "spec.conversion.conversionReviewVersions: Required value",
            ],
        ),
        (
            vec![(
                "/spec/conversion",
                json!({"strategy": "None", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v1"]}}),
            )],
            vec![
                "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
                "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
            ],
        ),
        (
            vec![
                ("/metadata/name", json!("widgets.x.k8s.io")),
                ("/spec/group", json!("x.k8s.io")),
            ],
            vec![
                "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
            ],
        ),
        (
            vec![
                ("/metadata/name", json!("widgets.x.k8s.io")),
                ("/spec/group", json!("x.k8s.io")),
                (
                    "/metadata/annotations",
                    json!({"api-approved.kubernetes.io": "unapproved, an experiment"}),
                ),
            ],
            vec![],
        ),
    ] {
        let definition = with(&base(), &changes);
        assert_eq!(
            create_errors(&CustomResourceDefinitionStrategy, &definition),
            expected
        );
    }
}

#[test]
fn schemas_are_structural() {
    const PATH: &str = "spec.validation.openAPIV3Schema";
    for (schema, expected) in [
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            vec![],
        ),
        (
            json!({"type": "object", "properties": {"port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}}),
            vec![],
        ),
        (
            json!({}),
            vec![".type: Required value: must not be empty at the root"],
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            vec![".type: Invalid value: \"array\": must be object at the root"],
        ),
        (
            json!({"type": "object", "properties": {"spec": {}, "list": {"type": "array", "items": {}}, "other": {"type": "array"}}}),
            vec![
                ".properties[list].items.type: Required value: must not be empty for specified array items",
                ".properties[other].items: Required value: must be specified",
                ".properties[spec].type: Required value: must not be empty for specified object fields",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "text"}, "b": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}}),
            vec![
                ".properties[a].type: Unsupported value: \"text\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
                ".properties[b].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": {"type": "string"}}}}),
            vec![
                ".properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "allOf": [{"type": "string", "maxLength": 3}]}}}),
            vec![".properties[a].allOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            vec![
                ".properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object", "properties": {"name": {"type": "string"}}}, "x-kubernetes-list-map-keys": ["name", "port"]}}}),
            vec![
                ".properties[a].items.properties[name].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
                ".properties[a].x-kubernetes-list-map-keys: Invalid value: [\"name\",\"port\"]: entries must all be names of item properties",
            ],
        ),
        (
            json!({"type": "object", "x-kubernetes-validations": [{"rule": ""}, {"rule": "a\nb"}]}),
            vec![
                ".x-kubernetes-validations[0].rule: Required value: rule is not specified",
                ".x-kubernetes-validations[1].message: Required value: message must be specified if rule contains line breaks",
            ],
        ),
    ] {
        let definition = with(&base(), &[(SCHEMA, schema)]);
        let expected: Vec<String> = expected.iter().map(|e| format!("{PATH}{e}")).collect();
        assert_eq!(
            create_errors(&CustomResourceDefinitionStrategy, &definition),
            expected
        );
    }
}

#[test]
fn versions_are_told_apart() {
    let second = |name: &str, storage: bool, kind: &str| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": kind}}});
    for (version, expected) in [
        (second("v2", false, "object"), vec![]),
        (
            second("v2", false, "string"),
            vec![
                "spec.versions[1].schema.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
            ],
        ),
    ] {
        let definition = with(&base(), &[("/spec/versions/-", version)]);
        assert_eq!(
            create_errors(&CustomResourceDefinitionStrategy, &definition),
            expected
        );
    }
    for (version, why) in [
        (
            second("v1", false, "object"),
            "must contain unique version names",
        ),
        (
            second("v2", true, "object"),
            "must have exactly one version marked as storage version",
        ),
    ] {
        let definition = with(&base(), &[("/spec/versions/-", version)]);
        let errors = create_errors(&CustomResourceDefinitionStrategy, &definition);
        assert!(
            errors[0].starts_with("spec.versions: Invalid value: [") && errors[0].ends_with(why),
            "{errors:?}"
        );
    }
}

#[test]
fn what_is_stored_stays_readable() {
    let renamed = with(&base(), &[("/spec/versions/0/name", json!("v2"))]);
    let old = json(&created(&CustomResourceDefinitionStrategy, &base()));
    assert_eq!(
        update_errors(&CustomResourceDefinitionStrategy, &old, &renamed),
        [
            "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"
        ]
    );
    let cluster = with(&old, &[("/spec/scope", json!("Cluster"))]);
    assert_eq!(
        update_errors(&CustomResourceDefinitionStrategy, &old, &cluster),
        [""; 0]
    );
    let established = with(
        &old,
        &[(
            "/status/conditions",
            json!([{"type": "Established", "status": "True"}]),
        )],
    );
    assert_eq!(
        update_errors(&CustomResourceDefinitionStrategy, &established, &cluster),
        ["spec.scope: Invalid value: \"Cluster\": field is immutable"]
    );
    let mut new: Definition = object(&renamed);
    CustomResourceDefinitionStrategy.prepare_for_update(
        &crate::registry::kinds::testing::context(),
        &mut new,
        &object(&old),
    );
    assert_eq!(json(&new)["status"]["storedVersions"], json!(["v1", "v2"]));
}
