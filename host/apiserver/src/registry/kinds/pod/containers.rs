//! Containers and init containers. Source: <https://kubernetes.io/docs/concepts/containers/> and
//! <https://kubernetes.io/docs/concepts/workloads/pods/init-containers/>

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, ContainerResizePolicy, ContainerRestartRule, PodSpec,
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::json;

use super::{Owner, env, mounts, probes, resources, security};
use crate::registry::kinds::checks;

/// What containers are checked against.
pub(super) struct Surroundings<'a> {
    pub(super) spec: &'a PodSpec,
    pub(super) volumes: mounts::Volumes<'a>,
    /// The names in `spec.resourceClaims`.
    pub(super) claims: HashSet<&'a str>,
    pub(super) owner: &'a Owner<'a>,
}

pub(super) fn validate(errors: &mut ErrorList, path: &Path, around: &Surroundings<'_>) {
    let containers = &around.spec.containers;
    let grace = around.spec.termination_grace_period_seconds;
    let path = path.child("containers");
    if containers.is_empty() {
        errors.push(FieldError::required(&path, ""));
        return;
    }
    let mut names = HashSet::new();
    for (i, container) in containers.iter().enumerate() {
        let path = path.index(i);
        validate_common(errors, &path, container, around);
        if !names.insert(container.name.as_str()) {
            let path = path.child("name");
            errors.push(FieldError::duplicate(&path, container.name.as_str()));
        }
        probes::validate(errors, &path, container, grace);
    }
    let mut taken = HashSet::new();
    for (i, container) in containers.iter().enumerate() {
        validate_host_ports(errors, &path.index(i), container, &mut taken);
    }
}

pub(super) fn validate_init(errors: &mut ErrorList, path: &Path, around: &Surroundings<'_>) {
    let grace = around.spec.termination_grace_period_seconds;
    let containers = around.spec.containers.iter();
    let mut names: HashSet<&str> = containers.map(|c| c.name.as_str()).collect();
    let path = path.child("initContainers");
    let init = around.spec.init_containers.iter().flatten();
    for (i, container) in init.enumerate() {
        let path = path.index(i);
        validate_common(errors, &path, container, around);
        if !container.name.is_empty() && !names.insert(&container.name) {
            let path = path.child("name");
            errors.push(FieldError::duplicate(&path, container.name.as_str()));
        }
        // init containers run one by one, so only their own ports can collide
        validate_host_ports(errors, &path, container, &mut HashSet::new());
        match resources::is_sidecar(container) {
            true => probes::validate(errors, &path, container, grace),
            false => probes::forbid(errors, &path, container),
        }
    }
}

pub(super) fn validate_common(
    errors: &mut ErrorList,
    path: &Path,
    container: &Container,
    around: &Surroundings<'_>,
) {
    checks::required_label(errors, &path.child("name"), &container.name);
    let image = container.image.as_deref().unwrap_or_default();
    checks::required(errors, &path.child("image"), image);
    if around.owner.is_pod() && image.trim() != image {
        errors.push(FieldError::invalid(
            &path.child("image"),
            image,
            "must not have leading or trailing whitespace",
        ));
    }
    checks::required_one_of(
        errors,
        &path.child("terminationMessagePolicy"),
        container.termination_message_policy.as_deref(),
        &["FallbackToLogsOnError", "File"],
    );
    let ports = container.ports.as_deref().unwrap_or_default();
    validate_ports(errors, &path.child("ports"), ports);
    env::validate(errors, path, container);
    mounts::validate(errors, path, container, &around.volumes);
    let policy = container.image_pull_policy.as_deref();
    validate_pull_policy(errors, &path.child("imagePullPolicy"), policy);
    if let Some(requirements) = &container.resources {
        let path = path.child("resources");
        resources::validate_container(errors, &path, requirements, &around.claims);
    }
    let pod_policy = around.spec.restart_policy.as_deref().unwrap_or_default();
    let policies = container.resize_policy.as_deref().unwrap_or_default();
    validate_resize_policies(errors, &path.child("resizePolicy"), policies, pod_policy);
    validate_restart_policy(errors, path, container);
    if let Some(context) = &container.security_context {
        let path = path.child("securityContext");
        security::validate_container(errors, &path, context, around.spec);
    }
}

fn validate_ports(errors: &mut ErrorList, path: &Path, ports: &[ContainerPort]) {
    let mut names = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = port.name.as_deref().unwrap_or_default();
        if !name.is_empty() {
            let complaints = validation::is_port_name(name);
            let path = path.child("name");
            if !complaints.is_empty() {
                checks::invalid_each(errors, &path, name, complaints);
            } else if !names.insert(name) {
                errors.push(FieldError::duplicate(&path, name));
            }
        }
        match port.container_port {
            0 => errors.push(FieldError::required(&path.child("containerPort"), "")),
            number => checks::port_number(errors, &path.child("containerPort"), number),
        }
        if let Some(number) = port.host_port.filter(|n| *n != 0) {
            checks::port_number(errors, &path.child("hostPort"), number);
        }
        checks::protocol(errors, &path.child("protocol"), port.protocol.as_deref());
    }
}

/// No two containers that run side by side listen on the same port of the node.
fn validate_host_ports(
    errors: &mut ErrorList,
    path: &Path,
    container: &Container,
    taken: &mut HashSet<String>,
) {
    for (i, port) in container.ports.iter().flatten().enumerate() {
        let Some(number) = port.host_port.filter(|n| *n != 0) else {
            continue;
        };
        let protocol = port.protocol.as_deref().unwrap_or_default();
        let ip = port.host_ip.as_deref().unwrap_or_default();
        let key = format!("{protocol}/{ip}/{number}");
        if !taken.insert(key.clone()) {
            let path = path.child("ports").index(i).child("hostPort");
            errors.push(FieldError::duplicate(&path, key));
        }
    }
}

/// `Always`, `IfNotPresent` or `Never`.
pub(super) fn validate_pull_policy(errors: &mut ErrorList, path: &Path, policy: Option<&str>) {
    checks::required_one_of(errors, path, policy, &["Always", "IfNotPresent", "Never"]);
}

fn validate_resize_policies(
    errors: &mut ErrorList,
    path: &Path,
    policies: &[ContainerResizePolicy],
    pod_policy: &str,
) {
    let mut seen = HashSet::new();
    for (i, policy) in policies.iter().enumerate() {
        let name = policy.resource_name.as_str();
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.index(i), name));
        }
        checks::required_one_of(errors, path, Some(name), &["cpu", "memory"]);
        let restart = policy.restart_policy.as_str();
        checks::required_one_of(
            errors,
            path,
            Some(restart),
            &["NotRequired", "RestartContainer"],
        );
        if pod_policy == "Never" && restart != "NotRequired" {
            errors.push(FieldError::invalid(
                path,
                restart,
                "must be 'NotRequired' when `restartPolicy` is 'Never'",
            ));
        }
    }
}

fn validate_restart_policy(errors: &mut ErrorList, path: &Path, container: &Container) {
    let rules_path = path.child("restartPolicyRules");
    let rules = container
        .restart_policy_rules
        .as_deref()
        .unwrap_or_default();
    match container.restart_policy.as_deref() {
        Some(policy) => checks::one_of(
            errors,
            &path.child("restartPolicy"),
            policy,
            &["Always", "Never", "OnFailure"],
        ),
        None if !rules.is_empty() => errors.push(FieldError::required(
            &path.child("restartPolicy"),
            "must specify restartPolicy when restart rules are used",
        )),
        None => {}
    }
    if rules.len() > 20 {
        errors.push(FieldError::too_many(&rules_path, rules.len(), 20));
    }
    for (i, rule) in rules.iter().enumerate() {
        validate_restart_rule(errors, &rules_path.index(i), rule);
    }
}

fn validate_restart_rule(errors: &mut ErrorList, path: &Path, rule: &ContainerRestartRule) {
    let action = Some(rule.action.as_str());
    checks::required_one_of(
        errors,
        &path.child("action"),
        action,
        &["Restart", "RestartAllContainers"],
    );
    let path = path.child("exitCodes");
    let Some(codes) = &rule.exit_codes else {
        errors.push(FieldError::required(&path, "must be specified"));
        return;
    };
    let operator = Some(codes.operator.as_str());
    checks::required_one_of(errors, &path.child("operator"), operator, &["In", "NotIn"]);
    let values = codes.values.as_deref().unwrap_or_default();
    if values.is_empty() {
        let path = path.child("values");
        errors.push(FieldError::required(
            &path,
            "at least one value must be specified",
        ));
    } else if values.len() > 255 {
        errors.push(FieldError::too_many(
            &path.child("values"),
            values.len(),
            255,
        ));
    }
}

/// With the node's network, a container's port is the node's; templates may leave that to the pods made from them.
pub(super) fn validate_host_network(
    errors: &mut ErrorList,
    path: &Path,
    spec: &PodSpec,
    owner: &Owner<'_>,
) {
    if spec.host_network != Some(true) {
        return;
    }
    for (c, container) in spec.containers.iter().enumerate() {
        for (p, port) in container.ports.iter().flatten().enumerate() {
            let number = port.host_port.unwrap_or_default();
            if (owner.is_pod() || number != 0) && number != port.container_port {
                let path = path.child("containers").index(c).child("ports").index(p);
                errors.push(FieldError::invalid(
                    &path.child("hostPort"),
                    json!(number),
                    "must match `containerPort` when `hostNetwork` is true",
                ));
            }
        }
    }
}
