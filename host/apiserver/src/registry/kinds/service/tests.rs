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
fn types_get_the_numbers_they_need() {
    let strategy = strategy();
    let mut seen = HashSet::new();
    for (service, ip, ports) in [
        (base(), true, 0),
        (of_type("NodePort", &[]), true, 1),
        (of_type("LoadBalancer", &[]), true, 1),
        (
            of_type(
                "LoadBalancer",
                &[("/spec/allocateLoadBalancerNodePorts", json!(false))],
            ),
            true,
            0,
        ),
        (
            json!({"metadata": {"name": "x"}, "spec": {"type": "ExternalName", "externalName": "example.com"}}),
            false,
            0,
        ),
    ] {
        let stored = store(&strategy, &service, None).expect("room");
        let spec = stored.spec.clone().expect("a spec");
        assert_eq!(!cluster_ip(&stored).is_empty(), ip, "{service}");
        assert_eq!(
            spec.cluster_ips.as_ref().and_then(|ips| ips.first()),
            spec.cluster_ip.as_ref()
        );
        assert_eq!(
            spec.ip_family_policy.as_deref(),
            ip.then_some("SingleStack")
        );
        let given: Vec<i32> = node_ports(&stored)
            .into_iter()
            .filter(|p| *p != 0)
            .collect();
        assert_eq!(given.len(), ports, "{service}");
        assert!(
            given
                .iter()
                .all(|port| (30000..=32767).contains(port) && seen.insert(port.to_string()))
        );
        assert!(!ip || seen.insert(cluster_ip(&stored)), "unique");
    }
}

#[test]
fn headless_services_get_no_address() {
    for (changes, families, policy) in [
        (vec![], json!(["IPv4"]), "SingleStack"),
        (
            vec![("/spec/selector", json!(null))],
            json!(["IPv4", "IPv6"]),
            "RequireDualStack",
        ),
    ] {
        let service = with(
            &with(&base(), &[("/spec/clusterIP", json!("None"))]),
            &changes,
        );
        let spec =
            encoded(&store(&strategy(), &service, None).expect("no numbers"))["spec"].clone();
        assert_eq!(spec["clusterIP"], "None");
        assert_eq!(spec["clusterIPs"], json!(["None"]));
        assert_eq!(spec["ipFamilies"], families);
        assert_eq!(spec["ipFamilyPolicy"], policy);
    }
}

#[test]
fn asked_for_numbers_are_honoured_or_refused() {
    let strategy = strategy();
    let first = of_type(
        "NodePort",
        &[
            ("/spec/clusterIP", json!("10.96.0.10")),
            ("/spec/ports/0/nodePort", json!(30080)),
        ],
    );
    let stored = store(&strategy, &first, None).expect("free");
    assert_eq!(
        (cluster_ip(&stored), node_ports(&stored)),
        ("10.96.0.10".to_owned(), vec![30080])
    );
    for (changes, message) in [
        (
            vec![("/spec/clusterIP", json!("10.96.0.10"))],
            "Service \"web\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.10\"]: failed to allocate IP 10.96.0.10: provided IP is already allocated",
        ),
        (
            vec![("/spec/clusterIP", json!("192.168.0.1"))],
            "Service \"web\" is invalid: spec.clusterIPs: Invalid value: [\"192.168.0.1\"]: failed to allocate IP 192.168.0.1: the provided IP (192.168.0.1) is not in the valid range. The range of valid IPs is 10.96.0.0/16",
        ),
        (
            vec![("/spec/ports/0/nodePort", json!(30080))],
            "Service \"web\" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated",
        ),
        (
            vec![("/spec/ports/0/nodePort", json!(80))],
            "Service \"web\" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        (
            vec![("/spec/ipFamilyPolicy", json!("RequireDualStack"))],
            "Service \"web\" is invalid: spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        (
            vec![("/spec/ipFamilies", json!(["IPv6"]))],
            "Service \"web\" is invalid: spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
    ] {
        let refused = store(&strategy, &of_type("NodePort", &changes), None);
        assert_eq!(refused.expect_err("taken"), message);
    }
    strategy.release(&stored);
    assert!(store(&strategy, &first, None).is_ok(), "free again");
}

#[test]
fn a_refused_write_gives_back_what_it_took() {
    let strategy = strategy();
    let service = of_type(
        "NodePort",
        &[
            ("/spec/clusterIP", json!("10.96.0.10")),
            ("/spec/ports/0/nodePort", json!(80)),
        ],
    );
    assert!(store(&strategy, &service, None).is_err());
    let service = of_type("NodePort", &[("/spec/clusterIP", json!("10.96.0.10"))]);
    assert!(store(&strategy, &service, None).is_ok());
}

#[test]
fn a_dry_run_takes_nothing() {
    let strategy = strategy();
    let mut service = created(
        &strategy,
        &with(&base(), &[("/spec/clusterIP", json!("10.96.0.10"))]),
    );
    let reservation = strategy.reserve(&mut service, None, true).expect("free");
    reservation.expect("a reservation").commit();
    assert!(
        store(
            &strategy,
            &with(&base(), &[("/spec/clusterIP", json!("10.96.0.10"))]),
            None
        )
        .is_ok()
    );
}

#[test]
fn an_update_that_does_not_mention_numbers_keeps_them() {
    let strategy = strategy();
    let two = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    let stored = store(
        &strategy,
        &of_type("NodePort", &[("/spec/ports", two)]),
        None,
    )
    .expect("room");
    let swapped = json!([{"name": "b", "port": 81}, {"name": "a", "port": 8080}]);
    let again = store(
        &strategy,
        &of_type("NodePort", &[("/spec/ports", swapped)]),
        Some(&stored),
    )
    .expect("room");
    assert_eq!(cluster_ip(&again), cluster_ip(&stored));
    let before = node_ports(&stored);
    assert_eq!(node_ports(&again), [before[1], before[0]]);
}

#[test]
fn one_number_serves_two_protocols_of_a_port() {
    let ports = json!([{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}, {"name": "c", "port": 54}]);
    let stored = store(
        &strategy(),
        &of_type("NodePort", &[("/spec/ports", ports)]),
        None,
    )
    .expect("room");
    let ports = node_ports(&stored);
    assert_eq!(ports[0], ports[1]);
    assert_ne!(ports[0], ports[2]);
}

#[test]
fn changing_the_type_takes_and_gives_back() {
    let strategy = strategy();
    let external = json!({"metadata": {"name": "web"}, "spec": {"type": "ExternalName", "externalName": "example.com"}});
    let node_port = store(&strategy, &of_type("NodePort", &[]), None).expect("room");
    let (ip, port) = (cluster_ip(&node_port), node_ports(&node_port)[0]);

    // a client that sends back what it read, with another type
    let mut read = encoded(&node_port);
    read["spec"]["type"] = json!("ClusterIP");
    let plain = store(&strategy, &read, Some(&node_port)).expect("room");
    assert_eq!(
        (cluster_ip(&plain), node_ports(&plain)),
        (ip.clone(), vec![0])
    );
    let taker = of_type("NodePort", &[("/spec/ports/0/nodePort", json!(port))]);
    assert!(
        store(&strategy, &taker, None).is_ok(),
        "the node port is free"
    );

    let named = store(&strategy, &external, Some(&plain)).expect("no numbers");
    assert_eq!(cluster_ip(&named), "");
    let taker = with(&base(), &[("/spec/clusterIP", json!(ip))]);
    assert!(
        store(&strategy, &taker, None).is_ok(),
        "the address is free"
    );

    let back = store(&strategy, &base(), Some(&named)).expect("room");
    assert_ne!(cluster_ip(&back), "");
}

#[test]
fn health_check_ports() {
    let strategy = strategy();
    let local = of_type(
        "LoadBalancer",
        &[("/spec/externalTrafficPolicy", json!("Local"))],
    );
    let stored = store(&strategy, &local, None).expect("room");
    let port = stored.spec.as_ref().and_then(|s| s.health_check_node_port);
    assert!(port.is_some_and(|port| (30000..=32767).contains(&port)));
    let again = store(&strategy, &local, Some(&stored)).expect("room");
    assert_eq!(again.spec.and_then(|s| s.health_check_node_port), port);
}

#[test]
fn two_families() {
    let strategy = strategy_of(&["10.96.0.0/16", "fd00::/112"]);
    for (policy, families) in [
        ("SingleStack", 1),
        ("PreferDualStack", 2),
        ("RequireDualStack", 2),
    ] {
        let service = with(&base(), &[("/spec/ipFamilyPolicy", json!(policy))]);
        let spec = store(&strategy, &service, None)
            .expect("room")
            .spec
            .expect("a spec");
        assert_eq!(
            spec.cluster_ips.map(|ips| ips.len()),
            Some(families),
            "{policy}"
        );
        assert_eq!(spec.ip_families.map(|f| f.len()), Some(families));
    }
}

#[test]
fn addresses_stay_for_good() {
    let strategy = strategy();
    let set = with(
        &base(),
        &[
            ("/spec/clusterIP", json!("10.96.0.9")),
            ("/spec/ipFamilies", json!(["IPv4"])),
            ("/spec/ipFamilyPolicy", json!("SingleStack")),
        ],
    );
    let old = with(&set, &[("/spec/clusterIPs", json!(["10.96.0.9"]))]);
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![
                ("/spec/clusterIP", json!(null)),
                ("/spec/clusterIPs", json!(null)),
            ],
            vec![],
        ),
        (
            vec![("/spec/clusterIP", json!("10.96.0.10"))],
            vec!["spec.clusterIPs[0]: Invalid value: [\"10.96.0.10\"]: may not change once set"],
        ),
        (
            vec![("/spec/clusterIP", json!("None"))],
            vec!["spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set"],
        ),
        (
            vec![
                ("/spec/type", json!("ExternalName")),
                ("/spec/externalName", json!("example.com")),
            ],
            vec![],
        ),
    ] {
        assert_eq!(
            update_errors(&strategy, &old, &with(&old, &changes)),
            expected,
            "{changes:?}"
        );
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
