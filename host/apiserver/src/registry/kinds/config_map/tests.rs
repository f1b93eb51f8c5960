use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{create_errors, row, update_errors, with};

#[test]
fn keys_and_size() {
    let base = json!({"metadata": {"name": "settings"}, "data": {"a": "1"}});
    let big = "x".repeat(MAX_BYTES);
    for (changes, expected) in [
        (vec![], vec![]),
        (vec![("/data/a", json!(big))], vec![]),
        (
            vec![("/data/a", json!(big)), ("/data/b", json!("y"))],
            vec!["[]: Too long: may not be more than 1048576 bytes"],
        ),
        (
            vec![("/binaryData/a", json!("AA=="))],
            vec!["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
        ),
        (
            vec![("/data/..", json!("1"))],
            vec!["data[..]: Invalid value: \"..\": must not be '..'"],
        ),
        (
            vec![("/data/a b", json!("1"))],
            vec![
                "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            ],
        ),
    ] {
        assert_eq!(
            create_errors(&ConfigMapStrategy, &with(&base, &changes)),
            expected
        );
    }
}

#[test]
fn immutable_maps_keep_their_data_but_not_their_metadata() {
    let frozen = json!({"metadata": {"name": "settings"}, "data": {"a": "1"}, "immutable": true});
    for (changes, expected) in [
        (vec![("/metadata/labels/x", json!("y"))], vec![]),
        (vec![("/binaryData", json!({}))], vec![]),
        (
            vec![("/data/a", json!("2"))],
            vec!["data: Forbidden: field is immutable when `immutable` is set"],
        ),
        (
            vec![("/binaryData/b", json!("AA=="))],
            vec!["binaryData: Forbidden: field is immutable when `immutable` is set"],
        ),
        (
            vec![("/immutable", json!(false))],
            vec!["immutable: Forbidden: field is immutable when `immutable` is set"],
        ),
        (
            vec![("/immutable", json!(null))],
            vec!["immutable: Forbidden: field is immutable when `immutable` is set"],
        ),
    ] {
        let new = with(&frozen, &changes);
        assert_eq!(update_errors(&ConfigMapStrategy, &frozen, &new), expected);
    }
    let loose = with(&frozen, &[("/immutable", json!(null))]);
    let changed = with(&frozen, &[("/data/a", json!("2"))]);
    assert_eq!(update_errors(&ConfigMapStrategy, &loose, &changed), [""; 0]);
}

#[test]
fn rows() {
    let map =
        json!({"metadata": {"name": "settings"}, "data": {"a": "1"}, "binaryData": {"b": "AA=="}});
    assert_eq!(
        row(&ConfigMapStrategy, &map),
        [
            ("Name", json!("settings")),
            ("Data", json!(2)),
            ("Age", json!("<unknown>"))
        ]
    );
}
