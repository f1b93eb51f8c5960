//! Sums of what containers request. Source: <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/>

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use pilothouse_api::quantity::Quantity;

use super::{is_sidecar, parse};

type Amounts = BTreeMap<String, Quantity>;

/// What the containers request together: the greater of all that run side by side, and any init container on top of the
/// sidecars before it.
pub(super) fn container_requests(spec: &PodSpec) -> Amounts {
    let mut running = BTreeMap::new();
    for container in &spec.containers {
        add(&mut running, &requests(container));
    }
    let (mut sidecars, mut starting) = (BTreeMap::new(), BTreeMap::new());
    for container in spec.init_containers.iter().flatten() {
        let mut needed = requests(container);
        if is_sidecar(container) {
            add(&mut running, &needed);
            add(&mut sidecars, &needed);
            needed = sidecars.clone();
        } else {
            add(&mut needed, &sidecars);
        }
        raise(&mut starting, &needed);
    }
    raise(&mut running, &starting);
    running
}

fn requests(container: &Container) -> Amounts {
    let requests = container
        .resources
        .as_ref()
        .and_then(|r| r.requests.as_ref());
    requests
        .into_iter()
        .flatten()
        .filter_map(|(name, amount)| Some((name.clone(), parse(amount)?)))
        .collect()
}

fn add(sum: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        match sum.get_mut(name) {
            Some(sum) => *sum += *amount,
            None => {
                sum.insert(name.clone(), *amount);
            }
        }
    }
}

fn raise(highest: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        match highest.get_mut(name) {
            Some(highest) if *highest >= *amount => {}
            Some(highest) => *highest = *amount,
            None => {
                highest.insert(name.clone(), *amount);
            }
        }
    }
}
