use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ManagedFieldsEntry, ObjectMeta, OwnerReference, Time,
};

use super::*;
use crate::field::{ErrorList, Path};

fn texts(errors: &ErrorList) -> Vec<String> {
    errors
        .iter()
        .map(|e| format!("{}: {}", e.path, e.message))
        .collect()
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const KEY: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

#[test]
fn names_follow_their_format() {
    use NameFormat::{Dns1035Label, DnsLabel, DnsSubdomain, PathSegment};
    let long = |n: usize| "a".repeat(n);
    for (format, name, errors) in [
        (DnsSubdomain, "web-0.x", vec![]),
        (DnsSubdomain, &long(253), vec![]),
        (
            DnsSubdomain,
            &long(254),
            vec!["must be no more than 253 characters"],
        ),
        (DnsSubdomain, "Web", vec![SUBDOMAIN]),
        (DnsSubdomain, "a..b", vec![SUBDOMAIN]),
        (DnsSubdomain, "a-", vec![SUBDOMAIN]),
        (DnsSubdomain, "", vec![SUBDOMAIN]),
        (DnsLabel, "0web-1", vec![]),
        (DnsLabel, "a.b", vec!["must not contain dots"]),
        (DnsLabel, "a_b", vec![LABEL]),
        (
            DnsLabel,
            &long(64),
            vec!["must be no more than 63 characters"],
        ),
        (Dns1035Label, "web", vec![]),
        (Dns1035Label, "0web", vec![DNS1035]),
        (PathSegment, "system:Node:ü", vec![]),
        (PathSegment, "..", vec!["may not be '..'"]),
        (
            PathSegment,
            "a/b%",
            vec!["may not contain '/'", "may not contain '%'"],
        ),
    ] {
        assert_eq!(format.check(name, false), errors, "{format:?} {name}");
    }
    for (format, prefix, valid) in [
        (DnsSubdomain, "web-", true),
        (DnsSubdomain, "web.-", true), // as upstream, which looks at no more than the end
        (DnsSubdomain, "-", false),
        (DnsLabel, "-web-", false),
        (PathSegment, ".", true),
    ] {
        assert_eq!(
            format.check(prefix, true).is_empty(),
            valid,
            "{format:?} {prefix}"
        );
    }
}

#[test]
fn label_keys_and_values_say_what_is_wrong() {
    let long = "x".repeat(64);
    let name = format!("name part {KEY}");
    for (key, errors) in [
        ("app", vec![]),
        ("app.kubernetes.io/Name_1", vec![]),
        (
            "",
            vec!["name part must be non-empty".to_owned(), name.clone()],
        ),
        (
            "a/",
            vec!["name part must be non-empty".to_owned(), name.clone()],
        ),
        ("/a", vec!["prefix part must be non-empty".to_owned()]),
        ("A/a", vec![format!("prefix part {SUBDOMAIN}")]),
        ("a b", vec![name.clone()]),
        (
            &long,
            vec!["name part must be no more than 63 bytes".to_owned()],
        ),
        (
            "a/b/c",
            vec![format!(
                "a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )],
        ),
    ] {
        assert_eq!(is_label_key(key), errors, "{key}");
    }
    assert!(is_label_value("").is_empty());
    assert!(is_label_value("a_B.c-1").is_empty());
    assert_eq!(is_label_value(&long), ["must be no more than 63 bytes"]);
    assert_eq!(is_label_value("-").len(), 1);
}

#[test]
fn other_formats() {
    assert!(is_config_map_key("app.conf").is_empty());
    assert_eq!(is_config_map_key(".."), ["must not be '..'"]);
    assert_eq!(is_config_map_key("..a"), ["must not start with '..'"]);
    assert_eq!(is_config_map_key("a/b").len(), 1);
    assert!(is_env_var_name("MY.VAR-1").is_empty());
    assert_eq!(is_env_var_name("A=B").len(), 1);
    assert_eq!(is_port_name("http-2").len(), 0);
    assert_eq!(
        is_port_name("8080"),
        ["must contain at least one letter (a-z)"]
    );
    assert_eq!(is_port_name("-a--b").len(), 2);
    assert_eq!(
        is_port_number(0),
        ["must be between 1 and 65535, inclusive"]
    );
    assert!(is_percent("25%").is_empty());
    assert_eq!(is_percent("%").len(), 1);
}

fn meta() -> ObjectMeta {
    ObjectMeta {
        name: Some("web".to_owned()),
        namespace: Some("default".to_owned()),
        resource_version: Some("7".to_owned()),
        uid: Some("u".to_owned()),
        ..ObjectMeta::default()
    }
}

fn created(meta: &ObjectMeta) -> Vec<String> {
    let path = Path::new("metadata");
    texts(&validate_object_meta(
        meta,
        true,
        NameFormat::DnsSubdomain,
        &path,
    ))
}

fn updated(new: &ObjectMeta, old: &ObjectMeta) -> Vec<String> {
    texts(&validate_object_meta_update(
        new,
        old,
        &Path::new("metadata"),
    ))
}

fn owner(kind: &str, name: &str, controller: bool) -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: "u".to_owned(),
        controller: Some(controller),
        block_owner_deletion: None,
    }
}

#[test]
fn metadata_to_create() {
    assert_eq!(created(&meta()), [""; 0]);
    let unnamed = ObjectMeta {
        name: None,
        namespace: None,
        ..meta()
    };
    assert_eq!(
        created(&unnamed),
        [
            "metadata.name: Required value: name or generateName is required",
            "metadata.namespace: Required value",
        ]
    );
    let bad = ObjectMeta {
        name: Some("Web".to_owned()),
        generate_name: Some("we_b-".to_owned()),
        namespace: Some("a.b".to_owned()),
        generation: Some(-1),
        finalizers: Some(vec![
            "orphan".to_owned(),
            "foregroundDeletion".to_owned(),
            "a b".to_owned(),
        ]),
        managed_fields: Some(vec![ManagedFieldsEntry {
            operation: Some("Merge".to_owned()),
            fields_type: Some("FieldsV2".to_owned()),
            manager: Some("a\nb".to_owned()),
            ..ManagedFieldsEntry::default()
        }]),
        ..meta()
    };
    assert_eq!(
        created(&bad),
        [
            format!("metadata.generateName: Invalid value: \"we_b-\": {SUBDOMAIN}"),
            format!("metadata.name: Invalid value: \"Web\": {SUBDOMAIN}"),
            "metadata.namespace: Invalid value: \"a.b\": must not contain dots".to_owned(),
            "metadata.generation: Invalid value: -1: must be greater than or equal to 0".to_owned(),
            "metadata.managedFields[0].operation: Invalid value: \"Merge\": must be `Apply` or `Update`".to_owned(),
            "metadata.managedFields[0].fieldsType: Invalid value: \"FieldsV2\": must be `FieldsV1`".to_owned(),
            "metadata.managedFields[0].manager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)".to_owned(),
            format!("metadata.finalizers: Invalid value: \"a b\": name part {KEY}"),
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\",\"a b\"]: finalizer orphan and foregroundDeletion cannot be both set".to_owned(),
        ]
    );
    let cluster =
        validate_object_meta(&meta(), false, NameFormat::DnsLabel, &Path::new("metadata"));
    assert_eq!(
        texts(&cluster),
        ["metadata.namespace: Forbidden: not allowed on this type"]
    );
}

#[test]
fn labels_and_annotations() {
    let map = |key: &str, value: &str| Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    let bad = ObjectMeta {
        labels: map("a b", "c d"),
        annotations: map("Example.COM/Key", "any value at all"),
        ..meta()
    };
    assert_eq!(created(&bad).len(), 2);
    let large = ObjectMeta {
        annotations: map("k", &"x".repeat(MAX_ANNOTATIONS_BYTES)),
        ..meta()
    };
    assert_eq!(
        created(&large),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
    let fits = ObjectMeta {
        annotations: map("k", &"x".repeat(MAX_ANNOTATIONS_BYTES - 1)),
        ..meta()
    };
    assert_eq!(created(&fits), [""; 0]);
}

#[test]
fn owner_references() {
    let with = |owners: Vec<OwnerReference>| ObjectMeta {
        owner_references: Some(owners),
        ..meta()
    };
    assert_eq!(
        created(&with(vec![
            owner("ReplicaSet", "a", true),
            owner("Job", "b", false)
        ])),
        [""; 0]
    );
    let twice = created(&with(vec![
        owner("ReplicaSet", "a", true),
        owner("Job", "b", true),
    ]));
    assert_eq!(twice.len(), 1);
    assert!(
        twice[0].starts_with("metadata.ownerReferences: Invalid value: [{"),
        "{}",
        twice[0]
    );
    assert!(twice[0].ends_with("Only one reference can have Controller set to true. Found \"true\" in references for ReplicaSet/a and Job/b"));
    assert_eq!(
        created(&with(vec![OwnerReference::default()])),
        [
            "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ]
    );
    let event = OwnerReference {
        api_version: "v1".to_owned(),
        ..owner("Event", "e", false)
    };
    let banned = created(&with(vec![event]));
    assert!(
        banned[0].ends_with(": /v1, Kind=Event is disallowed from being an owner"),
        "{banned:?}"
    );
}

#[test]
fn metadata_to_update() {
    assert_eq!(updated(&meta(), &meta()), [""; 0]);
    let time = |second| jiff::Timestamp::from_second(second).ok().map(Time);
    let old = ObjectMeta {
        generation: Some(3),
        creation_timestamp: time(0),
        deletion_timestamp: time(60),
        finalizers: Some(vec!["a/b".to_owned()]),
        ..meta()
    };
    let new = ObjectMeta {
        name: Some("api".to_owned()),
        uid: Some("v".to_owned()),
        resource_version: None,
        generation: Some(2),
        creation_timestamp: time(1),
        deletion_timestamp: time(60),
        deletion_grace_period_seconds: Some(5),
        finalizers: Some(vec!["a/d".to_owned(), "a/b".to_owned(), "a/c".to_owned()]),
        ..meta()
    };
    assert_eq!(
        updated(&new, &old),
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a/c\", \"a/d\"}",
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 2: must not be decremented",
            "metadata.name: Invalid value: \"api\": field is immutable",
            "metadata.uid: Invalid value: \"v\": field is immutable",
            "metadata.creationTimestamp: Invalid value: \"1970-01-01T00:00:01Z\": field is immutable",
            "metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable",
        ]
    );
}

#[test]
fn selectors_as_fields() {
    let expression = |operator: &str, values: &[&str]| LabelSelectorRequirement {
        key: "a".to_owned(),
        operator: operator.to_owned(),
        values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
    };
    let selector = LabelSelector {
        match_expressions: Some(vec![
            expression("In", &[]),
            expression("Exists", &["x"]),
            expression("Like", &["x y"]),
        ]),
        ..LabelSelector::default()
    };
    let found = texts(&validate_label_selector(
        &selector,
        &Path::new("spec.selector"),
    ));
    assert_eq!(
        found[..3],
        [
            "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            "spec.selector.matchExpressions[2].operator: Invalid value: \"Like\": not a valid selector operator",
        ]
    );
    assert!(found[3].starts_with(
        "spec.selector.matchExpressions[2].values[0]: Invalid value: \"x y\": a valid label must"
    ));
}

#[test]
fn request_options() {
    let path = Path::new("f");
    assert_eq!(texts(&validate_dry_run(&["All"], &path)), [""; 0]);
    assert_eq!(
        texts(&validate_dry_run(&["Some"], &path)),
        ["f: Unsupported value: [\"Some\"]: supported values: \"All\""]
    );
    assert_eq!(
        texts(&validate_field_validation("strict", &path)),
        [
            "f: Unsupported value: \"strict\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""
        ]
    );
    assert_eq!(
        texts(&validate_field_manager(&"x".repeat(129), &path)),
        ["f: Too long: may not be more than 128 bytes"]
    );
    assert_eq!(
        texts(&validate_propagation(Some("Orphan"), Some(true))),
        [
            "propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set"
        ]
    );
    assert_eq!(texts(&validate_propagation(None, Some(true))), [""; 0]);
}
