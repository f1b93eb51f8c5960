//! Volumes on the network and those of drivers: mostly that their required fields are there.

use k8s_openapi::api::core::v1::Volume;
use pilothouse_api::field::{ErrorList, FieldError, Path};

use crate::registry::kinds::{checks, pod::paths};

/// Partitions of disks are numbered so.
const PARTITION: &str = "must be between 1 and 255, inclusive";

pub(super) fn validate(errors: &mut ErrorList, path: &Path, volume: &Volume) {
    for (source, field, value) in required_texts(volume) {
        checks::required(errors, &path.child(source).child(field), value);
    }
    if let Some(nfs) = &volume.nfs
        && !nfs.path.starts_with('/')
    {
        errors.push(FieldError::invalid(
            &path.child("nfs").child("path"),
            nfs.path.as_str(),
            "must be an absolute path",
        ));
    }
    if let Some(git) = &volume.git_repo {
        let path = path.child("gitRepo").child("directory");
        paths::descending(errors, &path, git.directory.as_deref().unwrap_or_default());
    }
    for (source, partition) in [
        (
            "persistentDisk",
            volume
                .gce_persistent_disk
                .as_ref()
                .and_then(|d| d.partition),
        ),
        (
            "awsElasticBlockStore",
            volume
                .aws_elastic_block_store
                .as_ref()
                .and_then(|d| d.partition),
        ),
    ] {
        if let Some(partition) = partition.filter(|p| !(0..=255).contains(p)) {
            let path = path.child(source).child("partition");
            errors.push(FieldError::invalid(&path, partition, PARTITION));
        }
    }
    validate_monitors(errors, path, volume);
    validate_drivers(errors, path, volume);
}

/// Texts that may not be empty: source, field, value.
fn required_texts(volume: &Volume) -> Vec<(&'static str, &'static str, &str)> {
    let mut texts = Vec::new();
    if let Some(git) = &volume.git_repo {
        texts.push(("gitRepo", "repository", git.repository.as_str()));
    }
    if let Some(disk) = &volume.gce_persistent_disk {
        texts.push(("persistentDisk", "pdName", &disk.pd_name));
    }
    if let Some(disk) = &volume.aws_elastic_block_store {
        texts.push(("awsElasticBlockStore", "volumeID", &disk.volume_id));
    }
    if let Some(nfs) = &volume.nfs {
        texts.push(("nfs", "server", &nfs.server));
        texts.push(("nfs", "path", &nfs.path));
    }
    if let Some(iscsi) = &volume.iscsi {
        texts.push(("iscsi", "targetPortal", &iscsi.target_portal));
        texts.push(("iscsi", "iqn", &iscsi.iqn));
    }
    if let Some(glusterfs) = &volume.glusterfs {
        texts.push(("glusterfs", "endpoints", &glusterfs.endpoints));
        texts.push(("glusterfs", "path", &glusterfs.path));
    }
    if let Some(rbd) = &volume.rbd {
        texts.push(("rbd", "image", &rbd.image));
    }
    if let Some(cinder) = &volume.cinder {
        texts.push(("cinder", "volumeID", &cinder.volume_id));
    }
    if let Some(quobyte) = &volume.quobyte {
        texts.push(("quobyte", "registry", &quobyte.registry));
        texts.push(("quobyte", "volume", &quobyte.volume));
    }
    if let Some(flex) = &volume.flex_volume {
        texts.push(("flexVolume", "driver", &flex.driver));
    }
    if let Some(file) = &volume.azure_file {
        texts.push(("azureFile", "secretName", &file.secret_name));
        texts.push(("azureFile", "shareName", &file.share_name));
    }
    if let Some(disk) = &volume.azure_disk {
        texts.push(("azureDisk", "diskName", &disk.disk_name));
        texts.push(("azureDisk", "diskURI", &disk.disk_uri));
    }
    if let Some(vsphere) = &volume.vsphere_volume {
        texts.push(("vsphereVolume", "volumePath", &vsphere.volume_path));
    }
    if let Some(photon) = &volume.photon_persistent_disk {
        texts.push(("photonPersistentDisk", "pdID", &photon.pd_id));
    }
    if let Some(portworx) = &volume.portworx_volume {
        texts.push(("portworxVolume", "volumeID", &portworx.volume_id));
    }
    if let Some(scale_io) = &volume.scale_io {
        let name = scale_io.volume_name.as_deref().unwrap_or_default();
        texts.push(("scaleIO", "gateway", &scale_io.gateway));
        texts.push(("scaleIO", "system", &scale_io.system));
        texts.push(("scaleIO", "volumeName", name));
    }
    texts
}

fn validate_monitors(errors: &mut ErrorList, path: &Path, volume: &Volume) {
    for (source, monitors) in [
        ("rbd", volume.rbd.as_ref().map(|v| &v.monitors)),
        ("cephfs", volume.cephfs.as_ref().map(|v| &v.monitors)),
    ] {
        if monitors.is_some_and(|m| m.is_empty()) {
            errors.push(FieldError::required(
                &path.child(source).child("monitors"),
                "",
            ));
        }
    }
}

/// The name of a CSI driver.
pub(in crate::registry::kinds) fn validate_driver_name(
    errors: &mut ErrorList,
    path: &Path,
    driver: &str,
) {
    if driver.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if driver.len() > 63 {
        errors.push(FieldError::too_long(path, 63));
    }
    checks::dns_subdomain(errors, path, &driver.to_lowercase());
}

fn validate_drivers(errors: &mut ErrorList, path: &Path, volume: &Volume) {
    if let Some(csi) = &volume.csi {
        let path = path.child("csi");
        validate_driver_name(errors, &path.child("driver"), &csi.driver);
        if let Some(secret) = &csi.node_publish_secret_ref {
            let path = path.child("nodePublishSecretRef").child("name");
            checks::required(errors, &path, &secret.name);
        }
    }
    if let Some(fc) = &volume.fc {
        let path = path.child("fc").child("targetWWNs");
        let targets = fc.target_wwns.as_deref().unwrap_or_default();
        let wwids = fc.wwids.as_deref().unwrap_or_default();
        match (targets.is_empty(), wwids.is_empty()) {
            (true, true) => errors.push(FieldError::required(
                &path,
                "must specify either targetWWNs or wwids, but not both",
            )),
            (false, false) => errors.push(FieldError::invalid(
                &path,
                serde_json::json!(targets),
                "targetWWNs and wwids can not be specified simultaneously",
            )),
            _ => {}
        }
    }
    if let Some(flocker) = &volume.flocker {
        let path = path.child("flocker");
        let name = flocker.dataset_name.as_deref().unwrap_or_default();
        let uuid = flocker.dataset_uuid.as_deref().unwrap_or_default();
        match (name.is_empty(), uuid.is_empty()) {
            (true, true) => errors.push(FieldError::required(
                &path,
                "one of datasetName and datasetUUID is required",
            )),
            (false, false) => errors.push(FieldError::invalid(
                &path,
                "resource",
                "datasetName and datasetUUID can not be specified simultaneously",
            )),
            _ => {}
        }
    }
    if let Some(storageos) = &volume.storageos {
        let path = path.child("storageos");
        let name = storageos.volume_name.as_deref().unwrap_or_default();
        checks::required_label(errors, &path.child("volumeName"), name);
    }
}
