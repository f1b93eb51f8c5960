//! The rules of volumes.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeSpec};
use pilothouse_api::field::{ErrorList, FieldError, Path};
use serde_json::{Value, json};

use super::{STORAGE, source};
use crate::registry::kinds::{
    checks,
    persistent_volume_claim::spec as claim,
    pod::{affinity, resources},
    semantic,
};

pub(super) fn validate(errors: &mut ErrorList, path: &Path, spec: &PersistentVolumeSpec) {
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    let modes_path = path.child("accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(&modes_path, ""));
    }
    claim::validate_access_modes(errors, &modes_path, modes);
    validate_capacity(errors, &path.child("capacity"), spec);
    let policy = spec.persistent_volume_reclaim_policy.as_deref();
    let policy_path = path.child("persistentVolumeReclaimPolicy");
    if let Some(policy) = policy.filter(|policy| !policy.is_empty()) {
        let policies = ["Delete", "Recycle", "Retain"];
        checks::one_of(errors, &policy_path, policy, &policies);
    }
    if let Some(affinity) = &spec.node_affinity {
        let path = path.child("nodeAffinity").child("required");
        match &affinity.required {
            Some(required) => affinity::validate_node_selector(errors, &path, required),
            None => errors.push(FieldError::required(
                &path,
                "must specify required node constraints",
            )),
        }
    }
    source::validate(errors, path, spec);
    let root = spec.host_path.as_ref().is_some_and(|host| {
        let parts = host
            .path
            .split('/')
            .filter(|part| !matches!(*part, "" | "."));
        host.path.starts_with('/') && parts.count() == 0
    });
    if root && policy == Some("Recycle") {
        errors.push(FieldError::forbidden(
            &policy_path,
            "may not be 'recycle' for a hostPath mount of '/'",
        ));
    }
    let class = spec.storage_class_name.as_deref().unwrap_or_default();
    if !class.is_empty() {
        checks::dns_subdomain(errors, &path.child("storageClassName"), class);
    }
    claim::validate_volume_mode(errors, path, spec.volume_mode.as_deref());
    if let Some(class) = &spec.volume_attributes_class_name {
        let class_path = path.child("volumeAttributesClassName");
        match class.as_str() {
            "" => {
                let why = "an empty string is disallowed";
                errors.push(FieldError::required(&class_path, why));
            }
            class => checks::dns_subdomain(errors, &class_path, class),
        }
        if spec.csi.is_none() {
            errors.push(FieldError::required(
                &path.child("csi"),
                "has to be specified when using volumeAttributesClassName",
            ));
        }
    }
}

/// An amount of storage and nothing else.
fn validate_capacity(errors: &mut ErrorList, path: &Path, spec: &PersistentVolumeSpec) {
    let none = resources::ResourceList::new();
    let capacity = spec.capacity.as_ref().unwrap_or(&none);
    if capacity.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    if !capacity.contains_key(STORAGE) || capacity.len() > 1 {
        let shown: serde_json::Map<String, Value> = capacity
            .iter()
            .map(|(name, quantity)| (name.clone(), json!(quantity.0)))
            .collect();
        errors.push(FieldError::not_supported(path, shown, &[STORAGE]));
    }
    for (name, quantity) in capacity {
        claim::validate_positive(errors, &path.key(name), &quantity.0);
    }
}

/// Where a volume is stays as it is; a secret for growing may come later, and where it can be used may be said once.
pub(super) fn validate_update(new: &PersistentVolume, old: &PersistentVolume) -> ErrorList {
    let mut errors = ErrorList::new();
    let empty = PersistentVolumeSpec::default();
    let (spec, before) = (
        new.spec.as_ref().unwrap_or(&empty),
        old.spec.as_ref().unwrap_or(&empty),
    );
    let mut kept = spec.clone();
    if let (Some(csi), Some(before)) = (&mut kept.csi, &before.csi)
        && before.controller_expand_secret_ref.is_none()
    {
        csi.controller_expand_secret_ref = None;
    }
    let differences = semantic::differences(&only_source(&kept), &only_source(before), "spec");
    if !differences.is_empty() {
        let why = format!(
            "spec.persistentvolumesource is immutable after creation\n{}",
            differences.join("\n")
        );
        let path = Path::new("spec").child("persistentvolumesource");
        errors.push(FieldError::forbidden(&path, &why));
    }
    checks::immutable(
        &mut errors,
        &Path::new("volumeMode"),
        spec.volume_mode == before.volume_mode,
        json!(spec.volume_mode),
    );
    if before.node_affinity.is_some() && spec.node_affinity != before.node_affinity {
        checks::immutable(
            &mut errors,
            &Path::new("nodeAffinity"),
            false,
            semantic::value_at(new, "/spec/nodeAffinity"),
        );
    }
    if before.volume_attributes_class_name.is_some() && spec.volume_attributes_class_name.is_none()
    {
        errors.push(FieldError::forbidden(
            &Path::new("spec").child("volumeAttributesClassName"),
            "update from non-nil value to nil is forbidden",
        ));
    }
    errors
}

/// A volume that says only where it is.
fn only_source(spec: &PersistentVolumeSpec) -> PersistentVolume {
    PersistentVolume {
        spec: Some(PersistentVolumeSpec {
            access_modes: None,
            capacity: None,
            claim_ref: None,
            mount_options: None,
            node_affinity: None,
            persistent_volume_reclaim_policy: None,
            storage_class_name: None,
            volume_attributes_class_name: None,
            volume_mode: None,
            ..spec.clone()
        }),
        ..PersistentVolume::default()
    }
}
