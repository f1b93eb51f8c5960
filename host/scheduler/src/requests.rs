//! What a pod asks for in all.
//!
//! Containers run together, and so do sidecars (init containers that restart always); other init containers run one by one,
//! each beside the sidecars before it. The pod needs the larger of the two, pod-level resources override it, and overhead
//! comes on top. Sources: <https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers>,
//! <https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers>,
//! <https://kubernetes.io/docs/tasks/configure-pod-container/assign-pod-level-resources/>

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, ContainerStatus, Pod, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity as ApiQuantity,
};
use pilothouse_api::quantity::Quantity;
use pilothouse_plugin::scheduler::types;

/// What scoring assumes for a container that asks for no CPU or memory: 100m and 200 MiB.
const UNSET: [(&str, i64); 2] = [("cpu", 100), ("memory", 200 << 20)];

/// Amounts by resource: `cpu` in thousandths, others in whole units.
pub(crate) type Amounts = BTreeMap<String, i64>;

/// What the pod asks for, and the same for CPU and memory with assumptions for containers that ask for none.
pub(crate) struct Requests {
    pub(crate) all: Amounts,
    pub(crate) nonzero: Amounts,
}

impl Requests {
    /// Of a pod. For a pod that runs, what it was given counts where it is more than what it now asks for.
    pub(crate) fn of(pod: &Pod) -> Self {
        let nonzero = effective(pod, &UNSET)
            .into_iter()
            .filter(|(name, _)| UNSET.iter().any(|(unset, _)| unset == name))
            .collect();
        Self {
            all: effective(pod, &[]),
            nonzero,
        }
    }
}

/// As the interface has it.
pub(crate) fn quantities(amounts: &Amounts) -> Vec<types::Quantity> {
    amounts
        .iter()
        .map(|(name, &value)| types::Quantity {
            name: name.clone(),
            value,
        })
        .collect()
}

/// A list of resources as numbers. What cannot be read counts as nothing; the API server lets no such thing pass.
pub(crate) fn amounts(list: Option<&BTreeMap<String, ApiQuantity>>) -> Amounts {
    let read = |(name, quantity): (&String, &ApiQuantity)| {
        let quantity = Quantity::parse(&quantity.0).ok()?;
        let value = match name.as_str() {
            "cpu" => quantity.milli_value(),
            _ => quantity.value(),
        };
        Some((name.clone(), value))
    };
    list.into_iter().flatten().filter_map(read).collect()
}

fn effective(pod: &Pod, unset: &[(&str, i64)]) -> Amounts {
    let Some(spec) = &pod.spec else {
        return Amounts::new();
    };
    let status = pod.status.as_ref();
    let running = status.and_then(|s| s.container_statuses.as_deref());
    let running_init = status.and_then(|s| s.init_container_statuses.as_deref());

    let mut together = Amounts::new();
    for container in &spec.containers {
        add(&mut together, &requested(container, running, unset));
    }
    let mut sidecars = Amounts::new();
    let mut starting = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        let own = requested(container, running_init, unset);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut together, &own);
            add(&mut sidecars, &own);
            raise(&mut starting, &sidecars);
        } else {
            let mut beside = sidecars.clone();
            add(&mut beside, &own);
            raise(&mut starting, &beside);
        }
    }
    raise(&mut together, &starting);
    if let Some(pod_level) = &spec.resources {
        let supported = amounts(pod_level.requests.as_ref())
            .into_iter()
            .filter(|(name, _)| {
                matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-")
            });
        together.extend(supported);
    }
    add(&mut together, &amounts(spec.overhead.as_ref()));
    together
}

fn requested(
    container: &Container,
    running: Option<&[ContainerStatus]>,
    unset: &[(&str, i64)],
) -> Amounts {
    let of = |resources: Option<&ResourceRequirements>| {
        amounts(resources.and_then(|r| r.requests.as_ref()))
    };
    let mut asked = of(container.resources.as_ref());
    let status = running
        .into_iter()
        .flatten()
        .find(|status| status.name == container.name);
    if let Some(status) = status {
        raise(&mut asked, &of(status.resources.as_ref()));
        raise(&mut asked, &amounts(status.allocated_resources.as_ref()));
    }
    for (name, value) in unset {
        asked.entry((*name).to_owned()).or_insert(*value);
    }
    asked
}

fn add(to: &mut Amounts, more: &Amounts) {
    for (name, value) in more {
        let slot = to.entry(name.clone()).or_default();
        *slot = slot.saturating_add(*value);
    }
}

fn raise(to: &mut Amounts, at_least: &Amounts) {
    for (name, value) in at_least {
        let slot = to.entry(name.clone()).or_insert(*value);
        *slot = (*slot).max(*value);
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_api::Kind;
    use serde_json::{Value, json};

    use super::*;

    fn of(spec: Value) -> Requests {
        let pod = json!({ "metadata": { "name": "p" }, "spec": spec });
        Requests::of(&Pod::decode(pod.to_string().as_bytes()).unwrap())
    }

    fn container(name: &str, cpu: &str, memory: &str) -> Value {
        json!({ "name": name, "resources": { "requests": { "cpu": cpu, "memory": memory } } })
    }

    fn init(name: &str, cpu: &str, sidecar: bool) -> Value {
        let mut value = container(name, cpu, "0");
        if sidecar {
            value["restartPolicy"] = "Always".into();
        }
        value
    }

    #[test]
    fn the_larger_of_starting_and_running_counts() {
        let main = || json!([container("a", "100m", "1Gi"), container("b", "200m", "1Gi")]);
        let cases = [
            ("containers add up", json!([]), 300),
            (
                "a small init container hides",
                json!([init("i", "200m", false)]),
                300,
            ),
            (
                "a large one counts",
                json!([init("i", "900m", false), init("j", "800m", false)]),
                900,
            ),
            ("a sidecar runs along", json!([init("s", "50m", true)]), 350),
            (
                "and beside later init containers",
                json!([init("s", "50m", true), init("i", "900m", false)]),
                950,
            ),
            (
                "not beside earlier ones",
                json!([init("i", "900m", false), init("s", "50m", true)]),
                900,
            ),
        ];
        for (what, init_containers, cpu) in cases {
            let requests = of(json!({ "containers": main(), "initContainers": init_containers }));
            assert_eq!(requests.all["cpu"], cpu, "{what}");
            assert_eq!(requests.all["memory"], 2 << 30, "{what}");
        }
    }

    #[test]
    fn pod_level_overrides_and_overhead_adds() {
        let requests = of(json!({
            "containers": [container("a", "100m", "1Gi")],
            "resources": { "requests": { "cpu": "1", "example.com/gpu": "3" } },
            "overhead": { "cpu": "10m", "memory": "1Mi" },
        }));
        let expected = [("cpu", 1010), ("memory", (1 << 30) + (1 << 20))];
        assert_eq!(requests.all.len(), 2);
        for (name, value) in expected {
            assert_eq!(requests.all[name], value, "{name}");
        }
    }

    #[test]
    fn scoring_assumes_something_for_each_container_that_asks_for_nothing() {
        let requests = of(json!({
            "containers": [
                { "name": "a" },
                { "name": "b", "resources": { "requests": { "cpu": "0" } } },
                { "name": "c", "resources": { "requests": { "memory": "1", "example.com/gpu": "1" } } },
            ],
        }));
        assert_eq!(requests.all["cpu"], 0);
        let expected: Amounts = [
            ("cpu".to_owned(), 200),
            ("memory".to_owned(), (400 << 20) + 1),
        ]
        .into();
        assert_eq!(requests.nonzero, expected);
    }

    #[test]
    fn fractions_round_up_and_nonsense_is_nothing() {
        let requests = of(json!({ "containers": [
            { "name": "a", "resources": { "requests": { "cpu": "0.1n", "memory": "1.5", "pods": "x" } } },
        ] }));
        let expected: Amounts = [("cpu".to_owned(), 1), ("memory".to_owned(), 2)].into();
        assert_eq!(requests.all, expected);
    }

    #[test]
    fn what_a_running_container_holds_counts_until_it_lets_go() {
        let pod = json!({
            "metadata": { "name": "p" },
            "spec": { "containers": [container("a", "100m", "1Gi")] },
            "status": { "containerStatuses": [{
                "name": "a", "image": "i", "imageID": "i", "ready": true, "restartCount": 0,
                "allocatedResources": { "cpu": "300m" },
                "resources": { "requests": { "cpu": "200m", "memory": "2Gi" } },
            }] },
        });
        let requests = Requests::of(&Pod::decode(pod.to_string().as_bytes()).unwrap());
        assert_eq!(requests.all["cpu"], 300);
        assert_eq!(requests.all["memory"], 2 << 30);
    }
}
