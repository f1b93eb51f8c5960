//! What a configuration may say.

use super::*;

const KEY: &str = "{name: key1, secret: YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=}"; // 32 bytes

fn refusal(resources: &str) -> String {
    match EncryptionConfig::parse(&document(resources)) {
        Ok(_) => panic!("taken: {resources}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn configurations_are_taken() {
    let aes = format!("{{aesgcm: {{keys: [{KEY}]}}}}");
    for resources in [
        "- resources: [secrets]\n  providers: [{identity: {}}]".to_owned(),
        format!(
            "- resources: [secrets, pandas.bears.example]\n  providers: [{aes}, {{identity: {{}}}}]"
        ),
        format!(
            "- resources: [secrets]\n  providers: [{{secretbox: {{keys: [{KEY}]}}}}, {{aescbc: {{keys: [{KEY}]}}}}]"
        ),
        format!(
            "- resources: [events]\n  providers: [{{identity: {{}}}}]\n- resources: ['*.apps', '*.']\n  providers: [{aes}]\n- resources: ['*.*']\n  providers: [{aes}]"
        ),
    ] {
        drop(configured(&resources));
    }
    let json = r#"{"apiVersion": "v1", "kind": "EncryptionConfig", "resources": [{"resources": ["secrets"], "providers": [{"identity": {}}]}]}"#;
    assert!(
        EncryptionConfig::parse(json).is_ok(),
        "JSON, and its old name"
    );
}

#[test]
fn what_is_wrong_is_named_by_its_path() {
    let with = |provider: &str| format!("- resources: [secrets]\n  providers: [{provider}]");
    let named = |names: &str| format!("- resources: [{names}]\n  providers: [{{identity: {{}}}}]");
    // the resources of the configuration, what is said
    for (resources, said) in [
        (
            "[]".to_owned(),
            "resources: Required value: at least one resources is required",
        ),
        (
            "- providers: [{identity: {}}]".to_owned(),
            "resources[0].resources: Required value",
        ),
        (
            "- resources: [secrets]".to_owned(),
            "resources[0].providers: Required value",
        ),
        (
            with("{}"),
            "resources[0].providers[0]: Required value: provider does not contain",
        ),
        (
            with("{identity: {}, aesgcm: {keys: []}}"),
            "resources[0].providers[0]: Forbidden: more than one provider",
        ),
        (
            with("{aesgcm: {keys: []}}"),
            "resources[0].providers[0].aesgcm.keys: Required value",
        ),
        (
            with("{aescbc: {keys: [{secret: YWJjZA==}]}}"),
            "resources[0].providers[0].aescbc.keys[0].name: Required value",
        ),
        (
            with("{aescbc: {keys: [{name: a}]}}"),
            "keys[0].secret: Required value: secret is a mandatory field",
        ),
        (
            with("{aescbc: {keys: [{name: a, secret: '!'}]}}"),
            r#"keys[0].secret: Invalid value: "REDACTED": secrets must be base64"#,
        ),
        (
            with("{aesgcm: {keys: [{name: a, secret: c2VjcmV0}]}}"),
            "got 6, expected one of [16, 24, 32]",
        ),
        (
            with("{secretbox: {keys: [{name: a, secret: c2VjcmV0IGlzIHNlY3VyZQ==}]}}"),
            "got 16, expected one of [32]",
        ),
        (
            with("{kms: {apiVersion: v2, name: cloud, endpoint: 'unix:///kms.sock'}}"),
            "resources[0].providers[0].kms: Forbidden: this API server has no client of KMS plugins. Choose aesgcm or secretbox",
        ),
        (with("{identity: {}}, {rot13: {}}"), "unknown field"),
        (
            named("Secrets"),
            "resources[0].resources[0]: Invalid value: \"Secrets\": resource name should not contain capital letters",
        ),
        (
            named("'*'"),
            "use '*.' to encrypt all the resources from core API group",
        ),
        (
            named("secrets, apiserveripinfo"),
            "resources[0].resources[1]: Invalid value: \"apiserveripinfo\": resources which do not have REST",
        ),
        (named("events.events.k8s.io"), "Use 'events' instead"),
        (
            named("deployments.extensions"),
            "'extensions' group has been removed",
        ),
        (
            named("secrets.*"),
            "encrypting the same resource across groups is not supported",
        ),
        (
            named("secrets, pods, secrets"),
            "the same resource cannot be specified multiple times",
        ),
        (named("secrets, '*.'"), "overlapping resources"),
        (named("'*.*', '*.apps'"), "overlapping resources"),
        (
            format!("{}\n{}", named("'*.'"), named("secrets")),
            r#"resource "secrets" is masked by earlier rule "*.""#,
        ),
    ] {
        let error = refusal(&resources);
        assert!(error.contains(said), "{resources}\nsaid: {error}");
    }
    for text in [
        "",
        "apiVersion: v1\nkind: Secret\nresources: []",
        "apiVersion: apiserver.config.k8s.io/v2\nkind: EncryptionConfiguration",
    ] {
        assert!(
            matches!(
                EncryptionConfig::parse(text),
                Err(ConfigError::Undecodable(_))
            ),
            "{text}"
        );
    }
}

#[test]
fn no_error_shows_a_secret() {
    let secret = "c2VjcmV0IGlzIHNlY3VyZQ==";
    for provider in [
        format!("{{secretbox: {{keys: [{{name: a, secret: {secret}}}]}}}}"),
        format!("{{aesgcm: {{keys: [{{name: a, secret: {secret}, more: 1}}]}}}}"),
        format!("{{aesgcm: {{keys: [{{name: a, secret: [{secret}]}}]}}}}"),
        format!("{{kms: {secret}}}"),
    ] {
        let error = refusal(&format!(
            "- resources: [secrets]\n  providers: [{provider}]"
        ));
        assert!(!error.contains(secret), "{error}");
    }
}
