//! What may change in a claim: its volume once, its size once it is bound, its attributes class.
//! Source: <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#expanding-persistent-volumes-claims>

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    quantity::Quantity,
    validation::FIELD_IS_IMMUTABLE,
};
use serde_json::json;

use super::{BETA_CLASS, spec};
use crate::registry::kinds::{
    checks,
    pod::resources::{self, ResourceList},
    semantic,
};

const RESIZE_STATES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizePending",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
];

pub(super) fn validate(new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let empty = PersistentVolumeClaimSpec::default();
    let (new_spec, old_spec) = (
        new.spec.as_ref().unwrap_or(&empty),
        old.spec.as_ref().unwrap_or(&empty),
    );
    let upgrade = is_upgrade_from_annotation(new, old);
    let annotation = |claim: &PersistentVolumeClaim| {
        let annotations = claim.metadata.annotations.as_ref();
        annotations.and_then(|a| a.get(BETA_CLASS).cloned())
    };
    let (class_now, class_before) = (annotation(new), annotation(old));
    if !upgrade && class_now.clone().unwrap_or_default() != class_before.clone().unwrap_or_default()
    {
        errors.push(FieldError::invalid(
            &Path::new("metadata").child("annotations").key(BETA_CLASS),
            class_now.unwrap_or_default(),
            FIELD_IS_IMMUTABLE,
        ));
    }
    let mut kept = new_spec.clone();
    if old_spec
        .volume_name
        .as_deref()
        .unwrap_or_default()
        .is_empty()
    {
        kept.volume_name = old_spec.volume_name.clone();
    }
    let first_class = old_spec.storage_class_name.is_none()
        && new_spec.storage_class_name.is_some()
        && (class_before.is_none() || class_before == new_spec.storage_class_name);
    if upgrade || first_class {
        kept.storage_class_name = old_spec.storage_class_name.clone();
    }
    let phase = new.status.as_ref().and_then(|s| s.phase.as_deref());
    if phase == Some("Bound")
        && let Some(requests) = kept.resources.as_mut().and_then(|r| r.requests.as_mut())
        && let Some(before) = storage(spec::requests(old_spec))
    {
        requests.insert(spec::STORAGE.to_owned(), before.clone());
    }
    kept.volume_attributes_class_name = old_spec.volume_attributes_class_name.clone();
    let with_spec = |spec: &PersistentVolumeClaimSpec| PersistentVolumeClaim {
        spec: Some(spec.clone()),
        ..PersistentVolumeClaim::default()
    };
    let differences = semantic::differences(&with_spec(&kept), &with_spec(old_spec), "spec");
    if !differences.is_empty() {
        let why = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{}",
            differences.join("\n")
        );
        errors.push(FieldError::forbidden(&path, &why));
    }
    validate_size(&mut errors, &path, new_spec, old);
    checks::immutable(
        &mut errors,
        &Path::new("volumeMode"),
        new_spec.volume_mode == old_spec.volume_mode,
        json!(new_spec.volume_mode),
    );
    let class_path = path.child("volumeAttributesClassName");
    let attributes = |spec: &PersistentVolumeClaimSpec| spec.volume_attributes_class_name.clone();
    match (attributes(old_spec), attributes(new_spec).as_deref()) {
        (Some(_), None) => errors.push(FieldError::forbidden(
            &class_path,
            "update from non-nil value to nil is forbidden",
        )),
        (Some(before), Some("")) if !before.is_empty() => errors.push(FieldError::forbidden(
            &class_path,
            "update from non-nil value to an empty string is forbidden",
        )),
        _ => {}
    }
    errors
}

fn storage(
    list: Option<&ResourceList>,
) -> Option<&k8s_openapi::apimachinery::pkg::api::resource::Quantity> {
    list?.get(spec::STORAGE)
}

/// A claim shrinks only to undo an expansion that has not happened: never to what it already has.
fn validate_size(
    errors: &mut ErrorList,
    path: &Path,
    new: &PersistentVolumeClaimSpec,
    old: &PersistentVolumeClaim,
) {
    let amount = |list: Option<&ResourceList>| {
        storage(list)
            .and_then(|quantity| Quantity::parse(&quantity.0).ok())
            .unwrap_or_default()
    };
    let size = amount(spec::requests(new));
    let before = amount(old.spec.as_ref().and_then(spec::requests));
    let capacity = amount(old.status.as_ref().and_then(|s| s.capacity.as_ref()));
    if size < before && size <= capacity {
        let path = path.child("resources").child("requests");
        errors.push(FieldError::forbidden(
            &path.child(spec::STORAGE),
            "field can not be less than status.capacity",
        ));
    }
}

/// The class moves from the annotation to the field.
fn is_upgrade_from_annotation(new: &PersistentVolumeClaim, old: &PersistentVolumeClaim) -> bool {
    let annotation = |claim: &PersistentVolumeClaim| {
        let annotations = claim.metadata.annotations.as_ref();
        annotations.and_then(|a| a.get(BETA_CLASS).cloned())
    };
    let field = |claim: &PersistentVolumeClaim| {
        let spec = claim.spec.as_ref();
        spec.and_then(|s| s.storage_class_name.clone())
    };
    let Some(before) = annotation(old) else {
        return false;
    };
    field(old).is_none()
        && field(new).as_ref() == Some(&before)
        && annotation(new).is_none_or(|now| now == before)
}

pub(super) fn validate_status(new: &PersistentVolumeClaim) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let Some(status) = &new.status else {
        return errors;
    };
    let capacity_path = path.child("capacity");
    for (name, quantity) in status.capacity.iter().flatten() {
        let path = capacity_path.key(name);
        resources::validate_quantity(&mut errors, &path, name, quantity);
    }
    let states_path = path.child("allocatedResourceStatus");
    for (name, state) in status.allocated_resource_statuses.iter().flatten() {
        validate_resource_name(&mut errors, &states_path, name);
        if !RESIZE_STATES.contains(&state.as_str()) {
            let mut states = RESIZE_STATES;
            states.sort_unstable();
            errors.push(FieldError::not_supported(
                &states_path,
                name.as_str(),
                &states,
            ));
        }
    }
    let allocated_path = path.child("allocatedResources");
    for (name, quantity) in status.allocated_resources.iter().flatten() {
        let before = errors.len();
        validate_resource_name(&mut errors, &allocated_path, name);
        if errors.len() == before {
            let path = allocated_path.key(name);
            resources::validate_quantity(&mut errors, &path, spec::STORAGE, quantity);
        }
    }
    errors
}

/// Of Kubernetes' own resources only storage is allocated to claims.
fn validate_resource_name(errors: &mut ErrorList, path: &Path, name: &str) {
    let before = errors.len();
    checks::qualified_name(errors, path, name);
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    if errors.len() == before && native && name != spec::STORAGE {
        errors.push(FieldError::not_supported(path, name, &[spec::STORAGE]));
    }
}
