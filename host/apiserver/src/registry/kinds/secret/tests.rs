use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{create_errors, created, json, row, update_errors, with};

#[test]
fn text_merges_into_data_and_is_never_kept() {
    let secret = json!({"metadata": {"name": "s"}, "data": {"a": "MQ==", "b": "Mg=="}, "stringData": {"b": "x"}});
    assert_eq!(
        json(&created(&SecretStrategy, &secret)),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "MQ==", "b": "eA=="}, "type": "Opaque"})
    );
}

#[test]
fn types_ask_for_keys() {
    let base = json!({"metadata": {"name": "s"}});
    for (kind, text, expected) in [
        ("Opaque", json!({}), vec![]),
        ("example.com/mine", json!({}), vec![]),
        (
            "kubernetes.io/tls",
            json!({"tls.crt": ""}),
            vec!["data[tls.key]: Required value"],
        ),
        (
            "kubernetes.io/tls",
            json!({"tls.crt": "", "tls.key": ""}),
            vec![],
        ),
        (
            "kubernetes.io/basic-auth",
            json!({}),
            vec![
                "data[username]: Required value",
                "data[password]: Required value",
            ],
        ),
        ("kubernetes.io/basic-auth", json!({"password": ""}), vec![]),
        (
            "kubernetes.io/ssh-auth",
            json!({"ssh-privatekey": ""}),
            vec!["data[ssh-privatekey]: Required value"],
        ),
        (
            "kubernetes.io/dockerconfigjson",
            json!({}),
            vec!["data[.dockerconfigjson]: Required value"],
        ),
        (
            "kubernetes.io/dockerconfigjson",
            json!({".dockerconfigjson": "{\"auths\":{}}"}),
            vec![],
        ),
        (
            "kubernetes.io/service-account-token",
            json!({}),
            vec!["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        ),
    ] {
        let secret = with(&base, &[("/type", json!(kind)), ("/stringData", text)]);
        assert_eq!(create_errors(&SecretStrategy, &secret), expected, "{kind}");
    }
    let broken = with(
        &base,
        &[
            ("/type", json!("kubernetes.io/dockercfg")),
            ("/stringData", json!({".dockercfg": "[]"})),
        ],
    );
    let errors = create_errors(&SecretStrategy, &broken);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].starts_with("data[.dockercfg]: Invalid value: \"<secret contents redacted>\": "),
        "{errors:?}"
    );
}

#[test]
fn size_is_bounded() {
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "x".repeat(MAX_BYTES + 1)}});
    assert_eq!(
        create_errors(&SecretStrategy, &secret),
        ["data: Too long: may not be more than 1048576 bytes"]
    );
}

#[test]
fn type_and_frozen_data_do_not_change() {
    let old = json!({"metadata": {"name": "s"}, "data": {"a": "MQ=="}, "immutable": true});
    for (changes, expected) in [
        (vec![("/metadata/labels/x", json!("y"))], vec![]),
        (
            vec![("/type", json!("example.com/x"))],
            vec!["type: Invalid value: \"example.com/x\": field is immutable"],
        ),
        (
            vec![("/data/a", json!("Mg=="))],
            vec!["data: Forbidden: field is immutable when `immutable` is set"],
        ),
        (
            vec![("/stringData/a", json!("2"))],
            vec!["data: Forbidden: field is immutable when `immutable` is set"],
        ),
        (vec![("/stringData/a", json!("1"))], vec![]),
        (
            vec![("/immutable", json!(null))],
            vec!["immutable: Forbidden: field is immutable when `immutable` is set"],
        ),
    ] {
        assert_eq!(
            update_errors(&SecretStrategy, &old, &with(&old, &changes)),
            expected
        );
    }
}

#[test]
fn rows() {
    let secret =
        json!({"metadata": {"name": "s"}, "data": {"a": "MQ==", "b": ""}, "type": "Opaque"});
    assert_eq!(
        row(&SecretStrategy, &secret),
        [
            ("Name", json!("s")),
            ("Type", json!("Opaque")),
            ("Data", json!(2)),
            ("Age", json!("<unknown>"))
        ]
    );
}
