//! VolumeAttachments: a volume on its way to a node. Source:
//! <https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/volume-attachment-v1/>

use k8s_openapi::api::{
    core::v1::PersistentVolumeSpec,
    storage::v1::{VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentStatus, VolumeError},
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
    validation::FIELD_IS_IMMUTABLE,
};
use serde_json::{Value, json};

use super::GROUP;
use crate::registry::{
    kinds::{cells, checks, describe, semantic},
    printing::Column,
    strategy::{Context, Keep, Strategy},
};

const MAX_METADATA_BYTES: usize = 256 * 1024;
const MAX_MESSAGE_BYTES: usize = 1024;
const NOT_INLINE: &str = "may not be specified in the context of inline volumes";
const ONE_SOURCE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

pub(in crate::registry::kinds) struct VolumeAttachmentStrategy;

impl Strategy for VolumeAttachmentStrategy {
    type Object = VolumeAttachment;

    fn resource(&self) -> ResourceInfo {
        describe::cluster_scoped(GROUP, "v1", "volumeattachments", "VolumeAttachment")
    }

    fn prepare_for_create(&self, _context: &Context, attachment: &mut VolumeAttachment) {
        attachment.status = Some(VolumeAttachmentStatus::default());
    }

    fn prepare_for_update(
        &self,
        _context: &Context,
        new: &mut VolumeAttachment,
        old: &VolumeAttachment,
    ) {
        new.status.clone_from(&old.status);
    }

    fn prepare_for_status_update(&self) -> Option<Keep<VolumeAttachment>> {
        Some(|new, old| {
            new.spec.clone_from(&old.spec);
            describe::keep_metadata_for_status(&mut new.metadata, &old.metadata);
        })
    }

    fn validate(&self, attachment: &VolumeAttachment) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = &attachment.spec;
        checks::required(&mut errors, &path.child("attacher"), &spec.attacher);
        validate_source(&mut errors, &path.child("source"), &spec.source);
        checks::dns_subdomain(&mut errors, &path.child("nodeName"), &spec.node_name);
        validate_status(&mut errors, attachment.status.as_ref());
        errors
    }

    fn validate_create(&self, attachment: &VolumeAttachment) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = &attachment.spec;
        checks::csi_driver_name(&mut errors, &path.child("attacher"), &spec.attacher);
        if let Some(name) = &spec.source.persistent_volume_name {
            let path = path.child("source").child("persistentVolumeName");
            checks::dns_subdomain(&mut errors, &path, name);
        }
        errors
    }

    fn validate_update(&self, new: &VolumeAttachment, old: &VolumeAttachment) -> ErrorList {
        match semantic::differences(new, old, "spec").is_empty() {
            true => ErrorList::new(),
            false => {
                let shown = semantic::value_at(new, "/spec");
                vec![FieldError::invalid(
                    &Path::new("spec"),
                    shown,
                    FIELD_IS_IMMUTABLE,
                )]
            }
        }
    }

    fn validate_status_update(&self, new: &VolumeAttachment, old: &VolumeAttachment) -> ErrorList {
        let mut errors = self.validate(new);
        errors.extend(self.validate_update(new, old));
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column {
                format: "name",
                ..Column::string("Attacher", "The driver that attaches and detaches.")
            },
            Column::string("PV", "The persistent volume."),
            Column::string("Node", "The node that it goes to."),
            Column::boolean("Attached", "Whether it is there."),
            Column::AGE,
        ]
    }

    fn row(&self, attachment: &VolumeAttachment, now: jiff::Timestamp) -> Vec<Value> {
        let spec = &attachment.spec;
        vec![
            json!(attachment.metadata.name),
            json!(spec.attacher),
            json!(
                spec.source
                    .persistent_volume_name
                    .as_deref()
                    .unwrap_or_default()
            ),
            json!(spec.node_name),
            json!(attachment.status.as_ref().is_some_and(|s| s.attached)),
            json!(cells::since(
                attachment.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

fn validate_source(errors: &mut ErrorList, path: &Path, source: &VolumeAttachmentSource) {
    match (
        &source.inline_volume_spec,
        source.persistent_volume_name.as_deref(),
    ) {
        (None, None) => errors.push(FieldError::required(path, ONE_SOURCE)),
        (Some(_), Some(_)) => errors.push(FieldError::forbidden(path, ONE_SOURCE)),
        (None, Some("")) => errors.push(FieldError::required(
            &path.child("persistentVolumeName"),
            "must specify non empty persistentVolumeName",
        )),
        (None, Some(_)) => {}
        (Some(volume), None) => validate_inline(errors, &path.child("inlineVolumeSpec"), volume),
    }
}

/// A volume without an object of its own is one of a CSI driver, and nobody claims it.
fn validate_inline(errors: &mut ErrorList, path: &Path, volume: &PersistentVolumeSpec) {
    let mut forbid = |field: &str, bad: bool, why: &str| {
        if bad {
            errors.push(FieldError::forbidden(&path.child(field), why));
        }
    };
    forbid("claimRef", volume.claim_ref.is_some(), NOT_INLINE);
    let capacity = volume.capacity.as_ref().is_some_and(|c| !c.is_empty());
    forbid("capacity", capacity, NOT_INLINE);
    forbid("nodeAffinity", volume.node_affinity.is_some(), NOT_INLINE);
    let filled = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    forbid(
        "storageClassName",
        filled(&volume.storage_class_name),
        NOT_INLINE,
    );
    let policy = volume
        .persistent_volume_reclaim_policy
        .as_deref()
        .unwrap_or_default();
    forbid(
        "persistentVolumeReclaimPolicy",
        !matches!(policy, "" | "Retain"),
        "may only be Retain in the context of inline volumes",
    );
    forbid(
        "volumeMode",
        volume
            .volume_mode
            .as_deref()
            .is_some_and(|mode| mode != "Filesystem"),
        "may not specify volumeMode other than Filesystem in the context of inline volumes",
    );
    if volume.csi.is_none() {
        let why = "has to be specified in the context of inline volumes";
        errors.push(FieldError::required(&path.child("csi"), why));
    }
    if volume.access_modes.as_ref().is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(&path.child("accessModes"), ""));
    }
}

fn validate_status(errors: &mut ErrorList, status: Option<&VolumeAttachmentStatus>) {
    let Some(status) = status else { return };
    let path = Path::new("status");
    let metadata = status.attachment_metadata.iter().flatten();
    let bytes: usize = metadata.map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MAX_METADATA_BYTES {
        let path = path.child("attachmentMetadata");
        errors.push(FieldError::too_long(&path, MAX_METADATA_BYTES));
    }
    validate_error(
        errors,
        &path.child("attachError"),
        status.attach_error.as_ref(),
    );
    validate_error(
        errors,
        &path.child("detachError"),
        status.detach_error.as_ref(),
    );
}

fn validate_error(errors: &mut ErrorList, path: &Path, error: Option<&VolumeError>) {
    let message = error.and_then(|e| e.message.as_deref()).unwrap_or_default();
    if message.len() > MAX_MESSAGE_BYTES {
        // the bound that upstream names here is that of the metadata
        errors.push(FieldError::too_long(
            &path.child("message"),
            MAX_METADATA_BYTES,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::testing::{
        create_errors, created, json, row, status_errors, update_errors, with,
    };

    fn base() -> Value {
        json!({
            "metadata": {"name": "x"},
            "spec": {
                "attacher": "d.example.com",
                "nodeName": "n0",
                "source": {"persistentVolumeName": "pv"},
            },
        })
    }

    #[test]
    fn fields() {
        for (changes, expected) in [
            (vec![], vec![]),
            (
                vec![("/spec/source", json!({}))],
                vec![
                    "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
                ],
            ),
            (
                vec![("/spec/source/inlineVolumeSpec", json!({}))],
                vec![
                    "spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
                ],
            ),
            (
                vec![(
                    "/spec/source",
                    json!({"inlineVolumeSpec": {"capacity": {"storage": "1Gi"}, "storageClassName": "x"}}),
                )],
                vec![
                    "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes",
                    "spec.source.inlineVolumeSpec.storageClassName: Forbidden: may not be specified in the context of inline volumes",
                    "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
                    "spec.source.inlineVolumeSpec.accessModes: Required value",
                ],
            ),
            (
                vec![("/spec/attacher", json!(""))],
                vec![
                    "spec.attacher: Required value",
                    "spec.attacher: Required value",
                ],
            ),
        ] {
            assert_eq!(
                create_errors(&VolumeAttachmentStrategy, &with(&base(), &changes)),
                expected
            );
        }
    }

    #[test]
    fn the_spec_stays_and_the_status_is_written_apart() {
        let attached = with(&base(), &[("/status", json!({"attached": true}))]);
        let made = json(&created(&VolumeAttachmentStrategy, &attached));
        assert_eq!(made["status"], json!({"attached": false}));
        let other = with(&base(), &[("/spec/nodeName", json!("n1"))]);
        assert_eq!(
            update_errors(&VolumeAttachmentStrategy, &base(), &other),
            [
                "spec: Invalid value: {\"attacher\":\"d.example.com\",\"nodeName\":\"n1\",\"source\":{\"persistentVolumeName\":\"pv\"}}: field is immutable"
            ]
        );
        assert_eq!(
            status_errors(&VolumeAttachmentStrategy, &base(), &attached),
            [""; 0]
        );
        let message = "x".repeat(1025);
        let failed = with(
            &base(),
            &[(
                "/status",
                json!({"attached": false, "attachError": {"message": message}}),
            )],
        );
        assert_eq!(
            status_errors(&VolumeAttachmentStrategy, &base(), &failed),
            ["status.attachError.message: Too long: may not be more than 262144 bytes"]
        );
    }

    #[test]
    fn rows() {
        let attached = with(&base(), &[("/status", json!({"attached": true}))]);
        let cells: Vec<Value> = row(&VolumeAttachmentStrategy, &attached)
            .into_iter()
            .map(|(_, v)| v)
            .collect();
        assert_eq!(
            cells,
            [
                json!("x"),
                json!("d.example.com"),
                json!("pv"),
                json!("n0"),
                json!(true),
                json!("<unknown>"),
            ]
        );
    }
}
