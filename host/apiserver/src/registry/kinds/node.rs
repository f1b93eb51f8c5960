//! Nodes. Source: <https://kubernetes.io/docs/concepts/architecture/nodes/>

mod printing;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{
    checks, describe,
    pod::{resources, tolerations},
};
use crate::registry::{
    printing::Column,
    strategy::{Context, Strategy},
};

pub(super) struct NodeStrategy;

impl Strategy for NodeStrategy {
    type Object = Node;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["no"]),
            selectable_fields: describe::texts(&["spec.unschedulable?false"]),
            storage_prefix: "minions".into(),
            ..describe::cluster_scoped("", "v1", "nodes", "Node")
        }
    }

    fn default(&self, node: &mut Node) {
        let spec = node.spec.get_or_insert_default();
        keep_cidrs_in_step(spec);
        let Some(status) = &mut node.status else {
            return;
        };
        resources::canonicalize(&mut status.capacity);
        resources::canonicalize(&mut status.allocatable);
        if status.allocatable.is_none() {
            status.allocatable = status.capacity.clone();
        }
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut Node, old: &Node) {
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(&self) -> Option<fn(&mut Node, &Node)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn validate(&self, node: &Node) -> ErrorList {
        let mut errors = ErrorList::new();
        let spec = node.spec.as_ref();
        let taints = spec.and_then(|s| s.taints.as_deref()).unwrap_or_default();
        validate_taints(&mut errors, &Path::new("metadata").child("taints"), taints);
        validate_resources(&mut errors, node);
        validate_cidrs(&mut errors, spec);
        errors
    }

    fn validate_update(&self, new: &Node, old: &Node) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = NodeSpec::default();
        let path = Path::new("spec");
        let (new, old) = (
            new.spec.as_ref().unwrap_or(&empty),
            old.spec.as_ref().unwrap_or(&empty),
        );
        let before = old.pod_cidrs.as_deref().unwrap_or_default();
        if !before.is_empty() && before != new.pod_cidrs.as_deref().unwrap_or_default() {
            errors.push(FieldError::forbidden(
                &path.child("podCIDRs"),
                "node updates may not change podCIDR except from \"\" to valid",
            ));
        }
        let before = old.provider_id.as_deref().unwrap_or_default();
        if !before.is_empty() && Some(before) != new.provider_id.as_deref() {
            errors.push(FieldError::forbidden(
                &path.child("providerID"),
                "node updates may not change providerID except from \"\" to valid",
            ));
        }
        if new.external_id.as_deref().unwrap_or_default()
            != old.external_id.as_deref().unwrap_or_default()
        {
            errors.push(FieldError::forbidden(
                &path.child("externalID"),
                "may not be updated",
            ));
        }
        errors
    }

    fn validate_status_update(&self, new: &Node, _old: &Node) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_resources(&mut errors, new);
        let addresses = new.status.as_ref().and_then(|s| s.addresses.as_deref());
        let mut seen = HashSet::new();
        let path = Path::new("status").child("addresses");
        for (i, address) in addresses.unwrap_or_default().iter().enumerate() {
            if !seen.insert((&address.type_, &address.address)) {
                let value = json!({"Type": address.type_, "Address": address.address});
                errors.push(FieldError::duplicate(&path.index(i), value));
            }
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        printing::columns()
    }

    fn row(&self, node: &Node, now: jiff::Timestamp) -> Vec<Value> {
        printing::row(node, now)
    }
}

/// `podCIDR` is the first of `podCIDRs`, whichever of the two a client sent.
fn keep_cidrs_in_step(spec: &mut NodeSpec) {
    let plural = spec.pod_cidrs.as_deref().unwrap_or_default();
    match (spec.pod_cidr.as_deref(), plural) {
        (_, [first, ..]) => spec.pod_cidr = Some(first.clone()),
        (Some(single), []) if !single.is_empty() => {
            spec.pod_cidrs = Some(vec![single.to_owned()]);
        }
        _ => {}
    }
}

fn validate_taints(errors: &mut ErrorList, path: &Path, taints: &[Taint]) {
    let mut seen = HashSet::new();
    for (i, taint) in taints.iter().enumerate() {
        let path = path.index(i);
        checks::qualified_name(errors, &path.child("key"), &taint.key);
        let value = taint.value.as_deref().unwrap_or_default();
        checks::label_value(errors, &path.child("value"), value);
        match taint.effect.as_str() {
            "" => errors.push(FieldError::required(&path.child("effect"), "")),
            effect => checks::one_of(errors, &path.child("effect"), effect, &tolerations::EFFECTS),
        }
        if !seen.insert((&taint.effect, &taint.key)) {
            let value = json!({"Key": taint.key, "Value": value, "Effect": taint.effect, "TimeAdded": taint.time_added.as_ref().map(|t| t.0.to_string())});
            errors.push(checks::duplicate_because(
                &path,
                value,
                "taints must be unique by key and effect pair",
            ));
        }
    }
}

fn validate_resources(errors: &mut ErrorList, node: &Node) {
    let Some(status) = &node.status else { return };
    let path = Path::new("status");
    for (field, list) in [
        ("capacity", &status.capacity),
        ("allocatable", &status.allocatable),
    ] {
        for (name, quantity) in list.iter().flatten() {
            let path = path.child(field).child(name);
            resources::validate_quantity(errors, &path, name, quantity);
        }
    }
}

fn validate_cidrs(errors: &mut ErrorList, spec: Option<&NodeSpec>) {
    let cidrs = spec
        .and_then(|s| s.pod_cidrs.as_deref())
        .unwrap_or_default();
    let path = Path::new("spec").child("podCIDRs");
    let mut families = HashSet::new();
    let mut parsed = 0;
    for (i, cidr) in cidrs.iter().enumerate() {
        if let Some(address) = checks::cidr(errors, &path.index(i), cidr) {
            families.insert(address.is_ipv4());
            parsed += 1;
        }
    }
    if parsed > families.len() {
        errors.push(FieldError::invalid(
            &path,
            json!(cidrs),
            "may specify no more than one CIDR for each IP family",
        ));
    }
}
