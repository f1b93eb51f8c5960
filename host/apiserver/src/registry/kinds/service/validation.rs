//! Rules of Services.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::json;

use super::{
    CLUSTER_IP, EXTERNAL_NAME, HEADLESS, LOAD_BALANCER, NODE_PORT, is_headless,
    is_reachable_from_outside, kind_of, needs_cluster_ip, needs_health_check_port,
};
use crate::registry::kinds::checks;

const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const ONCE_SET: &str = "may not change once set";
const AFFINITY_MAX_SECONDS: i32 = 86_400;

pub(super) fn validate(service: &Service) -> ErrorList {
    let mut errors = ErrorList::new();
    let empty = ServiceSpec::default();
    let spec = service.spec.as_ref().unwrap_or(&empty);
    let path = Path::new("spec");
    validate_type(&mut errors, &path, spec);
    validate_ports(&mut errors, &path.child("ports"), spec);
    checks::labels(&mut errors, &path.child("selector"), spec.selector.as_ref());
    validate_affinity(&mut errors, &path, spec);
    validate_cluster_ips(&mut errors, spec);
    for (i, ip) in spec.external_ips.iter().flatten().enumerate() {
        checks::endpoint_ip(&mut errors, &path.child("externalIPs").index(i), ip);
    }
    validate_load_balancer(&mut errors, &path, spec);
    validate_traffic(&mut errors, &path, spec);
    errors
}

fn validate_type(errors: &mut ErrorList, path: &Path, spec: &ServiceSpec) {
    let kind = kind_of(spec);
    let ports = spec.ports.as_deref().unwrap_or_default();
    if ports.is_empty() && !is_headless(spec) && kind != EXTERNAL_NAME {
        errors.push(FieldError::required(&path.child("ports"), ""));
    }
    match kind {
        LOAD_BALANCER | NODE_PORT if is_headless(spec) => errors.push(FieldError::invalid(
            &path.child("clusterIPs").index(0),
            HEADLESS,
            &format!("may not be set to 'None' for {kind} services"),
        )),
        EXTERNAL_NAME => validate_external_name(errors, path, spec),
        _ => {}
    }
    checks::required_one_of(
        errors,
        &path.child("type"),
        Some(kind),
        &[CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT],
    );
}

fn validate_external_name(errors: &mut ErrorList, path: &Path, spec: &ServiceSpec) {
    let some = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|l| !l.is_empty());
    for (field, set) in [
        ("clusterIPs", some(&spec.cluster_ips)),
        ("ipFamilies", some(&spec.ip_families)),
        ("ipFamilyPolicy", spec.ip_family_policy.is_some()),
    ] {
        if set {
            errors.push(FieldError::forbidden(
                &path.child(field),
                "may not be set for ExternalName services",
            ));
        }
    }
    let name = spec.external_name.as_deref().unwrap_or_default();
    let name = name.strip_suffix('.').unwrap_or(name); // a name may end in a dot to be fully qualified
    checks::required_subdomain(errors, &path.child("externalName"), name);
}

fn validate_ports(errors: &mut ErrorList, path: &Path, spec: &ServiceSpec) {
    let ports = spec.ports.as_deref().unwrap_or_default();
    let mut names = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        validate_port(errors, &path.index(i), port, ports.len() > 1);
        let name = port.name.as_deref().unwrap_or_default();
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(&path.index(i).child("name"), name));
        }
    }
    let (mut node_ports, mut numbers) = (HashSet::new(), HashSet::new());
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let protocol = port.protocol.as_deref().unwrap_or_default();
        let node_port = port.node_port.unwrap_or_default();
        if node_port != 0 && kind_of(spec) == CLUSTER_IP {
            errors.push(FieldError::forbidden(
                &path.child("nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            ));
        }
        if node_port != 0 && !node_ports.insert((protocol, node_port)) {
            errors.push(FieldError::duplicate(&path.child("nodePort"), node_port));
        }
        if !numbers.insert((protocol, port.port)) {
            let value = json!({"Name": "", "Protocol": protocol, "AppProtocol": null, "Port": port.port, "TargetPort": 0, "NodePort": 0});
            errors.push(FieldError::duplicate(&path, value));
        }
    }
}

fn validate_port(errors: &mut ErrorList, path: &Path, port: &ServicePort, named: bool) {
    match port.name.as_deref().unwrap_or_default() {
        "" if named => errors.push(FieldError::required(&path.child("name"), "")),
        "" => {}
        name => checks::dns_label(errors, &path.child("name"), name),
    }
    checks::port_number(errors, &path.child("port"), port.port);
    checks::protocol(errors, &path.child("protocol"), port.protocol.as_deref());
    if let Some(target) = &port.target_port {
        checks::port_number_or_name(errors, &path.child("targetPort"), target);
    }
    if let Some(protocol) = &port.app_protocol {
        checks::qualified_name(errors, &path.child("appProtocol"), protocol);
    }
}

fn validate_affinity(errors: &mut ErrorList, path: &Path, spec: &ServiceSpec) {
    let affinity = spec.session_affinity.as_deref();
    let config = spec.session_affinity_config.as_ref();
    checks::required_one_of(
        errors,
        &path.child("sessionAffinity"),
        affinity,
        &["ClientIP", "None"],
    );
    let path = path.child("sessionAffinityConfig");
    match affinity {
        Some("None") if config.is_some() => errors.push(FieldError::forbidden(
            &path,
            "must not be set when session affinity is None",
        )),
        Some("ClientIP") => {
            let client_ip = config.and_then(|c| c.client_ip.as_ref());
            let path = path.child("clientIP").child("timeoutSeconds");
            match client_ip.and_then(|c| c.timeout_seconds) {
                None => errors.push(FieldError::required(
                    &path,
                    "when session affinity type is ClientIP",
                )),
                Some(seconds) if !(1..=AFFINITY_MAX_SECONDS).contains(&seconds) => {
                    let why =
                        format!("must be greater than 0 and less than {AFFINITY_MAX_SECONDS}");
                    errors.push(FieldError::invalid(&path, seconds, &why));
                }
                Some(_) => {}
            }
        }
        _ => {}
    }
}

/// `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` against each other.
pub(super) fn validate_cluster_ips(errors: &mut ErrorList, spec: &ServiceSpec) {
    if kind_of(spec) == EXTERNAL_NAME {
        return;
    }
    let path = Path::new("spec");
    let ips_path = path.child("clusterIPs");
    let ips = spec.cluster_ips.as_deref().unwrap_or_default();
    match (spec.cluster_ip.as_deref().unwrap_or_default(), ips) {
        ("", []) => {}
        ("", _) => errors.push(FieldError::invalid(
            &ips_path,
            json!(ips),
            "must be empty when `clusterIP` is not specified",
        )),
        (_, []) => errors.push(FieldError::required(&ips_path, "")),
        (single, [first, ..]) if first != single => errors.push(FieldError::invalid(
            &ips_path,
            json!(ips),
            "first value must match `clusterIP`",
        )),
        _ => {}
    }
    let mut seen = HashSet::new();
    for (i, family) in spec.ip_families.iter().flatten().enumerate() {
        let path = path.child("ipFamilies").index(i);
        checks::one_of(errors, &path, family, &["IPv4", "IPv6"]);
        if !seen.insert(family) {
            errors.push(FieldError::duplicate(&path, family.as_str()));
        }
    }
    if let Some(policy) = &spec.ip_family_policy {
        let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        checks::one_of(errors, &path.child("ipFamilyPolicy"), policy, &policies);
    }
    validate_addresses(errors, &ips_path, spec, ips);
}

fn validate_addresses(errors: &mut ErrorList, path: &Path, spec: &ServiceSpec, ips: &[String]) {
    let before = errors.len();
    for (i, ip) in ips.iter().enumerate() {
        match (i, ip.as_str()) {
            (0, HEADLESS) if ips.len() > 1 => errors.push(FieldError::invalid(
                path,
                json!(ips),
                "'None' must be the first and only value",
            )),
            (0, HEADLESS) => {}
            (_, ip) => {
                checks::ip(errors, &path.index(i), ip);
            }
        }
    }
    if ips.len() > 2 {
        let why = "may only hold up to 2 values";
        errors.push(FieldError::invalid(path, json!(ips), why));
    }
    if errors.len() > before || is_headless(spec) {
        return;
    }
    let is_ipv6 = |ip: &String| ip.contains(':');
    if ips.len() == 2 && is_ipv6(&ips[0]) == is_ipv6(&ips[1]) {
        errors.push(FieldError::invalid(
            path,
            json!(ips),
            "may specify no more than one IP for each IP family",
        ));
    }
    for (i, (ip, family)) in ips
        .iter()
        .zip(spec.ip_families.iter().flatten())
        .enumerate()
    {
        if is_ipv6(ip) != (family == "IPv6") {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.push(FieldError::invalid(&path.index(i), ip.as_str(), &why));
        }
    }
}

fn validate_load_balancer(errors: &mut ErrorList, path: &Path, spec: &ServiceSpec) {
    let balanced = kind_of(spec) == LOAD_BALANCER;
    let ranges = spec
        .load_balancer_source_ranges
        .as_deref()
        .unwrap_or_default();
    let ranges_path = path.child("LoadBalancerSourceRanges");
    let allocate_path = path.child("allocateLoadBalancerNodePorts");
    let class_path = path.child("loadBalancerClass");
    if !balanced {
        for (path, set) in [
            (&ranges_path, !ranges.is_empty()),
            (
                &allocate_path,
                spec.allocate_load_balancer_node_ports.is_some(),
            ),
            (&class_path, spec.load_balancer_class.is_some()),
        ] {
            if set {
                errors.push(FieldError::forbidden(path, ONLY_LOAD_BALANCER));
            }
        }
    } else if let Some(class) = &spec.load_balancer_class {
        checks::qualified_name(errors, &class_path, class);
    }
    for (i, range) in ranges.iter().enumerate() {
        checks::cidr(errors, &ranges_path.index(i), range.trim());
    }
}

fn validate_traffic(errors: &mut ErrorList, path: &Path, spec: &ServiceSpec) {
    let external_path = path.child("externalTrafficPolicy");
    let external = spec.external_traffic_policy.as_deref().unwrap_or_default();
    if is_reachable_from_outside(spec) {
        checks::required_one_of(
            errors,
            &external_path,
            Some(external),
            &["Cluster", "Local"],
        );
    } else if !external.is_empty() {
        errors.push(FieldError::invalid(
            &external_path,
            external,
            "may only be set for externally-accessible services",
        ));
    }
    let health_path = path.child("healthCheckNodePort");
    let health = spec.health_check_node_port.unwrap_or_default();
    match (needs_health_check_port(spec), health) {
        (_, 0) => {} // one is taken when the Service is stored
        (true, port) => checks::port_number(errors, &health_path, port),
        (false, port) => errors.push(FieldError::invalid(
            &health_path,
            port,
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        )),
    }
    let internal_path = path.child("internalTrafficPolicy");
    match spec.internal_traffic_policy.as_deref() {
        None if needs_cluster_ip(spec) => errors.push(FieldError::required(&internal_path, "")),
        None => {}
        Some(policy) => checks::one_of(errors, &internal_path, policy, &["Cluster", "Local"]),
    }
    if let Some(distribution) = &spec.traffic_distribution {
        let supported = ["PreferClose", "PreferSameNode", "PreferSameZone"];
        let path = path.child("trafficDistribution");
        checks::one_of(errors, &path, distribution, &supported);
    }
}

pub(super) fn validate_update(new: &Service, old: &Service) -> ErrorList {
    let mut errors = ErrorList::new();
    let empty = ServiceSpec::default();
    let path = Path::new("spec");
    let (new, old) = (
        new.spec.as_ref().unwrap_or(&empty),
        old.spec.as_ref().unwrap_or(&empty),
    );
    if needs_cluster_ip(new) && needs_cluster_ip(old) {
        let both_headless = is_headless(new) && is_headless(old);
        let any_headless = is_headless(new) || is_headless(old);
        if !both_headless {
            validate_kept(
                &mut errors,
                &path.child("clusterIPs"),
                &new.cluster_ips,
                &old.cluster_ips,
                "primary clusterIP can not be unset",
            );
        }
        if !any_headless {
            validate_kept(
                &mut errors,
                &path.child("ipFamilies"),
                &new.ip_families,
                &old.ip_families,
                "primary ipFamily can not be unset",
            );
        }
    }
    if kind_of(new) == LOAD_BALANCER
        && kind_of(old) == LOAD_BALANCER
        && new.load_balancer_class != old.load_balancer_class
    {
        let path = path.child("loadBalancerClass");
        errors.push(FieldError::invalid(
            &path,
            json!(new.load_balancer_class),
            ONCE_SET,
        ));
    }
    if needs_health_check_port(old)
        && needs_health_check_port(new)
        && new.health_check_node_port != old.health_check_node_port
    {
        errors.push(FieldError::forbidden(
            &path.child("healthCheckNodePort"),
            validation::FIELD_IS_IMMUTABLE,
        ));
    }
    errors
}

/// The first value stays for good; a second may come and go, but not change.
fn validate_kept(
    errors: &mut ErrorList,
    path: &Path,
    new: &Option<Vec<String>>,
    old: &Option<Vec<String>>,
    unset: &str,
) {
    let (new, old) = (
        new.as_deref().unwrap_or_default(),
        old.as_deref().unwrap_or_default(),
    );
    if new.is_empty() && !old.is_empty() {
        errors.push(FieldError::invalid(&path.index(0), json!(new), unset));
    }
    for (i, (new_value, old_value)) in new.iter().zip(old).enumerate() {
        if new_value != old_value {
            errors.push(FieldError::invalid(&path.index(i), json!(new), ONCE_SET));
        }
    }
}

pub(super) fn validate_status(service: &Service) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status").child("loadBalancer").child("ingress");
    let balancer = service
        .status
        .as_ref()
        .and_then(|s| s.load_balancer.as_ref());
    let ingress = balancer
        .and_then(|b| b.ingress.as_deref())
        .unwrap_or_default();
    let balanced = service
        .spec
        .as_ref()
        .is_some_and(|s| kind_of(s) == LOAD_BALANCER);
    if !balanced && !ingress.is_empty() {
        errors.push(FieldError::forbidden(
            &path,
            "may only be used when `spec.type` is 'LoadBalancer'",
        ));
        return errors;
    }
    for (i, ingress) in ingress.iter().enumerate() {
        let path = path.index(i);
        let ip = ingress.ip.as_deref().unwrap_or_default();
        if !ip.is_empty() {
            checks::ip(&mut errors, &path.child("ip"), ip);
        }
        match (ingress.ip_mode.as_deref(), ip) {
            (None, "") => {}
            (None, _) => errors.push(FieldError::required(
                &path.child("ipMode"),
                "must be specified when `ip` is set",
            )),
            (Some(_), "") => errors.push(FieldError::forbidden(
                &path.child("ipMode"),
                "may not be specified when `ip` is not set",
            )),
            (Some(mode), _) => {
                checks::one_of(&mut errors, &path.child("ipMode"), mode, &["Proxy", "VIP"]);
            }
        }
        let hostname = ingress.hostname.as_deref().unwrap_or_default();
        if !hostname.is_empty() {
            let path = path.child("hostname");
            checks::dns_subdomain(&mut errors, &path, hostname);
            if hostname.parse::<std::net::IpAddr>().is_ok() {
                errors.push(FieldError::invalid(
                    &path,
                    hostname,
                    "must be a DNS name, not an IP address",
                ));
            }
        }
    }
    errors
}
