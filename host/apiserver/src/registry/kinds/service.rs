//! Services. Source: <https://kubernetes.io/docs/concepts/services-networking/service/>
//!
//! Which numbers a Service gets is decided in `allocation`, from the pools in [`crate::registry::allocation`].

mod allocation;
mod defaults;
mod families;
mod printing;
#[cfg(test)]
mod tests;
mod update;
mod validation;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServiceSpec, ServiceStatus};
use pilothouse_api::{ResourceInfo, Status, field::ErrorList};
use serde_json::Value;

use super::describe;
use crate::registry::{
    allocation::Allocators,
    printing::Column,
    strategy::{Context, NameFormat, Reservation, Strategy},
};

const CLUSTER_IP: &str = "ClusterIP";
const NODE_PORT: &str = "NodePort";
const LOAD_BALANCER: &str = "LoadBalancer";
const EXTERNAL_NAME: &str = "ExternalName";
/// The cluster IP of a headless Service.
const HEADLESS: &str = "None";

pub(super) struct ServiceStrategy {
    pub(super) allocators: Arc<Allocators>,
}

impl Strategy for ServiceStrategy {
    type Object = Service;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["svc"]),
            categories: describe::all(),
            selectable_fields: describe::texts(&["spec.clusterIP", "spec.type"]),
            storage_prefix: "services/specs".into(),
            ..describe::namespaced("", "v1", "services", "Service")
        }
    }

    fn default(&self, service: &mut Service) {
        defaults::fill(service);
    }

    fn prepare_for_create(&self, _context: &Context, service: &mut Service) {
        service.status = Some(empty_status());
        update::keep_cluster_ips_in_step(service.spec.get_or_insert_default(), None);
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut Service, old: &Service) {
        new.status = old.status.clone();
        let empty = ServiceSpec::default();
        let before = old.spec.as_ref().unwrap_or(&empty);
        let spec = new.spec.get_or_insert_default();
        update::drop_what_the_type_no_longer_has(spec, before);
        update::keep_cluster_ips_in_step(spec, Some(before));
        update::keep_numbers(spec, before);
    }

    fn prepare_for_status_update(&self) -> Option<fn(&mut Service, &Service)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn validate(&self, service: &Service) -> ErrorList {
        validation::validate(service)
    }

    fn validate_update(&self, new: &Service, old: &Service) -> ErrorList {
        validation::validate_update(new, old)
    }

    fn validate_status_update(&self, new: &Service, _old: &Service) -> ErrorList {
        validation::validate_status(new)
    }

    fn name_format(&self) -> NameFormat {
        NameFormat::DnsLabel
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn reserve(
        &self,
        new: &mut Service,
        old: Option<&Service>,
        dry_run: bool,
    ) -> Result<Option<Box<dyn Reservation>>, Status> {
        let transaction = allocation::reserve(&self.allocators, new, old, dry_run)?;
        Ok(Some(Box::new(transaction)))
    }

    fn reserves(&self) -> bool {
        true
    }

    fn release(&self, service: &Service) -> Option<Box<dyn Reservation>> {
        Some(Box::new(self.allocators.release(service)))
    }

    fn columns(&self) -> Vec<Column> {
        printing::columns()
    }

    fn row(&self, service: &Service, now: jiff::Timestamp) -> Vec<Value> {
        printing::row(service, now)
    }
}

fn empty_status() -> ServiceStatus {
    ServiceStatus {
        load_balancer: Some(Default::default()),
        ..ServiceStatus::default()
    }
}

fn kind_of(spec: &ServiceSpec) -> &str {
    spec.type_.as_deref().unwrap_or_default()
}

fn is_headless(spec: &ServiceSpec) -> bool {
    matches!(spec.cluster_ips.as_deref(), Some([only]) if only == HEADLESS)
}

fn needs_cluster_ip(spec: &ServiceSpec) -> bool {
    matches!(kind_of(spec), CLUSTER_IP | NODE_PORT | LOAD_BALANCER)
}

fn needs_node_ports(spec: &ServiceSpec) -> bool {
    match kind_of(spec) {
        NODE_PORT => true,
        LOAD_BALANCER => spec.allocate_load_balancer_node_ports != Some(false),
        _ => false,
    }
}

/// Whether a port of the nodes tells load balancers which nodes have endpoints.
fn needs_health_check_port(spec: &ServiceSpec) -> bool {
    kind_of(spec) == LOAD_BALANCER && spec.external_traffic_policy.as_deref() == Some("Local")
}

fn is_reachable_from_outside(spec: &ServiceSpec) -> bool {
    match kind_of(spec) {
        NODE_PORT | LOAD_BALANCER => true,
        CLUSTER_IP => spec
            .external_ips
            .as_ref()
            .is_some_and(|ips| !ips.is_empty()),
        _ => false,
    }
}
