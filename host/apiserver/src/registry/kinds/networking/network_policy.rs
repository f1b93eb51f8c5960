//! NetworkPolicies. Source: <https://kubernetes.io/docs/concepts/services-networking/network-policies/>

#[cfg(test)]
mod tests;

use k8s_openapi::{
    api::networking::v1::{IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort},
    apimachinery::pkg::util::intstr::IntOrString,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::{Value, json};

use super::GROUP;
use crate::registry::{
    kinds::{addresses, cells, checks, describe, fill},
    printing::Column,
    strategy::Strategy,
};

const INGRESS: &str = "Ingress";
const EGRESS: &str = "Egress";

pub(in crate::registry::kinds) struct NetworkPolicyStrategy;

impl Strategy for NetworkPolicyStrategy {
    type Object = NetworkPolicy;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["netpol"]),
            ..describe::namespaced(GROUP, "v1", "networkpolicies", "NetworkPolicy")
        }
    }

    fn default(&self, policy: &mut NetworkPolicy) {
        let spec = policy.spec.get_or_insert_default();
        spec.pod_selector.get_or_insert_default();
        let ingress = spec
            .ingress
            .iter_mut()
            .flatten()
            .filter_map(|rule| rule.ports.as_mut());
        let egress = spec
            .egress
            .iter_mut()
            .flatten()
            .filter_map(|rule| rule.ports.as_mut());
        for port in ingress.chain(egress).flatten() {
            fill::pointer(&mut port.protocol, "TCP".to_owned());
        }
        if spec.policy_types.as_ref().is_none_or(Vec::is_empty) {
            let mut types = vec![INGRESS.to_owned()];
            if spec.egress.as_ref().is_some_and(|rules| !rules.is_empty()) {
                types.push(EGRESS.to_owned());
            }
            spec.policy_types = Some(types);
        }
    }

    fn generation_changed(&self, new: &NetworkPolicy, old: &NetworkPolicy) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate_create(&self, policy: &NetworkPolicy) -> ErrorList {
        validate(policy, &[])
    }

    /// Ranges that were there before are not looked at again.
    fn validate_update(&self, new: &NetworkPolicy, old: &NetworkPolicy) -> ErrorList {
        validate(new, &ranges(old))
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Pod-Selector", "The pods that the policy is about."),
            Column::AGE,
        ]
    }

    fn row(&self, policy: &NetworkPolicy, now: jiff::Timestamp) -> Vec<Value> {
        let selector = policy.spec.as_ref().and_then(|s| s.pod_selector.clone());
        vec![
            json!(policy.metadata.name),
            json!(cells::selector(&selector.unwrap_or_default())),
            json!(cells::since(
                policy.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

/// All ranges of addresses that a policy names.
fn ranges(policy: &NetworkPolicy) -> Vec<&str> {
    let Some(spec) = &policy.spec else {
        return Vec::new();
    };
    let from = spec
        .ingress
        .iter()
        .flatten()
        .filter_map(|rule| rule.from.as_ref());
    let to = spec
        .egress
        .iter()
        .flatten()
        .filter_map(|rule| rule.to.as_ref());
    let blocks = from
        .chain(to)
        .flatten()
        .filter_map(|peer| peer.ip_block.as_ref());
    blocks
        .flat_map(|block| std::iter::once(&block.cidr).chain(block.except.iter().flatten()))
        .map(String::as_str)
        .collect()
}

fn validate(policy: &NetworkPolicy, known: &[&str]) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let Some(spec) = &policy.spec else {
        return errors;
    };
    checks::label_selector(
        &mut errors,
        &path.child("podSelector"),
        spec.pod_selector.as_ref(),
    );
    for (i, rule) in spec.ingress.iter().flatten().enumerate() {
        let path = path.child("ingress").index(i);
        validate_ports(&mut errors, &path.child("ports"), rule.ports.as_deref());
        validate_peers(
            &mut errors,
            &path.child("from"),
            rule.from.as_deref(),
            known,
        );
    }
    for (i, rule) in spec.egress.iter().flatten().enumerate() {
        let path = path.child("egress").index(i);
        validate_ports(&mut errors, &path.child("ports"), rule.ports.as_deref());
        validate_peers(&mut errors, &path.child("to"), rule.to.as_deref(), known);
    }
    let types = spec.policy_types.as_deref().unwrap_or_default();
    let path = path.child("policyTypes");
    if types.len() > 2 {
        let why = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid(&path, types.to_vec(), why));
        return errors;
    }
    for (i, kind) in types.iter().enumerate() {
        checks::one_of(&mut errors, &path.index(i), kind, &[INGRESS, EGRESS]);
    }
    errors
}

fn validate_ports(errors: &mut ErrorList, path: &Path, ports: Option<&[NetworkPolicyPort]>) {
    for (i, port) in ports.unwrap_or_default().iter().enumerate() {
        validate_port(errors, &path.index(i), port);
    }
}

fn validate_port(errors: &mut ErrorList, path: &Path, port: &NetworkPolicyPort) {
    if let Some(protocol) = &port.protocol {
        checks::one_of(
            errors,
            &path.child("protocol"),
            protocol,
            &["TCP", "UDP", "SCTP"],
        );
    }
    let end_path = path.child("endPort");
    let mut refuse_end = |end: i32, why: &str| {
        errors.push(FieldError::invalid(&end_path, end, why));
    };
    match (&port.port, port.end_port) {
        (None, Some(end)) => refuse_end(end, "may not be specified when `port` is not specified"),
        (Some(IntOrString::String(_)), Some(end)) => {
            refuse_end(end, "may not be specified when `port` is non-numeric");
        }
        (Some(IntOrString::Int(first)), Some(end)) => {
            if end < *first {
                refuse_end(end, "must be greater than or equal to `port`");
            }
            for why in validation::is_port_number(end.into()) {
                refuse_end(end, &why);
            }
        }
        (_, None) => {}
    }
    if let Some(port) = &port.port {
        checks::port_number_or_name(errors, &path.child("port"), port);
    }
}

fn validate_peers(
    errors: &mut ErrorList,
    path: &Path,
    peers: Option<&[NetworkPolicyPeer]>,
    known: &[&str],
) {
    for (i, peer) in peers.unwrap_or_default().iter().enumerate() {
        let path = path.index(i);
        let pods = peer.pod_selector.as_ref();
        let namespaces = peer.namespace_selector.as_ref();
        checks::label_selector(errors, &path.child("podSelector"), pods);
        checks::label_selector(errors, &path.child("namespaceSelector"), namespaces);
        if let Some(block) = &peer.ip_block {
            validate_block(errors, &path.child("ipBlock"), block, known);
        }
        match (&peer.ip_block, pods.is_some() || namespaces.is_some()) {
            (None, false) => errors.push(FieldError::required(&path, "must specify a peer")),
            (Some(_), true) => errors.push(FieldError::forbidden(
                &path,
                "may not specify both ipBlock and another peer",
            )),
            _ => {}
        }
    }
}

fn validate_block(errors: &mut ErrorList, path: &Path, block: &IPBlock, known: &[&str]) {
    if block.cidr.is_empty() {
        errors.push(FieldError::required(&path.child("cidr"), ""));
        return;
    }
    let Some(range) = addresses::cidr(errors, &path.child("cidr"), &block.cidr, known) else {
        return;
    };
    for (i, except) in block.except.iter().flatten().enumerate() {
        let path = path.child("except").index(i);
        let excepted = addresses::cidr(errors, &path, except, known);
        if excepted.is_some_and(|excepted| !range.strictly_contains(excepted)) {
            let why = "must be a strict subset of `cidr`";
            errors.push(FieldError::invalid(&path, except.as_str(), why));
        }
    }
}
