//! PersistentVolumeClaims. Source: <https://kubernetes.io/docs/concepts/storage/persistent-volumes/>

pub(super) mod spec;
#[cfg(test)]
mod tests;
mod update;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, Path},
};
use serde_json::{Value, json};

use super::{cells, describe, fill, pod::resources};
use crate::registry::{
    printing::Column,
    strategy::{Context, Strategy},
};

/// The annotation that named the class before there was a field.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const PENDING: &str = "Pending";

pub(super) struct PersistentVolumeClaimStrategy;

impl Strategy for PersistentVolumeClaimStrategy {
    type Object = PersistentVolumeClaim;

    fn resource(&self) -> ResourceInfo {
        let kind = "PersistentVolumeClaim";
        ResourceInfo {
            short_names: describe::texts(&["pvc"]),
            ..describe::namespaced("", "v1", "persistentvolumeclaims", kind)
        }
    }

    fn default(&self, claim: &mut PersistentVolumeClaim) {
        fill_defaults(claim);
    }

    fn prepare_for_create(&self, _context: &Context, claim: &mut PersistentVolumeClaim) {
        claim.status = Some(pending());
        spec::keep_sources_in_step(claim.spec.get_or_insert_default());
    }

    fn prepare_for_update(
        &self,
        _context: &Context,
        new: &mut PersistentVolumeClaim,
        old: &PersistentVolumeClaim,
    ) {
        new.status = old.status.clone();
        spec::keep_sources_in_step(new.spec.get_or_insert_default());
    }

    fn prepare_for_status_update(
        &self,
    ) -> Option<fn(&mut PersistentVolumeClaim, &PersistentVolumeClaim)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn validate(&self, claim: &PersistentVolumeClaim) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = PersistentVolumeClaimSpec::default();
        let spec = claim.spec.as_ref().unwrap_or(&empty);
        spec::validate(&mut errors, &Path::new("spec"), spec);
        errors
    }

    fn validate_update(
        &self,
        new: &PersistentVolumeClaim,
        old: &PersistentVolumeClaim,
    ) -> ErrorList {
        update::validate(new, old)
    }

    fn validate_status_update(
        &self,
        new: &PersistentVolumeClaim,
        _old: &PersistentVolumeClaim,
    ) -> ErrorList {
        update::validate_status(new)
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Status", "Whether the claim has a volume."),
            Column::string("Volume", "The volume that the claim is bound to."),
            Column::string("Capacity", "The size of that volume."),
            Column::string("Access Modes", "How that volume may be mounted."),
            Column::string("StorageClass", "StorageClass of the claim."),
            Column::string(
                "VolumeAttributesClass",
                "VolumeAttributesClass of the claim.",
            ),
            Column::AGE,
            Column::string("VolumeMode", "Filesystem or Block.").wide(),
        ]
    }

    fn row(&self, claim: &PersistentVolumeClaim, now: jiff::Timestamp) -> Vec<Value> {
        let empty = (
            PersistentVolumeClaimSpec::default(),
            PersistentVolumeClaimStatus::default(),
        );
        let spec = claim.spec.as_ref().unwrap_or(&empty.0);
        let status = claim.status.as_ref().unwrap_or(&empty.1);
        let volume = spec.volume_name.as_deref().unwrap_or_default();
        let phase = match claim.metadata.deletion_timestamp {
            Some(_) => "Terminating",
            None => status.phase.as_deref().unwrap_or_default(),
        };
        let (modes, capacity) = match volume {
            "" => (String::new(), String::new()),
            _ => (
                cells::access_modes(status.access_modes.as_deref()),
                cells::quantity(status.capacity.as_ref(), spec::STORAGE),
            ),
        };
        vec![
            json!(claim.metadata.name),
            json!(phase),
            json!(volume),
            json!(capacity),
            json!(modes),
            json!(class_name(claim)),
            json!(cells::or_unset(
                spec.volume_attributes_class_name.as_deref()
            )),
            json!(cells::since(
                claim.metadata.creation_timestamp.as_ref(),
                now
            )),
            json!(cells::or_unset(spec.volume_mode.as_deref())),
        ]
    }
}

/// Defaults of claims, and of the claims in templates.
pub(super) fn fill_defaults(claim: &mut PersistentVolumeClaim) {
    spec::fill_defaults(claim.spec.get_or_insert_default());
    let status = claim.status.get_or_insert_default();
    fill::text(&mut status.phase, PENDING);
    resources::canonicalize(&mut status.capacity);
    resources::canonicalize(&mut status.allocated_resources);
}

fn pending() -> PersistentVolumeClaimStatus {
    PersistentVolumeClaimStatus {
        phase: Some(PENDING.to_owned()),
        ..PersistentVolumeClaimStatus::default()
    }
}

/// The annotation wins over the field.
fn class_name(claim: &PersistentVolumeClaim) -> &str {
    let annotations = claim.metadata.annotations.as_ref();
    let old = annotations.and_then(|annotations| annotations.get(BETA_CLASS));
    let field = || claim.spec.as_ref()?.storage_class_name.as_ref();
    old.or_else(field).map_or("", String::as_str)
}
