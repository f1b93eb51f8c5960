//! Endpoints. Source: <https://kubernetes.io/docs/reference/kubernetes-api/service-resources/endpoints-v1/>

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{cells, checks, describe, fill};
use crate::registry::{printing::Column, strategy::Strategy};

/// How many addresses a row shows.
const SHOWN: usize = 3;

pub(super) struct EndpointsStrategy;

impl Strategy for EndpointsStrategy {
    type Object = Endpoints;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            singular: "endpoints".into(),
            short_names: describe::texts(&["ep"]),
            storage_prefix: "services/endpoints".into(),
            ..describe::namespaced("", "v1", "endpoints", "Endpoints")
        }
    }

    fn default(&self, endpoints: &mut Endpoints) {
        let subsets = endpoints.subsets.iter_mut().flatten();
        for port in subsets.flat_map(|subset| subset.ports.iter_mut().flatten()) {
            fill::text(&mut port.protocol, "TCP");
        }
    }

    fn validate(&self, endpoints: &Endpoints) -> ErrorList {
        let mut errors = ErrorList::new();
        for (i, subset) in endpoints.subsets.iter().flatten().enumerate() {
            validate_subset(&mut errors, &Path::new("subsets").index(i), subset);
        }
        errors
    }

    fn warnings(&self, _endpoints: &Endpoints) -> Vec<String> {
        vec![
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
                .to_owned(),
        ]
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Endpoints", "Addresses and ports behind the Service."),
            Column::AGE,
        ]
    }

    fn row(&self, endpoints: &Endpoints, now: jiff::Timestamp) -> Vec<Value> {
        let subsets = endpoints.subsets.iter().flatten();
        let shown = cells::at_most(subsets.flat_map(addresses), SHOWN, cells::NONE);
        vec![
            json!(endpoints.metadata.name),
            json!(shown),
            json!(cells::since(
                endpoints.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

/// Every ready address with every port, or alone if there is none.
fn addresses(subset: &EndpointSubset) -> Vec<String> {
    let addresses = subset.addresses.as_deref().unwrap_or_default();
    let with = |port: &EndpointPort| -> Vec<String> {
        let join = |ip: &str| match ip.contains(':') {
            true => format!("[{ip}]:{}", port.port),
            false => format!("{ip}:{}", port.port),
        };
        addresses.iter().map(|a| join(&a.ip)).collect()
    };
    match subset.ports.as_deref().unwrap_or_default() {
        [] => addresses.iter().map(|a| a.ip.clone()).collect(),
        ports => ports.iter().flat_map(with).collect(),
    }
}

fn validate_subset(errors: &mut ErrorList, path: &Path, subset: &EndpointSubset) {
    let ready = subset.addresses.as_deref().unwrap_or_default();
    let not_ready = subset.not_ready_addresses.as_deref().unwrap_or_default();
    if ready.is_empty() && not_ready.is_empty() {
        errors.push(FieldError::required(
            path,
            "must specify `addresses` or `notReadyAddresses`",
        ));
    }
    for (field, addresses) in [("addresses", ready), ("notReadyAddresses", not_ready)] {
        for (i, address) in addresses.iter().enumerate() {
            validate_address(errors, &path.child(field).index(i), address);
        }
    }
    let ports = subset.ports.as_deref().unwrap_or_default();
    for (i, port) in ports.iter().enumerate() {
        validate_port(errors, &path.child("ports").index(i), port, ports.len() > 1);
    }
}

fn validate_address(errors: &mut ErrorList, path: &Path, address: &EndpointAddress) {
    checks::endpoint_ip(errors, &path.child("ip"), &address.ip);
    if let Some(hostname) = address.hostname.as_deref().filter(|h| !h.is_empty()) {
        checks::dns_label(errors, &path.child("hostname"), hostname);
    }
    if let Some(node) = &address.node_name {
        checks::dns_subdomain(errors, &path.child("nodeName"), node);
    }
}

fn validate_port(errors: &mut ErrorList, path: &Path, port: &EndpointPort, named: bool) {
    match port.name.as_deref().unwrap_or_default() {
        "" if named => errors.push(FieldError::required(&path.child("name"), "")),
        "" => {}
        name => checks::dns_label(errors, &path.child("name"), name),
    }
    checks::port_number(errors, &path.child("port"), port.port);
    checks::protocol(errors, &path.child("protocol"), port.protocol.as_deref());
    if let Some(protocol) = &port.app_protocol {
        checks::qualified_name(errors, &path.child("appProtocol"), protocol);
    }
}
