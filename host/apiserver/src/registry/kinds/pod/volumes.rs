//! Volumes of pods. Source: <https://kubernetes.io/docs/concepts/storage/volumes/>

mod projected;
mod remote;

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, ImageVolumeSource, KeyToPath, PersistentVolumeClaimTemplate, Volume,
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    quantity::Quantity,
};

pub(in crate::registry::kinds) use remote::validate_driver_name;

use super::{Owner, containers, mounts::Volumes, paths};
use crate::registry::kinds::{checks, persistent_volume_claim::spec as claim};

const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Sources that persistent volumes have too, except those that are only theirs.
pub(in crate::registry::kinds) fn validate_shared(
    errors: &mut ErrorList,
    path: &Path,
    volume: &Volume,
) {
    match &volume.host_path {
        Some(host) => validate_host_path(errors, &path.child("hostPath"), host),
        None => remote::validate(errors, path, volume),
    }
}

/// Checks the volumes and returns the valid ones, which containers may mount.
pub(super) fn validate<'a>(
    errors: &mut ErrorList,
    path: &Path,
    volumes: &'a [Volume],
    owner: &Owner<'_>,
) -> Volumes<'a> {
    let mut valid = Volumes::new();
    for (i, volume) in volumes.iter().enumerate() {
        let path = path.index(i);
        let before = errors.len();
        validate_source(errors, &path, volume, owner);
        checks::required_label(errors, &path.child("name"), &volume.name);
        if valid.contains_key(volume.name.as_str()) {
            errors.push(FieldError::duplicate(
                &path.child("name"),
                volume.name.as_str(),
            ));
        }
        if errors.len() == before {
            valid.insert(&volume.name, volume);
        }
        validate_claim_is_not_ours(errors, &path, volume, volumes, owner);
    }
    valid
}

/// A claim that this pod's ephemeral volumes create is not for its other volumes.
fn validate_claim_is_not_ours(
    errors: &mut ErrorList,
    path: &Path,
    volume: &Volume,
    volumes: &[Volume],
    owner: &Owner<'_>,
) {
    let (Some(claim), Some(pod)) = (&volume.persistent_volume_claim, owner.pod_name) else {
        return;
    };
    let ours =
        |v: &Volume| v.ephemeral.is_some() && claim.claim_name == format!("{pod}-{}", v.name);
    if volumes.iter().any(ours) {
        errors.push(FieldError::invalid(
            &path.child("persistentVolumeClaim").child("claimName"),
            claim.claim_name.as_str(),
            "must not reference a PVC that gets created for an ephemeral volume",
        ));
    }
}

/// The sources by field name, in the order in which a second one is complained about.
fn sources(volume: &Volume) -> impl Iterator<Item = &'static str> {
    let set = [
        ("emptyDir", volume.empty_dir.is_some()),
        ("hostPath", volume.host_path.is_some()),
        ("gitRepo", volume.git_repo.is_some()),
        ("gcePersistentDisk", volume.gce_persistent_disk.is_some()),
        (
            "awsElasticBlockStore",
            volume.aws_elastic_block_store.is_some(),
        ),
        ("secret", volume.secret.is_some()),
        ("nfs", volume.nfs.is_some()),
        ("iscsi", volume.iscsi.is_some()),
        ("glusterfs", volume.glusterfs.is_some()),
        ("flocker", volume.flocker.is_some()),
        (
            "persistentVolumeClaim",
            volume.persistent_volume_claim.is_some(),
        ),
        ("rbd", volume.rbd.is_some()),
        ("cinder", volume.cinder.is_some()),
        ("cephFS", volume.cephfs.is_some()),
        ("quobyte", volume.quobyte.is_some()),
        ("downwardAPI", volume.downward_api.is_some()),
        ("fc", volume.fc.is_some()),
        ("flexVolume", volume.flex_volume.is_some()),
        ("configMap", volume.config_map.is_some()),
        ("azureFile", volume.azure_file.is_some()),
        ("vsphereVolume", volume.vsphere_volume.is_some()),
        (
            "photonPersistentDisk",
            volume.photon_persistent_disk.is_some(),
        ),
        ("portworxVolume", volume.portworx_volume.is_some()),
        ("azureDisk", volume.azure_disk.is_some()),
        ("storageos", volume.storageos.is_some()),
        ("projected", volume.projected.is_some()),
        ("scaleIO", volume.scale_io.is_some()),
        ("csi", volume.csi.is_some()),
        ("ephemeral", volume.ephemeral.is_some()),
        ("image", volume.image.is_some()),
    ];
    set.into_iter()
        .filter(|(_, set)| *set)
        .map(|(field, _)| field)
}

fn validate_source(errors: &mut ErrorList, path: &Path, volume: &Volume, owner: &Owner<'_>) {
    let mut set = sources(volume);
    let Some(source) = set.next() else {
        errors.push(FieldError::required(path, "must specify a volume type"));
        return;
    };
    for more in set {
        errors.push(FieldError::forbidden(
            &path.child(more),
            "may not specify more than 1 volume type",
        ));
    }
    let local = path.child(source);
    if let ("emptyDir", Some(empty)) = (source, &volume.empty_dir) {
        let limit = empty.size_limit.as_ref().map(|q| Quantity::parse(&q.0));
        if limit.is_some_and(|limit| limit.is_ok_and(|limit| limit.is_negative())) {
            errors.push(FieldError::forbidden(
                &local.child("sizeLimit"),
                "SizeLimit field must be a valid resource quantity",
            ));
        }
    } else if let ("hostPath", Some(host)) = (source, &volume.host_path) {
        validate_host_path(errors, &local, host);
    } else if let ("secret", Some(secret)) = (source, &volume.secret) {
        let name = secret.secret_name.as_deref().unwrap_or_default();
        checks::required(errors, &local.child("secretName"), name);
        validate_mode(errors, &local.child("defaultMode"), secret.default_mode);
        validate_items(errors, &local.child("items"), secret.items.as_deref());
    } else if let ("configMap", Some(map)) = (source, &volume.config_map) {
        checks::required(errors, &local.child("name"), &map.name);
        validate_mode(errors, &local.child("defaultMode"), map.default_mode);
        validate_items(errors, &local.child("items"), map.items.as_deref());
    } else if let ("persistentVolumeClaim", Some(claim)) = (source, &volume.persistent_volume_claim)
    {
        checks::required(errors, &local.child("claimName"), &claim.claim_name);
    } else if let ("downwardAPI", Some(downward)) = (source, &volume.downward_api) {
        validate_mode(errors, &local.child("defaultMode"), downward.default_mode);
        for file in downward.items.iter().flatten() {
            projected::validate_downward_file(errors, &local, file);
        }
    } else if let ("projected", Some(projection)) = (source, &volume.projected) {
        validate_mode(errors, &local.child("defaultMode"), projection.default_mode);
        projected::validate(errors, &local, projection, owner);
    } else if let ("ephemeral", Some(ephemeral)) = (source, &volume.ephemeral) {
        let template = ephemeral.volume_claim_template.as_ref();
        validate_ephemeral(errors, &local, template);
        if let (Some(pod), false) = (owner.pod_name, volume.name.is_empty()) {
            let claim = format!("{pod}-{}", volume.name);
            for why in pilothouse_api::validation::is_dns1123_subdomain(&claim) {
                errors.push(FieldError::invalid(
                    &path.child("name"),
                    volume.name.as_str(),
                    &format!("PVC name {claim:?}: {why}"),
                ));
            }
        }
    } else if let ("image", Some(image)) = (source, &volume.image) {
        validate_image(errors, &local, image, owner);
    } else {
        remote::validate(errors, path, volume);
    }
}

fn validate_host_path(errors: &mut ErrorList, path: &Path, host: &HostPathVolumeSource) {
    const TYPES: [&str; 8] = [
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    if host.path.is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
        return;
    }
    paths::no_backsteps(errors, &path.child("path"), &host.path);
    if let Some(kind) = &host.type_ {
        checks::one_of(errors, &path.child("type"), kind, &TYPES);
    }
}

fn validate_image(
    errors: &mut ErrorList,
    path: &Path,
    image: &ImageVolumeSource,
    owner: &Owner<'_>,
) {
    if owner.is_pod() {
        let reference = image.reference.as_deref().unwrap_or_default();
        checks::required(errors, &path.child("reference"), reference);
    }
    let policy = image.pull_policy.as_deref();
    containers::validate_pull_policy(errors, &path.child("pullPolicy"), policy);
}

fn validate_ephemeral(
    errors: &mut ErrorList,
    path: &Path,
    template: Option<&PersistentVolumeClaimTemplate>,
) {
    let path = path.child("volumeClaimTemplate");
    let Some(template) = template else {
        errors.push(FieldError::required(&path, ""));
        return;
    };
    claim::validate(errors, &path.child("spec"), &template.spec);
}

fn validate_mode(errors: &mut ErrorList, path: &Path, mode: Option<i32>) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        errors.push(FieldError::invalid(path, mode, FILE_MODE));
    }
}

fn validate_items(errors: &mut ErrorList, path: &Path, items: Option<&[KeyToPath]>) {
    for (i, item) in items.unwrap_or_default().iter().enumerate() {
        let path = path.index(i);
        checks::required(errors, &path.child("key"), &item.key);
        checks::required(errors, &path.child("path"), &item.path);
        paths::local(errors, &path.child("path"), &item.path);
        validate_mode(errors, &path.child("mode"), item.mode);
    }
}

/// Paths that are already taken in a volume made of several sources.
#[derive(Default)]
struct Taken<'a>(HashSet<&'a str>);

impl<'a> Taken<'a> {
    fn take(&mut self, errors: &mut ErrorList, path: &Path, target: &'a str, value: &str) {
        if !target.is_empty() && !self.0.insert(target) {
            errors.push(FieldError::invalid(
                path,
                value,
                "conflicting duplicate paths",
            ));
        }
    }
}
