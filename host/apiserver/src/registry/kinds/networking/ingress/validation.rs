//! What makes an Ingress valid, field by field.

use std::net::IpAddr;

use k8s_openapi::api::{
    core::v1::TypedLocalObjectReference,
    networking::v1::{
        HTTPIngressPath, Ingress, IngressBackend, IngressRule, IngressServiceBackend, IngressTLS,
    },
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation,
};

use crate::registry::kinds::{addresses, checks};

const NOT_IN_PATHS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const NOT_AT_THE_END: [&str; 2] = ["/..", "/."];
const NOT_ABSOLUTE: &str = "must be an absolute path";
const NO_NAME: &str = "must be a DNS name, not an IP address";

pub(super) fn validate(ingress: &Ingress) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let spec = ingress.spec.clone().unwrap_or_default();
    let rules = spec.rules.unwrap_or_default();
    if rules.is_empty() && spec.default_backend.is_none() {
        let why = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(&path, serde_json::Value::Null, why));
    }
    if let Some(backend) = &spec.default_backend {
        validate_backend(&mut errors, &path.child("defaultBackend"), backend);
    }
    for (i, rule) in rules.iter().enumerate() {
        validate_rule(&mut errors, &path.child("rules").index(i), rule);
    }
    for (i, tls) in spec.tls.iter().flatten().enumerate() {
        validate_tls(&mut errors, &path.child("tls").index(i), tls);
    }
    if let Some(class) = &spec.ingress_class_name {
        checks::dns_subdomain(&mut errors, &path.child("ingressClassName"), class);
    }
    errors
}

fn validate_tls(errors: &mut ErrorList, path: &Path, tls: &IngressTLS) {
    for (i, host) in tls.hosts.iter().flatten().enumerate() {
        validate_host(errors, &path.child("hosts").index(i), host);
    }
    if let Some(secret) = tls.secret_name.as_deref().filter(|name| !name.is_empty()) {
        checks::dns_subdomain(errors, &path.child("secretName"), secret);
    }
}

/// A host name, or all names below one.
fn validate_host(errors: &mut ErrorList, path: &Path, host: &str) {
    let complaints = match host.contains('*') {
        true => validation::is_wildcard_dns1123_subdomain(host),
        false => validation::is_dns1123_subdomain(host),
    };
    checks::invalid_each(errors, path, host, complaints);
}

fn validate_rule(errors: &mut ErrorList, path: &Path, rule: &IngressRule) {
    if let Some(host) = rule.host.as_deref().filter(|host| !host.is_empty()) {
        let path = path.child("host");
        if host.parse::<IpAddr>().is_ok() {
            errors.push(FieldError::invalid(&path, host, NO_NAME));
        }
        validate_host(errors, &path, host);
    }
    let Some(http) = &rule.http else { return };
    let path = path.child("http").child("paths");
    if http.paths.is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    for (i, http_path) in http.paths.iter().enumerate() {
        validate_path(errors, &path.index(i), http_path);
    }
}

fn validate_path(errors: &mut ErrorList, path: &Path, http_path: &HTTPIngressPath) {
    let value = http_path.path.as_deref().unwrap_or_default();
    let mut refuse = |why: &str| {
        errors.push(FieldError::invalid(&path.child("path"), value, why));
    };
    match http_path.path_type.as_str() {
        "" => {
            let why = "pathType must be specified";
            errors.push(FieldError::required(&path.child("pathType"), why));
            return;
        }
        "Exact" | "Prefix" => {
            if !value.starts_with('/') {
                refuse(NOT_ABSOLUTE);
            }
            for bad in NOT_IN_PATHS.iter().filter(|bad| value.contains(**bad)) {
                refuse(&format!("must not contain '{bad}'"));
            }
            for bad in NOT_AT_THE_END.iter().filter(|bad| value.ends_with(**bad)) {
                refuse(&format!("cannot end with '{bad}'"));
            }
        }
        "ImplementationSpecific" => {
            if !value.is_empty() && !value.starts_with('/') {
                refuse(NOT_ABSOLUTE);
            }
        }
        other => errors.push(FieldError::not_supported(
            &path.child("pathType"),
            other,
            &["Exact", "ImplementationSpecific", "Prefix"],
        )),
    }
    validate_backend(errors, &path.child("backend"), &http_path.backend);
}

fn validate_backend(errors: &mut ErrorList, path: &Path, backend: &IngressBackend) {
    match (&backend.resource, &backend.service) {
        (Some(_), Some(_)) => errors.push(FieldError::invalid(
            path,
            "",
            "cannot set both resource and service backends",
        )),
        (Some(resource), None) => validate_resource(errors, &path.child("resource"), resource),
        (None, Some(service)) => validate_service(errors, path, service),
        (None, None) => errors.push(FieldError::invalid(
            path,
            "",
            "resource or service backend is required",
        )),
    }
}

fn validate_service(errors: &mut ErrorList, path: &Path, service: &IngressServiceBackend) {
    let below = path.child("service");
    checks::required_label(errors, &below.child("name"), &service.name);
    let port = service.port.clone().unwrap_or_default();
    let name = port.name.unwrap_or_default();
    let below = below.child("port");
    match (name.as_str(), port.number.unwrap_or_default()) {
        ("", 0) => errors.push(FieldError::required(
            path,
            "port name or number is required",
        )),
        ("", number) => checks::port_number(errors, &below.child("number"), number),
        (name, 0) => {
            let complaints = validation::is_port_name(name);
            checks::invalid_each(errors, &below.child("name"), name, complaints);
        }
        _ => errors.push(FieldError::invalid(
            path,
            "",
            "cannot set both port name & port number",
        )),
    }
}

fn validate_resource(errors: &mut ErrorList, path: &Path, resource: &TypedLocalObjectReference) {
    if let Some(group) = &resource.api_group {
        checks::dns_subdomain(errors, &path.child("apiGroup"), group);
    }
    checks::required_path_segment(errors, &path.child("kind"), &resource.kind);
    checks::required_path_segment(errors, &path.child("name"), &resource.name);
}

pub(super) fn validate_status(new: &Ingress, old: &Ingress) -> ErrorList {
    let points = |ingress: &Ingress| {
        let status = ingress.status.clone().and_then(|s| s.load_balancer);
        status.and_then(|s| s.ingress).unwrap_or_default()
    };
    let (new, old) = (points(new), points(old));
    let known: Vec<&str> = old.iter().filter_map(|point| point.ip.as_deref()).collect();
    let mut errors = ErrorList::new();
    let path = Path::new("status").child("loadBalancer").child("ingress");
    for (i, point) in new.iter().enumerate() {
        let path = path.index(i);
        if let Some(ip) = point.ip.as_deref().filter(|ip| !ip.is_empty()) {
            addresses::ip(&mut errors, &path.child("ip"), ip, &known);
        }
        if let Some(host) = point.hostname.as_deref().filter(|host| !host.is_empty()) {
            let path = path.child("hostname");
            checks::dns_subdomain(&mut errors, &path, host);
            if host.parse::<IpAddr>().is_ok() {
                errors.push(FieldError::invalid(&path, host, NO_NAME));
            }
        }
    }
    errors
}
