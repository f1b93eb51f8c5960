//! The pods behind a Service: which of them count, at which ports, in which state. No I/O.

use std::collections::BTreeMap;

use pilothouse_sdk::objects::{IntOrString, Time};

use crate::objects::{Endpoint, EndpointConditions, Family, Pod, Port, Service, ServicePort};

/// The label of slices and Endpoints of a headless Service.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";
/// When the change behind an update happened.
pub(crate) const LAST_CHANGE: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Whether a pod has an address and has not ended; a terminating one counts only if asked for.
pub(crate) fn counts(pod: &Pod, with_terminating: bool) -> bool {
    !matches!(pod.status.phase.as_str(), "Succeeded" | "Failed")
        && (!pod.status.pod_ip.is_empty() || !pod.status.pod_ips.is_empty())
        && (with_terminating || !pod.metadata.is_deleting())
}

/// The Service's ports on this pod. A named target port that the pod does not have is left out.
pub(crate) fn ports(service: &Service, pod: &Pod) -> Vec<Port> {
    let port = |port: &ServicePort| {
        Some(Port {
            name: port.name.clone(),
            protocol: port.protocol.clone(),
            port: target_port(port, pod)?,
            app_protocol: port.app_protocol.clone(),
        })
    };
    service.spec.ports.iter().filter_map(port).collect()
}

fn target_port(port: &ServicePort, pod: &Pod) -> Option<i32> {
    let name = match &port.target_port {
        None => return Some(port.port),
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
    };
    let is_sidecar = |restart_policy: &Option<String>| restart_policy.as_deref() == Some("Always");
    let sidecars = pod
        .spec
        .init_containers
        .iter()
        .filter(|container| is_sidecar(&container.restart_policy));
    let mut all = pod
        .spec
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| &container.ports);
    let found = all.find(|has| has.name == *name && has.protocol == port.protocol);
    found.map(|has| has.container_port)
}

/// The endpoint that a pod is for a family of addresses; none if it has no such address.
pub(crate) fn endpoint(
    service: &Service,
    pod: &Pod,
    zone: Option<&str>,
    family: Family,
) -> Option<Endpoint> {
    let serving = pod.is_ready();
    let terminating = pod.metadata.is_deleting();
    Some(Endpoint {
        addresses: vec![pod.address(family)?.to_owned()],
        conditions: EndpointConditions {
            ready: Some(service.spec.publish_not_ready_addresses || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: hostname(service, pod),
        node_name: Some(pod.spec.node_name.clone()).filter(|name| !name.is_empty()),
        target_ref: Some(pod.target_ref()),
        zone: zone.filter(|zone| !zone.is_empty()).map(str::to_owned),
    })
}

/// A pod has a name of its own in DNS if it says so and its subdomain is the Service.
pub(crate) fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let named = !pod.spec.hostname.is_empty()
        && pod.spec.subdomain == service.metadata.name
        && pod.metadata.namespace == service.metadata.namespace;
    named.then(|| pod.spec.hostname.clone())
}

/// The Service's labels with those that the controllers themselves set.
pub(crate) fn labels(service: &Service, own: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone();
    labels.remove(HEADLESS);
    if service.is_headless() {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.extend(
        own.iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
    );
    labels
}

/// When what is behind a Service last changed, as far as the objects tell: the last change of a pod's readiness, else the
/// Service's creation.
pub(crate) fn last_change(service: &Service, pods: &[Pod]) -> Option<Time> {
    let changes = pods.iter().filter_map(Pod::readiness_changed);
    changes.max().or(service.metadata.creation_timestamp)
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

    fn pod(spec: Value, status: Value) -> Pod {
        serde_json::from_value(
            json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": status}),
        )
        .unwrap()
    }

    #[test]
    fn target_ports_are_numbers_or_names_of_container_ports() {
        let pod = pod(
            json!({
                "containers": [{"ports": [{"name": "http", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]}],
                "initContainers": [
                    {"ports": [{"name": "setup", "containerPort": 1}]},
                    {"restartPolicy": "Always", "ports": [{"name": "admin", "containerPort": 15000}]},
                ],
            }),
            json!({}),
        );
        let cases = [
            (json!({"port": 80}), Some(80)),
            (json!({"port": 80, "targetPort": 81}), Some(81)),
            (json!({"port": 80, "targetPort": "http"}), Some(8080)),
            (json!({"port": 80, "targetPort": "dns"}), None),
            (
                json!({"port": 80, "targetPort": "dns", "protocol": "UDP"}),
                Some(53),
            ),
            (json!({"port": 80, "targetPort": "admin"}), Some(15000)),
            (json!({"port": 80, "targetPort": "setup"}), None),
        ];
        for (port, expected) in cases {
            let ports = ports(&service(json!({"ports": [port.clone()]})), &pod);
            assert_eq!(ports.first().map(|port| port.port), expected, "{port}");
        }
    }

    #[test]
    fn the_three_conditions() {
        let ready = |status: &str| json!({"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": status}]});
        // ready, terminating, publishNotReadyAddresses; expected ready, serving
        let cases = [
            ("True", false, false, true, true),
            ("False", false, false, false, false),
            ("True", true, false, false, true),
            ("False", false, true, true, false),
            ("True", true, true, true, true),
        ];
        for (is_ready, terminating, publish, expected_ready, expected_serving) in cases {
            let mut pod = pod(json!({}), ready(is_ready));
            pod.metadata.deletion_timestamp = terminating.then(Time::default);
            let web = service(json!({"publishNotReadyAddresses": publish}));
            let conditions = endpoint(&web, &pod, None, Family::V4).unwrap().conditions;
            let expected = EndpointConditions {
                ready: Some(expected_ready),
                serving: Some(expected_serving),
                terminating: Some(terminating),
            };
            assert_eq!(conditions, expected, "{is_ready} {terminating} {publish}");
        }
    }

    #[test]
    fn what_does_not_count() {
        let cases = [
            (json!({"podIP": "10.0.0.1", "phase": "Running"}), true),
            (json!({"podIPs": [{"ip": "fd00::1"}]}), true),
            (json!({"phase": "Running"}), false),
            (json!({"podIP": "10.0.0.1", "phase": "Succeeded"}), false),
            (json!({"podIP": "10.0.0.1", "phase": "Failed"}), false),
        ];
        for (status, expected) in cases {
            assert_eq!(
                counts(&pod(json!({}), status.clone()), true),
                expected,
                "{status}"
            );
        }
        let mut terminating = pod(json!({}), json!({"podIP": "10.0.0.1"}));
        terminating.metadata.deletion_timestamp = Some(Time::default());
        assert!(counts(&terminating, true) && !counts(&terminating, false));
    }

    #[test]
    fn addresses_of_each_family() {
        let dual = pod(
            json!({}),
            json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}),
        );
        assert_eq!(dual.address(Family::V4), Some("10.0.0.1"));
        assert_eq!(dual.address(Family::V6), Some("fd00::1"));
        assert_eq!(
            pod(json!({}), json!({"podIP": "10.0.0.1"})).address(Family::V6),
            None
        );
        let families = |spec: Value| service(spec).families();
        assert_eq!(families(json!({"clusterIP": "10.0.0.1"})), [Family::V4]);
        assert_eq!(families(json!({"clusterIP": "fd00::1"})), [Family::V6]);
        assert_eq!(
            families(json!({"clusterIP": "None"})),
            [Family::V4, Family::V6]
        );
        assert_eq!(
            families(json!({"clusterIP": "None", "ipFamilies": ["IPv6"]})),
            [Family::V6]
        );
    }
}
