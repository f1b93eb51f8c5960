//! Cluster addresses and node ports: who gets which, and when they are given back.

use super::*;

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
    strategy.release(&stored).expect("numbers").commit();
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
