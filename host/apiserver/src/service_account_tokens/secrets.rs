//! Secrets of type `kubernetes.io/service-account-token`: filled with a token as long as their account is there, deleted when
//! it is not. Source: <https://kubernetes.io/docs/concepts/configuration/secret/#serviceaccount-token-secrets>
//!
//! Where the signing key is, this has to be. What one server has filled in, the others leave alone.

use std::sync::Arc;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use pilothouse_api::{FieldSelector, SharedObject, Status};
use pilothouse_client::UserInfo;
use pilothouse_storage::{CacheEvent, EventType};
use tokio_util::sync::CancellationToken;

use super::{Tokens, claims::LegacyClaims, claims::user_name};
use crate::registry::{
    Call, Current, DeleteOptions, Deleted, Preconditions, Registry, Resource, Subresource, errors,
};

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// Who writes, as in Kubernetes.
const USER: &str = "system:serviceaccount:kube-system:tokens-controller";

/// Keeps the Secrets of accounts.
pub(crate) struct TokenSecrets {
    pub(crate) registry: Arc<Registry>,
    pub(crate) tokens: Arc<Tokens>,
    /// PEM.
    pub(crate) root_certificate: String,
}

impl TokenSecrets {
    /// Runs until told to stop, or until a cache is gone.
    pub(crate) async fn run(self, stopping: CancellationToken) {
        let resource = |name| self.registry.resource("", "v1", name).cloned();
        let (Some(secrets), Some(accounts)) = (resource("secrets"), resource("serviceaccounts"))
        else {
            return;
        };
        let Ok(selector) = FieldSelector::parse(&format!("type={TYPE}"), &secrets.info) else {
            return;
        };
        loop {
            let watching = self.watch(&secrets, &accounts, &selector);
            tokio::select! {
                () = stopping.cancelled() => return,
                ended = watching => match ended {
                    Err(status) if !status.is_expired() => {
                        return tracing::warn!(%status, "Secrets of service accounts are no longer filled");
                    }
                    _ => {} // it was too slow: from the beginning
                },
            }
        }
    }

    /// Judges every Secret once, and again when it or its account changes.
    async fn watch(
        &self,
        secrets: &Resource,
        accounts: &Resource,
        selector: &FieldSelector,
    ) -> Result<(), Status> {
        let all = secrets.cache.list(None).map_err(errors::from_cache)?;
        let mut changed = secrets.subscribe("", all.revision)?;
        let mut gone = accounts.subscribe("", all.revision)?;
        let of_accounts = || -> Result<Vec<SharedObject>, Status> {
            let all = secrets.cache.list(None).map_err(errors::from_cache)?;
            let selected = all.iter().filter(|secret| selector.matches(&secret.header));
            Ok(selected.cloned().collect())
        };
        for secret in of_accounts()? {
            self.settle(secrets, accounts, &secret).await;
        }
        loop {
            tokio::select! {
                batch = changed.next() => {
                    let events = batch.map_err(errors::from_cache)?.events;
                    let stays = |event: &&Arc<CacheEvent>| event.kind != EventType::Deleted;
                    for event in events.iter().filter(stays) {
                        if selector.matches(&event.object.header) {
                            self.settle(secrets, accounts, &event.object).await;
                        }
                    }
                }
                batch = gone.next() => {
                    let events = batch.map_err(errors::from_cache)?.events;
                    if events.iter().any(|event| event.kind == EventType::Deleted) {
                        for secret in of_accounts()? {
                            self.settle(secrets, accounts, &secret).await;
                        }
                    }
                }
            }
        }
    }

    async fn settle(&self, secrets: &Resource, accounts: &Resource, secret: &SharedObject) {
        let settled = self.try_settle(secrets, accounts, secret).await;
        // what is gone, or is another by now, needs nothing any more
        if let Err(status) = settled
            && !(status.is_not_found() || status.is_conflict())
        {
            let (namespace, name) = (&secret.header.namespace, &secret.header.name);
            tracing::warn!(%status, namespace, name, "a Secret of a service account is not settled");
        }
    }

    async fn try_settle(
        &self,
        secrets: &Resource,
        accounts: &Resource,
        secret: &SharedObject,
    ) -> Result<(), Status> {
        let (namespace, name) = (&secret.header.namespace, &secret.header.name);
        let typed: Secret = serde_json::from_slice(&secret.bytes).map_err(Status::internal)?;
        let annotations = typed.metadata.annotations.unwrap_or_default();
        let annotation = |key| annotations.get(key).map(String::as_str).unwrap_or_default();
        let account = annotation(ACCOUNT_NAME);
        let found = accounts.cache.get_fresh(namespace, account).await;
        let (found, _) = found.map_err(errors::from_cache)?;
        let uid = annotation(ACCOUNT_UID);
        let call = Call::new(UserInfo::new(USER, &[]), &*self.registry.environment, false);
        match found.filter(|found| uid.is_empty() || found.header.uid == uid) {
            None => {
                let options = DeleteOptions {
                    preconditions: Preconditions {
                        uid: Some(secret.header.uid.clone()),
                        ..Preconditions::default()
                    },
                    ..DeleteOptions::default()
                };
                let deleted = self
                    .registry
                    .delete(secrets, &call, (namespace, name), &options);
                deleted.await.map(|_: Deleted| ())
            }
            Some(account) => {
                let transform = |current: &Current| {
                    let mut object = current.object.clone();
                    if let Some(secret) = object.downcast_mut::<Secret>() {
                        self.fill(secret, &account)?;
                    }
                    Ok(object)
                };
                let key = (namespace.as_str(), name.as_str());
                let updated =
                    self.registry
                        .update(secrets, &call, key, Subresource::Main, &transform, None);
                updated.await.map(drop)
            }
        }
    }

    /// Adds what is missing; a Secret that has everything stays as it is.
    fn fill(&self, secret: &mut Secret, account: &SharedObject) -> Result<(), Status> {
        let header = &account.header;
        let name = secret.metadata.name.clone().unwrap_or_default();
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(ACCOUNT_UID.to_owned(), header.uid.clone());
        let data = secret.data.get_or_insert_default();
        let mut set = |key: &str, text: &str| {
            data.insert(key.to_owned(), ByteString(text.as_bytes().to_vec()));
        };
        set("ca.crt", &self.root_certificate);
        set("namespace", &header.namespace);
        if data.get("token").is_none_or(|token| token.0.is_empty()) {
            let claims = LegacyClaims {
                namespace: header.namespace.clone(),
                secret: name,
                account: header.name.clone(),
                uid: header.uid.clone(),
                sub: user_name(&header.namespace, &header.name),
                ..LegacyClaims::default()
            };
            let token = self.tokens.issue_legacy(claims).map_err(Status::internal)?;
            data.insert("token".to_owned(), ByteString(token.into_bytes()));
        }
        Ok(())
    }
}
