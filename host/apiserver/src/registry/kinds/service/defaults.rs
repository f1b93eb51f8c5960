//! Defaults of Services.

use k8s_openapi::{
    api::core::v1::{ClientIPConfig, Service, ServicePort, SessionAffinityConfig},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::{LOAD_BALANCER, is_reachable_from_outside, kind_of, needs_cluster_ip};
use crate::registry::kinds::fill;

/// How long requests of a client go to the same endpoint: 3 hours.
const AFFINITY_SECONDS: i32 = 10_800;

pub(super) fn fill(service: &mut Service) {
    let spec = service.spec.get_or_insert_default();
    fill::text(&mut spec.session_affinity, "None");
    match spec.session_affinity.as_deref() {
        Some("None") => spec.session_affinity_config = None,
        Some("ClientIP") => fill_affinity(&mut spec.session_affinity_config),
        _ => {}
    }
    fill::text(&mut spec.type_, "ClusterIP");
    for port in spec.ports.iter_mut().flatten() {
        fill_port(port);
    }
    if is_reachable_from_outside(spec) {
        fill::text(&mut spec.external_traffic_policy, "Cluster");
    }
    if needs_cluster_ip(spec) {
        fill::pointer(&mut spec.internal_traffic_policy, "Cluster".to_owned());
    }
    if kind_of(spec) == LOAD_BALANCER {
        fill::pointer(&mut spec.allocate_load_balancer_node_ports, true);
        let balancer = service
            .status
            .as_mut()
            .and_then(|s| s.load_balancer.as_mut());
        for ingress in balancer
            .and_then(|b| b.ingress.as_mut())
            .into_iter()
            .flatten()
        {
            if ingress.ip.as_deref().is_some_and(|ip| !ip.is_empty()) {
                fill::pointer(&mut ingress.ip_mode, "VIP".to_owned());
            }
        }
    }
}

fn fill_affinity(config: &mut Option<SessionAffinityConfig>) {
    let timeout = config.as_ref().and_then(|c| c.client_ip.as_ref());
    if timeout.and_then(|c| c.timeout_seconds).is_none() {
        *config = Some(SessionAffinityConfig {
            client_ip: Some(ClientIPConfig {
                timeout_seconds: Some(AFFINITY_SECONDS),
            }),
        });
    }
}

fn fill_port(port: &mut ServicePort) {
    fill::text(&mut port.protocol, "TCP");
    let unset = match &port.target_port {
        None | Some(IntOrString::Int(0)) => true,
        Some(IntOrString::String(name)) => name.is_empty(),
        Some(IntOrString::Int(_)) => false,
    };
    if unset {
        port.target_port = Some(IntOrString::Int(port.port));
    }
}
