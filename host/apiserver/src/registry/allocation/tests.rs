use std::{collections::HashSet, sync::Arc, thread};

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};

use super::*;

fn allocators(range: &str) -> Arc<Allocators> {
    Allocators::new(&[range.parse().expect("a range")], DEFAULT_NODE_PORTS)
}

#[test]
fn ranges_are_read_or_refused() {
    for (text, network) in [
        ("10.96.0.0/16", Some("10.96.0.0/16")),
        ("10.96.7.9/16", Some("10.96.0.0/16")),
        ("fd00::5/112", Some("fd00::/112")),
        ("10.96.0.0/31", None),
        ("10.96.0.0", None),
        ("10.96.0/16", None),
        ("10.96.0.0/x", None),
        ("0.0.0.0/0", None),
    ] {
        let range = text.parse::<ClusterIpRange>();
        assert_eq!(
            range.ok().map(|r| r.to_string()).as_deref(),
            network,
            "{text}"
        );
    }
}

#[test]
fn the_kubernetes_service_gets_the_first_address() {
    for (range, first) in [("10.96.0.0/16", "10.96.0.1"), ("fd00::/112", "fd00::1")] {
        let ip = allocators(range).kubernetes_service_ip();
        assert_eq!(ip.map(|ip| ip.to_string()).as_deref(), Some(first));
    }
}

#[test]
fn asked_for_addresses_are_given_once_and_only_in_the_range() {
    let allocators = allocators("10.96.0.0/24");
    let mut transaction = allocators.begin(false);
    for (ip, result) in [
        ("10.96.0.10", Ok(())),
        ("10.96.0.10", Err(Refusal::Taken)),
        ("10.96.1.10", Err(Refusal::OutOfRange)),
        ("10.96.0.0", Err(Refusal::OutOfRange)),
        ("10.96.0.255", Err(Refusal::OutOfRange)),
        ("fd00::1", Err(Refusal::OutOfRange)),
    ] {
        assert_eq!(
            transaction.take_ip(ip.parse().expect("an address")),
            result,
            "{ip}"
        );
    }
}

#[test]
fn what_is_not_committed_is_given_back() {
    let allocators = allocators("10.96.0.0/24");
    let ip = "10.96.0.10".parse().expect("an address");
    for (dry_run, commit, free) in [
        (false, false, true),
        (true, true, true),
        (false, true, false),
    ] {
        let mut transaction = Box::new(allocators.begin(dry_run));
        assert_eq!(transaction.take_ip(ip), Ok(()), "free before");
        assert_eq!(transaction.take_port(30080), Ok(()));
        match commit {
            true => transaction.commit(),
            false => drop(transaction),
        }
        let mut probe = allocators.begin(false);
        assert_eq!(
            probe.take_ip(ip).is_ok(),
            free,
            "dry run {dry_run}, commit {commit}"
        );
        assert_eq!(probe.take_port(30080).is_ok(), free);
    }
}

#[test]
fn every_address_is_given_out_before_the_range_is_full() {
    let allocators = allocators("10.96.0.0/27");
    let mut transaction = allocators.begin(false);
    let given: HashSet<IpAddr> = (0..30)
        .map(|_| transaction.take_any_ip(true).expect("room"))
        .collect();
    assert_eq!(given.len(), 30);
    assert_eq!(transaction.take_any_ip(true), Err(Refusal::Full));
    assert_eq!(transaction.take_any_ip(false), Err(Refusal::OutOfRange));
}

#[test]
fn addresses_at_the_start_are_spared_for_those_who_ask() {
    let allocators = allocators("10.96.0.0/24");
    let mut transaction = allocators.begin(false);
    let any = transaction.take_any_ip(true).expect("room");
    assert_eq!(any.to_string(), "10.96.0.17");
}

#[test]
fn a_number_given_back_is_not_the_next_to_be_given_out() {
    let allocators = allocators("10.96.0.0/24");
    let first = {
        let mut transaction = allocators.begin(false);
        transaction.take_any_port().expect("room")
    };
    let second = allocators.begin(false).take_any_port().expect("room");
    assert_ne!(first, second);
}

#[test]
fn stored_services_are_adopted_and_released() {
    let allocators = allocators("10.96.0.0/24");
    let service = Service {
        spec: Some(ServiceSpec {
            cluster_ip: Some("10.96.0.9".to_owned()),
            cluster_ips: Some(vec!["10.96.0.9".to_owned()]),
            health_check_node_port: Some(31000),
            ports: Some(vec![ServicePort {
                node_port: Some(30080),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    };
    allocators.adopt(&service);
    let ip = "10.96.0.9".parse().expect("an address");
    let mut transaction = allocators.begin(false);
    assert_eq!(transaction.take_ip(ip), Err(Refusal::Taken));
    assert_eq!(transaction.take_port(30080), Err(Refusal::Taken));
    assert_eq!(transaction.take_port(31000), Err(Refusal::Taken));
    Box::new(allocators.release(&service)).commit();
    assert_eq!(transaction.take_ip(ip), Ok(()));
    assert_eq!(transaction.take_port(30080), Ok(()));
    assert_eq!(transaction.take_port(31000), Ok(()));
}

#[test]
fn no_number_is_given_to_two_writers() {
    let allocators = allocators("10.96.0.0/20");
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let allocators = Arc::clone(&allocators);
            thread::spawn(move || {
                let mut mine = Vec::new();
                for i in 0..200 {
                    let mut transaction = Box::new(allocators.begin(false));
                    let ip = transaction.take_any_ip(true).expect("room");
                    let port = transaction.take_any_port().expect("room");
                    if i % 3 == 0 {
                        mine.push((ip, port));
                        transaction.commit();
                    }
                }
                mine
            })
        })
        .collect();
    let kept: Vec<_> = writers
        .into_iter()
        .flat_map(|writer| writer.join().expect("no panic"))
        .collect();
    let ips: HashSet<_> = kept.iter().map(|(ip, _)| ip).collect();
    let ports: HashSet<_> = kept.iter().map(|(_, port)| port).collect();
    assert_eq!((ips.len(), ports.len()), (kept.len(), kept.len()));
}
