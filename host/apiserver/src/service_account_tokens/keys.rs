//! The keys of service account tokens: one signs, all of them verify.
//!
//! Files hold PEM: private keys (PKCS#8, PKCS#1, SEC 1), public keys (`PUBLIC KEY`) and certificates. RSA keys of 2,048 bits
//! and more make RS256, P-256 makes ES256, P-384 makes ES384. A key's id is the digest of its `SubjectPublicKeyInfo`, as
//! Kubernetes derives it, so that tokens and key sets of several servers agree.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{self, EcdsaKeyPair, KeyPair, RsaKeyPair, UnparsedPublicKey},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use x509_parser::{
    pem::Pem,
    prelude::{FromDer, X509Certificate},
    public_key,
    x509::SubjectPublicKeyInfo,
};

const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];

/// How a key signs. The key decides, never the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Es256,
    Es384,
}

impl Algorithm {
    /// As JOSE calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
        }
    }

    fn verification(self) -> &'static dyn signature::VerificationAlgorithm {
        match self {
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Self::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
        }
    }
}

/// A key that verifies.
#[derive(Clone, Debug)]
pub(crate) struct PublicKey {
    pub(crate) id: String,
    pub(crate) algorithm: Algorithm,
    /// PKCS#1 of an RSA key, the point of another.
    bits: Vec<u8>,
    info: Vec<u8>,
}

impl PublicKey {
    /// Reads a DER `SubjectPublicKeyInfo`.
    fn from_info(der: &[u8]) -> Result<Self, String> {
        let parsed = SubjectPublicKeyInfo::from_der(der);
        let (rest, info) = parsed.map_err(|error| format!("not a public key: {error}"))?;
        let der = &der[..der.len() - rest.len()];
        let curve = info.algorithm.parameters.as_ref();
        let curve = curve.and_then(|any| any.as_oid().ok());
        let algorithm = match (info.algorithm.algorithm.as_bytes(), curve) {
            (RSA_ENCRYPTION, _) => Algorithm::Rs256,
            (EC_PUBLIC_KEY, Some(curve)) if curve.as_bytes() == P256 => Algorithm::Es256,
            (EC_PUBLIC_KEY, Some(curve)) if curve.as_bytes() == P384 => Algorithm::Es384,
            _ => return Err("only RSA keys and those of P-256 and P-384 are supported".to_owned()),
        };
        Ok(Self {
            id: URL_SAFE_NO_PAD.encode(Sha256::digest(der)),
            algorithm,
            bits: info.subject_public_key.data.to_vec(),
            info: der.to_vec(),
        })
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(self.algorithm.verification(), &self.bits);
        key.verify(message, signature).is_ok()
    }

    /// As a member of a JSON Web Key Set. Source: RFC 7517 and RFC 7518, section 6
    pub(crate) fn jwk(&self) -> Value {
        let mut jwk = json!({ "use": "sig", "kid": self.id, "alg": self.algorithm.name() });
        let parsed = SubjectPublicKeyInfo::from_der(&self.info);
        let numbers = parsed.ok().and_then(|(_, info)| match info.parsed().ok()? {
            public_key::PublicKey::RSA(rsa) => {
                let trimmed = |number: &[u8]| {
                    let zeros = number.iter().take_while(|byte| **byte == 0).count();
                    URL_SAFE_NO_PAD.encode(&number[zeros..])
                };
                Some(json!({
                    "kty": "RSA", "n": trimmed(rsa.modulus), "e": trimmed(rsa.exponent),
                }))
            }
            _ => {
                let point = self.bits.strip_prefix(&[4])?; // not compressed
                let (x, y) = point.split_at(point.len() / 2);
                let curve = match self.algorithm {
                    Algorithm::Es384 => "P-384",
                    _ => "P-256",
                };
                let [x, y] = [x, y].map(|number| URL_SAFE_NO_PAD.encode(number));
                Some(json!({ "kty": "EC", "crv": curve, "x": x, "y": y }))
            }
        });
        if let (Value::Object(jwk), Some(Value::Object(numbers))) = (&mut jwk, numbers) {
            jwk.extend(numbers);
        }
        jwk
    }
}

/// A key that signs.
pub(crate) struct SigningKey {
    pub(crate) public: PublicKey,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
}

impl SigningKey {
    /// Reads the private key of a file.
    pub(crate) fn from_pem(text: &[u8]) -> Result<Self, String> {
        for pem in Pem::iter_from_buffer(text) {
            let pem = pem.map_err(|error| format!("not PEM: {error}"))?;
            if let Some(key) = Self::from_block(&pem)? {
                return Ok(key);
            }
        }
        Err("holds no private key".to_owned())
    }

    /// The key of a PEM block, if it is a private one.
    fn from_block(pem: &Pem) -> Result<Option<Self>, String> {
        let der = &pem.contents;
        Ok(match pem.label.as_str() {
            "PRIVATE KEY" => match RsaKeyPair::from_pkcs8(der) {
                Ok(pair) => Some(Self::rsa(pair)?),
                Err(error) => match (Self::ec(der, P256)?, Self::ec(der, P384)?) {
                    (None, None) => return Err(unusable(error)),
                    (one, other) => one.or(other),
                },
            },
            "RSA PRIVATE KEY" => Some(Self::rsa(RsaKeyPair::from_der(der).map_err(unusable)?)?),
            "EC PRIVATE KEY" => {
                let of_curve = |curve| Self::ec(&in_pkcs8(der, curve), curve);
                match (of_curve(P256)?, of_curve(P384)?) {
                    (None, None) => return Err(unusable("its curve is neither P-256 nor P-384")),
                    (one, other) => one.or(other),
                }
            }
            _ => None,
        })
    }

    fn rsa(pair: RsaKeyPair) -> Result<Self, String> {
        let algorithm = sequence(&[&element(0x06, &[RSA_ENCRYPTION]), &[0x05, 0x00]]);
        let bits = element(0x03, &[&[0], pair.public_key().as_ref()]);
        Ok(Self {
            public: PublicKey::from_info(&sequence(&[&algorithm, &bits]))?,
            pair: Pair::Rsa(pair),
        })
    }

    /// The key if it is of this curve.
    fn ec(pkcs8: &[u8], curve: &[u8]) -> Result<Option<Self>, String> {
        let signs = match curve {
            P384 => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
            _ => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
        };
        let Ok(pair) = EcdsaKeyPair::from_pkcs8(signs, pkcs8, &SystemRandom::new()) else {
            return Ok(None);
        };
        let algorithm = ec_algorithm(curve);
        let bits = element(0x03, &[&[0], pair.public_key().as_ref()]);
        Ok(Some(Self {
            public: PublicKey::from_info(&sequence(&[&algorithm, &bits]))?,
            pair: Pair::Ec(pair),
        }))
    }

    /// The signature of a message.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let random = SystemRandom::new();
        let failed = |_| "the token cannot be signed".to_owned();
        match &self.pair {
            Pair::Ec(pair) => {
                let signed = pair.sign(&random, message).map_err(failed)?;
                Ok(signed.as_ref().to_vec())
            }
            Pair::Rsa(pair) => {
                let mut signed = vec![0; pair.public().modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signed)
                    .map_err(failed)?;
                Ok(signed)
            }
        }
    }
}

/// All keys of a file, the public ones and those of its private ones.
pub(crate) fn public_keys(text: &[u8]) -> Result<Vec<PublicKey>, String> {
    let mut keys = Vec::new();
    for pem in Pem::iter_from_buffer(text) {
        let pem = pem.map_err(|error| format!("not PEM: {error}"))?;
        match pem.label.as_str() {
            "PUBLIC KEY" => keys.push(PublicKey::from_info(&pem.contents)?),
            "CERTIFICATE" => {
                let parsed = X509Certificate::from_der(&pem.contents);
                let (_, certificate) = parsed.map_err(unusable)?;
                keys.push(PublicKey::from_info(certificate.public_key().raw)?);
            }
            _ => keys.extend(SigningKey::from_block(&pem)?.map(|key| key.public)),
        }
    }
    match keys.is_empty() {
        true => Err("holds no key".to_owned()),
        false => Ok(keys),
    }
}

fn unusable(why: impl std::fmt::Display) -> String {
    format!("a key cannot be used: {why}")
}

/// SEC 1 in PKCS#8, as if it were of this curve. Source: RFC 5208, RFC 5915
fn in_pkcs8(sec1: &[u8], curve: &[u8]) -> Vec<u8> {
    let key = element(0x04, &[sec1]);
    sequence(&[&[0x02, 0x01, 0x00], &ec_algorithm(curve), &key])
}

fn ec_algorithm(curve: &[u8]) -> Vec<u8> {
    let names = [EC_PUBLIC_KEY, curve].map(|name| element(0x06, &[name]));
    sequence(&[&names[0], &names[1]])
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(0x30, parts)
}

/// One DER element.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let contents = parts.concat();
    let mut der = vec![tag];
    match contents.len() {
        short @ 0..0x80 => der.push(short as u8),
        long => {
            let bytes = long.to_be_bytes();
            let significant = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
            der.push(0x80 | significant.len() as u8);
            der.extend_from_slice(significant);
        }
    }
    der.extend(contents);
    der
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that other tools made, and what their keys do.
    const FILES: [(&str, &str, Algorithm); 5] = [
        (
            "RSA, PKCS#8",
            include_str!("testdata/rsa-pkcs8.pem"),
            Algorithm::Rs256,
        ),
        (
            "RSA, PKCS#1",
            include_str!("testdata/rsa-pkcs1.pem"),
            Algorithm::Rs256,
        ),
        (
            "P-256, SEC 1",
            include_str!("testdata/p256-sec1.pem"),
            Algorithm::Es256,
        ),
        (
            "P-384, SEC 1",
            include_str!("testdata/p384-sec1.pem"),
            Algorithm::Es384,
        ),
        (
            "P-384, PKCS#8",
            include_str!("testdata/p384-pkcs8.pem"),
            Algorithm::Es384,
        ),
    ];

    #[test]
    fn keys_of_all_forms_sign_and_verify() {
        for (what, pem, algorithm) in FILES {
            let key = SigningKey::from_pem(pem.as_bytes()).expect(what);
            assert_eq!(key.public.algorithm, algorithm, "{what}");
            let signature = key.sign(b"message").unwrap();
            assert!(key.public.verifies(b"message", &signature), "{what}");
            assert!(!key.public.verifies(b"another", &signature), "{what}");
            let read = public_keys(pem.as_bytes()).unwrap();
            assert_eq!(read[0].id, key.public.id, "{what}");
        }
    }

    #[test]
    fn a_public_key_alone_has_the_id_of_its_pair() {
        for (private, public) in [
            (FILES[0].1, include_str!("testdata/rsa.pub")),
            (FILES[2].1, include_str!("testdata/p256.pub")),
        ] {
            let key = SigningKey::from_pem(private.as_bytes()).unwrap();
            let [public] = &public_keys(public.as_bytes()).unwrap()[..] else {
                panic!("one key");
            };
            assert_eq!(public.id, key.public.id);
            assert!(public.verifies(b"m", &key.sign(b"m").unwrap()));
        }
    }

    #[test]
    fn key_sets_hold_the_numbers_of_the_keys() {
        let [rsa, ec] = [FILES[0].1, FILES[2].1]
            .map(|pem| SigningKey::from_pem(pem.as_bytes()).unwrap().public.jwk());
        let length = |number: &Value| {
            URL_SAFE_NO_PAD
                .decode(number.as_str().unwrap())
                .unwrap()
                .len()
        };
        assert_eq!(
            (&rsa["kty"], &rsa["alg"], &rsa["e"]),
            (&json!("RSA"), &json!("RS256"), &json!("AQAB"))
        );
        assert_eq!(length(&rsa["n"]), 256);
        assert_eq!(
            (&ec["kty"], &ec["crv"], &ec["use"]),
            (&json!("EC"), &json!("P-256"), &json!("sig"))
        );
        assert_eq!((length(&ec["x"]), length(&ec["y"])), (32, 32));
        assert_eq!(ec["d"], Value::Null, "the private number stays here");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for (text, why) in [
            ("", "holds no"),
            ("junk", "holds no"),
            (
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                "cannot be used",
            ),
            (
                "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n",
                "cannot be used",
            ),
        ] {
            let refused = SigningKey::from_pem(text.as_bytes()).err().unwrap();
            assert!(refused.contains(why), "{text:?}: {refused}");
            assert!(public_keys(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
