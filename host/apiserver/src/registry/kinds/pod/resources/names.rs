//! What resource names mean: which are Kubernetes' own, which are devices, which may be promised twice.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pilothouse_api::quantity;

pub(super) const CPU: &str = "cpu";
pub(super) const MEMORY: &str = "memory";
pub(super) const HUGE_PAGES: &str = "hugepages-";
const DEFAULT_NAMESPACE: &str = "kubernetes.io/";

pub(super) fn is_pod_level(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with(HUGE_PAGES)
}

pub(super) fn is_standard_container_resource(name: &str) -> bool {
    matches!(name, CPU | MEMORY | "ephemeral-storage") || name.starts_with(HUGE_PAGES)
}

/// Resource names without a slash that mean something somewhere: in quotas, for example.
pub(super) fn is_standard_resource(name: &str) -> bool {
    const NAMES: [&str; 19] = [
        CPU,
        MEMORY,
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.storage",
        "services.nodeports",
    ];
    NAMES.contains(&name)
        || name == "services.loadbalancers"
        || name.starts_with(HUGE_PAGES)
        || name.starts_with("requests.hugepages-")
}

/// Kubernetes' own: no namespace, or one below `kubernetes.io`.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains(DEFAULT_NAMESPACE)
}

/// A device or other resource that somebody else has named: `example.com/gpu`.
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && pilothouse_api::validation::is_label_key(&format!("requests.{name}")).is_empty()
}

pub(super) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

pub(super) fn is_whole_only(name: &str) -> bool {
    is_extended(name)
        || matches!(
            name,
            "pods"
                | "resourcequotas"
                | "services"
                | "replicationcontrollers"
                | "secrets"
                | "configmaps"
                | "persistentvolumeclaims"
                | "services.nodeports"
                | "services.loadbalancers"
        )
}

/// Whether an amount of huge pages is a multiple of their size, which the name tells: `hugepages-2Mi`.
pub(super) fn is_page_multiple(name: &str, amount: &Quantity) -> bool {
    let size = name.strip_prefix(HUGE_PAGES).unwrap_or_default();
    let whole = |text: &str| quantity::Quantity::parse(text).map(|q| q.value());
    match (whole(size), whole(&amount.0)) {
        (Ok(size), Ok(amount)) => size > 0 && amount % size == 0,
        _ => false,
    }
}
