//! Defaults of pods and of the pod templates in workloads.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/>

use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EphemeralContainer, HTTPGetAction, LifecycleHandler,
    ObjectFieldSelector, Pod, PodSpec, PodTemplateSpec, Probe, Volume, VolumeProjection,
};

use super::resources;
use crate::registry::kinds::{fill, persistent_volume_claim::spec as claim};

/// Volumes of secrets, config maps, downward API and projections: `0644`.
const FILE_MODE: i32 = 0o644;
const HOUR_SECONDS: i64 = 3600;

/// A pod: what a template gets and more.
pub(super) fn pod(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    pod_spec(spec);
    let host_network = spec.host_network == Some(true);
    let init = spec.init_containers.iter_mut().flatten();
    for container in spec.containers.iter_mut().chain(init) {
        resources::requests_from_limits(container.resources.as_mut());
        for port in container.ports.iter_mut().flatten() {
            if host_network {
                fill::number(&mut port.host_port, port.container_port);
            }
        }
    }
    resources::pod_level_requests(spec);
    fill::pointer(&mut spec.enable_service_links, true);
}

/// The template of a workload.
pub(in crate::registry::kinds) fn template(template: &mut PodTemplateSpec) {
    template.metadata.get_or_insert_default();
    pod_spec(template.spec.get_or_insert_default());
}

fn pod_spec(spec: &mut PodSpec) {
    fill::text(&mut spec.dns_policy, "ClusterFirst");
    fill::text(&mut spec.restart_policy, "Always");
    spec.security_context.get_or_insert_default();
    fill::pointer(&mut spec.termination_grace_period_seconds, 30);
    fill::text(&mut spec.scheduler_name, "default-scheduler");
    // the old name of a field is kept in step with its new one
    if let Some(old) = spec.service_account.take().filter(|name| !name.is_empty()) {
        fill::text(&mut spec.service_account_name, &old);
    }
    let account = spec.service_account_name.as_ref();
    spec.service_account = account.filter(|name| !name.is_empty()).cloned();

    resources::canonicalize(&mut spec.overhead);
    resources::canonicalize_requirements(spec.resources.as_mut());
    for volume in spec.volumes.iter_mut().flatten() {
        fill_volume(volume);
    }
    for container in spec.init_containers.iter_mut().flatten() {
        fill_container(container);
    }
    for container in &mut spec.containers {
        fill_container(container);
    }
    for container in spec.ephemeral_containers.iter_mut().flatten() {
        fill_ephemeral_container(container);
    }
}

fn fill_container(container: &mut Container) {
    let image = container.image.as_deref().unwrap_or_default();
    fill::text(&mut container.image_pull_policy, pull_policy(image));
    fill::text(
        &mut container.termination_message_path,
        "/dev/termination-log",
    );
    fill::text(&mut container.termination_message_policy, "File");
    for port in container.ports.iter_mut().flatten() {
        fill::text(&mut port.protocol, "TCP");
    }
    for variable in container.env.iter_mut().flatten() {
        if let Some(source) = &mut variable.value_from {
            fill_field_selector(source.field_ref.as_mut());
            if let Some(file) = &mut source.file_key_ref {
                fill::pointer(&mut file.optional, false);
            }
        }
    }
    container.resources.get_or_insert_default();
    resources::canonicalize_requirements(container.resources.as_mut());
    let probes = [
        &mut container.liveness_probe,
        &mut container.readiness_probe,
        &mut container.startup_probe,
    ];
    for probe in probes.into_iter().flatten() {
        fill_probe(probe);
    }
    if let Some(lifecycle) = &mut container.lifecycle {
        fill_handler(lifecycle.post_start.as_mut());
        fill_handler(lifecycle.pre_stop.as_mut());
    }
}

fn fill_ephemeral_container(container: &mut EphemeralContainer) {
    let image = container.image.as_deref().unwrap_or_default();
    fill::text(&mut container.image_pull_policy, pull_policy(image));
    fill::text(
        &mut container.termination_message_path,
        "/dev/termination-log",
    );
    fill::text(&mut container.termination_message_policy, "File");
    for variable in container.env.iter_mut().flatten() {
        if let Some(source) = &mut variable.value_from {
            fill_field_selector(source.field_ref.as_mut());
        }
    }
}

/// `Always` for `:latest` and for images with neither tag nor digest, else `IfNotPresent`.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let tag = name
        .rsplit_once(':')
        .map(|(_, tag)| tag)
        .filter(|tag| !tag.contains('/')); // otherwise the colon is before a registry's port
    match (tag, digest) {
        (Some("latest"), _) => "Always",
        (None, None) if !image.is_empty() => "Always",
        _ => "IfNotPresent",
    }
}

fn fill_probe(probe: &mut Probe) {
    fill::number(&mut probe.timeout_seconds, 1);
    fill::number(&mut probe.period_seconds, 10);
    fill::number(&mut probe.success_threshold, 1);
    fill::number(&mut probe.failure_threshold, 3);
    fill_http_get(probe.http_get.as_mut());
    if let Some(grpc) = &mut probe.grpc {
        fill::pointer(&mut grpc.service, String::new());
    }
}

fn fill_handler(handler: Option<&mut LifecycleHandler>) {
    if let Some(handler) = handler {
        fill_http_get(handler.http_get.as_mut());
    }
}

fn fill_http_get(action: Option<&mut HTTPGetAction>) {
    if let Some(action) = action {
        fill::text(&mut action.path, "/");
        fill::text(&mut action.scheme, "HTTP");
    }
}

fn fill_field_selector(selector: Option<&mut ObjectFieldSelector>) {
    if let Some(selector) = selector {
        fill::text(&mut selector.api_version, "v1");
    }
}

fn fill_volume(volume: &mut Volume) {
    let no_source = Volume {
        name: volume.name.clone(),
        ..Volume::default()
    };
    if *volume == no_source {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    }
    if let Some(image) = &mut volume.image {
        let reference = image.reference.as_deref().unwrap_or_default();
        fill::text(&mut image.pull_policy, pull_policy(reference));
    }
    if let Some(source) = &mut volume.secret {
        fill::pointer(&mut source.default_mode, FILE_MODE);
    }
    if let Some(source) = &mut volume.config_map {
        fill::pointer(&mut source.default_mode, FILE_MODE);
    }
    if let Some(source) = &mut volume.downward_api {
        fill::pointer(&mut source.default_mode, FILE_MODE);
        for file in source.items.iter_mut().flatten() {
            fill_field_selector(file.field_ref.as_mut());
        }
    }
    if let Some(source) = &mut volume.projected {
        fill::pointer(&mut source.default_mode, FILE_MODE);
        for projection in source.sources.iter_mut().flatten() {
            fill_projection(projection);
        }
    }
    if let Some(template) = volume
        .ephemeral
        .as_mut()
        .and_then(|e| e.volume_claim_template.as_mut())
    {
        claim::fill_defaults(&mut template.spec);
    }
    volume_source(volume);
}

fn fill_projection(projection: &mut VolumeProjection) {
    if let Some(token) = &mut projection.service_account_token {
        fill::pointer(&mut token.expiration_seconds, HOUR_SECONDS);
    }
    if let Some(downward) = &mut projection.downward_api {
        for file in downward.items.iter_mut().flatten() {
            fill_field_selector(file.field_ref.as_mut());
        }
    }
}

/// Sources that persistent volumes have too.
pub(in crate::registry::kinds) fn volume_source(volume: &mut Volume) {
    if let Some(source) = &mut volume.host_path {
        fill::pointer(&mut source.type_, String::new());
    }
    if let Some(iscsi) = &mut volume.iscsi {
        fill::text(&mut iscsi.iscsi_interface, "default");
    }
    if let Some(rbd) = &mut volume.rbd {
        fill::text(&mut rbd.pool, "rbd");
        fill::text(&mut rbd.user, "admin");
        fill::text(&mut rbd.keyring, "/etc/ceph/keyring");
    }
    if let Some(disk) = &mut volume.azure_disk {
        fill::pointer(&mut disk.caching_mode, "ReadWrite".to_owned());
        fill::pointer(&mut disk.kind, "Shared".to_owned());
        fill::pointer(&mut disk.fs_type, "ext4".to_owned());
        fill::pointer(&mut disk.read_only, false);
    }
    if let Some(scale_io) = &mut volume.scale_io {
        fill::text(&mut scale_io.storage_mode, "ThinProvisioned");
        fill::text(&mut scale_io.fs_type, "xfs");
    }
}
