//! Which secrets a pod refers to, and which it may.

use crate::pod::{Pod, ServiceAccount};

const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// A mirror pod is not the API server's to give secrets to.
pub(crate) fn none_in_mirror(pod: &Pod) -> Result<(), &'static str> {
    if pod.account().is_some() {
        return Err("a mirror pod may not reference service accounts");
    }
    let projections = || {
        let volumes = pod.spec.volumes().iter();
        volumes
            .filter_map(|volume| volume.projected.as_ref()?.sources.as_deref())
            .flatten()
    };
    let in_volumes = pod
        .spec
        .volumes()
        .iter()
        .any(|volume| volume.secret.is_some());
    let projected = projections().any(|source| source.secret.is_some());
    let in_env = pod.spec.all_containers().any(|container| {
        let env = container
            .env()
            .iter()
            .filter_map(|env| env.value_from.as_ref());
        env.into_iter().any(|from| from.secret_key_ref.is_some())
            || container
                .env_from()
                .iter()
                .any(|from| from.secret_ref.is_some())
    });
    if in_volumes || projected || in_env || !pod.spec.image_pull_secrets().is_empty() {
        return Err("a mirror pod may not reference secrets");
    }
    if projections().any(|source| source.service_account_token.is_some()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

/// With the annotation on its account, a pod may use only the secrets that the account lists.
pub(crate) fn mountable(pod: &Pod, account: &ServiceAccount) -> Result<(), String> {
    let annotations = account.metadata.annotations.as_ref();
    let enforced = annotations
        .and_then(|all| all.get(ENFORCE))
        .is_some_and(|value| matches!(value.as_str(), "1" | "t" | "T" | "true" | "TRUE" | "True"));
    if !enforced {
        return Ok(());
    }
    let account_name = &account.metadata.name;
    let listed = |name: &str| account.secrets().iter().any(|secret| secret.name == name);
    for volume in pod.spec.volumes() {
        let Some(secret) = &volume.secret else {
            continue;
        };
        let name = &secret.secret_name;
        if !listed(name) {
            return Err(format!(
                "volume with secret.secretName={name:?} is not allowed because service account {account_name} does not reference that secret"
            ));
        }
    }
    for container in pod.spec.all_containers() {
        let container_name = &container.name;
        for env in container.env() {
            let secret = env
                .value_from
                .as_ref()
                .and_then(|from| from.secret_key_ref.as_ref());
            if let Some(name) = secret
                .map(|secret| &secret.name)
                .filter(|name| !listed(name))
            {
                let env = &env.name;
                return Err(format!(
                    "container {container_name} with envVar {env} referencing secret.secretName={name:?} is not allowed because service account {account_name} does not reference that secret"
                ));
            }
        }
        for from in container.env_from() {
            let secret = from.secret_ref.as_ref();
            if let Some(name) = secret
                .map(|secret| &secret.name)
                .filter(|name| !listed(name))
            {
                return Err(format!(
                    "container {container_name} with envFrom referencing secret.secretName={name:?} is not allowed because service account {account_name} does not reference that secret"
                ));
            }
        }
    }
    let pulls = account.image_pull_secrets();
    for (index, secret) in pod.spec.image_pull_secrets().iter().enumerate() {
        if !pulls.iter().any(|pull| pull.name == secret.name) {
            let name = &secret.name;
            return Err(format!(
                "imagePullSecrets[{index}].name={name:?} is not allowed because service account {account_name} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}
