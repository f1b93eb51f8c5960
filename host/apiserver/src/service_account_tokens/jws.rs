//! JSON Web Signatures in their compact form: three parts of `base64url` with points between them.
//! Source: RFC 7515, section 3.1
//!
//! The header is read for nothing but the key's id: which algorithm verifies is a property of the key.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use super::keys::{PublicKey, SigningKey};

#[derive(Serialize)]
struct Header<'a> {
    alg: &'a str,
    kid: &'a str,
}

/// Signs claims.
pub(super) fn sign(key: &SigningKey, claims: &impl Serialize) -> Result<String, String> {
    let header = Header {
        alg: key.public.algorithm.name(),
        kid: &key.public.id,
    };
    let part = |json: serde_json::Result<Vec<u8>>| {
        let json = json.map_err(|error| error.to_string())?;
        Ok::<_, String>(URL_SAFE_NO_PAD.encode(json))
    };
    let header = part(serde_json::to_vec(&header))?;
    let signed = format!("{header}.{}", part(serde_json::to_vec(claims))?);
    let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes())?);
    Ok(format!("{signed}.{signature}"))
}

/// A token that nobody has verified yet.
pub(super) struct Unverified<'a> {
    signed: &'a str,
    signature: Vec<u8>,
    payload: Vec<u8>,
    key_id: String,
    algorithm: String,
}

impl<'a> Unverified<'a> {
    /// Takes a token apart; `None`: it is something else.
    pub(super) fn parse(token: &'a str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Header {
            alg: String,
            #[serde(default)]
            kid: String,
            /// Extensions that must be understood; none are.
            crit: Option<Vec<String>>,
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
        header.crit.is_none().then_some(())?;
        Some(Self {
            signed,
            signature: decode(signature)?,
            payload: decode(payload)?,
            key_id: header.kid,
            algorithm: header.alg,
        })
    }

    /// What it claims, true or not.
    pub(super) fn claims<T: for<'de> Deserialize<'de>>(&self) -> Option<T> {
        serde_json::from_slice(&self.payload).ok()
    }

    /// Whether one of these keys has signed it: the one it names, or any if it names none.
    pub(super) fn is_signed_by(&self, keys: &[PublicKey]) -> Result<(), String> {
        let named = |key: &&PublicKey| self.key_id.is_empty() || key.id == self.key_id;
        let mut candidates = keys.iter().filter(named).peekable();
        if candidates.peek().is_none() {
            return Err("invalid signature, no keys found".to_owned());
        }
        let verifies = |key: &PublicKey| {
            key.algorithm.name() == self.algorithm
                && key.verifies(self.signed.as_bytes(), &self.signature)
        };
        match candidates.any(verifies) {
            true => Ok(()),
            false => Err("invalid signature".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn key(pem: &str) -> SigningKey {
        SigningKey::from_pem(pem.as_bytes()).unwrap()
    }

    #[test]
    fn only_an_unchanged_token_of_a_known_key_is_good() {
        let ours = key(include_str!("testdata/p256-sec1.pem"));
        let theirs = key(include_str!("testdata/p384-sec1.pem"));
        let rsa = key(include_str!("testdata/rsa-pkcs8.pem"));
        let keys = [ours.public.clone(), rsa.public.clone()];
        let claims = json!({ "sub": "a" });
        let good = sign(&ours, &claims).unwrap();
        let part = |json: Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let parts: Vec<&str> = good.split('.').collect();
        let [header, payload, signature] = parts[..] else {
            panic!("three parts");
        };
        let kid = &ours.public.id;
        let none = part(json!({ "alg": "none", "kid": kid }));
        let hmac = part(json!({ "alg": "HS256", "kid": kid }));
        let critical = part(json!({ "alg": "ES256", "kid": kid, "crit": ["b64"] }));
        let other = part(json!({ "sub": "b" }));
        // the token, whether it can be read, whether it is good
        for (token, readable, is_good) in [
            (good.clone(), true, true),
            (sign(&rsa, &claims).unwrap(), true, true),
            (sign(&theirs, &claims).unwrap(), true, false),
            (format!("{header}.{other}.{signature}"), true, false),
            (format!("{none}.{payload}."), true, false),
            (format!("{hmac}.{payload}.{signature}"), true, false),
            (format!("{critical}.{payload}.{signature}"), false, false),
            (format!("{header}.{payload}"), false, false),
            (format!("{header}.{payload}.{signature}="), false, false),
            (format!("{good}.{signature}"), false, false),
            (String::new(), false, false),
            ("..".to_owned(), false, false),
        ] {
            let parsed = Unverified::parse(&token);
            assert_eq!(parsed.is_some(), readable, "{token}");
            let verified = parsed.is_some_and(|token| token.is_signed_by(&keys).is_ok());
            assert_eq!(verified, is_good, "{token}");
        }
    }
}
