//! The objects that are there from the first moment, made at each start if they are missing.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use pilothouse_api::Status;
use pilothouse_client::UserInfo;
use serde_json::{Value, json};

use crate::{
    discovery,
    environment::whole_seconds,
    registry::{
        Call, Current, Registry, Subresource, Updated, allocation::ClusterIpRange,
        kinds::flow_control,
    },
    reviews::REVIEWS,
};

/// Who owns what the server makes by itself, as in Kubernetes.
const FIELD_MANAGER: &str = "kube-apiserver";
/// The Service under which API servers are reached from within the cluster.
pub(crate) const NAMESPACE: &str = "default";
pub(crate) const SERVICE: &str = "kubernetes";
/// The server acts on itself under this name.
const USER: &str = "system:apiserver";

/// Namespaces, priority classes, what is served, and the `kubernetes` service with its range. `public` is where the server is
/// reached.
pub(crate) async fn make_first_objects(
    registry: &Registry,
    public: SocketAddr,
    service_ip: IpAddr,
    service_ranges: &[ClusterIpRange],
) -> Result<(), Status> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        make(
            registry,
            ("", "v1", "namespaces"),
            ("", name),
            &namespace,
            false,
        )
        .await?;
    }
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": { "name": name },
            "value": value,
            "description": description,
        });
        make(
            registry,
            ("scheduling.k8s.io", "v1", "priorityclasses"),
            ("", name),
            &class,
            false,
        )
        .await?;
    }
    make_api_services(registry).await?;
    make_service_cidr(registry, service_ranges).await?;
    for (resource, name, object) in flow_control::objects() {
        let resource = ("flowcontrol.apiserver.k8s.io", "v1", resource);
        make(registry, resource, ("", name), &object, false).await?;
    }
    let family = if service_ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let labels = json!({ "component": "apiserver", "provider": "kubernetes" });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": SERVICE, "namespace": NAMESPACE, "labels": labels },
        "spec": {
            "clusterIP": service_ip,
            "clusterIPs": [service_ip],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": [family],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{ "name": "https", "protocol": "TCP", "port": 443, "targetPort": public.port() }],
        },
    });
    make(
        registry,
        ("", "v1", "services"),
        (NAMESPACE, SERVICE),
        &service,
        false,
    )
    .await
}

/// An APIService for each group and version that is served here, as clients list them.
async fn make_api_services(registry: &Registry) -> Result<(), Status> {
    let stored = registry
        .resources()
        .iter()
        .map(|resource| &resource.info.gvr);
    let stored = stored.map(|gvr| (&*gvr.group, &*gvr.version));
    let reviews = REVIEWS.iter().map(|review| (review.group, review.version));
    let served: BTreeSet<(&str, &str)> = stored.chain(reviews).collect();
    for (group, version) in served {
        if group == "apiregistration.k8s.io" {
            continue; // what lists the others is not listed
        }
        let name = format!("{version}.{group}");
        let service = json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {
                "name": name,
                "labels": { "kube-aggregator.kubernetes.io/automanaged": "onstart" },
            },
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": discovery::priority(group),
                "versionPriority": version_priority(group, version),
            },
        });
        let resource = ("apiregistration.k8s.io", "v1", "apiservices");
        make(registry, resource, ("", &name), &service, false).await?;
    }
    Ok(())
}

/// Where a version stands among those of its group.
fn version_priority(group: &str, version: &str) -> i32 {
    match (group, version) {
        ("", _) => 1,
        ("autoscaling", "v2") => 30,
        ("flowcontrol.apiserver.k8s.io", "v1") => 21,
        (_, "v1") => 15,
        _ => 9,
    }
}

/// The ranges that services get their addresses from.
async fn make_service_cidr(registry: &Registry, ranges: &[ClusterIpRange]) -> Result<(), Status> {
    let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    let cidr = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": { "name": "kubernetes" },
        "spec": { "cidrs": ranges },
        "status": {
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "",
                "message": "Kubernetes default Service CIDR is ready",
                "lastTransitionTime": whole_seconds(registry.environment.now()).to_string(),
            }],
        },
    });
    let resource = ("networking.k8s.io", "v1", "servicecidrs");
    make(registry, resource, ("", "kubernetes"), &cidr, false).await
}

/// Creates an object unless it is there; `refresh` brings one that is there up to date. Kinds that are not served are left out.
pub(crate) async fn make(
    registry: &Registry,
    (group, version, resource): (&str, &str, &str),
    (namespace, name): (&str, &str),
    document: &Value,
    refresh: bool,
) -> Result<(), Status> {
    let Some(resource) = registry.resource(group, version, resource) else {
        return Ok(());
    };
    let user = UserInfo::new(USER, &["system:masters"]);
    let mut call = Call::new(user, &*registry.environment, false);
    call.field_manager = FIELD_MANAGER.to_owned();
    let object = resource.strategy.decode(document.to_string().as_bytes())?;
    match registry.current(resource, namespace, name).await? {
        Some(_) if refresh => {
            let transform = |_: &Current| Ok(object.clone());
            let key = (namespace, name);
            let updated =
                registry.update(resource, &call, key, Subresource::Main, &transform, None);
            updated.await.map(|_: Updated| ())
        }
        Some(_) => Ok(()),
        None => match registry.create(resource, &call, namespace, object).await {
            Err(status) if !status.is_already_exists() => Err(status), // another server may have been quicker
            _ => Ok(()),
        },
    }
}
