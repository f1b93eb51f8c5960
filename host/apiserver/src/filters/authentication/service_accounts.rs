//! Tokens of service accounts, judged by what is there now: the account, and what the token is bound to.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#bound-service-account-tokens>
//!
//! Objects are looked up in the caches; one that is not as the token says is read again from storage, so that a token may be
//! used as soon as it is issued.

use std::sync::Arc;

use pilothouse_api::SharedObject;
use pilothouse_client::UserInfo;
use serde::Deserialize;

use super::Identity;
use crate::{
    registry::Registry,
    service_account_tokens::{
        Tokens, Verified,
        claims::{Claims, LEEWAY_SECONDS, LegacyClaims, Ref, user_name},
    },
};

/// Marks a Secret whose token is not to be used any more.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// Judges tokens.
pub(crate) struct ServiceAccounts {
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) registry: Arc<Registry>,
}

impl ServiceAccounts {
    /// Whose token it is; `None`: it is none of these. `asked` are the audiences of which it must be for one.
    pub(super) async fn authenticate(
        &self,
        token: &str,
        asked: &[String],
    ) -> Result<Option<Identity>, String> {
        let ours = self.tokens.options.audiences();
        let (meant_for, user) = match self.tokens.verify(token)? {
            None => return Ok(None),
            Some(Verified::Bound(claims)) => {
                let user = self.bound(&claims).await?;
                let meant_for = if claims.aud.is_empty() {
                    ours
                } else {
                    &claims.aud
                };
                (meant_for.to_vec(), user)
            }
            Some(Verified::Legacy(claims)) => (ours.to_vec(), self.legacy(token, &claims).await?),
        };
        let audiences = super::common(&meant_for, asked);
        match audiences.is_empty() {
            true => Err(format!(
                "token audiences {meant_for:?} is invalid for the target audiences {asked:?}"
            )),
            false => Ok(Some(Identity { user, audiences })),
        }
    }

    async fn bound(&self, claims: &Claims) -> Result<UserInfo, String> {
        claims.check_time(self.now())?;
        let bound = &claims.kubernetes;
        let namespace = bound.namespace.as_str();
        self.account(namespace, &bound.serviceaccount).await?;
        for (resource, object) in [("secrets", &bound.secret), ("pods", &bound.pod)] {
            if let Some(object) = object {
                self.is_there(resource, namespace, object).await?;
            }
        }
        // beside a pod the node only says where that runs
        if let (Some(node), None) = (&bound.node, &bound.pod) {
            self.is_there("nodes", "", node).await?;
        }
        let mut user = user(namespace, &bound.serviceaccount);
        let mut extra = |key: &str, value: &str| {
            if !value.is_empty() {
                let key = format!("authentication.kubernetes.io/{key}");
                user.extra.insert(key, vec![value.to_owned()]);
            }
        };
        if let Some(pod) = &bound.pod {
            extra("pod-name", &pod.name);
            extra("pod-uid", &pod.uid);
        }
        if let Some(node) = &bound.node {
            extra("node-name", &node.name);
            extra("node-uid", &node.uid);
        }
        if !claims.jti.is_empty() {
            extra("credential-id", &format!("JTI={}", claims.jti));
        }
        Ok(user)
    }

    async fn legacy(&self, token: &str, claims: &LegacyClaims) -> Result<UserInfo, String> {
        claims.check()?;
        let (namespace, name) = (claims.namespace.as_str(), claims.secret.as_str());
        let holds = |secret: &SharedObject| held_token(&secret.bytes) == token;
        let secret = self.find("secrets", namespace, name, holds).await;
        let secret = secret
            .filter(|secret| !self.is_deleted(secret))
            .ok_or("service account token has been invalidated")?;
        if !holds(&secret) {
            return Err("service account token does not match server's copy".to_owned());
        }
        if secret
            .header
            .label(INVALID_SINCE)
            .is_some_and(|since| !since.is_empty())
        {
            let account = &claims.account;
            return Err(format!(
                "the token in secret {namespace}/{name} for service account {namespace}/{account} has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
            ));
        }
        let account = Ref {
            name: claims.account.clone(),
            uid: claims.uid.clone(),
        };
        self.account(namespace, &account).await?;
        Ok(user(namespace, &account))
    }

    async fn account(&self, namespace: &str, claimed: &Ref) -> Result<(), String> {
        let Ref { name, uid } = claimed;
        let same = |account: &SharedObject| account.header.uid == *uid;
        let found = self.find("serviceaccounts", namespace, name, same).await;
        let account = found.ok_or_else(|| format!("serviceaccounts {name:?} not found"))?;
        if self.is_deleted(&account) {
            return Err(format!(
                "service account {namespace}/{name} has been deleted"
            ));
        }
        let now = &account.header.uid;
        match now == uid {
            true => Ok(()),
            false => Err(format!(
                "service account UID ({now}) does not match claim ({uid})"
            )),
        }
    }

    /// Whether the object that a token is bound to is still that object.
    async fn is_there(&self, resource: &str, namespace: &str, claimed: &Ref) -> Result<(), String> {
        let same = |object: &SharedObject| object.header.uid == claimed.uid;
        let found = self.find(resource, namespace, &claimed.name, same).await;
        let object = found
            .filter(|object| !self.is_deleted(object))
            .ok_or("service account token has been invalidated")?;
        let what = resource.trim_end_matches('s');
        match same(&object) {
            true => Ok(()),
            false => Err(format!(
                "{what} UID ({}) does not match service account {what} ref claim ({})",
                object.header.uid, claimed.uid
            )),
        }
    }

    /// An object of the core group: as the cache has it if that will do, or else as storage has it.
    async fn find(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        will_do: impl Fn(&SharedObject) -> bool,
    ) -> Option<SharedObject> {
        if name.is_empty() || name.contains('/') || namespace.contains('/') {
            return None;
        }
        let cache = &self.registry.resource("", "v1", resource)?.cache;
        match cache.get(namespace, name) {
            Ok(Some(object)) if will_do(&object) => Some(object),
            _ => cache.get_fresh(namespace, name).await.ok()?.0,
        }
    }

    /// An object that is to go is gone for tokens once its time has passed.
    fn is_deleted(&self, object: &SharedObject) -> bool {
        let timestamp = object.header.deletion_timestamp.as_deref();
        let at = timestamp.and_then(|text| text.parse::<jiff::Timestamp>().ok());
        at.is_some_and(|at| at.as_second() < self.now() - LEEWAY_SECONDS)
    }

    fn now(&self) -> i64 {
        self.registry.environment.now().as_second()
    }
}

fn user(namespace: &str, account: &Ref) -> UserInfo {
    let of_namespace = format!("system:serviceaccounts:{namespace}");
    let groups = ["system:serviceaccounts", of_namespace.as_str()];
    let mut user = UserInfo::new(&user_name(namespace, &account.name), &groups);
    user.uid.clone_from(&account.uid);
    user
}

/// The token in a Secret.
fn held_token(secret: &[u8]) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Secret {
        data: Data,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Data {
        token: k8s_openapi::ByteString,
    }
    let secret: Secret = serde_json::from_slice(secret).unwrap_or_default();
    String::from_utf8(secret.data.token.0).unwrap_or_default()
}
