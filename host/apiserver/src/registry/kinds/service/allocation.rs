//! Takes the numbers that a Service needs and does not have yet.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use pilothouse_api::{
    Cause, Status,
    field::{ErrorList, FieldError, Path},
};
use serde_json::json;

use super::{families, is_headless, needs_cluster_ip, needs_health_check_port, needs_node_ports};
use crate::registry::allocation::{Allocators, Held, Refusal, Transaction};

/// Takes cluster IPs and ports for `new` and writes them into it; what `old` has and keeps is not taken again. A number that was
/// asked for and is not free is 422 `Invalid`, an exhausted range 500.
pub(super) fn reserve(
    allocators: &Arc<Allocators>,
    new: &mut Service,
    old: Option<&Service>,
    dry_run: bool,
) -> Result<Transaction, Status> {
    let name = new.metadata.name.clone().unwrap_or_default();
    let invalid = |errors: ErrorList| {
        let causes = errors.into_iter().map(Cause::from).collect();
        Status::invalid("", "Service", &name, causes)
    };
    let cluster: Vec<&'static str> = allocators.families().collect();
    let namespace = new.metadata.namespace.clone().unwrap_or_default();
    let spec = new.spec.get_or_insert_default();
    let errors = families::fill(spec, old.and_then(|old| old.spec.as_ref()), &cluster);
    if !errors.is_empty() {
        return Err(invalid(errors));
    }
    let held = old.map(Held::of).unwrap_or_default();
    let mut transaction = allocators.begin(dry_run);
    transaction.set_owner(&namespace, &name);
    let taken = take_cluster_ips(&mut transaction, spec, &held)
        .and_then(|()| take_node_ports(&mut transaction, spec, &held))
        .and_then(|()| take_health_check_port(&mut transaction, spec, &held));
    match taken {
        Ok(()) => {}
        Err(Failure::Invalid(error)) => return Err(invalid(vec![error])),
        Err(Failure::Full(what)) => {
            return Err(Status::internal(format!(
                "failed to allocate a {what}: range is full"
            )));
        }
    }
    transaction.replaces(&held, &Held::of(new));
    Ok(transaction)
}

enum Failure {
    Invalid(FieldError),
    /// Which range.
    Full(&'static str),
}

fn take_cluster_ips(
    transaction: &mut Transaction,
    spec: &mut ServiceSpec,
    held: &Held,
) -> Result<(), Failure> {
    if !needs_cluster_ip(spec) || is_headless(spec) {
        return Ok(());
    }
    let mut ips = spec.cluster_ips.clone().unwrap_or_default();
    for (i, family) in spec.ip_families.iter().flatten().enumerate() {
        match ips.get(i).filter(|ip| !ip.is_empty()) {
            Some(text) => {
                // validated before; what cannot be parsed is reported there
                let Ok(ip) = text.parse::<IpAddr>() else {
                    continue;
                };
                if !held.ips.contains(&ip) {
                    let result = transaction.take_ip(ip);
                    result.map_err(|refusal| refused_ip(transaction, &ips, ip, refusal))?;
                }
            }
            None => {
                let ip = transaction.take_any_ip(family == "IPv4");
                let ip = ip.map_err(|_| Failure::Full("serviceIP"))?.to_string();
                match ips.get_mut(i) {
                    Some(slot) => *slot = ip,
                    None => ips.push(ip),
                }
            }
        }
    }
    spec.cluster_ip = ips.first().cloned();
    spec.cluster_ips = Some(ips);
    Ok(())
}

fn refused_ip(transaction: &Transaction, ips: &[String], ip: IpAddr, refusal: Refusal) -> Failure {
    let why = match refusal {
        Refusal::Taken => "provided IP is already allocated".to_owned(),
        Refusal::OutOfRange | Refusal::Full => format!(
            "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {}",
            transaction.ip_range(ip)
        ),
    };
    Failure::Invalid(FieldError::invalid(
        &Path::new("spec").child("clusterIPs"),
        json!(ips),
        &format!("failed to allocate IP {ip}: {why}"),
    ))
}

/// Ports of several protocols that have the same number get the same node port, if the client leaves it open.
fn take_node_ports(
    transaction: &mut Transaction,
    spec: &mut ServiceSpec,
    held: &Held,
) -> Result<(), Failure> {
    if !needs_node_ports(spec) {
        return Ok(());
    }
    let ports = spec.ports.get_or_insert_default();
    for (i, port) in ports.iter().enumerate() {
        let number = port.node_port.unwrap_or_default();
        if number == 0 {
            continue;
        }
        let path = Path::new("spec").child("ports").index(i).child("nodePort");
        take_asked_for_port(transaction, held, &path, number)?;
    }
    let mut by_port: HashMap<i32, Vec<(String, i32)>> = HashMap::new();
    for port in ports
        .iter()
        .filter(|p| p.node_port.unwrap_or_default() != 0)
    {
        let protocol = port.protocol.clone().unwrap_or_default();
        let number = port.node_port.unwrap_or_default();
        by_port
            .entry(port.port)
            .or_default()
            .push((protocol, number));
    }
    for port in ports
        .iter_mut()
        .filter(|p| p.node_port.unwrap_or_default() == 0)
    {
        let protocol = port.protocol.clone().unwrap_or_default();
        let siblings = by_port.entry(port.port).or_default();
        let other_protocol = |number: i32| {
            let mut of_number = siblings.iter().filter(|(_, n)| *n == number);
            of_number.all(|(p, _)| *p != protocol)
        };
        let shared = siblings
            .iter()
            .map(|(_, n)| *n)
            .find(|n| other_protocol(*n));
        let number = match shared {
            Some(number) => number,
            None => i32::from(
                transaction
                    .take_any_port()
                    .map_err(|_| Failure::Full("nodePort"))?,
            ),
        };
        siblings.push((protocol, number));
        port.node_port = Some(number);
    }
    Ok(())
}

fn take_health_check_port(
    transaction: &mut Transaction,
    spec: &mut ServiceSpec,
    held: &Held,
) -> Result<(), Failure> {
    if !needs_health_check_port(spec) {
        return Ok(());
    }
    match spec.health_check_node_port.unwrap_or_default() {
        0 => {
            let port = transaction.take_any_port();
            let port = port.map_err(|_| Failure::Full("HealthCheck NodePort"))?;
            spec.health_check_node_port = Some(port.into());
            Ok(())
        }
        number => {
            let path = Path::new("spec").child("healthCheckNodePort");
            take_asked_for_port(transaction, held, &path, number)
        }
    }
}

fn take_asked_for_port(
    transaction: &mut Transaction,
    held: &Held,
    path: &Path,
    number: i32,
) -> Result<(), Failure> {
    let port = u16::try_from(number).map_err(|_| Refusal::OutOfRange);
    let result =
        port.and_then(
            |port| match held.ports.contains(&port) || transaction.has_port(port) {
                true => Ok(()),
                false => transaction.take_port(port),
            },
        );
    result.map_err(|refusal| {
        let why = match refusal {
            Refusal::Taken => "provided port is already allocated".to_owned(),
            Refusal::OutOfRange | Refusal::Full => format!(
                "provided port is not in the valid range. The range of valid ports is {}",
                transaction.port_range()
            ),
        };
        Failure::Invalid(FieldError::invalid(path, number, &why))
    })
}
