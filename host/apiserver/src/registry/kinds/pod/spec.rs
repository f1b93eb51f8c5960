//! The specification of a pod as a whole; each concept has its own file.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodSpec>

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{PodDNSConfig, PodResourceClaim, PodSchedulingGate, PodSpec};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::json;

use super::{
    Owner, affinity,
    containers::{self, Surroundings},
    resources, security, tolerations, volumes,
};
use crate::registry::kinds::checks;

pub(super) fn validate(errors: &mut ErrorList, path: &Path, spec: &PodSpec, owner: &Owner<'_>) {
    let volume_list = spec.volumes.as_deref().unwrap_or_default();
    let volumes = volumes::validate(errors, &path.child("volumes"), volume_list, owner);
    let claims = spec.resource_claims.as_deref().unwrap_or_default();
    validate_claims(errors, &path.child("resourceClaims"), claims);
    let around = Surroundings {
        spec,
        volumes,
        claims: claims.iter().map(|c| c.name.as_str()).collect(),
        owner,
    };
    containers::validate(errors, path, &around);
    containers::validate_init(errors, path, &around);
    resources::validate_pod_level(errors, &path.child("resources"), spec);
    containers::validate_host_network(errors, path, spec, owner);
    security::validate_pod(errors, path, spec);
    validate_choices(errors, path, spec);
    validate_placement(errors, path, spec);
    validate_names(errors, path, spec);
    validate_dns(errors, path, spec);
    if let Some(seconds) = spec.active_deadline_seconds {
        let path = path.child("activeDeadlineSeconds");
        for why in validation::is_in_range(seconds, 1, i32::MAX.into()) {
            errors.push(FieldError::invalid(&path, seconds, &why));
        }
    }
    for (i, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        let path = path.child("readinessGates").index(i).child("conditionType");
        checks::qualified_name(errors, &path, &gate.condition_type);
    }
    let gates = spec.scheduling_gates.as_deref().unwrap_or_default();
    validate_gates(errors, &path.child("schedulingGates"), gates);
    if let Some(overhead) = &spec.overhead {
        resources::validate_overhead(errors, &path.child("overhead"), overhead);
    }
}

fn validate_choices(errors: &mut ErrorList, path: &Path, spec: &PodSpec) {
    checks::required_one_of(
        errors,
        &path.child("restartPolicy"),
        spec.restart_policy.as_deref(),
        &["Always", "OnFailure", "Never"],
    );
    checks::required_one_of(
        errors,
        &path.child("dnsPolicy"),
        spec.dns_policy.as_deref(),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    if let Some(policy) = &spec.preemption_policy {
        validate_preemption_policy(errors, &path.child("preemptionPolicy"), policy);
    }
    if let Some(os) = &spec.os {
        let path = path.child("os");
        match os.name.as_str() {
            "" => errors.push(FieldError::required(&path.child("name"), "cannot be empty")),
            name => checks::one_of(errors, &path, name, &["linux", "windows"]),
        }
    }
}

/// `PreemptLowerPriority` or `Never`, of pods and priority classes.
pub(in crate::registry::kinds) fn validate_preemption_policy(
    errors: &mut ErrorList,
    path: &Path,
    policy: &str,
) {
    checks::required_one_of(
        errors,
        path,
        Some(policy),
        &["PreemptLowerPriority", "Never"],
    );
}

fn validate_placement(errors: &mut ErrorList, path: &Path, spec: &PodSpec) {
    checks::labels(
        errors,
        &path.child("nodeSelector"),
        spec.node_selector.as_ref(),
    );
    if let Some(affinity) = &spec.affinity {
        affinity::validate(errors, &path.child("affinity"), affinity);
    }
    let constraints = spec.topology_spread_constraints.as_deref();
    affinity::validate_spread(
        errors,
        &path.child("topologySpreadConstraints"),
        constraints.unwrap_or_default(),
    );
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    tolerations::validate(errors, &path.child("tolerations"), tolerations);
}

fn validate_names(errors: &mut ErrorList, path: &Path, spec: &PodSpec) {
    for (field, name) in [
        ("serviceAccountName", &spec.service_account_name),
        ("nodeName", &spec.node_name),
        ("priorityClassName", &spec.priority_class_name),
        ("runtimeClassName", &spec.runtime_class_name),
    ] {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            checks::dns_subdomain(errors, &path.child(field), name);
        }
    }
    for (field, label) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        if let Some(label) = label.as_deref().filter(|label| !label.is_empty()) {
            checks::dns_label(errors, &path.child(field), label);
        }
    }
    if let Some(name) = spec.hostname_override.as_deref() {
        let path = path.child("hostnameOverride");
        checks::dns_subdomain(errors, &path, name);
        if name.len() > 64 {
            errors.push(FieldError::too_long(&path, 64));
        }
        if spec.host_network == Some(true) {
            errors.push(FieldError::forbidden(
                &path,
                "may not be specified when hostNetwork is true",
            ));
        }
        if spec.set_hostname_as_fqdn == Some(true) {
            errors.push(FieldError::forbidden(
                &path,
                "may not be specified when setHostnameAsFQDN is true",
            ));
        }
    }
}

fn validate_dns(errors: &mut ErrorList, path: &Path, spec: &PodSpec) {
    for (i, alias) in spec.host_aliases.iter().flatten().enumerate() {
        let path = path.child("hostAliases").index(i);
        checks::ip(errors, &path.child("ip"), &alias.ip);
        for (j, name) in alias.hostnames.iter().flatten().enumerate() {
            checks::dns_subdomain(errors, &path.child("hostnames").index(j), name);
        }
    }
    let path = path.child("dnsConfig");
    let config = spec.dns_config.as_ref();
    if spec.dns_policy.as_deref() == Some("None") {
        let servers = config.and_then(|c| c.nameservers.as_ref());
        if config.is_none() {
            errors.push(FieldError::required(
                &path,
                "must provide `dnsConfig` when `dnsPolicy` is None",
            ));
        } else if servers.is_none_or(|s| s.is_empty()) {
            errors.push(FieldError::required(
                &path.child("nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            ));
        }
    }
    if let Some(config) = config {
        validate_dns_config(errors, &path, config);
    }
}

fn validate_dns_config(errors: &mut ErrorList, path: &Path, config: &PodDNSConfig) {
    const MAX_SERVERS: usize = 3;
    const MAX_SEARCHES: usize = 32;
    const MAX_SEARCH_CHARACTERS: usize = 2048;
    let servers_path = path.child("nameservers");
    let servers = config.nameservers.as_deref().unwrap_or_default();
    if servers.len() > MAX_SERVERS {
        let why = format!("must not have more than {MAX_SERVERS} nameservers");
        errors.push(FieldError::invalid(&servers_path, json!(servers), &why));
    }
    for (i, server) in servers.iter().enumerate() {
        checks::ip(errors, &servers_path.index(i), server);
    }
    let searches_path = path.child("searches");
    let searches = config.searches.as_deref().unwrap_or_default();
    if searches.len() > MAX_SEARCHES {
        let why = format!("must not have more than {MAX_SEARCHES} search paths");
        errors.push(FieldError::invalid(&searches_path, json!(searches), &why));
    }
    if searches.join(" ").len() > MAX_SEARCH_CHARACTERS {
        let why = format!(
            "must not have more than {MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        );
        errors.push(FieldError::invalid(&searches_path, json!(searches), &why));
    }
    for (i, search) in searches.iter().enumerate().filter(|(_, s)| *s != ".") {
        let name = search.strip_suffix('.').unwrap_or(search);
        // search paths may hold underscores, which are checked as if they were dashes inside a label
        let complaints = validation::is_dns1123_subdomain(&name.replace('_', "a"));
        checks::invalid_each(errors, &searches_path.index(i), name, complaints);
    }
    for (i, option) in config.options.iter().flatten().enumerate() {
        if option.name.as_deref().unwrap_or_default().is_empty() {
            let path = path.child("options").index(i);
            errors.push(FieldError::required(&path, "must not be empty"));
        }
    }
}

fn validate_gates(errors: &mut ErrorList, path: &Path, gates: &[PodSchedulingGate]) {
    let mut seen = HashSet::new();
    for (i, gate) in gates.iter().enumerate() {
        checks::qualified_name(errors, &path.index(i), &gate.name);
        if !seen.insert(gate.name.as_str()) {
            errors.push(FieldError::duplicate(&path.index(i), gate.name.as_str()));
        }
    }
}

fn validate_claims(errors: &mut ErrorList, path: &Path, claims: &[PodResourceClaim]) {
    let mut seen = HashSet::new();
    for (i, claim) in claims.iter().enumerate() {
        let path = path.index(i);
        if !claim.name.is_empty() && !seen.insert(claim.name.as_str()) {
            let path = path.child("name");
            errors.push(FieldError::duplicate(&path, claim.name.as_str()));
        } else {
            checks::required_label(errors, &path.child("name"), &claim.name);
        }
        let shown = json!({
            "Name": claim.name,
            "ResourceClaimName": claim.resource_claim_name,
            "ResourceClaimTemplateName": claim.resource_claim_template_name,
        });
        match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
            (Some(_), Some(_)) => errors.push(FieldError::invalid(
                &path,
                shown,
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            )),
            (None, None) => errors.push(FieldError::invalid(
                &path,
                shown,
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            )),
            _ => {}
        }
        for (field, name) in [
            ("resourceClaimName", &claim.resource_claim_name),
            (
                "resourceClaimTemplateName",
                &claim.resource_claim_template_name,
            ),
        ] {
            if let Some(name) = name {
                checks::dns_subdomain(errors, &path.child(field), name);
            }
        }
    }
}
