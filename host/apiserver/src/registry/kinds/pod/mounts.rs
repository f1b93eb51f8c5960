//! What containers do with volumes. Source: <https://kubernetes.io/docs/concepts/storage/volumes/>

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::{Container, Volume, VolumeDevice, VolumeMount};
use pilothouse_api::field::{ErrorList, FieldError, Path};

use super::paths;
use crate::registry::kinds::checks;

/// The valid volumes of a pod by name.
pub(super) type Volumes<'a> = HashMap<&'a str, &'a Volume>;

pub(super) fn validate(
    errors: &mut ErrorList,
    path: &Path,
    container: &Container,
    volumes: &Volumes<'_>,
) {
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let devices = container.volume_devices.as_deref().unwrap_or_default();
    let mut seen = HashSet::new();
    for (i, mount) in mounts.iter().enumerate() {
        let list = path.child("volumeMounts");
        validate_mount(errors, (&list, i), mount, volumes);
        let path = list.index(i);
        if !seen.insert(mount.mount_path.as_str()) {
            errors.push(FieldError::invalid(
                &path.child("mountPath"),
                mount.mount_path.as_str(),
                "must be unique",
            ));
        }
        if devices.iter().any(|d| d.name == mount.name) {
            errors.push(FieldError::invalid(
                &path.child("name"),
                mount.name.as_str(),
                "must not already exist in volumeDevices",
            ));
        }
        if devices.iter().any(|d| d.device_path == mount.mount_path) {
            errors.push(FieldError::invalid(
                &path.child("mountPath"),
                mount.mount_path.as_str(),
                "must not already exist as a path in volumeDevices",
            ));
        }
        validate_propagation(errors, &list, mount, container);
    }
    let list = path.child("volumeDevices");
    let (mut names, mut device_paths) = (HashSet::new(), HashSet::new());
    for (i, device) in devices.iter().enumerate() {
        let path = list.index(i);
        validate_device(errors, &path, device, volumes, mounts);
        if !device.name.is_empty() && !names.insert(device.name.as_str()) {
            errors.push(FieldError::invalid(
                &path.child("name"),
                device.name.as_str(),
                "must be unique",
            ));
        }
        if !device_paths.insert(device.device_path.as_str()) {
            errors.push(FieldError::invalid(
                &path.child("devicePath"),
                device.device_path.as_str(),
                "must be unique",
            ));
        }
    }
}

fn validate_mount(
    errors: &mut ErrorList,
    (list, i): (&Path, usize),
    mount: &VolumeMount,
    volumes: &Volumes<'_>,
) {
    let path = list.index(i);
    checks::required(errors, &path.child("name"), &mount.name);
    let volume = volumes.get(mount.name.as_str());
    if volume.is_none() {
        errors.push(FieldError::not_found(
            &path.child("name"),
            mount.name.as_str(),
        ));
    }
    checks::required(errors, &path.child("mountPath"), &mount.mount_path);
    let sub_path = mount.sub_path.as_deref().unwrap_or_default();
    let sub_path_expr = mount.sub_path_expr.as_deref().unwrap_or_default();
    for (field, value) in [("subPath", sub_path), ("subPathExpr", sub_path_expr)] {
        if value.is_empty() {
            continue;
        }
        // messages about the path itself name the list, not the element
        paths::descending(errors, &list.child(field), value);
    }
    if !sub_path.is_empty() && !sub_path_expr.is_empty() {
        errors.push(FieldError::invalid(
            &path.child("subPathExpr"),
            sub_path_expr,
            "subPathExpr and subPath are mutually exclusive",
        ));
    }
}

fn validate_propagation(
    errors: &mut ErrorList,
    list: &Path,
    mount: &VolumeMount,
    container: &Container,
) {
    let propagation = mount.mount_propagation.as_deref();
    if let Some(mode) = propagation {
        let path = list.child("mountPropagation");
        let modes = ["Bidirectional", "HostToContainer", "None"];
        checks::one_of(errors, &path, mode, &modes);
        let privileged = container
            .security_context
            .as_ref()
            .and_then(|s| s.privileged);
        if mode == "Bidirectional" && privileged != Some(true) {
            errors.push(FieldError::forbidden(
                &path,
                "Bidirectional mount propagation is available only to privileged containers",
            ));
        }
    }
    let path = list.child("recursiveReadOnly");
    match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount.read_only != Some(true) {
                errors.push(FieldError::forbidden(
                    &path,
                    "may only be specified when readOnly is true",
                ));
            }
            if propagation.is_some_and(|mode| mode != "None") {
                errors.push(FieldError::forbidden(
                    &path,
                    "may only be specified when mountPropagation is None or not specified",
                ));
            }
        }
        Some(other) => errors.push(FieldError::not_supported(
            &path,
            other,
            &["Disabled", "Enabled", "IfPossible"],
        )),
    }
}

fn validate_device(
    errors: &mut ErrorList,
    path: &Path,
    device: &VolumeDevice,
    volumes: &Volumes<'_>,
    mounts: &[VolumeMount],
) {
    let name_path = path.child("name");
    let name = device.name.as_str();
    checks::required(errors, &name_path, name);
    match volumes.get(name) {
        None => errors.push(FieldError::not_found(&name_path, name)),
        Some(volume) if volume.persistent_volume_claim.is_none() && volume.ephemeral.is_none() => {
            errors.push(FieldError::invalid(
                &name_path,
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            ));
        }
        Some(_) => {}
    }
    let device_path = device.device_path.as_str();
    checks::required(errors, &path.child("devicePath"), device_path);
    if paths::has_backsteps(device_path) {
        errors.push(FieldError::invalid(
            &path.child("devicePath"),
            device_path,
            "can not contain backsteps ('..')",
        ));
    }
    if mounts.iter().any(|m| m.name == device.name) {
        errors.push(FieldError::invalid(
            &name_path,
            name,
            "must not already exist in volumeMounts",
        ));
    }
    if mounts.iter().any(|m| m.mount_path == device.device_path) {
        errors.push(FieldError::invalid(
            &path.child("devicePath"),
            device_path,
            "must not already exist as a path in volumeMounts",
        ));
    }
}
