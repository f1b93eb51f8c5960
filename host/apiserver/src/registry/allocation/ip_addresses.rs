//! The IPAddress object of a cluster IP: whoever creates it has the address.
//! Source: <https://kubernetes.io/docs/reference/networking/virtual-ips/#ip-address-objects>

use std::net::IpAddr;

use pilothouse_api::protobuf;
use serde::Deserialize;
use serde_json::json;

use crate::environment::{Environment, whole_seconds};

/// Who made the object, in its label: the servers' allocator, upstream's too.
pub(super) const MANAGED_BY: (&str, &str) =
    ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";

/// The Service that has an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub(super) struct Parent {
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Parent {
    pub(super) fn service(namespace: &str, name: &str) -> Self {
        Self {
            group: String::new(),
            resource: "services".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The one that a stored IPAddress names.
    pub(super) fn of(stored: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            parent_ref: Parent,
        }
        #[derive(Deserialize)]
        struct Address {
            spec: Spec,
        }
        let json = protobuf::stored_as_json(stored).ok()?;
        let address: Address = serde_json::from_slice(&json).ok()?;
        Some(address.spec.parent_ref)
    }
}

/// Where it is stored.
pub(super) fn key(ip: IpAddr) -> String {
    format!("/registry/ipaddresses/{ip}")
}

/// What is stored.
pub(super) fn document(ip: IpAddr, parent: &Parent, environment: &dyn Environment) -> Vec<u8> {
    let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let (label, value) = MANAGED_BY;
    let document = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": ip.to_string(),
            "uid": environment.uuid(),
            "creationTimestamp": whole_seconds(environment.now()).to_string(),
            "labels": { (FAMILY): family, (label): value },
        },
        "spec": {
            "parentRef": {
                "resource": parent.resource,
                "namespace": parent.namespace,
                "name": parent.name,
            },
        },
    });
    document.to_string().into_bytes()
}
