//! What a claim asks for: the same in claims, in the templates of StatefulSets and in ephemeral volumes.
//! Source: <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#persistentvolumeclaims>

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaimSpec, TypedLocalObjectReference, TypedObjectReference,
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    quantity::Quantity,
};
use serde_json::json;

use crate::registry::kinds::{
    checks, fill,
    pod::resources::{self, ResourceList},
};

/// The resource that claims and volumes are measured by.
pub(in crate::registry::kinds) const STORAGE: &str = "storage";
/// How many nodes or pods may use a volume, and for what.
const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
const CLAIM: &str = "PersistentVolumeClaim";
const SNAPSHOT: (&str, &str) = ("snapshot.storage.k8s.io", "VolumeSnapshot");

/// Fills in what is left out.
pub(in crate::registry::kinds) fn fill_defaults(spec: &mut PersistentVolumeClaimSpec) {
    fill::pointer(&mut spec.volume_mode, "Filesystem".to_owned());
    if let Some(wanted) = &mut spec.resources {
        resources::canonicalize(&mut wanted.limits);
        resources::canonicalize(&mut wanted.requests);
    }
}

/// The older field can name claims and snapshots only; either field fills the other. References to another namespace are not
/// offered.
pub(in crate::registry::kinds) fn keep_sources_in_step(spec: &mut PersistentVolumeClaimSpec) {
    let elsewhere =
        |r: &TypedObjectReference| r.namespace.as_deref().is_some_and(|n| !n.is_empty());
    spec.data_source_ref.take_if(|source| elsewhere(source));
    spec.data_source.take_if(|source| !is_old_source(source));
    match (&spec.data_source, &spec.data_source_ref) {
        (Some(old), None) => {
            spec.data_source_ref = Some(TypedObjectReference {
                api_group: old.api_group.clone(),
                kind: old.kind.clone(),
                name: old.name.clone(),
                namespace: None,
            });
        }
        (None, Some(new)) => {
            spec.data_source = Some(TypedLocalObjectReference {
                api_group: new.api_group.clone(),
                kind: new.kind.clone(),
                name: new.name.clone(),
            });
        }
        _ => {}
    }
}

fn is_old_source(source: &TypedLocalObjectReference) -> bool {
    let group = source.api_group.as_deref().unwrap_or_default();
    (group, source.kind.as_str()) == SNAPSHOT || (group.is_empty() && source.kind == CLAIM)
}

/// How much storage is asked for.
pub(in crate::registry::kinds) fn requests(
    spec: &PersistentVolumeClaimSpec,
) -> Option<&ResourceList> {
    spec.resources.as_ref()?.requests.as_ref()
}

pub(in crate::registry::kinds) fn validate(
    errors: &mut ErrorList,
    path: &Path,
    spec: &PersistentVolumeClaimSpec,
) {
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    let modes_path = path.child("accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(
            &modes_path,
            "at least 1 access mode is required",
        ));
    }
    let selector_path = path.child("selector");
    checks::label_selector(errors, &selector_path, spec.selector.as_ref());
    validate_access_modes(errors, &modes_path, modes);
    let storage = requests(spec).and_then(|list| list.get(STORAGE));
    let storage_path = path.child("resources").key(STORAGE);
    match storage {
        None => errors.push(FieldError::required(&storage_path, "")),
        Some(quantity) => validate_positive(errors, &storage_path, &quantity.0),
    }
    let class = spec.storage_class_name.as_deref().unwrap_or_default();
    if !class.is_empty() {
        checks::dns_subdomain(errors, &path.child("storageClassName"), class);
    }
    validate_volume_mode(errors, path, spec.volume_mode.as_deref());
    validate_sources(errors, path, spec);
    let class = spec
        .volume_attributes_class_name
        .as_deref()
        .unwrap_or_default();
    if !class.is_empty() {
        checks::dns_subdomain(errors, &path.child("volumeAttributesClassName"), class);
    }
}

/// Known modes; the one that allows a single pod excludes the others.
pub(in crate::registry::kinds) fn validate_access_modes(
    errors: &mut ErrorList,
    path: &Path,
    modes: &[String],
) {
    for mode in modes {
        checks::one_of(errors, path, mode, &ACCESS_MODES);
    }
    let single = |mode: &&String| *mode == "ReadWriteOncePod";
    let known = |mode: &&String| ACCESS_MODES.contains(&mode.as_str());
    if modes.iter().any(|m| single(&m)) && modes.iter().filter(known).any(|m| !single(&m)) {
        errors.push(FieldError::forbidden(
            path,
            "may not use ReadWriteOncePod with other access modes",
        ));
    }
}

/// A quantity above zero.
pub(in crate::registry::kinds) fn validate_positive(
    errors: &mut ErrorList,
    path: &Path,
    text: &str,
) {
    match Quantity::parse(text) {
        Ok(amount) if amount > Quantity::ZERO => {}
        Ok(_) => errors.push(FieldError::invalid(path, text, checks::POSITIVE)),
        Err(error) => errors.push(FieldError::invalid(path, text, &error.to_string())),
    }
}

/// `Block` or `Filesystem`; none is fine.
pub(in crate::registry::kinds) fn validate_volume_mode(
    errors: &mut ErrorList,
    path: &Path,
    mode: Option<&str>,
) {
    if let Some(mode) = mode {
        let path = path.child("volumeMode");
        checks::one_of(errors, &path, mode, &["Block", "Filesystem"]);
    }
}

fn validate_sources(errors: &mut ErrorList, path: &Path, spec: &PersistentVolumeClaimSpec) {
    let (old, new) = (&spec.data_source, &spec.data_source_ref);
    if let Some(source) = old {
        let path = path.child("dataSource");
        let group = source.api_group.as_deref();
        validate_source(errors, &path, group, &source.kind, &source.name);
    }
    if let Some(source) = new {
        let path = path.child("dataSourceRef");
        let group = source.api_group.as_deref();
        validate_source(errors, &path, group, &source.kind, &source.name);
    }
    if let (Some(old), Some(new)) = (old, new)
        && (&old.api_group, &old.kind, &old.name) != (&new.api_group, &new.kind, &new.name)
    {
        let value = json!(path.child("dataSource").to_string());
        errors.push(FieldError::invalid(path, value, "must match dataSourceRef"));
    }
}

fn validate_source(
    errors: &mut ErrorList,
    path: &Path,
    group: Option<&str>,
    kind: &str,
    name: &str,
) {
    checks::required(errors, &path.child("name"), name);
    checks::required(errors, &path.child("kind"), kind);
    match group.unwrap_or_default() {
        "" if kind != CLAIM => errors.push(FieldError::invalid(
            path,
            kind,
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        )),
        "" => {}
        group => checks::dns_subdomain(errors, &path.child("apiGroup"), group),
    }
}
