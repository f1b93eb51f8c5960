//! The subsets of an Endpoints object: addresses with the same ports and the same readiness of each are one subset. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use pilothouse_sdk::objects::null_as_default;

use crate::{
    backend,
    objects::{Family, Pod, Port, Service, TargetRef},
};

/// How many addresses an Endpoints object holds at most.
pub(crate) const LARGEST: usize = 1000;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Subset {
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub(crate) addresses: Vec<Address>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub(crate) not_ready_addresses: Vec<Address>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub(crate) ports: Vec<SubsetPort>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Address {
    pub(crate) ip: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target_ref: Option<TargetRef>,
}

/// As a slice's port, but an empty name is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SubsetPort {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    pub(crate) port: i32,
    pub(crate) protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) app_protocol: Option<String>,
}

impl From<Port> for SubsetPort {
    fn from(
        Port {
            name,
            protocol,
            port,
            app_protocol,
        }: Port,
    ) -> Self {
        Self {
            name,
            port,
            protocol,
            app_protocol,
        }
    }
}

/// The subsets of a Service, and whether there were more addresses than they may hold.
pub(crate) fn of(service: &Service, pods: &[Pod]) -> (Vec<Subset>, bool) {
    let publish = service.spec.publish_not_ready_addresses;
    let family = service.families().first().copied().unwrap_or(Family::V4);
    let mut by_ports: BTreeMap<BTreeSet<SubsetPort>, BTreeMap<Address, bool>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| backend::counts(pod, publish)) {
        let Some(ip) = pod.address(family) else {
            continue;
        };
        let ports: BTreeSet<SubsetPort> = backend::ports(service, pod)
            .into_iter()
            .map(SubsetPort::from)
            .collect();
        // Only a headless Service may do without ports.
        if ports.is_empty() && !(service.spec.ports.is_empty() && service.is_headless()) {
            continue;
        }
        let address = Address {
            ip: ip.to_owned(),
            hostname: backend::hostname(service, pod),
            node_name: Some(pod.spec.node_name.clone()).filter(|name| !name.is_empty()),
            target_ref: Some(pod.target_ref()),
        };
        by_ports
            .entry(ports)
            .or_default()
            .insert(address, publish || pod.is_ready());
    }
    let subset = |(ports, addresses): (BTreeSet<SubsetPort>, BTreeMap<Address, bool>)| {
        let (ready, not_ready): (Vec<_>, Vec<_>) =
            addresses.into_iter().partition(|(_, ready)| *ready);
        let addresses =
            |all: Vec<(Address, bool)>| all.into_iter().map(|(address, _)| address).collect();
        Subset {
            addresses: addresses(ready),
            not_ready_addresses: addresses(not_ready),
            ports: ports.into_iter().collect(),
        }
    };
    let mut subsets: Vec<Subset> = by_ports.into_iter().map(subset).collect();
    let is_cut = cut(&mut subsets);
    (subsets, is_cut)
}

/// Keeps as many addresses as fit, ready ones before others.
fn cut(subsets: &mut Vec<Subset>) -> bool {
    let mut room = LARGEST;
    let mut is_cut = false;
    let mut keep = |addresses: &mut Vec<Address>| {
        is_cut |= addresses.len() > room;
        addresses.truncate(room);
        room -= addresses.len();
    };
    subsets
        .iter_mut()
        .for_each(|subset| keep(&mut subset.addresses));
    subsets
        .iter_mut()
        .for_each(|subset| keep(&mut subset.not_ready_addresses));
    subsets.retain(|subset| !subset.addresses.is_empty() || !subset.not_ready_addresses.is_empty());
    is_cut
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(spec: Value) -> Service {
        serde_json::from_value(
            json!({"metadata": {"name": "web", "namespace": "ns"}, "spec": spec}),
        )
        .unwrap()
    }

    fn pod(number: usize, ready: bool, container_port: i32) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": format!("p{number:04}"), "namespace": "ns"},
            "spec": {"containers": [{"ports": [{"name": "http", "containerPort": container_port}]}]},
            "status": {
                "podIP": format!("10.0.{}.{}", number / 250, number % 250 + 1),
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
            },
        }))
        .unwrap()
    }

    fn named() -> Service {
        service(json!({"clusterIP": "10.96.0.1", "ports": [{"port": 80, "targetPort": "http"}]}))
    }

    #[test]
    fn pods_with_the_same_ports_share_a_subset() {
        let pods = [pod(0, true, 80), pod(1, false, 80), pod(2, true, 8080)];
        let (subsets, is_cut) = of(&named(), &pods);
        let shape: Vec<_> = subsets
            .iter()
            .map(|subset| {
                (
                    subset.ports[0].port,
                    subset.addresses.len(),
                    subset.not_ready_addresses.len(),
                )
            })
            .collect();
        assert_eq!(shape, [(80, 1, 1), (8080, 1, 0)]);
        assert!(!is_cut);
        assert_eq!(
            serde_json::to_value(&subsets[1].ports).unwrap(),
            json!([{"port": 8080, "protocol": "TCP"}])
        );
    }

    #[test]
    fn a_headless_service_needs_no_ports() {
        let (subsets, _) = of(&service(json!({"clusterIP": "None"})), &[pod(0, true, 80)]);
        assert_eq!((subsets.len(), subsets[0].ports.len()), (1, 0));
        let (subsets, _) = of(
            &service(json!({"clusterIP": "10.96.0.1"})),
            &[pod(0, true, 80)],
        );
        assert!(subsets.is_empty());
    }

    #[test]
    fn ready_addresses_are_kept_when_there_are_too_many() {
        let pods: Vec<Pod> = (0..1100)
            .map(|number| pod(number, number % 2 == 1, 80))
            .collect();
        let (subsets, is_cut) = of(&named(), &pods);
        assert!(is_cut);
        assert_eq!(
            (
                subsets[0].addresses.len(),
                subsets[0].not_ready_addresses.len()
            ),
            (550, 450)
        );
    }
}
