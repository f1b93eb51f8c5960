//! The volume with the account's token, the cluster's CA and the namespace, mounted into every container.

use pilothouse_sdk::{Value, json, objects::fnv1a_32, patch::Patch};

use crate::pod::Pod;

const VOLUME_PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// A little more than an hour, by which the API server knows that the kubelet's default was asked for.
const EXPIRATION_SECONDS: i64 = 3607;
/// The letters and digits of generated names, which cannot spell words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Mounts go to the containers that mount nothing there themselves; the volume is added if any of them needs it.
pub(crate) fn mount(pod: &Pod, request_uid: &str, patch: &mut Patch) {
    let present = pod
        .spec
        .volumes()
        .iter()
        .find(|volume| volume.name.starts_with(VOLUME_PREFIX));
    let name = match present {
        Some(volume) => volume.name.clone(),
        None => format!("{VOLUME_PREFIX}{}", suffix(request_uid)),
    };
    let mount = json!({ "name": name, "readOnly": true, "mountPath": MOUNT_PATH });
    let mut needed = false;
    for (list, containers) in pod.spec.container_lists() {
        for (index, container) in containers.iter().enumerate() {
            if container
                .volume_mounts()
                .iter()
                .any(|mount| mount.mount_path == MOUNT_PATH)
            {
                continue;
            }
            needed = true;
            let index = index.to_string();
            let mounts = ["spec", list, &index, "volumeMounts"];
            append(patch, &mounts, container.has_volume_mounts(), mount.clone());
        }
    }
    if needed && present.is_none() {
        append(
            patch,
            &["spec", "volumes"],
            !pod.spec.volumes().is_empty(),
            volume(&name),
        );
    }
}

fn append(patch: &mut Patch, list: &[&str], exists: bool, element: Value) {
    match exists {
        true => {
            let mut end = list.to_vec();
            end.push("-");
            patch.add(&end, element);
        }
        false => _ = patch.add(list, json!([element])),
    }
}

fn volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                { "serviceAccountToken": { "expirationSeconds": EXPIRATION_SECONDS, "path": "token" } },
                { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                { "downwardAPI": { "items": [
                    { "path": "namespace", "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" } }
                ] } },
            ],
        },
    })
}

/// Five characters, drawn from the request's uid: plugins have no chance of their own, and a retried call answers the same.
fn suffix(request_uid: &str) -> String {
    let mut draw = u64::from(fnv1a_32(request_uid.as_bytes()));
    let letter = |_| {
        let letter = ALPHABET[(draw % 27) as usize];
        draw /= 27;
        char::from(letter)
    };
    (0..5).map(letter).collect()
}
