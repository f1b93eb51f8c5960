//! Spreading endpoints over slices with few writes. No I/O.
//!
//! For each set of ports: endpoints stay in the slice they are in; what is new goes first to slices that change anyway, then,
//! if all of it fits, to one that does not, else to new slices. A slice that gets empty goes. Slices are not rebalanced, since
//! each rewritten slice travels to every node.

use std::collections::BTreeMap;

use crate::objects::{Endpoint, Port, TargetRef};

/// How many endpoints a slice holds at most.
pub(crate) const LARGEST: usize = 100;

/// An existing slice, as far as spreading is concerned.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Existing {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) ports: Vec<Port>,
    /// It must be written for another reason, its labels.
    pub(crate) is_outdated: bool,
}

/// What becomes of the existing slices, by their place, and what is new.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) update: Vec<(usize, Content)>,
    pub(crate) delete: Vec<usize>,
    pub(crate) create: Vec<Content>,
}

/// The content of a slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Content {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) ports: Vec<Port>,
}

/// What tells endpoints apart.
type Identity = (Vec<String>, Option<String>, Option<TargetRef>);

type Endpoints = BTreeMap<Identity, Endpoint>;

fn identity(endpoint: &Endpoint) -> Identity {
    (
        endpoint.addresses.clone(),
        endpoint.hostname.clone(),
        endpoint.target_ref.clone(),
    )
}

/// The order of ports is of no account.
fn port_key(ports: &[Port]) -> Vec<Port> {
    let mut ports = ports.to_vec();
    ports.sort();
    ports
}

/// Plans for slices of one family. There is always at least one slice, if need be an empty one.
pub(crate) fn plan(existing: &[Existing], wanted: Vec<(Vec<Port>, Endpoint)>) -> Plan {
    let mut by_ports: BTreeMap<Vec<Port>, (Vec<Port>, Endpoints)> = BTreeMap::new();
    for (ports, endpoint) in wanted {
        let group = by_ports
            .entry(port_key(&ports))
            .or_insert_with(|| (ports, Endpoints::new()));
        group.1.insert(identity(&endpoint), endpoint);
    }
    let mut plan = Plan::default();
    for (key, (ports, endpoints)) in &mut by_ports {
        let places = (0..existing.len()).filter(|at| port_key(&existing[*at].ports) == *key);
        plan_ports(
            existing,
            &places.collect::<Vec<_>>(),
            ports,
            std::mem::take(endpoints),
            &mut plan,
        );
    }
    let unwanted =
        (0..existing.len()).filter(|at| !by_ports.contains_key(&port_key(&existing[*at].ports)));
    plan.delete.extend(unwanted);
    keep_placeholder(existing, &mut plan);
    reuse_deleted(&mut plan);
    plan
}

fn plan_ports(
    existing: &[Existing],
    places: &[usize],
    ports: &[Port],
    mut wanted: Endpoints,
    plan: &mut Plan,
) {
    let mut changed: Vec<(usize, Vec<Endpoint>)> = Vec::new();
    let mut unchanged: Vec<usize> = Vec::new();
    for at in places {
        let slice = &existing[*at];
        let kept = slice
            .endpoints
            .iter()
            .filter_map(|endpoint| wanted.remove(&identity(endpoint)));
        let kept: Vec<Endpoint> = kept.collect();
        match kept.is_empty() {
            true => plan.delete.push(*at),
            false if kept == slice.endpoints && !slice.is_outdated => unchanged.push(*at),
            false => changed.push((*at, kept)),
        }
    }
    // The fullest first, so that few slices stay half empty.
    changed.sort_by_key(|(_, endpoints)| std::cmp::Reverse(endpoints.len()));
    let mut wanted: Vec<Endpoint> = wanted.into_values().collect();
    for (_, endpoints) in &mut changed {
        let room = LARGEST.saturating_sub(endpoints.len()).min(wanted.len());
        endpoints.extend(wanted.drain(..room));
    }
    if !wanted.is_empty() {
        let room = |at: &&usize| LARGEST.checked_sub(existing[**at].endpoints.len() + wanted.len());
        let fits = unchanged
            .iter()
            .filter(|at| room(at).is_some())
            .min_by_key(room);
        if let Some(at) = fits {
            let mut endpoints = existing[*at].endpoints.clone();
            endpoints.append(&mut wanted);
            changed.push((*at, endpoints));
        }
    }
    let content = |endpoints| Content {
        endpoints,
        ports: ports.to_vec(),
    };
    plan.update.extend(
        changed
            .into_iter()
            .map(|(at, endpoints)| (at, content(endpoints))),
    );
    plan.create.extend(
        wanted
            .chunks(LARGEST)
            .map(|endpoints| content(endpoints.to_vec())),
    );
}

/// A Service without endpoints keeps an empty slice, so that it can be told from one that nobody has looked at.
fn keep_placeholder(existing: &[Existing], plan: &mut Plan) {
    if plan.delete.len() < existing.len() || !plan.create.is_empty() {
        return;
    }
    let is_placeholder = |at: &usize| {
        let slice = &existing[*at];
        slice.endpoints.is_empty() && slice.ports.is_empty() && !slice.is_outdated
    };
    match plan.delete.iter().position(is_placeholder) {
        Some(at) => drop(plan.delete.remove(at)),
        None => plan.create.push(Content::default()),
    }
}

/// A slice that goes and one that comes are one that changes.
fn reuse_deleted(plan: &mut Plan) {
    while !plan.delete.is_empty() {
        let Some(content) = plan.create.pop() else {
            return;
        };
        plan.update.push((plan.delete.remove(0), content));
    }
}

#[cfg(test)]
mod tests;
