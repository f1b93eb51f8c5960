//! Security contexts of pods and containers.
//! Source: <https://kubernetes.io/docs/tasks/configure-pod-container/security-context/>

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext, Sysctl,
};
use pilothouse_api::field::{ErrorList, FieldError, Path};
use serde_json::json;

use super::paths;
use crate::registry::kinds::checks;

const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const SYSCTL_MAX: usize = 253;

/// Whether the pod's users are the node's; the default.
fn host_users(spec: &PodSpec) -> bool {
    spec.host_users != Some(false)
}

pub(super) fn validate_pod(errors: &mut ErrorList, path: &Path, spec: &PodSpec) {
    if let Some(context) = &spec.security_context {
        validate_context(errors, &path.child("securityContext"), context, spec);
    }
    if !host_users(spec) {
        let shared = [
            ("hostNetwork", spec.host_network),
            ("HostPID", spec.host_pid),
            ("HostIPC", spec.host_ipc),
        ];
        for (field, _) in shared.iter().filter(|(_, on)| *on == Some(true)) {
            errors.push(FieldError::forbidden(
                &path.child(field),
                "when `hostUsers` is false",
            ));
        }
    }
}

fn validate_context(
    errors: &mut ErrorList,
    path: &Path,
    context: &PodSecurityContext,
    spec: &PodSpec,
) {
    checks::id(errors, &path.child("fsGroup"), context.fs_group);
    checks::id(errors, &path.child("runAsUser"), context.run_as_user);
    checks::id(errors, &path.child("runAsGroup"), context.run_as_group);
    for (i, group) in context.supplemental_groups.iter().flatten().enumerate() {
        checks::id(
            errors,
            &path.child("supplementalGroups").index(i),
            Some(*group),
        );
    }
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        errors.push(FieldError::invalid(
            &path.child("shareProcessNamespace"),
            true,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        ));
    }
    let sysctls = context.sysctls.as_deref().unwrap_or_default();
    validate_sysctls(errors, &path.child("sysctls"), sysctls, spec);
    for (field, value, supported) in [
        (
            "fsGroupChangePolicy",
            &context.fs_group_change_policy,
            ["Always", "OnRootMismatch"],
        ),
        (
            "supplementalGroupsPolicy",
            &context.supplemental_groups_policy,
            ["Merge", "Strict"],
        ),
        (
            "seLinuxChangePolicy",
            &context.se_linux_change_policy,
            ["MountOption", "Recursive"],
        ),
    ] {
        if let Some(value) = value {
            checks::one_of(errors, &path.child(field), value, &supported);
        }
    }
    validate_seccomp(errors, path, context.seccomp_profile.as_ref());
    validate_app_armor(errors, path, context.app_armor_profile.as_ref());
}

/// The security context of one container.
pub(super) fn validate_container(
    errors: &mut ErrorList,
    path: &Path,
    context: &SecurityContext,
    spec: &PodSpec,
) {
    checks::id(errors, &path.child("runAsUser"), context.run_as_user);
    checks::id(errors, &path.child("runAsGroup"), context.run_as_group);
    if let Some(mount) = context.proc_mount.as_deref() {
        let path = path.child("procMount");
        checks::one_of(errors, &path, mount, &["Default", "Unmasked"]);
        if mount == "Unmasked" && host_users(spec) {
            errors.push(FieldError::invalid(
                &path,
                mount,
                "`hostUsers` must be false to use `Unmasked`",
            ));
        }
    }
    validate_seccomp(errors, path, context.seccomp_profile.as_ref());
    if context.allow_privilege_escalation == Some(false) {
        let shown = json!({"allowPrivilegeEscalation": false, "privileged": context.privileged});
        if context.privileged == Some(true) {
            errors.push(FieldError::invalid(
                path,
                shown.clone(),
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ));
        }
        let added = context.capabilities.as_ref().and_then(|c| c.add.as_ref());
        if added.is_some_and(|add| add.iter().any(|c| c == "CAP_SYS_ADMIN")) {
            errors.push(FieldError::invalid(
                path,
                shown,
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            ));
        }
    }
    validate_app_armor(errors, path, context.app_armor_profile.as_ref());
}

fn validate_seccomp(errors: &mut ErrorList, path: &Path, profile: Option<&SeccompProfile>) {
    let Some(profile) = profile else { return };
    let path = path.child("seccompProfile");
    match profile.type_.as_str() {
        "" => errors.push(FieldError::required(
            &path.child("type"),
            "type is required when seccompProfile is set",
        )),
        kind => checks::one_of(errors, &path.child("type"), kind, &PROFILE_TYPES),
    }
    let local_path = path.child("localhostProfile");
    match (profile.type_.as_str(), &profile.localhost_profile) {
        ("Localhost", None) => errors.push(FieldError::required(
            &local_path,
            "must be set when seccomp type is Localhost",
        )),
        ("Localhost", Some(local)) => paths::descending(errors, &local_path, local),
        (_, Some(local)) => errors.push(FieldError::invalid(
            &local_path,
            json!({"Type": profile.type_, "LocalhostProfile": local}),
            "can only be set when seccomp type is Localhost",
        )),
        (_, None) => {}
    }
}

fn validate_app_armor(errors: &mut ErrorList, path: &Path, profile: Option<&AppArmorProfile>) {
    const MAX: usize = 4095;
    const NEEDED: &str = "must be set when AppArmor type is Localhost";
    let Some(profile) = profile else { return };
    let path = path.child("appArmorProfile");
    match profile.type_.as_str() {
        "" => errors.push(FieldError::required(
            &path.child("type"),
            "type is required when appArmorProfile is set",
        )),
        kind => checks::one_of(errors, &path.child("type"), kind, &PROFILE_TYPES),
    }
    let local_path = path.child("localhostProfile");
    match (profile.type_.as_str(), profile.localhost_profile.as_deref()) {
        ("Localhost", None | Some("")) => errors.push(FieldError::required(&local_path, NEEDED)),
        ("Localhost", Some(local)) => {
            if local.trim() != local {
                errors.push(FieldError::invalid(
                    &local_path,
                    local,
                    "must not be padded with whitespace",
                ));
            }
            if local.len() > MAX {
                errors.push(FieldError::too_long(&local_path, MAX));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(local)) => errors.push(FieldError::invalid(
            &local_path,
            local,
            "can only be set when AppArmor type is Localhost",
        )),
        _ => {}
    }
}

fn validate_sysctls(errors: &mut ErrorList, path: &Path, sysctls: &[Sysctl], spec: &PodSpec) {
    let mut seen = HashSet::new();
    for (i, sysctl) in sysctls.iter().enumerate() {
        let path = path.index(i).child("name");
        let name = sysctl.name.as_str();
        if name.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if !is_sysctl_name(name) {
            errors.push(FieldError::invalid(
                &path,
                name,
                "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            ));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path, name));
        }
        let dotted = name.replace('/', ".");
        let shared = match dotted.as_str() {
            name if name.starts_with("net.") && spec.host_network == Some(true) => "hostNetwork",
            name if is_ipc_sysctl(name) && spec.host_ipc == Some(true) => "hostIPC",
            _ => continue,
        };
        errors.push(FieldError::invalid(
            &path,
            name,
            &format!("may not be specified when '{shared}' is true"),
        ));
    }
}

fn is_ipc_sysctl(name: &str) -> bool {
    name == "kernel.sem"
        || ["kernel.shm", "kernel.msg", "fs.mqueue."]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Segments of `a-z0-9-_` that begin and end with a letter or digit, joined by dots or slashes.
fn is_sysctl_name(name: &str) -> bool {
    let outer = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let segment = |segment: &str| {
        let bytes = segment.as_bytes();
        let inner = |b: &u8| outer(Some(*b)) || matches!(b, b'-' | b'_');
        outer(bytes.first().copied()) && outer(bytes.last().copied()) && bytes.iter().all(inner)
    };
    name.len() <= SYSCTL_MAX && name.split(['.', '/']).all(segment)
}
