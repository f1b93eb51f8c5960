//! Where a volume is. Most sources are those of pods' volumes, with the secret in a namespace of its own: they are judged in
//! that form.

use k8s_openapi::api::core::v1::{
    AzureFileVolumeSource, CSIPersistentVolumeSource, CephFSVolumeSource, CinderVolumeSource,
    FlexVolumeSource, GlusterfsVolumeSource, ISCSIVolumeSource, LocalVolumeSource,
    PersistentVolumeSpec, RBDVolumeSource, ScaleIOVolumeSource, SecretReference,
    StorageOSVolumeSource, Volume,
};
use pilothouse_api::field::{ErrorList, FieldError, Path};

use crate::registry::kinds::{
    checks,
    pod::{defaults, paths, volumes},
};

pub(super) fn fill_defaults(spec: &mut PersistentVolumeSpec) {
    let mut volume = as_volume(spec);
    defaults::volume_source(&mut volume);
    spec.host_path = volume.host_path;
    spec.azure_disk = volume.azure_disk;
    if let (Some(source), Some(filled)) = (&mut spec.iscsi, volume.iscsi) {
        source.iscsi_interface = filled.iscsi_interface;
    }
    if let (Some(source), Some(filled)) = (&mut spec.rbd, volume.rbd) {
        source.pool = filled.pool;
        source.user = filled.user;
        source.keyring = filled.keyring;
    }
    if let (Some(source), Some(filled)) = (&mut spec.scale_io, volume.scale_io) {
        source.storage_mode = filled.storage_mode;
        source.fs_type = filled.fs_type;
    }
}

/// The sources by field name, in the order in which a second one is complained about.
fn sources(spec: &PersistentVolumeSpec) -> impl Iterator<Item = &'static str> {
    let set = [
        ("hostPath", spec.host_path.is_some()),
        ("gcePersistentDisk", spec.gce_persistent_disk.is_some()),
        (
            "awsElasticBlockStore",
            spec.aws_elastic_block_store.is_some(),
        ),
        ("glusterfs", spec.glusterfs.is_some()),
        ("flocker", spec.flocker.is_some()),
        ("nfs", spec.nfs.is_some()),
        ("rbd", spec.rbd.is_some()),
        ("quobyte", spec.quobyte.is_some()),
        ("cephFS", spec.cephfs.is_some()),
        ("iscsi", spec.iscsi.is_some()),
        ("cinder", spec.cinder.is_some()),
        ("fc", spec.fc.is_some()),
        ("flexVolume", spec.flex_volume.is_some()),
        ("azureFile", spec.azure_file.is_some()),
        ("vsphereVolume", spec.vsphere_volume.is_some()),
        (
            "photonPersistentDisk",
            spec.photon_persistent_disk.is_some(),
        ),
        ("portworxVolume", spec.portworx_volume.is_some()),
        ("azureDisk", spec.azure_disk.is_some()),
        ("scaleIO", spec.scale_io.is_some()),
        ("local", spec.local.is_some()),
        ("storageos", spec.storageos.is_some()),
        ("csi", spec.csi.is_some()),
    ];
    set.into_iter()
        .filter(|(_, set)| *set)
        .map(|(field, _)| field)
}

/// Exactly one source, whose fields are right.
pub(super) fn validate(errors: &mut ErrorList, path: &Path, spec: &PersistentVolumeSpec) {
    let mut set = sources(spec);
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
    if let ("local", Some(disk)) = (source, &spec.local) {
        validate_local(errors, &local, disk);
        let affinity = spec.node_affinity.as_ref();
        if affinity.is_none_or(|affinity| affinity.required.is_none()) {
            errors.push(FieldError::required(
                &path.child("nodeAffinity"),
                "Local volume requires node affinity",
            ));
        }
    } else if let ("csi", Some(csi)) = (source, &spec.csi) {
        validate_csi(errors, &local, csi);
    } else {
        volumes::validate_shared(errors, path, &as_volume(spec));
    }
}

fn validate_local(errors: &mut ErrorList, path: &Path, disk: &LocalVolumeSource) {
    let path = path.child("path");
    match disk.path.as_str() {
        "" => errors.push(FieldError::required(&path, "")),
        target => paths::no_backsteps(errors, &path, target),
    }
}

fn validate_csi(errors: &mut ErrorList, path: &Path, csi: &CSIPersistentVolumeSource) {
    volumes::validate_driver_name(errors, &path.child("driver"), &csi.driver);
    checks::required(errors, &path.child("volumeHandle"), &csi.volume_handle);
    for (field, secret) in [
        (
            "controllerPublishSecretRef",
            &csi.controller_publish_secret_ref,
        ),
        (
            "controllerExpandSecretRef",
            &csi.controller_expand_secret_ref,
        ),
        ("nodePublishSecretRef", &csi.node_publish_secret_ref),
        ("nodeExpandSecretRef", &csi.node_expand_secret_ref),
    ] {
        if let Some(secret) = secret {
            validate_secret(errors, &path.child(field), secret);
        }
    }
}

fn validate_secret(errors: &mut ErrorList, path: &Path, secret: &SecretReference) {
    for (field, value) in [("name", &secret.name), ("namespace", &secret.namespace)] {
        let value = value.as_deref().unwrap_or_default();
        checks::required(errors, &path.child(field), value);
    }
}

/// The source as a pod would have it.
fn as_volume(spec: &PersistentVolumeSpec) -> Volume {
    let spec = spec.clone();
    Volume {
        host_path: spec.host_path,
        gce_persistent_disk: spec.gce_persistent_disk,
        aws_elastic_block_store: spec.aws_elastic_block_store,
        flocker: spec.flocker,
        nfs: spec.nfs,
        quobyte: spec.quobyte,
        fc: spec.fc,
        vsphere_volume: spec.vsphere_volume,
        photon_persistent_disk: spec.photon_persistent_disk,
        portworx_volume: spec.portworx_volume,
        azure_disk: spec.azure_disk,
        glusterfs: spec.glusterfs.map(|source| GlusterfsVolumeSource {
            endpoints: source.endpoints,
            path: source.path,
            read_only: source.read_only,
        }),
        rbd: spec.rbd.map(|source| RBDVolumeSource {
            fs_type: source.fs_type,
            image: source.image,
            keyring: source.keyring,
            monitors: source.monitors,
            pool: source.pool,
            read_only: source.read_only,
            secret_ref: None,
            user: source.user,
        }),
        cephfs: spec.cephfs.map(|source| CephFSVolumeSource {
            monitors: source.monitors,
            ..CephFSVolumeSource::default()
        }),
        iscsi: spec.iscsi.map(|source| ISCSIVolumeSource {
            iqn: source.iqn,
            iscsi_interface: source.iscsi_interface,
            lun: source.lun,
            target_portal: source.target_portal,
            ..ISCSIVolumeSource::default()
        }),
        cinder: spec.cinder.map(|source| CinderVolumeSource {
            volume_id: source.volume_id,
            ..CinderVolumeSource::default()
        }),
        flex_volume: spec.flex_volume.map(|source| FlexVolumeSource {
            driver: source.driver,
            ..FlexVolumeSource::default()
        }),
        azure_file: spec.azure_file.map(|source| AzureFileVolumeSource {
            read_only: source.read_only,
            secret_name: source.secret_name,
            share_name: source.share_name,
        }),
        scale_io: spec.scale_io.map(|source| ScaleIOVolumeSource {
            fs_type: source.fs_type,
            gateway: source.gateway,
            storage_mode: source.storage_mode,
            system: source.system,
            volume_name: source.volume_name,
            ..ScaleIOVolumeSource::default()
        }),
        storageos: spec.storageos.map(|source| StorageOSVolumeSource {
            volume_name: source.volume_name,
            ..StorageOSVolumeSource::default()
        }),
        ..Volume::default()
    }
}
