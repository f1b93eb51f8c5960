//! What an update that does not mention a number keeps, and what goes when the type changes.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::api::core::v1::ServiceSpec;

use super::{
    LOAD_BALANCER, is_reachable_from_outside, kind_of, needs_cluster_ip, needs_health_check_port,
    needs_node_ports,
};

/// `clusterIP` is the first of `clusterIPs`, whichever of the two the client knows about.
pub(super) fn keep_cluster_ips_in_step(spec: &mut ServiceSpec, old: Option<&ServiceSpec>) {
    let single = spec.cluster_ip.clone().unwrap_or_default();
    let none = spec.cluster_ips.as_ref().is_none_or(|ips| ips.is_empty());
    let Some(old) = old else {
        if !single.is_empty() && none {
            spec.cluster_ips = Some(vec![single]);
        }
        return;
    };
    if single == old.cluster_ip.as_deref().unwrap_or_default() {
        return;
    }
    let plural_kept = spec.cluster_ips == old.cluster_ips;
    match single.is_empty() {
        true if plural_kept => spec.cluster_ips = None,
        false if plural_kept || none => spec.cluster_ips = Some(vec![single]),
        _ => {}
    }
}

/// Addresses and ports that the client left out are those the Service has.
pub(super) fn keep_numbers(spec: &mut ServiceSpec, old: &ServiceSpec) {
    if needs_cluster_ip(old) && needs_cluster_ip(spec) {
        if spec.cluster_ip.as_deref().unwrap_or_default().is_empty() {
            spec.cluster_ip = old.cluster_ip.clone();
        }
        let none = spec.cluster_ips.as_ref().is_none_or(|ips| ips.is_empty());
        if none && spec.cluster_ip == old.cluster_ip {
            spec.cluster_ips = old.cluster_ips.clone();
        }
    }
    if needs_node_ports(old) && needs_node_ports(spec) {
        keep_node_ports(spec, old);
    }
    if needs_health_check_port(old)
        && needs_health_check_port(spec)
        && spec.health_check_node_port.unwrap_or_default() == 0
    {
        spec.health_check_node_port = old.health_check_node_port;
    }
}

/// By the name of the port, unless another port has taken the number over.
fn keep_node_ports(spec: &mut ServiceSpec, old: &ServiceSpec) {
    let ports = spec.ports.as_mut().into_iter().flatten();
    let given = |port: Option<i32>| port.filter(|port| *port != 0);
    let mut ports: Vec<_> = ports.collect();
    let mut used: BTreeSet<i32> = ports.iter().filter_map(|p| given(p.node_port)).collect();
    let before: HashMap<&str, i32> = old
        .ports
        .iter()
        .flatten()
        .filter_map(|p| Some((p.name.as_deref().unwrap_or_default(), given(p.node_port)?)))
        .collect();
    for port in ports.iter_mut().filter(|p| given(p.node_port).is_none()) {
        let known = before.get(port.name.as_deref().unwrap_or_default());
        if let Some(number) = known.filter(|number| used.insert(**number)) {
            port.node_port = Some(*number);
        }
    }
}

/// Fields that only the old type has go, unless the client changed them and so means them.
pub(super) fn drop_what_the_type_no_longer_has(spec: &mut ServiceSpec, old: &ServiceSpec) {
    if needs_cluster_ip(old) && !needs_cluster_ip(spec) {
        if spec.cluster_ip == old.cluster_ip && spec.cluster_ips == old.cluster_ips {
            spec.cluster_ip = None;
            spec.cluster_ips = None;
        }
        drop_unchanged(&mut spec.ip_families, &old.ip_families);
        drop_unchanged(&mut spec.ip_family_policy, &old.ip_family_policy);
        drop_unchanged(
            &mut spec.internal_traffic_policy,
            &old.internal_traffic_policy,
        );
    }
    if needs_node_ports(old) && !needs_node_ports(spec) {
        let numbers = |spec: &ServiceSpec| -> BTreeSet<i32> {
            let ports = spec.ports.iter().flatten();
            ports
                .filter_map(|p| p.node_port)
                .filter(|n| *n != 0)
                .collect()
        };
        if numbers(spec) == numbers(old) {
            for port in spec.ports.iter_mut().flatten() {
                port.node_port = None;
            }
        }
    }
    if needs_health_check_port(old) && !needs_health_check_port(spec) {
        drop_unchanged(
            &mut spec.health_check_node_port,
            &old.health_check_node_port,
        );
    }
    if is_reachable_from_outside(old) && !is_reachable_from_outside(spec) {
        drop_unchanged(
            &mut spec.external_traffic_policy,
            &old.external_traffic_policy,
        );
    }
    if kind_of(old) == LOAD_BALANCER && kind_of(spec) != LOAD_BALANCER {
        drop_unchanged(
            &mut spec.allocate_load_balancer_node_ports,
            &old.allocate_load_balancer_node_ports,
        );
        drop_unchanged(&mut spec.load_balancer_class, &old.load_balancer_class);
    }
}

fn drop_unchanged<T: PartialEq>(field: &mut Option<T>, old: &Option<T>) {
    if field == old {
        *field = None;
    }
}
