//! EndpointSlices. Source: <https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/>

use std::collections::HashSet;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{cells, checks, describe, fill};
use crate::registry::{printing::Column, strategy::Strategy};

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_HINTS: usize = 8;
/// How many addresses or ports a row shows.
const SHOWN: usize = 3;
const UNSET: &str = "<unset>";

pub(super) struct EndpointSliceStrategy;

impl Strategy for EndpointSliceStrategy {
    type Object = EndpointSlice;

    fn resource(&self) -> ResourceInfo {
        describe::namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
    }

    fn default(&self, slice: &mut EndpointSlice) {
        for port in slice.ports.iter_mut().flatten() {
            fill::pointer(&mut port.name, String::new());
            fill::pointer(&mut port.protocol, "TCP".to_owned());
        }
    }

    fn generation_changed(&self, new: &EndpointSlice, old: &EndpointSlice) -> Option<bool> {
        Some(
            new.endpoints != old.endpoints
                || new.ports != old.ports
                || new.address_type != old.address_type
                || new.metadata.labels != old.metadata.labels,
        )
    }

    fn validate(&self, slice: &EndpointSlice) -> ErrorList {
        let mut errors = ErrorList::new();
        let kind = slice.address_type.as_str();
        let path = Path::new("addressType");
        checks::required_one_of(&mut errors, &path, Some(kind), &["FQDN", "IPv4", "IPv6"]);
        let endpoints = slice.endpoints.as_deref().unwrap_or_default();
        let path = Path::new("endpoints");
        match endpoints.len() > MAX_ENDPOINTS {
            true => errors.push(FieldError::too_many(&path, endpoints.len(), MAX_ENDPOINTS)),
            false => {
                for (i, endpoint) in endpoints.iter().enumerate() {
                    validate_endpoint(&mut errors, &path.index(i), endpoint, kind);
                }
            }
        }
        let ports = slice.ports.as_deref().unwrap_or_default();
        validate_ports(&mut errors, &Path::new("ports"), ports);
        errors
    }

    fn validate_update(&self, new: &EndpointSlice, old: &EndpointSlice) -> ErrorList {
        let mut errors = ErrorList::new();
        checks::immutable(
            &mut errors,
            &Path::new("addressType"),
            new.address_type == old.address_type,
            new.address_type.as_str(),
        );
        errors
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("AddressType", "What kind of addresses the endpoints have."),
            Column::string("Ports", "Ports of every endpoint."),
            Column::string("Endpoints", "Addresses of the endpoints."),
            Column::AGE,
        ]
    }

    fn row(&self, slice: &EndpointSlice, now: jiff::Timestamp) -> Vec<Value> {
        let ports = slice.ports.iter().flatten().map(|port| match port.port {
            Some(number) => number.to_string(),
            None => port.name.clone().unwrap_or_else(|| "*".to_owned()),
        });
        let endpoints = slice.endpoints.iter().flatten();
        let addresses = endpoints.flat_map(|e| e.addresses.iter().cloned());
        vec![
            json!(slice.metadata.name),
            json!(slice.address_type),
            json!(cells::at_most(ports, SHOWN, UNSET)),
            json!(cells::at_most(addresses, SHOWN, UNSET)),
            json!(cells::since(
                slice.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

fn validate_endpoint(errors: &mut ErrorList, path: &Path, endpoint: &Endpoint, kind: &str) {
    let addresses_path = path.child("addresses");
    match endpoint.addresses.len() {
        0 => errors.push(FieldError::required(
            &addresses_path,
            "must contain at least 1 address",
        )),
        len if len > MAX_ADDRESSES => {
            errors.push(FieldError::too_many(&addresses_path, len, MAX_ADDRESSES));
        }
        _ => {}
    }
    for (i, address) in endpoint.addresses.iter().enumerate() {
        validate_address(errors, &addresses_path.index(i), address, kind);
    }
    if let Some(node) = &endpoint.node_name {
        checks::dns_subdomain(errors, &path.child("nodeName"), node);
    }
    if let Some(zone) = &endpoint.zone {
        checks::label_value(errors, &path.child("zone"), zone);
    }
    if let Some(hostname) = &endpoint.hostname {
        checks::dns_label(errors, &path.child("hostname"), hostname);
    }
    if let Some(hints) = &endpoint.hints {
        let zones = hints.for_zones.iter().flatten().map(|z| z.name.as_str());
        validate_hints(
            errors,
            &path.child("hints").child("forZones"),
            zones.collect(),
        );
        let nodes = hints.for_nodes.iter().flatten().map(|n| n.name.as_str());
        validate_hints(
            errors,
            &path.child("hints").child("forNodes"),
            nodes.collect(),
        );
    }
}

fn validate_address(errors: &mut ErrorList, path: &Path, address: &str, kind: &str) {
    match kind {
        "IPv4" | "IPv6" => {
            let right = match address.parse::<std::net::IpAddr>() {
                Ok(ip) => ip.is_ipv4() == (kind == "IPv4"),
                Err(_) => false,
            };
            match right {
                true => checks::endpoint_ip(errors, path, address),
                false => errors.push(FieldError::invalid(
                    path,
                    address,
                    &format!("must be a valid {kind} address"),
                )),
            }
        }
        "FQDN" => match address.contains('.') {
            true => checks::dns_subdomain(errors, path, address),
            false => errors.push(FieldError::invalid(
                path,
                address,
                "should be a domain with at least two segments separated by dots",
            )),
        },
        _ => {} // the type itself has been complained about
    }
}

fn validate_hints(errors: &mut ErrorList, path: &Path, names: Vec<&str>) {
    if names.len() > MAX_HINTS {
        errors.push(FieldError::too_many(path, names.len(), MAX_HINTS));
        return;
    }
    let mut seen = HashSet::new();
    for (i, name) in names.into_iter().enumerate() {
        let path = path.index(i).child("name");
        match seen.insert(name) {
            true => checks::dns_subdomain(errors, &path, name),
            false => errors.push(FieldError::duplicate(&path, name)),
        }
    }
}

fn validate_ports(errors: &mut ErrorList, path: &Path, ports: &[EndpointPort]) {
    if ports.len() > MAX_PORTS {
        errors.push(FieldError::too_many(path, ports.len(), MAX_PORTS));
        return;
    }
    let mut names = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = port.name.as_deref().unwrap_or_default();
        if !name.is_empty() {
            checks::dns_label(errors, &path.child("name"), name);
        }
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        checks::protocol(errors, &path.child("protocol"), port.protocol.as_deref());
        if let Some(number) = port.port {
            checks::port_number(errors, &path.child("port"), number);
        }
        if let Some(protocol) = &port.app_protocol {
            checks::qualified_name(errors, &path.child("appProtocol"), protocol);
        }
    }
}
