//! `ServiceAccount`: every pod runs as a service account that exists, with its token mounted unless that is not wanted.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#serviceaccount-admission-controller>

mod pod;
mod secrets;
mod token;

use pilothouse_sdk::{
    admission::{Admission, Denial, Entry, Mutation, Request},
    cluster::{Cluster, ClusterExt, resources::SERVICE_ACCOUNTS},
    host, json,
    patch::Patch,
};

use pod::{Pod, ServiceAccount};

const DEFAULT: &str = "default";
/// The default account of a namespace is made by a controller, so a pod that comes at once waits for it a little.
const DEFAULT_ATTEMPTS: u32 = 10;
const ATTEMPT_PAUSE_MS: u64 = 100;

/// The plugin.
pub struct ServiceAccountPlugin;

impl Admission for ServiceAccountPlugin {
    fn entry(&self) -> Entry {
        Entry::new("ServiceAccount")
            .on(&["CREATE"], "", &["pods"])
            .order(-800)
            .may(&["get"], "", &["serviceaccounts"])
    }

    fn mutate(&self, cluster: &dyn Cluster, request: &Request) -> Result<Mutation, Denial> {
        let pod: Pod = request.object()?;
        let mut patch = Patch::new();
        if pod.is_mirror() {
            return Ok(patch.into());
        }
        let name = pod.account().unwrap_or(DEFAULT);
        let account = find(cluster, request, name)?;
        if pod.spec.service_account_name.is_empty() {
            patch.add(&["spec", "serviceAccountName"], name);
        }
        if pod.spec.service_account.is_empty() {
            patch.add(&["spec", "serviceAccount"], name);
        }
        if pod.mounts_token(&account) {
            token::mount(&pod, &request.uid, &mut patch);
        }
        if pod.spec.image_pull_secrets().is_empty() && !account.image_pull_secrets().is_empty() {
            let secrets = account.image_pull_secrets().iter();
            let secrets: Vec<_> = secrets
                .map(|secret| json!({ "name": secret.name }))
                .collect();
            patch.add(&["spec", "imagePullSecrets"], secrets);
        }
        Ok(patch.into())
    }

    fn validate(&self, cluster: &dyn Cluster, request: &Request) -> Result<Vec<String>, Denial> {
        let pod: Pod = request.object()?;
        if pod.is_mirror() {
            secrets::none_in_mirror(&pod).map_err(|why| request.forbidden(why))?;
            return Ok(Vec::new());
        }
        let Some(name) = pod.account() else {
            let (namespace, pod) = (&request.namespace, &request.name);
            let why = format!("no service account specified for pod {namespace}/{pod}");
            return Err(request.forbidden(why));
        };
        let account = find(cluster, request, name)?;
        secrets::mountable(&pod, &account).map_err(|why| request.forbidden(why))?;
        Ok(Vec::new())
    }
}

fn find(cluster: &dyn Cluster, request: &Request, name: &str) -> Result<ServiceAccount, Denial> {
    let namespace = request.namespace.as_str();
    if let Some(account) = cluster.get(&SERVICE_ACCOUNTS, namespace, name)? {
        return Ok(account);
    }
    let attempts = if name == DEFAULT { DEFAULT_ATTEMPTS } else { 1 };
    for attempt in 0..attempts {
        if attempt > 0 {
            host::sleep_ms(ATTEMPT_PAUSE_MS);
        }
        if let Some(account) = cluster.get_live(&SERVICE_ACCOUNTS, namespace, name)? {
            return Ok(account);
        }
    }
    Err(request.forbidden(format!(
        "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
    )))
}

pilothouse_sdk::export! {
    admission(mutate, validate): [ServiceAccountPlugin],
}

#[cfg(test)]
mod tests;
