//! `EncryptionConfiguration`, read strictly: what is misspelt or contradicts itself is refused with the field's path.
//! Source: <https://kubernetes.io/docs/reference/config-api/apiserver-config.v1/#apiserver-config-k8s-io-v1-EncryptionConfiguration>

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use pilothouse_api::field::{ErrorList, FieldError, Path};
use serde::Deserialize;

use super::{
    cipher::Cipher,
    providers::{Kind, NamedKey, Provider},
    rules::{Rules, parse_resource},
};

/// What is wrong with a configuration. Secrets are never shown.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("not an EncryptionConfiguration: {0}")]
    Undecodable(String),
    #[error("{}", listed(.0))]
    Invalid(ErrorList),
    #[error("resource {resource:?} is masked by earlier rule {by:?}")]
    Masked { resource: String, by: String },
}

fn listed(errors: &ErrorList) -> String {
    let texts = errors.iter().map(|e| format!("{}: {}", e.path, e.message));
    texts.collect::<Vec<_>>().join("; ")
}

/// Which resources are encrypted by what.
pub struct EncryptionConfig {
    pub(super) rules: Rules,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    #[serde(default)]
    resources: Vec<ResourceRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceRule {
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    providers: Vec<ProviderRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderRule {
    aesgcm: Option<Keys>,
    aescbc: Option<Keys>,
    secretbox: Option<Keys>,
    identity: Option<Identity>,
    kms: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    #[serde(default)]
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    #[serde(default)]
    name: String,
    #[serde(default)]
    secret: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {}

const AES_KEY_BYTES: &[usize] = &[16, 24, 32];
const SECRETBOX_KEY_BYTES: &[usize] = &[32];

impl EncryptionConfig {
    /// From YAML or JSON.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let document: Document =
            serde_saphyr::from_str(text).map_err(|error| undecodable(&error.to_string()))?;
        match (&*document.api_version, &*document.kind) {
            ("apiserver.config.k8s.io/v1", "EncryptionConfiguration") => {}
            ("v1", "EncryptionConfig") => {} // its old name
            (version, kind) => {
                return Err(undecodable(&format!(
                    "apiVersion {version:?} and kind {kind:?} must be \"apiserver.config.k8s.io/v1\" and \
                     \"EncryptionConfiguration\""
                )));
            }
        }
        let mut errors = ErrorList::new();
        let root = Path::new("resources");
        if document.resources.is_empty() {
            errors.push(FieldError::required(
                &root,
                "at least one resources is required",
            ));
        }
        let mut lists = Vec::new();
        for (index, rule) in document.resources.into_iter().enumerate() {
            let path = root.index(index);
            resource_errors(&rule.resources, &path.child("resources"), &mut errors);
            let providers = providers(rule.providers, &path.child("providers"), &mut errors);
            lists.push((rule.resources, providers));
        }
        if !errors.is_empty() {
            return Err(ConfigError::Invalid(errors));
        }
        let mut rules = Rules::new();
        for (resources, providers) in lists {
            for resource in resources {
                let added = rules.add(&parse_resource(&resource), &providers);
                added.map_err(|by| ConfigError::Masked { resource, by })?;
            }
        }
        Ok(Self { rules })
    }
}

/// The parser quotes the file, and with it keys: what it says is cut to its first line.
fn undecodable(error: &str) -> ConfigError {
    ConfigError::Undecodable(error.lines().next().unwrap_or_default().to_owned())
}

fn resource_errors(resources: &[String], path: &Path, errors: &mut ErrorList) {
    if resources.is_empty() {
        let why = format!("at least one {path} is required");
        errors.push(FieldError::required(path, &why));
    }
    overlap_errors(resources, path, errors);
    for (index, text) in resources.iter().enumerate() {
        let resource = parse_resource(text);
        let why = match (&*resource.group, &*resource.resource) {
            _ if text.chars().any(char::is_uppercase) => {
                "resource name should not contain capital letters"
            }
            _ if text == "*" => {
                "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
            }
            ("", "apiserveripinfo" | "serviceipallocations" | "servicenodeportallocations") => {
                "resources which do not have REST API/s cannot be encrypted"
            }
            ("events.k8s.io", _) => {
                "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"
            }
            ("extensions", _) => {
                "'extensions' group has been removed and cannot be used for encryption"
            }
            ("*", name) if name != "*" => {
                "encrypting the same resource across groups is not supported"
            }
            _ => continue,
        };
        errors.push(FieldError::invalid(&path.index(index), text.as_str(), why));
    }
}

/// Within one list nothing may be named twice, by itself or by a wildcard.
fn overlap_errors(resources: &[String], path: &Path, errors: &mut ErrorList) {
    let parsed: Vec<_> = resources.iter().map(|text| parse_resource(text)).collect();
    let (mut twice, mut masked) = (false, false);
    for (index, one) in parsed.iter().enumerate() {
        for (other_index, other) in parsed.iter().enumerate() {
            if index == other_index {
                continue;
            }
            twice |= one == other;
            let is_wildcard = one.resource == "*";
            let covers = one.group == "*" || one.group == other.group;
            masked |= one != other && is_wildcard && covers;
        }
    }
    let mut refuse = |why| errors.push(FieldError::invalid(path, resources.to_vec(), why));
    if twice {
        refuse("the same resource cannot be specified multiple times");
    }
    if masked {
        refuse(
            "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked",
        );
    }
}

fn providers(rules: Vec<ProviderRule>, path: &Path, errors: &mut ErrorList) -> Vec<Arc<Provider>> {
    if rules.is_empty() {
        let why = format!("at least one {path} is required");
        errors.push(FieldError::required(path, &why));
    }
    let rules = rules.into_iter().enumerate();
    let read = rules.filter_map(|(index, rule)| provider(rule, &path.index(index), errors));
    read.map(Arc::new).collect()
}

/// `None` if there are errors.
fn provider(rule: ProviderRule, path: &Path, errors: &mut ErrorList) -> Option<Provider> {
    let keyed = [
        (Kind::AesGcm, rule.aesgcm),
        (Kind::AesCbc, rule.aescbc),
        (Kind::SecretBox, rule.secretbox),
    ];
    let mut keyed: Vec<_> = keyed
        .into_iter()
        .filter_map(|(kind, keys)| Some((kind, keys?)))
        .collect();
    let others = usize::from(rule.identity.is_some()) + usize::from(rule.kms.is_some());
    match keyed.len() + others {
        0 => {
            let why = "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity";
            errors.push(FieldError::required(path, why));
            return None;
        }
        1 => {}
        _ => {
            let why = "more than one provider specified in a single element, should split into different list elements";
            errors.push(FieldError::forbidden(path, why));
            return None;
        }
    }
    if rule.kms.is_some() {
        let why = "this API server has no client of KMS plugins. Choose aesgcm or secretbox with a key of your own, kept where \
                   only the API server can read it; what a KMS plugin has encrypted has to be rewritten first, by an API server \
                   that reaches the plugin and has identity as its first provider";
        errors.push(FieldError::forbidden(&path.child("kms"), why));
        return None;
    }
    let Some((kind, rule)) = keyed.pop() else {
        return Some(Provider::Identity);
    };
    let path = path.child(kind.name()).child("keys");
    if rule.keys.is_empty() {
        errors.push(FieldError::required(&path, "at least one keys is required"));
        return None;
    }
    let before = errors.len();
    let keys = rule.keys.into_iter().enumerate();
    let keys: Vec<NamedKey> = keys
        .filter_map(|(index, key)| named_key(kind, key, &path.index(index), errors))
        .collect();
    (errors.len() == before).then_some(Provider::Keyed { kind, keys })
}

fn named_key(kind: Kind, key: Key, path: &Path, errors: &mut ErrorList) -> Option<NamedKey> {
    if key.name.is_empty() {
        let why = "name is a mandatory field for a key";
        errors.push(FieldError::required(&path.child("name"), why));
    }
    let path = path.child("secret");
    if key.secret.is_empty() {
        let why = "secret is a mandatory field for a key";
        errors.push(FieldError::required(&path, why));
        return None;
    }
    let Ok(secret) = STANDARD.decode(&key.secret) else {
        let why = "secrets must be base64 encoded";
        errors.push(FieldError::invalid(&path, "REDACTED", why));
        return None;
    };
    let (cipher, allowed) = match kind {
        Kind::AesGcm => (Cipher::gcm(&secret), AES_KEY_BYTES),
        Kind::AesCbc => (Cipher::cbc(&secret), AES_KEY_BYTES),
        Kind::SecretBox => (Cipher::secretbox(&secret), SECRETBOX_KEY_BYTES),
    };
    match cipher {
        Ok(cipher) => Some(NamedKey {
            name: key.name,
            cipher,
        }),
        Err(_) => {
            let why = format!(
                "secret is not of the expected length, got {}, expected one of {allowed:?}",
                secret.len()
            );
            errors.push(FieldError::invalid(&path, "REDACTED", &why));
            None
        }
    }
}
