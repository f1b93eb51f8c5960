//! Secrets. Source: <https://kubernetes.io/docs/concepts/configuration/secret/>

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::{Value, json};

use super::{
    cells, checks,
    config_map::{FROZEN, MAX_BYTES, same_entries},
    describe, fill,
};
use crate::registry::{printing::Column, strategy::Strategy};

const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

pub(super) struct SecretStrategy;

impl Strategy for SecretStrategy {
    type Object = Secret;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            selectable_fields: describe::texts(&["type"]),
            ..describe::namespaced("", "v1", "secrets", "Secret")
        }
    }

    fn default(&self, secret: &mut Secret) {
        fill::text(&mut secret.type_, "Opaque");
        // what is given as text is only a way of writing data
        if let Some(texts) = secret.string_data.take() {
            let data = secret.data.get_or_insert_default();
            let bytes = texts
                .into_iter()
                .map(|(key, text)| (key, ByteString(text.into_bytes())));
            data.extend(bytes);
        }
    }

    fn validate(&self, secret: &Secret) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("data");
        let mut bytes = 0;
        for (key, value) in secret.data.iter().flatten() {
            let complaints = validation::is_config_map_key(key);
            checks::invalid_each(&mut errors, &path.key(key), key, complaints);
            bytes += value.0.len();
        }
        if bytes > MAX_BYTES {
            errors.push(FieldError::too_long(&path, MAX_BYTES));
        }
        validate_type(&mut errors, &path, secret);
        errors
    }

    fn validate_update(&self, new: &Secret, old: &Secret) -> ErrorList {
        let mut errors = ErrorList::new();
        checks::immutable(
            &mut errors,
            &Path::new("type"),
            new.type_ == old.type_,
            json!(new.type_),
        );
        if old.immutable == Some(true) {
            if new.immutable != Some(true) {
                errors.push(FieldError::forbidden(&Path::new("immutable"), FROZEN));
            }
            if !same_entries(&new.data, &old.data) {
                errors.push(FieldError::forbidden(&Path::new("data"), FROZEN));
            }
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Type", "What the Secret is for."),
            Column::string("Data", "Number of keys."),
            Column::AGE,
        ]
    }

    fn row(&self, secret: &Secret, now: jiff::Timestamp) -> Vec<Value> {
        vec![
            json!(secret.metadata.name),
            json!(secret.type_.as_deref().unwrap_or_default()),
            json!(secret.data.as_ref().map_or(0, |d| d.len())),
            json!(cells::since(
                secret.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

/// The keys that a type asks for.
fn validate_type(errors: &mut ErrorList, path: &Path, secret: &Secret) {
    let empty = BTreeMap::new();
    let data = secret.data.as_ref().unwrap_or(&empty);
    let mut missing = |key: &str| errors.push(FieldError::required(&path.key(key), ""));
    match secret.type_.as_deref().unwrap_or_default() {
        "kubernetes.io/service-account-token" => {
            let annotations = secret.metadata.annotations.as_ref();
            let account = annotations.and_then(|a| a.get(ACCOUNT_NAME));
            if account.is_none_or(|name| name.is_empty()) {
                let path = Path::new("metadata").child("annotations").key(ACCOUNT_NAME);
                errors.push(FieldError::required(&path, ""));
            }
        }
        "kubernetes.io/dockercfg" => validate_json(errors, path, data, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => {
            validate_json(errors, path, data, ".dockerconfigjson");
        }
        "kubernetes.io/basic-auth"
            if !data.contains_key("username") && !data.contains_key("password") =>
        {
            missing("username");
            missing("password");
        }
        "kubernetes.io/ssh-auth"
            if data
                .get("ssh-privatekey")
                .is_none_or(|key| key.0.is_empty()) =>
        {
            missing("ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !data.contains_key(key) {
                    missing(key);
                }
            }
        }
        _ => {}
    }
}

/// The key is there and holds a JSON object.
fn validate_json(
    errors: &mut ErrorList,
    path: &Path,
    data: &BTreeMap<String, ByteString>,
    key: &str,
) {
    let path = path.key(key);
    match data.get(key) {
        None => errors.push(FieldError::required(&path, "")),
        Some(bytes) => {
            let parsed = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes.0);
            if let Err(error) = parsed {
                errors.push(FieldError::invalid(
                    &path,
                    "<secret contents redacted>",
                    &error.to_string(),
                ));
            }
        }
    }
}
