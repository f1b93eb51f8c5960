//! Updates of a pod's status, which the kubelet and the scheduler make.
//! Source: <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/>

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodSpec, PodStatus};
use pilothouse_api::field::{ErrorList, FieldError, Path};
use serde_json::json;

use super::{resources, update};
use crate::registry::kinds::checks;

/// Keeps what a status update may not touch.
pub(super) fn prepare(new: &mut Pod, old: &Pod) {
    new.spec = old.spec.clone();
    new.metadata.deletion_timestamp = old.metadata.deletion_timestamp.clone();
    new.metadata.deletion_grace_period_seconds = old.metadata.deletion_grace_period_seconds;
    new.metadata.owner_references = old.metadata.owner_references.clone();
    let Some(before) = &old.status else { return };
    let status = new.status.get_or_insert_default();
    if status.qos_class.as_deref().unwrap_or_default().is_empty() {
        status.qos_class = before.qos_class.clone();
    }
    keep_observed_generations(status, before);
}

/// A writer that does not know `observedGeneration` does not clear it.
fn keep_observed_generations(status: &mut PodStatus, before: &PodStatus) {
    if status.observed_generation.unwrap_or_default() == 0 {
        status.observed_generation = before.observed_generation;
    }
    for condition in status.conditions.iter_mut().flatten() {
        if condition.observed_generation.unwrap_or_default() == 0 {
            let mut known = before.conditions.iter().flatten();
            let known = known.find(|c| c.type_ == condition.type_);
            condition.observed_generation = known.and_then(|c| c.observed_generation);
        }
    }
}

pub(super) fn validate(new: &Pod, old: &Pod) -> ErrorList {
    let mut errors = update::validate_annotations(new, old);
    update::validate_node_name(&mut errors, new, old);
    let path = Path::new("status");
    let empty = (PodStatus::default(), PodSpec::default());
    let (status, before) = (
        new.status.as_ref().unwrap_or(&empty.0),
        old.status.as_ref().unwrap_or(&empty.0),
    );
    let spec = old.spec.as_ref().unwrap_or(&empty.1);
    for (i, condition) in status.conditions.iter().flatten().enumerate() {
        if !matches!(
            condition.type_.as_str(),
            "PodScheduled" | "Ready" | "Initialized"
        ) {
            let path = Path::new("metadata")
                .child("conditions")
                .index(i)
                .child("Type");
            checks::qualified_name(&mut errors, &path, &condition.type_);
        }
    }
    checks::immutable(
        &mut errors,
        &path.child("qosClass"),
        status.qos_class == before.qos_class,
        json!(status.qos_class),
    );
    validate_transitions(&mut errors, &path, status, before, spec);
    let pod_ips = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str());
    validate_ips(&mut errors, &path.child("podIPs"), pod_ips.collect());
    let host_ips: Vec<&str> = status
        .host_ips
        .iter()
        .flatten()
        .map(|ip| ip.ip.as_str())
        .collect();
    if let Some(first) = host_ips.first()
        && Some(*first) != status.host_ip.as_deref()
    {
        errors.push(FieldError::invalid(
            &path.child("hostIPs").index(0).child("ip"),
            *first,
            "must be equal to `hostIP`",
        ));
    }
    validate_ips(&mut errors, &path.child("hostIPs"), host_ips);
    errors
}

/// A container that has ended for good does not come back.
fn validate_transitions(
    errors: &mut ErrorList,
    path: &Path,
    status: &PodStatus,
    before: &PodStatus,
    spec: &PodSpec,
) {
    let policy = spec.restart_policy.as_deref().unwrap_or_default();
    let own_policy = |name: &str| {
        let containers = spec
            .containers
            .iter()
            .chain(spec.init_containers.iter().flatten());
        containers
            .filter(|c| c.name == name)
            .any(|c| c.restart_policy.is_some() || resources::is_sidecar(c))
    };
    for (field, new, old, policy) in [
        (
            "containerStatuses",
            &status.container_statuses,
            &before.container_statuses,
            policy,
        ),
        (
            "initContainerStatuses",
            &status.init_container_statuses,
            &before.init_container_statuses,
            policy,
        ),
        (
            "ephemeralContainerStatuses",
            &status.ephemeral_container_statuses,
            &before.ephemeral_container_statuses,
            "Never",
        ),
    ] {
        if policy == "Always" {
            continue;
        }
        for (i, old) in old.iter().flatten().enumerate() {
            let Some(exit_code) = exit_code(old) else {
                continue;
            };
            let may_restart = (exit_code != 0 && policy == "OnFailure") || own_policy(&old.name);
            let mut now = new.iter().flatten();
            let revived = now.any(|now| now.name == old.name && self::exit_code(now).is_none());
            if revived && !may_restart {
                errors.push(FieldError::forbidden(
                    &path.child(field).index(i).child("state"),
                    "may not be transitioned to non-terminated state",
                ));
            }
        }
    }
}

fn exit_code(status: &ContainerStatus) -> Option<i32> {
    let terminated = status.state.as_ref()?.terminated.as_ref()?;
    Some(terminated.exit_code)
}

/// One address of each family at most.
fn validate_ips(errors: &mut ErrorList, path: &Path, ips: Vec<&str>) {
    let mut families = HashSet::new();
    let mut seen = HashSet::new();
    for (i, ip) in ips.iter().enumerate() {
        if let Some(parsed) = checks::ip(errors, &path.index(i), ip) {
            families.insert(parsed.is_ipv4());
        }
        if !seen.insert(*ip) {
            errors.push(FieldError::duplicate(&path.index(i), json!({"IP": ip})));
        }
    }
    if ips.len() > 1 && ips.len() != families.len() {
        let shown: Vec<_> = ips.iter().map(|ip| json!({"IP": ip})).collect();
        errors.push(FieldError::invalid(
            path,
            json!(shown),
            "may specify no more than one IP for each IP family",
        ));
    }
}
