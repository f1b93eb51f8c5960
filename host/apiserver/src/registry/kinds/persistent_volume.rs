//! PersistentVolumes. Source: <https://kubernetes.io/docs/concepts/storage/persistent-volumes/>

mod source;
#[cfg(test)]
mod tests;
mod validation;

use k8s_openapi::{
    api::core::v1::{PersistentVolume, PersistentVolumeSpec, PersistentVolumeStatus},
    apimachinery::pkg::apis::meta::v1::Time,
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
const STORAGE: &str = "storage";

pub(super) struct PersistentVolumeStrategy;

impl Strategy for PersistentVolumeStrategy {
    type Object = PersistentVolume;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["pv"]),
            ..describe::cluster_scoped("", "v1", "persistentvolumes", "PersistentVolume")
        }
    }

    fn default(&self, volume: &mut PersistentVolume) {
        let spec = volume.spec.get_or_insert_default();
        fill::text(&mut spec.persistent_volume_reclaim_policy, "Retain");
        fill::pointer(&mut spec.volume_mode, "Filesystem".to_owned());
        resources::canonicalize(&mut spec.capacity);
        source::fill_defaults(spec);
        let status = volume.status.get_or_insert_default();
        fill::text(&mut status.phase, PENDING);
    }

    fn prepare_for_create(&self, context: &Context, volume: &mut PersistentVolume) {
        volume.status = Some(PersistentVolumeStatus {
            phase: Some(PENDING.to_owned()),
            last_phase_transition_time: Some(Time(context.now)),
            ..PersistentVolumeStatus::default()
        });
    }

    fn prepare_for_update(
        &self,
        _context: &Context,
        new: &mut PersistentVolume,
        old: &PersistentVolume,
    ) {
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(&self) -> Option<fn(&mut PersistentVolume, &PersistentVolume)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn settle_status(&self, context: &Context, new: &mut PersistentVolume, old: &PersistentVolume) {
        let empty = PersistentVolumeStatus::default();
        let before = old.status.as_ref().unwrap_or(&empty);
        let status = new.status.get_or_insert_default();
        let kept = status.last_phase_transition_time == before.last_phase_transition_time;
        if status.phase != before.phase && (kept || status.last_phase_transition_time.is_none()) {
            status.last_phase_transition_time = Some(Time(context.now));
        }
    }

    fn validate(&self, volume: &PersistentVolume) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = PersistentVolumeSpec::default();
        let spec = volume.spec.as_ref().unwrap_or(&empty);
        validation::validate(&mut errors, &Path::new("spec"), spec);
        errors
    }

    fn validate_update(&self, new: &PersistentVolume, old: &PersistentVolume) -> ErrorList {
        validation::validate_update(new, old)
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Capacity", "The size of the volume."),
            Column::string("Access Modes", "How the volume may be mounted."),
            Column::string(
                "Reclaim Policy",
                "What becomes of the volume after its claim.",
            ),
            Column::string("Status", "Whether the volume is bound to a claim."),
            Column::string("Claim", "The claim that the volume is bound to."),
            Column::string("StorageClass", "StorageClass of the volume."),
            Column::string(
                "VolumeAttributesClass",
                "VolumeAttributesClass of the volume.",
            ),
            Column::string("Reason", "Why the volume has failed."),
            Column::AGE,
            Column::string("VolumeMode", "Filesystem or Block.").wide(),
        ]
    }

    fn row(&self, volume: &PersistentVolume, now: jiff::Timestamp) -> Vec<Value> {
        let empty = (
            PersistentVolumeSpec::default(),
            PersistentVolumeStatus::default(),
        );
        let spec = volume.spec.as_ref().unwrap_or(&empty.0);
        let status = volume.status.as_ref().unwrap_or(&empty.1);
        let phase = match volume.metadata.deletion_timestamp {
            Some(_) => "Terminating",
            None => status.phase.as_deref().unwrap_or_default(),
        };
        let claim = spec.claim_ref.as_ref().map(|claim| {
            let namespace = claim.namespace.as_deref().unwrap_or_default();
            format!("{namespace}/{}", claim.name.as_deref().unwrap_or_default())
        });
        vec![
            json!(volume.metadata.name),
            json!(cells::quantity(spec.capacity.as_ref(), STORAGE)),
            json!(cells::access_modes(spec.access_modes.as_deref())),
            json!(
                spec.persistent_volume_reclaim_policy
                    .as_deref()
                    .unwrap_or_default()
            ),
            json!(phase),
            json!(claim.unwrap_or_default()),
            json!(class_name(volume)),
            json!(cells::or_unset(
                spec.volume_attributes_class_name.as_deref()
            )),
            json!(status.reason.as_deref().unwrap_or_default()),
            json!(cells::since(
                volume.metadata.creation_timestamp.as_ref(),
                now
            )),
            json!(cells::or_unset(spec.volume_mode.as_deref())),
        ]
    }
}

/// The annotation wins over the field.
fn class_name(volume: &PersistentVolume) -> &str {
    let annotations = volume.metadata.annotations.as_ref();
    let old = annotations.and_then(|annotations| annotations.get(BETA_CLASS));
    let field = || volume.spec.as_ref()?.storage_class_name.as_ref();
    old.or_else(field).map_or("", String::as_str)
}
