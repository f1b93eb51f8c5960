//! IPAddresses: who uses an address. Source: <https://kubernetes.io/docs/reference/networking/virtual-ips/#ip-address-objects>

use k8s_openapi::api::networking::v1::IPAddress;
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, Path},
};
use serde_json::{Value, json};

use super::GROUP;
use crate::registry::{
    kinds::{addresses, checks, describe},
    printing::Column,
    strategy::Strategy,
};

pub(in crate::registry::kinds) struct IpAddressStrategy;

impl Strategy for IpAddressStrategy {
    type Object = IPAddress;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["ip"]),
            ..describe::cluster_scoped(GROUP, "v1", "ipaddresses", "IPAddress")
        }
    }

    fn validate(&self, address: &IPAddress) -> ErrorList {
        let mut errors = ErrorList::new();
        let name = address.metadata.name.as_deref().unwrap_or_default();
        let path = Path::new("metadata").child("name");
        let complaints = addresses::canonical_ip_complaints(name);
        checks::invalid_each(&mut errors, &path, name, complaints);

        let parent = &address.spec.parent_ref;
        let path = Path::new("spec").child("parentRef");
        if let Some(group) = parent.group.as_deref().filter(|group| !group.is_empty()) {
            checks::dns_subdomain(&mut errors, &path.child("group"), group);
        }
        checks::required_path_segment(&mut errors, &path.child("resource"), &parent.resource);
        checks::required_path_segment(&mut errors, &path.child("name"), &parent.name);
        let namespace = parent.namespace.as_deref().unwrap_or_default();
        checks::path_segment(&mut errors, &path.child("namespace"), namespace);
        errors
    }

    fn validate_update(&self, new: &IPAddress, old: &IPAddress) -> ErrorList {
        let mut errors = ErrorList::new();
        let (parent, before) = (&new.spec.parent_ref, &old.spec.parent_ref);
        let shown = json!({
            "group": parent.group,
            "resource": parent.resource,
            "namespace": parent.namespace,
            "name": parent.name,
        });
        let path = Path::new("spec").child("parentRef");
        checks::immutable(&mut errors, &path, parent == before, shown);
        errors
    }

    fn name_format(&self) -> crate::registry::strategy::NameFormat {
        crate::registry::strategy::NameFormat::PathSegment // colons are fine; `validate` asks for more
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("ParentRef", "The object that uses the address."),
        ]
    }

    fn row(&self, address: &IPAddress, _now: jiff::Timestamp) -> Vec<Value> {
        let parent = &address.spec.parent_ref;
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let resource = match filled(&parent.group) {
            Some(group) => format!("{}.{group}", parent.resource),
            None => parent.resource.clone(),
        };
        let shown = match filled(&parent.namespace) {
            Some(namespace) => format!("{resource}/{namespace}/{}", parent.name),
            None => format!("{resource}/{}", parent.name),
        };
        vec![json!(address.metadata.name), json!(shown)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::testing::{create_errors, row, update_errors, with};

    fn base() -> Value {
        json!({
            "metadata": {"name": "10.96.0.1"},
            "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}},
        })
    }

    #[test]
    fn fields() {
        for (changes, expected) in [
            (vec![], vec![]),
            (vec![("/metadata/name", json!("2001:db8::1"))], vec![]),
            (
                vec![("/metadata/name", json!("2001:DB8::1"))],
                vec![
                    "metadata.name: Invalid value: \"2001:DB8::1\": must be in canonical form (\"2001:db8::1\")",
                ],
            ),
            (
                vec![("/metadata/name", json!("web"))],
                vec![
                    "metadata.name: Invalid value: \"web\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                ],
            ),
            (
                vec![("/spec/parentRef", json!({"name": "a/b", "group": "A"}))],
                vec![
                    "spec.parentRef.group: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                    "spec.parentRef.resource: Required value",
                    "spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'",
                ],
            ),
        ] {
            assert_eq!(
                create_errors(&IpAddressStrategy, &with(&base(), &changes)),
                expected
            );
        }
    }

    #[test]
    fn an_address_keeps_its_user() {
        let new = with(&base(), &[("/spec/parentRef/name", json!("other"))]);
        assert_eq!(
            update_errors(&IpAddressStrategy, &base(), &new),
            [
                "spec.parentRef: Invalid value: {\"group\":null,\"name\":\"other\",\"namespace\":\"default\",\"resource\":\"services\"}: field is immutable"
            ]
        );
    }

    #[test]
    fn rows() {
        for (changes, parent) in [
            (vec![], "services/default/kubernetes"),
            (
                vec![(
                    "/spec/parentRef",
                    json!({"group": "x.io", "resource": "gates", "name": "g"}),
                )],
                "gates.x.io/g",
            ),
        ] {
            let address = with(&base(), &changes);
            assert_eq!(
                row(&IpAddressStrategy, &address),
                [("Name", json!("10.96.0.1")), ("ParentRef", json!(parent))]
            );
        }
    }
}
