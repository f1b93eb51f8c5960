//! What is stored, byte by byte. The vectors were made by OpenSSL (through Python's `cryptography`) and libsodium (through
//! PyNaCl) in upstream's layout, not by this code.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;

use super::{
    super::{cipher::Cipher, providers::Opened},
    *,
};

/// The key that the values are stored under, which `aesgcm` authenticates.
const KEY: &str = "/registry/secrets/default/db";
const VALUE: &str = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"db"},"data":{"password":"c3dvcmRmaXNo"}}"#;

/// Provider, key name, key, nonce or IV, all of what is stored; the last four in base64 but the name.
const VECTORS: [[&str; 5]; 7] = [
    [
        "aesgcm",
        "k16",
        "AAECAwQFBgcICQoLDA0ODw==",
        "AAcOFRwjKjE4P0ZN",
        "azhzOmVuYzphZXNnY206djE6azE2OgAHDhUcIyoxOD9GTe8NhhnWRw85M5MQZgQC85l1L8DEsr3Ao8qHtbpinOgyNZs+iRWh/q/usLUrE7L7409JkOfZvdv4Do9hxhrg9IL5TVyXZ/YUGUxe7opJaKdUiuG46XboM2kQIen/hehP97goOO0o2ue05WoIO+WOxw==",
    ],
    [
        "aesgcm",
        "k24",
        "ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7",
        "AAcOFRwjKjE4P0ZN",
        "azhzOmVuYzphZXNnY206djE6azI0OgAHDhUcIyoxOD9GTfXRKlDgc8FiiyhGE187LsN6o2oWC3/iqVLn9S7Cc0kcxNogNO9SQl2sFM7EZmHzENhY85XLg+I9j8/50H/QbTyoQ/OPvJvHfvzzpRPfPld6/M0nbtXAf8cCHx1jeM/NWFZlvgntR2f3AViI15TFPw==",
    ],
    [
        "aesgcm",
        "k32",
        "yMnKy8zNzs/Q0dLT1NXW19jZ2tvc3d7f4OHi4+Tl5uc=",
        "AAcOFRwjKjE4P0ZN",
        "azhzOmVuYzphZXNnY206djE6azMyOgAHDhUcIyoxOD9GTbvtctk7Ox+PAT94ZK1wwQpBTQGCz1+92G8H2rmHv5UEV77YRBcRPW44C2ro00ZjUtd2fyLRg7qHR2PvQNLN0oswwr7uJHLqwNhJtE3FD/VSV7glfarqWugStSrnV+UUhYLyfQ7F4mBtmDZDV0MVsQ==",
    ],
    [
        "aescbc",
        "k16",
        "AAECAwQFBgcICQoLDA0ODw==",
        "AAsWISw3Qk1YY255hI+apQ==",
        "azhzOmVuYzphZXNjYmM6djE6azE2OgALFiEsN0JNWGNueYSPmqV/IT6UmnbrX2LSV5SexTTjjag+j3lJ0fX+d5huLw8uvgPrSHYeDFKeHZ65SiLWsH9ZWD2QQuFxvxROXc3hn5mWdlTZ4S77MrUP1sUd295EvfijPpbYs1tB6a3cJwQYLT0=",
    ],
    [
        "aescbc",
        "k24",
        "ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7",
        "AAsWISw3Qk1YY255hI+apQ==",
        "azhzOmVuYzphZXNjYmM6djE6azI0OgALFiEsN0JNWGNueYSPmqV50JRekFUBdxKHLBwrKnoXYYLNuC9f+18OBH3C2KkfqISA60gjDZXRsPLrN4wGwvyAPA2/Tyi+l311KRVSXzHXu7ck4S+geW557pYawudqPoL+anTYWE09PLZFxqs3WNY=",
    ],
    [
        "aescbc",
        "k32",
        "yMnKy8zNzs/Q0dLT1NXW19jZ2tvc3d7f4OHi4+Tl5uc=",
        "AAsWISw3Qk1YY255hI+apQ==",
        "azhzOmVuYzphZXNjYmM6djE6azMyOgALFiEsN0JNWGNueYSPmqW1JYhHxdJO7M5DfbtVULOavTVYVwda0gtw18thKdr1t8X6vCn30HgyenQk+2WDqEYttS4j6GQUcLVu3NWvAPw2H/di8Ar9t70OMbne6pkISCrqeqmDbinRjRMzgfy+lG4=",
    ],
    [
        "secretbox",
        "box",
        "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
        "AA0aJzRBTltodYKPnKm2w9Dd6vcEER4r",
        "azhzOmVuYzpzZWNyZXRib3g6djE6Ym94OgANGic0QU5baHWCj5yptsPQ3er3BBEeK9p1rQMHWd9Rpvf98j2vsU4TGTIgmva5ZyIw4UREmlRjhP1puluonsjx2F/6K+mQTkT+8YJiHDwJYo/Vw/Ts6m43IWrgvDko7hk1ju/K3aRuZoDYeCbsObmUnnNfQVbnNnseeTMkjMFQTHQ7DS8aOA==",
    ],
];

fn bytes(base64: &str) -> Bytes {
    STANDARD.decode(base64).unwrap().into()
}

fn providers(kind: &str, keys: &[(&str, &str)]) -> String {
    let keys = keys
        .iter()
        .map(|(name, secret)| format!("{{name: {name}, secret: {secret:?}}}"));
    format!(
        "{{{kind}: {{keys: [{}]}}}}",
        keys.collect::<Vec<_>>().join(", ")
    )
}

fn open(config: &EncryptionConfig, stored: &Bytes) -> Result<Opened, String> {
    config.rules.providers(&layout(), KEY).open(stored, KEY)
}

fn seal(config: &EncryptionConfig, value: &str) -> Bytes {
    let providers = config.rules.providers(&layout(), KEY);
    providers.seal(&Bytes::from(value.to_owned()), KEY).unwrap()
}

#[test]
fn values_of_other_implementations_are_read() {
    for [kind, name, secret, _, stored] in VECTORS {
        let config = for_secrets(&format!("[{}]", providers(kind, &[(name, secret)])));
        let opened = open(&config, &bytes(stored));
        let expected = Opened {
            value: VALUE.into(),
            stale: false,
        };
        assert_eq!(opened.as_ref(), Ok(&expected), "{kind} {name}");
    }
}

#[test]
fn values_are_written_as_other_implementations_write_them() {
    for [kind, name, secret, nonce, stored] in VECTORS {
        let cipher = match kind {
            "aesgcm" => Cipher::gcm(&bytes(secret)),
            "aescbc" => Cipher::cbc(&bytes(secret)),
            _ => Cipher::secretbox(&bytes(secret)),
        };
        let sealed = cipher
            .unwrap()
            .seal(&bytes(nonce), VALUE.as_bytes(), KEY.as_bytes());
        let stored = bytes(stored);
        let prefix = format!("k8s:enc:{kind}:v1:{name}:");
        assert_eq!(
            stored.strip_prefix(prefix.as_bytes()),
            Some(&*sealed.unwrap()),
            "{kind} {name}"
        );
    }
}

#[test]
fn every_length_comes_back_and_no_two_writes_are_alike() {
    for [kind, name, secret, ..] in VECTORS {
        let config = for_secrets(&format!("[{}]", providers(kind, &[(name, secret)])));
        for length in [0, 1, 15, 16, 17, 31, 32, 4096] {
            let value = "x".repeat(length);
            let stored = [seal(&config, &value), seal(&config, &value)];
            assert_ne!(stored[0], stored[1], "{kind}: a nonce was used twice");
            assert!(
                length < 4 || !stored[0].windows(4).any(|w| w == b"xxxx"),
                "{kind}"
            );
            for stored in &stored {
                let opened = open(&config, stored).unwrap();
                assert_eq!(
                    (&*opened.value, opened.stale),
                    (value.as_bytes(), false),
                    "{kind}"
                );
            }
        }
    }
}

#[test]
fn what_another_key_or_provider_wrote_is_stale() {
    let [_, _, k16, _, gcm] = VECTORS[0];
    let [_, _, k32, _, cbc] = VECTORS[5];
    let [_, _, boxed, _, secretbox] = VECTORS[6];
    let (new, same) = (STANDARD.encode([9; 32]), STANDARD.encode([8; 16]));
    let gcm_keys = |keys: &[(&str, &str)]| providers("aesgcm", keys);
    let only_gcm = gcm_keys(&[("k16", k16)]);
    let only_cbc = providers("aescbc", &[("k32", k32)]);
    let only_box = providers("secretbox", &[("box", boxed)]);
    let identity = "{identity: {}}".to_owned();
    // the providers in order, what is stored in base64, whether it is stale; `None`: unreadable
    let plain = STANDARD.encode(VALUE);
    let cases: [(&[String], &str, Option<bool>); 15] = [
        (std::slice::from_ref(&only_gcm), gcm, Some(false)),
        (&[gcm_keys(&[("new", &new), ("k16", k16)])], gcm, Some(true)),
        (
            &[gcm_keys(&[("k16", k16), ("new", &new)])],
            gcm,
            Some(false),
        ),
        // the same name with another secret in front
        (
            &[gcm_keys(&[("k16", &same), ("k16", k16)])],
            gcm,
            Some(true),
        ),
        (
            &[gcm_keys(&[("k16", &same)]), only_gcm.clone()],
            gcm,
            Some(true),
        ),
        (&[only_cbc.clone(), only_gcm.clone()], gcm, Some(true)),
        (&[only_cbc.clone(), only_gcm.clone()], cbc, Some(false)),
        (&[identity.clone(), only_box.clone()], secretbox, Some(true)),
        (&[only_box.clone(), identity.clone()], &plain, Some(true)),
        (&[identity.clone(), only_box.clone()], &plain, Some(false)),
        (std::slice::from_ref(&only_box), &plain, None),
        (std::slice::from_ref(&only_box), gcm, None),
        (&[gcm_keys(&[("k16", &same)])], gcm, None),
        (&[gcm_keys(&[("k17", k16)])], gcm, None),
        (std::slice::from_ref(&identity), gcm, None),
    ];
    for (providers, stored, stale) in cases {
        let config = for_secrets(&format!("[{}]", providers.join(", ")));
        let opened = open(&config, &bytes(stored));
        assert_eq!(
            opened.as_ref().ok().map(|o| o.stale),
            stale,
            "{providers:?}: {opened:?}"
        );
        if let Ok(opened) = opened {
            assert_eq!(opened.value, VALUE);
        }
    }
}

#[test]
fn what_cannot_be_read_is_told_with_provider_and_key() {
    let [_, name, secret, _, stored] = VECTORS[0];
    let config = for_secrets(&format!("[{}]", providers("aesgcm", &[(name, secret)])));
    let stored = bytes(stored);
    let changed = |at: usize| {
        let mut bytes = stored.to_vec();
        bytes[at] ^= 1;
        Bytes::from(bytes)
    };
    // what is stored, part of the reason
    for (stored, why) in [
        (
            changed(stored.len() - 1),
            r#"by provider aesgcm with key "k16", but the key of that name"#,
        ),
        (changed("k8s:enc:aesgcm:v1:k16:".len()), "does not open it"),
        (stored.slice(..30), "does not open it"),
        (
            Bytes::from("k8s:enc:aesgcm:v1:k17:xyz"),
            r#"with key "k17", which the encryption configuration does not have"#,
        ),
        (
            Bytes::from("k8s:enc:kms:v2:cloud:xyz"),
            r#"by provider kms with key "cloud""#,
        ),
        (Bytes::from("k8s:enc:"), r#"by provider  with key """#),
        (Bytes::from("{}"), "no identity provider for this resource"),
    ] {
        let error = open(&config, &stored).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    // a value that was moved to another key: only aesgcm notices
    let elsewhere = "/registry/secrets/default/other";
    let providers = config.rules.providers(&layout(), elsewhere);
    assert!(providers.open(&stored, elsewhere).is_err());
}

#[test]
fn padding_that_is_none_is_refused() {
    let [_, name, secret, _, stored] = VECTORS[5];
    let config = for_secrets(&format!("[{}]", providers("aescbc", &[(name, secret)])));
    let stored = bytes(stored);
    let prefix = "k8s:enc:aescbc:v1:k32:".len();
    // no block at all, half a block, the last block gone
    for length in [prefix, prefix + 16, prefix + 24, stored.len() - 16] {
        assert!(open(&config, &stored.slice(..length)).is_err(), "{length}");
    }
}
