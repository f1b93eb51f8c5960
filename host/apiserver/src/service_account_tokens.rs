//! Tokens of service accounts: issued on request, verified without asking anybody, published as an OpenID provider does.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/>
//!
//! A good signature says that this cluster issued a token. Whether the account and what the token is bound to still exist is
//! for `filters::authentication` to find out, each time.

pub(crate) mod claims;
mod jws;
mod keys;
pub(crate) mod secrets;

use std::{collections::HashMap, fs, path::Path};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{options::ServiceAccountOptions, pki, server::StartError};
use claims::{Claims, LEGACY_ISSUER, LegacyClaims};
use jws::Unverified;
use keys::{PublicKey, SigningKey};

/// Where the key set is served.
pub(crate) const KEY_SET_PATH: &str = "/openid/v1/jwks";
/// Where the provider's configuration is served.
pub(crate) const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";

/// Tokens whose signature is known to be good, so that it is verified once and not at every request.
const REMEMBERED: usize = 4096;

/// Signs and verifies.
pub(crate) struct Tokens {
    pub(crate) options: ServiceAccountOptions,
    signing: SigningKey,
    keys: Vec<PublicKey>,
    verified: Mutex<HashMap<[u8; 32], Verified>>,
}

/// What a token of this cluster claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verified {
    Bound(Box<Claims>),
    Legacy(Box<LegacyClaims>),
}

impl Tokens {
    /// Reads the keys, and makes `sa.key` and `sa.pub` in `pki` if no other signing key is named.
    pub(crate) fn load(options: ServiceAccountOptions, pki: &Path) -> Result<Self, StartError> {
        options.check().map_err(StartError::Options)?;
        let path = match &options.signing_key_file {
            Some(path) => path.clone(),
            None => pki::service_account_key(pki)?,
        };
        let wrong =
            |path: &Path, why: String| StartError::Options(format!("{}: {why}", path.display()));
        let read = |path: &Path| {
            fs::read(path).map_err(|source| StartError::File {
                path: path.to_owned(),
                source,
            })
        };
        let signing = SigningKey::from_pem(&read(&path)?).map_err(|why| wrong(&path, why))?;
        let mut keys = vec![signing.public.clone()];
        for path in &options.key_files {
            let more = keys::public_keys(&read(path)?).map_err(|why| wrong(path, why))?;
            for key in more {
                if !keys.iter().any(|known| known.id == key.id) {
                    keys.push(key);
                }
            }
        }
        Ok(Self {
            options,
            signing,
            keys,
            verified: Mutex::default(),
        })
    }

    /// Signs claims in the name of the first issuer.
    pub(crate) fn issue(&self, mut claims: Claims) -> Result<String, String> {
        claims.iss.clone_from(&self.options.issuers[0]);
        jws::sign(&self.signing, &claims)
    }

    /// Signs the claims of a token that a Secret is to hold.
    pub(crate) fn issue_legacy(&self, mut claims: LegacyClaims) -> Result<String, String> {
        claims.iss = LEGACY_ISSUER.to_owned();
        jws::sign(&self.signing, &claims)
    }

    /// What a token claims; `None` if somebody else issued it, an error if it only says that we did.
    pub(crate) fn verify(&self, token: &str) -> Result<Option<Verified>, String> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Issued {
            iss: String,
        }
        let digest = Sha256::digest(token).into();
        if let Some(known) = self.verified.lock().get(&digest) {
            return Ok(Some(known.clone()));
        }
        let Some(unverified) = Unverified::parse(token) else {
            return Ok(None);
        };
        let issuer = unverified.claims::<Issued>().unwrap_or_default().iss;
        let is_legacy = issuer == LEGACY_ISSUER;
        if !is_legacy && !self.options.issuers.contains(&issuer) {
            return Ok(None);
        }
        unverified.is_signed_by(&self.keys)?;
        let claims = match is_legacy {
            true => unverified
                .claims()
                .map(|claims| Verified::Legacy(Box::new(claims))),
            false => unverified
                .claims()
                .map(|claims| Verified::Bound(Box::new(claims))),
        };
        let claims = claims.ok_or("service account token claims could not be validated")?;
        let mut verified = self.verified.lock();
        if verified.len() >= REMEMBERED {
            verified.clear();
        }
        verified.insert(digest, claims.clone());
        Ok(Some(claims))
    }

    /// The provider's configuration, for a server that others reach at `address` (host and port); `None` if the issuer is not
    /// one that OpenID allows.
    pub(crate) fn configuration(&self, address: &str) -> Option<Value> {
        let issuer = &self.options.issuers[0];
        let allowed = issuer.starts_with("https://") && !issuer.contains(['?', '#']);
        let mut algorithms: Vec<&str> = self.keys.iter().map(|key| key.algorithm.name()).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let default_uri = || format!("https://{address}{KEY_SET_PATH}");
        allowed.then(|| {
            json!({
                "issuer": issuer,
                "jwks_uri": self.options.jwks_uri.clone().unwrap_or_else(default_uri),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": algorithms,
            })
        })
    }

    /// The keys that verify, as a JSON Web Key Set.
    pub(crate) fn key_set(&self) -> Value {
        #[derive(Serialize)]
        struct Set {
            keys: Vec<Value>,
        }
        json!(Set {
            keys: self.keys.iter().map(PublicKey::jwk).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(change: impl FnOnce(&mut ServiceAccountOptions)) -> Tokens {
        let dir = tempfile::tempdir().unwrap();
        let mut options = ServiceAccountOptions::default();
        change(&mut options);
        Tokens::load(options, dir.path()).unwrap()
    }

    #[test]
    fn a_token_is_known_by_its_issuer_and_its_key() {
        let ours = tokens(|_| ());
        let others = tokens(|_| ());
        let elsewhere = tokens(|options| options.issuers = vec!["https://elsewhere".into()]);
        let claims = Claims {
            sub: "system:serviceaccount:ns:a".into(),
            ..Claims::default()
        };
        let good = ours.issue(claims.clone()).unwrap();
        for _ in 0..2 {
            let Ok(Some(Verified::Bound(found))) = ours.verify(&good) else {
                panic!("a good token");
            };
            assert_eq!(found.sub, claims.sub);
        }
        let forged = others.issue(claims.clone()).unwrap();
        assert!(
            ours.verify(&forged)
                .unwrap_err()
                .contains("invalid signature")
        );
        assert_eq!(ours.verify(&elsewhere.issue(claims).unwrap()), Ok(None));
        assert_eq!(ours.verify("a-static-token"), Ok(None));
        let legacy = ours.issue_legacy(LegacyClaims::default()).unwrap();
        assert!(matches!(
            ours.verify(&legacy),
            Ok(Some(Verified::Legacy(_)))
        ));
    }

    #[test]
    fn older_issuers_and_keys_are_still_believed() {
        let dir = tempfile::tempdir().unwrap();
        let old = Tokens::load(
            ServiceAccountOptions {
                issuers: vec!["https://old".into()],
                ..ServiceAccountOptions::default()
            },
            dir.path(),
        );
        let token = old.unwrap().issue(Claims::default()).unwrap();
        let new = tokens(|options| {
            options.issuers = vec!["https://new".into(), "https://old".into()];
            options.key_files = vec![dir.path().join("sa.pub")];
        });
        assert!(new.verify(&token).unwrap().is_some());
        assert_eq!(new.key_set()["keys"].as_array().unwrap().len(), 2);
        let configuration = new.configuration("127.0.0.1:6443").unwrap();
        assert_eq!(configuration["issuer"], "https://new");
        assert_eq!(
            configuration["jwks_uri"],
            "https://127.0.0.1:6443/openid/v1/jwks"
        );
        assert_eq!(
            configuration["id_token_signing_alg_values_supported"],
            json!(["ES256"])
        );
    }

    #[test]
    fn the_key_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let load = || Tokens::load(ServiceAccountOptions::default(), dir.path()).unwrap();
        assert_eq!(load().signing.public.id, load().signing.public.id);
    }

    #[test]
    fn what_cannot_be_used_is_said_at_start() {
        let dir = tempfile::tempdir().unwrap();
        let junk = dir.path().join("junk.pem");
        fs::write(&junk, "junk").unwrap();
        let with = |change: &dyn Fn(&mut ServiceAccountOptions)| {
            let mut options = ServiceAccountOptions::default();
            change(&mut options);
            let refused = Tokens::load(options, dir.path()).err();
            refused.map(|error| error.to_string()).unwrap_or_default()
        };
        type Change<'a> = &'a dyn Fn(&mut ServiceAccountOptions);
        let cases: [(Change<'_>, &str); 8] = [
            (&|o| o.key_files = vec![junk.clone()], "holds no key"),
            (
                &|o| o.signing_key_file = Some(junk.clone()),
                "holds no private key",
            ),
            (
                &|o| o.key_files = vec![dir.path().join("none")],
                "No such file",
            ),
            (&|o| o.issuers.clear(), "--service-account-issuer"),
            (
                &|o| o.issuers = vec![String::new()],
                "--service-account-issuer",
            ),
            (
                &|o| o.issuers = vec!["http//a b:c".into()],
                "--service-account-issuer",
            ),
            (
                &|o| o.max_token_seconds = Some(60),
                "between 1 hour and 2^32 seconds",
            ),
            (
                &|o| o.jwks_uri = Some("http://a".into()),
                "--service-account-jwks-uri",
            ),
        ];
        for (change, why) in cases {
            let found = with(change);
            assert!(found.contains(why), "{found:?} does not contain {why:?}");
        }
    }

    #[test]
    fn an_issuer_that_is_no_https_url_is_no_openid_provider() {
        for (issuer, served) in [
            ("https://example.com", true),
            ("http://example.com", false),
            ("https://example.com?x=y", false),
            ("cluster", false),
        ] {
            let tokens = tokens(|options| options.issuers = vec![issuer.to_owned()]);
            assert_eq!(tokens.configuration("a:1").is_some(), served, "{issuer}");
        }
    }
}
