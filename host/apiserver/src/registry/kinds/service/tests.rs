mod allocation;

use std::collections::HashSet;

use serde_json::{Value, json};

use super::*;
use crate::registry::{
    allocation::{DEFAULT_CLUSTER_IP_RANGE, DEFAULT_NODE_PORTS},
    kinds::testing::{
        context, create_errors, created, defaulted, json as encoded, object, row, status_errors,
        update_errors, with,
    },
};

fn strategy() -> ServiceStrategy {
    strategy_of(&[DEFAULT_CLUSTER_IP_RANGE])
}

fn strategy_of(ranges: &[&str]) -> ServiceStrategy {
    let ranges: Vec<_> = ranges.iter().map(|r| r.parse().expect("a range")).collect();
    ServiceStrategy {
        allocators: Allocators::new(&ranges, DEFAULT_NODE_PORTS),
    }
}

fn base() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    })
}

fn of_type(kind: &str, changes: &[(&str, Value)]) -> Value {
    with(&with(&base(), &[("/spec/type", json!(kind))]), changes)
}

/// Creates or updates as the registry does, and keeps what was taken.
fn store(
    strategy: &ServiceStrategy,
    new: &Value,
    old: Option<&Service>,
) -> Result<Service, String> {
    let mut service = defaulted(strategy, new);
    match old {
        None => strategy.prepare_for_create(&context(), &mut service),
        Some(old) => strategy.prepare_for_update(&context(), &mut service, old),
    }
    let reservation = strategy
        .reserve(&mut service, old, false)
        .map_err(|s| s.message)?;
    if let Some(reservation) = reservation {
        reservation.commit();
    }
    Ok(service)
}

fn cluster_ip(service: &Service) -> String {
    service
        .spec
        .as_ref()
        .and_then(|s| s.cluster_ip.clone())
        .unwrap_or_default()
}

fn node_ports(service: &Service) -> Vec<i32> {
    let ports = service
        .spec
        .as_ref()
        .and_then(|s| s.ports.clone())
        .unwrap_or_default();
    ports
        .iter()
        .map(|p| p.node_port.unwrap_or_default())
        .collect()
}

#[test]
fn defaults() {
    for (service, spec) in [
        (
            base(),
            json!({
                "type": "ClusterIP",
                "selector": {"app": "web"},
                "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            }),
        ),
        (
            of_type(
                "LoadBalancer",
                &[
                    ("/spec/sessionAffinity", json!("ClientIP")),
                    ("/spec/ports/0/targetPort", json!("http")),
                ],
            ),
            json!({
                "type": "LoadBalancer",
                "selector": {"app": "web"},
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
                "internalTrafficPolicy": "Cluster",
                "externalTrafficPolicy": "Cluster",
                "allocateLoadBalancerNodePorts": true,
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": "http"}],
            }),
        ),
        (
            json!({"metadata": {"name": "x"}, "spec": {"type": "ExternalName", "externalName": "example.com"}}),
            json!({"type": "ExternalName", "externalName": "example.com", "sessionAffinity": "None"}),
        ),
    ] {
        assert_eq!(encoded(&defaulted(&strategy(), &service))["spec"], spec);
    }
    let status = encoded(&created(&strategy(), &base()))["status"].clone();
    assert_eq!(status, json!({"loadBalancer": {}}));
}

#[test]
fn names_may_start_with_a_digit() {
    let format = strategy().name_format();
    assert_eq!(format.check("8080-web", false), [""; 0]);
    assert!(!format.check("a.b", false).is_empty());
}

#[test]
fn validation() {
    let strategy = strategy();
    for (service, expected) in [
        (base(), vec![]),
        (
            with(&base(), &[("/spec/ports", json!([]))]),
            vec!["spec.ports: Required value"],
        ),
        (
            with(
                &base(),
                &[
                    ("/spec/ports", json!([])),
                    ("/spec/clusterIP", json!("None")),
                ],
            ),
            vec![],
        ),
        (
            with(
                &base(),
                &[
                    ("/spec/ports/0/port", json!(0)),
                    ("/spec/ports/0/targetPort", json!(80)),
                ],
            ),
            vec!["spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"],
        ),
        (
            with(&base(), &[("/spec/ports/-", json!({"port": 81}))]),
            vec![
                "spec.ports[0].name: Required value",
                "spec.ports[1].name: Required value",
            ],
        ),
        (
            with(
                &base(),
                &[(
                    "/spec/ports",
                    json!([{"name": "a", "port": 80}, {"name": "b", "port": 80}]),
                )],
            ),
            vec![
                "spec.ports[1]: Duplicate value: {\"AppProtocol\":null,\"Name\":\"\",\"NodePort\":0,\"Port\":80,\"Protocol\":\"TCP\",\"TargetPort\":0}",
            ],
        ),
        (
            with(
                &base(),
                &[(
                    "/spec/ports",
                    json!([{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}]),
                )],
            ),
            vec![],
        ),
        (
            with(&base(), &[("/spec/type", json!("Magic"))]),
            vec![
                "spec.type: Unsupported value: \"Magic\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
            ],
        ),
        (
            with(&base(), &[("/spec/ports/0/nodePort", json!(30080))]),
            vec!["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (
            of_type("NodePort", &[("/spec/clusterIP", json!("None"))]),
            vec![
                "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
            ],
        ),
        (
            with(&base(), &[("/spec/clusterIP", json!("10.96.0.300"))]),
            vec![
                "spec.clusterIPs[0]: Invalid value: \"10.96.0.300\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ],
        ),
        (
            with(
                &base(),
                &[
                    ("/spec/clusterIP", json!("10.96.0.9")),
                    ("/spec/clusterIPs", json!(["10.96.0.8"])),
                ],
            ),
            vec![
                "spec.clusterIPs: Invalid value: [\"10.96.0.8\"]: first value must match `clusterIP`",
            ],
        ),
        (
            with(&base(), &[("/spec/externalIPs", json!(["127.0.0.1"]))]),
            vec![
                "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
            ],
        ),
        (
            with(
                &base(),
                &[("/spec/loadBalancerClass", json!("example.com/x"))],
            ),
            vec![
                "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
            ],
        ),
        (
            with(&base(), &[("/spec/externalTrafficPolicy", json!("Local"))]),
            vec![
                "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
            ],
        ),
        (
            with(&base(), &[("/spec/sessionAffinity", json!("Cookie"))]),
            vec![
                "spec.sessionAffinity: Unsupported value: \"Cookie\": supported values: \"ClientIP\", \"None\"",
            ],
        ),
        (
            with(
                &base(),
                &[("/spec/trafficDistribution", json!("PreferSameNode"))],
            ),
            vec![],
        ),
        (
            json!({"metadata": {"name": "x"}, "spec": {"type": "ExternalName", "clusterIP": "10.96.0.9"}}),
            vec![
                "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
                "spec.externalName: Required value",
            ],
        ),
    ] {
        assert_eq!(create_errors(&strategy, &service), expected, "{service}");
    }
}

#[test]
fn load_balancers_have_addresses_only_in_their_status() {
    let ingress = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ipMode": "VIP"}]}});
    for (kind, status, expected) in [
        ("LoadBalancer", ingress.clone(), vec![]),
        (
            "ClusterIP",
            ingress,
            vec![
                "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'",
            ],
        ),
        (
            "LoadBalancer",
            json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}),
            vec![
                "status.loadBalancer.ingress[0].ipMode: Required value: must be specified when `ip` is set",
            ],
        ),
    ] {
        let (old, new) = (of_type(kind, &[]), of_type(kind, &[("/status", status)]));
        assert_eq!(status_errors(&strategy(), &old, &new), expected);
    }
}

#[test]
fn rows() {
    let strategy = strategy();
    for (service, cells) in [
        (
            with(
                &base(),
                &[
                    ("/spec/type", json!("ClusterIP")),
                    ("/spec/clusterIPs", json!(["10.96.0.9"])),
                    ("/spec/ports/0/protocol", json!("TCP")),
                ],
            ),
            [
                "web",
                "ClusterIP",
                "10.96.0.9",
                "<none>",
                "80/TCP",
                "<unknown>",
                "app=web",
            ],
        ),
        (
            of_type(
                "NodePort",
                &[
                    ("/spec/clusterIPs", json!(["10.96.0.9"])),
                    (
                        "/spec/ports",
                        json!([{"port": 80, "protocol": "TCP", "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]),
                    ),
                ],
            ),
            [
                "web",
                "NodePort",
                "10.96.0.9",
                "<none>",
                "80:30080/TCP,53/UDP",
                "<unknown>",
                "app=web",
            ],
        ),
        (
            of_type("LoadBalancer", &[("/spec/ports", json!([]))]),
            [
                "web",
                "LoadBalancer",
                "<none>",
                "<pending>",
                "<none>",
                "<unknown>",
                "app=web",
            ],
        ),
        (
            of_type(
                "LoadBalancer",
                &[
                    ("/spec/ports", json!([])),
                    (
                        "/status/loadBalancer/ingress",
                        json!([{"ip": "1.2.3.4"}, {"hostname": "a.example.com"}]),
                    ),
                ],
            ),
            [
                "web",
                "LoadBalancer",
                "<none>",
                "1.2.3.4,a.example.com",
                "<none>",
                "<unknown>",
                "app=web",
            ],
        ),
        (
            json!({"metadata": {"name": "web"}, "spec": {"type": "ExternalName", "externalName": "example.com"}}),
            [
                "web",
                "ExternalName",
                "<none>",
                "example.com",
                "<none>",
                "<unknown>",
                "<none>",
            ],
        ),
    ] {
        let shown: Vec<Value> = row(&strategy, &service)
            .into_iter()
            .map(|(_, cell)| cell)
            .collect();
        assert_eq!(shown, cells.map(Value::from), "{service}");
    }
    let names: Vec<&str> = strategy.columns().iter().map(|c| c.name).collect();
    assert_eq!(
        names,
        [
            "Name",
            "Type",
            "Cluster-IP",
            "External-IP",
            "Port(s)",
            "Age",
            "Selector"
        ]
    );
    let _: Service = object(&base());
}
