//! `pods/ephemeralcontainers`: containers that come into a running pod to look at it, and stay as they came.
//! Source: <https://kubernetes.io/docs/concepts/workloads/pods/ephemeral-containers/>

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSpec};
use pilothouse_api::field::{ErrorList, FieldError, Path};

use super::{
    Owner,
    containers::{self, Surroundings},
    volumes,
};
use crate::registry::strategy::Part;

const MIRROR: &str = "kubernetes.io/config.mirror";
const NOT_HERE: &str = "cannot be set for an Ephemeral Container";

pub(super) fn part() -> Part<Pod> {
    Part {
        name: "ephemeralcontainers",
        keep: |_, new, old| {
            let sent = new.spec.take().and_then(|spec| spec.ephemeral_containers);
            keep_all(new, old);
            new.spec.get_or_insert_default().ephemeral_containers = sent;
        },
        validate,
    }
}

/// Makes `new` what `old` is, except for what the caller says of the pod as a whole.
pub(super) fn keep_all(new: &mut Pod, old: &Pod) {
    let version = new.metadata.resource_version.take();
    *new = old.clone();
    new.metadata.resource_version = version;
}

/// Whether a pod is one of the kubelet's own, which is changed only where it comes from.
pub(super) fn is_static(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(MIRROR))
}

fn validate(new: &Pod, old: &Pod) -> ErrorList {
    let mut errors = ErrorList::new();
    if is_static(old) {
        let why = "static pods do not support ephemeral containers";
        return vec![FieldError::forbidden(&Path::default(), why)];
    }
    let empty = PodSpec::default();
    let (spec, before) = (
        new.spec.as_ref().unwrap_or(&empty),
        old.spec.as_ref().unwrap_or(&empty),
    );
    let path = Path::new("spec").child("ephemeralContainers");
    validate_containers(&mut errors, &path, spec);
    let known = spec.ephemeral_containers.as_deref().unwrap_or_default();
    for container in before.ephemeral_containers.iter().flatten() {
        let name = &container.name;
        let what = match known.iter().find(|c| c.name == *name) {
            Some(now) if now == container => continue,
            Some(_) => "changed",
            None => "removed",
        };
        let why = format!("existing ephemeral containers {name:?} may not be {what}\n");
        errors.push(FieldError::forbidden(&path, &why));
    }
    errors
}

fn validate_containers(errors: &mut ErrorList, path: &Path, spec: &PodSpec) {
    let volume_list = spec.volumes.as_deref().unwrap_or_default();
    let mut ignored = ErrorList::new(); // the volumes are those of a pod that exists
    let volumes = volumes::validate(
        &mut ignored,
        &Path::new("spec").child("volumes"),
        volume_list,
        &Owner::TEMPLATE,
    );
    let claims = spec.resource_claims.iter().flatten();
    let around = Surroundings {
        spec,
        volumes,
        claims: claims.map(|c| c.name.as_str()).collect(),
        owner: &Owner::TEMPLATE,
    };
    let others = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    let others: HashSet<&str> = others.map(|c| c.name.as_str()).collect();
    let mut names = others.clone();
    for (i, container) in spec.ephemeral_containers.iter().flatten().enumerate() {
        let path = path.index(i);
        if !names.insert(&container.name) {
            let path = path.child("name");
            errors.push(FieldError::duplicate(&path, container.name.as_str()));
        }
        let target = container
            .target_container_name
            .as_deref()
            .unwrap_or_default();
        if !target.is_empty() && !others.contains(target) {
            let path = path.child("targetContainerName");
            errors.push(FieldError::not_found(&path, target));
        }
        forbid_fields(errors, &path, container);
        containers::validate_common(errors, &path, &as_container(container), &around);
    }
}

/// What needs a place in the pod's plan is not for containers that come later.
fn forbid_fields(errors: &mut ErrorList, path: &Path, container: &EphemeralContainer) {
    for (field, set) in [
        ("ports", container.ports.is_some()),
        ("resources", container.resources.is_some()),
        ("resizePolicy", container.resize_policy.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
        ("lifecycle", container.lifecycle.is_some()),
    ] {
        if set {
            errors.push(FieldError::forbidden(&path.child(field), NOT_HERE));
        }
    }
    for (i, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let path = path.child("volumeMounts").index(i);
        for (field, value) in [
            ("subPath", &mount.sub_path),
            ("subPathExpr", &mount.sub_path_expr),
        ] {
            if value.as_deref().is_some_and(|value| !value.is_empty()) {
                errors.push(FieldError::forbidden(&path.child(field), NOT_HERE));
            }
        }
    }
}

/// The container as one like others, without what it may not have.
fn as_container(container: &EphemeralContainer) -> Container {
    let container = container.clone();
    Container {
        args: container.args,
        command: container.command,
        env: container.env,
        env_from: container.env_from,
        image: container.image,
        image_pull_policy: container.image_pull_policy,
        name: container.name,
        restart_policy: container.restart_policy,
        security_context: container.security_context,
        stdin: container.stdin,
        stdin_once: container.stdin_once,
        termination_message_path: container.termination_message_path,
        termination_message_policy: container.termination_message_policy,
        tty: container.tty,
        volume_devices: container.volume_devices,
        volume_mounts: container.volume_mounts,
        working_dir: container.working_dir,
        ..Container::default()
    }
}
