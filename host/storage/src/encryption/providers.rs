//! The providers of one resource in order: the first writes, all read.
//!
//! A stored value is `k8s:enc:<provider>:v1:<key name>:` and the cipher's bytes, or, of the identity provider, the value itself.
//! What anything but the first key of the first provider reads is stale: it has to be written again.

use std::sync::Arc;

use bytes::Bytes;
use rand::TryRngCore;

use super::cipher::Cipher;
use crate::engine::ENCRYPTED_PREFIX;

/// What ciphers a provider's keys are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    AesCbc,
    AesGcm,
    SecretBox,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AesCbc => "aescbc",
            Self::AesGcm => "aesgcm",
            Self::SecretBox => "secretbox",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::AesCbc => "k8s:enc:aescbc:v1:",
            Self::AesGcm => "k8s:enc:aesgcm:v1:",
            Self::SecretBox => "k8s:enc:secretbox:v1:",
        }
    }
}

/// A named key of a provider.
pub(super) struct NamedKey {
    pub(super) name: String,
    pub(super) cipher: Cipher,
}

/// One provider of a resource.
pub(super) enum Provider {
    /// Values as they are. Does not take encrypted ones for values.
    Identity,
    Keyed {
        kind: Kind,
        keys: Vec<NamedKey>,
    },
}

/// The providers of a resource, in the order of preference.
pub(super) struct Providers<'a>(pub(super) &'a [Arc<Provider>]);

/// A value that has been read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) value: Bytes,
    pub(super) stale: bool,
}

impl Providers<'_> {
    /// What is stored of a value under a key; the error says why not.
    pub(super) fn seal(&self, value: &Bytes, key: &str) -> Result<Bytes, String> {
        let Some(first) = self.0.first() else {
            return Ok(value.clone());
        };
        match &**first {
            Provider::Identity => Ok(value.clone()),
            Provider::Keyed { kind, keys } => {
                let used = keys.first().ok_or("the provider has no keys")?;
                let mut nonce = [0; 24];
                let nonce = &mut nonce[..used.cipher.nonce_bytes()];
                rand::rngs::OsRng
                    .try_fill_bytes(nonce)
                    .map_err(|error| format!("no random bytes: {error}"))?;
                let sealed = used.cipher.seal(nonce, value, key.as_bytes());
                let sealed = sealed.map_err(|_| format!("{} failed", kind.name()))?;
                let name = used.name.as_bytes();
                Ok([kind.prefix().as_bytes(), name, b":", &sealed]
                    .concat()
                    .into())
            }
        }
    }

    /// The value of what is stored under a key; the error says why it cannot be read.
    pub(super) fn open(&self, stored: &Bytes, key: &str) -> Result<Opened, String> {
        let mut tried = false;
        for (place, provider) in self.0.iter().enumerate() {
            let (kind, keys) = match &**provider {
                Provider::Identity if stored.starts_with(ENCRYPTED_PREFIX) => continue,
                Provider::Identity => {
                    return Ok(Opened {
                        value: stored.clone(),
                        stale: place > 0,
                    });
                }
                Provider::Keyed { kind, keys } => (kind, keys),
            };
            let Some(rest) = stored.strip_prefix(kind.prefix().as_bytes()) else {
                continue;
            };
            // providers may be listed twice, and names be used twice, while keys are rotated: all that fit are tried
            for (number, named) in keys.iter().enumerate() {
                let rest = rest.strip_prefix(named.name.as_bytes());
                let Some(sealed) = rest.and_then(|rest| rest.strip_prefix(b":")) else {
                    continue;
                };
                tried = true;
                if let Ok(value) = named.cipher.open(sealed, key.as_bytes()) {
                    return Ok(Opened {
                        value: value.into(),
                        stale: place > 0 || number > 0,
                    });
                }
            }
        }
        Err(why_not(stored, tried))
    }
}

fn why_not(stored: &[u8], tried: bool) -> String {
    match (written_by(stored), tried) {
        (None, _) => "it is not encrypted, and the encryption configuration has no identity provider for this resource"
            .to_owned(),
        (Some(by), true) => format!(
            "it was encrypted {by}, but the key of that name in the encryption configuration does not open it: the secret is \
             another one, or the value was changed or moved"
        ),
        (Some(by), false) => format!(
            "it was encrypted {by}, which the encryption configuration does not have for this resource: add it behind the \
             providers that are there"
        ),
    }
}

/// `by provider aescbc with key "key1"`; `None` for what is not encrypted.
pub(crate) fn written_by(stored: &[u8]) -> Option<String> {
    let rest = stored.strip_prefix(ENCRYPTED_PREFIX)?;
    let mut parts = rest.splitn(4, |byte| *byte == b':');
    let mut part = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let (provider, _version, key) = (part(), part(), part());
    Some(format!("by provider {provider} with key {key:?}"))
}
