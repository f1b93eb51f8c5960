//! What tokens of service accounts claim.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#schema-for-service-account-private-claims>

use serde::{Deserialize, Deserializer, Serialize};

/// Who issues the tokens that Secrets hold.
pub(crate) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// How far clocks may be apart, in seconds.
pub(crate) const LEEWAY_SECONDS: i64 = 60;

/// An object by name and uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Ref {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
}

/// The claims of a token that is for a time and an audience. Times are seconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Claims {
    #[serde(
        deserialize_with = "one_or_many",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub(crate) aud: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exp: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iat: Option<i64>,
    pub(crate) iss: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) kubernetes: Bound,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nbf: Option<i64>,
    pub(crate) sub: String,
}

/// The account, and what the token lives no longer than.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Bound {
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Ref>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Ref>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Ref>,
    pub(crate) serviceaccount: Ref,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warnafter: Option<i64>,
}

/// The claims of a token that a Secret holds: it is good as long as that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LegacyClaims {
    pub(crate) iss: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub(crate) namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    pub(crate) secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    pub(crate) account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    pub(crate) uid: String,
    pub(crate) sub: String,
}

/// The name of a service account as a user.
pub(crate) fn user_name(namespace: &str, account: &str) -> String {
    format!("system:serviceaccount:{namespace}:{account}")
}

impl Claims {
    /// Whether it is good at this time.
    pub(crate) fn check_time(&self, now: i64) -> Result<(), String> {
        let why = if self.exp.is_some_and(|exp| now - LEEWAY_SECONDS > exp) {
            "service account token has expired"
        } else if self.nbf.is_some_and(|nbf| now + LEEWAY_SECONDS < nbf) {
            "service account token is not valid yet"
        } else if self.iat.is_some_and(|iat| now + LEEWAY_SECONDS < iat) {
            "service account token is issued in the future"
        } else {
            return Ok(());
        };
        Err(why.to_owned())
    }
}

impl LegacyClaims {
    /// Whether all that must be said is, and fits together.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (claim, value) in [
            ("sub", &self.sub),
            ("namespace", &self.namespace),
            ("secretName", &self.secret),
            ("serviceAccountName", &self.account),
            ("serviceAccountUID", &self.uid),
        ] {
            if value.is_empty() {
                return Err(format!("{claim} claim is missing"));
            }
        }
        match self.sub == user_name(&self.namespace, &self.account) {
            true => Ok(()),
            false => Err("sub claim is invalid".to_owned()),
        }
    }
}

/// An audience may stand alone.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audience {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Audience::deserialize(deserializer)? {
        Audience::One(one) => vec![one],
        Audience::Many(many) => many,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_has_its_time() {
        let claims = |exp, nbf| Claims {
            exp: Some(exp),
            nbf: Some(nbf),
            iat: Some(nbf),
            ..Claims::default()
        };
        for (exp, nbf, now, refusal) in [
            (1000, 0, 500, ""),
            (1000, 0, 1060, ""),
            (1000, 0, 1061, "has expired"),
            (1000, 500, 440, ""),
            (1000, 500, 439, "is not valid yet"),
        ] {
            let found = claims(exp, nbf).check_time(now).err().unwrap_or_default();
            assert_eq!(found.is_empty(), refusal.is_empty(), "{now}: {found}");
            assert!(found.contains(refusal), "{now}: {found}");
        }
    }

    #[test]
    fn an_audience_may_stand_alone() {
        for (aud, expected) in [
            (json!("a"), &["a"][..]),
            (json!(["a", "b"]), &["a", "b"]),
            (json!([]), &[]),
        ] {
            let claims: Claims = serde_json::from_value(json!({ "aud": aud })).unwrap();
            assert_eq!(claims.aud, expected);
        }
    }

    #[test]
    fn a_legacy_token_says_all_of_it() {
        let good = LegacyClaims {
            namespace: "ns".into(),
            secret: "s".into(),
            account: "a".into(),
            uid: "u".into(),
            sub: "system:serviceaccount:ns:a".into(),
            ..LegacyClaims::default()
        };
        let changed = |change: &dyn Fn(&mut LegacyClaims)| {
            let mut claims = good.clone();
            change(&mut claims);
            claims.check().err().unwrap_or_default()
        };
        assert_eq!(changed(&|_| ()), "");
        assert_eq!(changed(&|c| c.sub.clear()), "sub claim is missing");
        assert_eq!(
            changed(&|c| c.secret.clear()),
            "secretName claim is missing"
        );
        assert_eq!(changed(&|c| c.account = "b".into()), "sub claim is invalid");
    }
}
