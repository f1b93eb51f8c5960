//! The objects that are there from the first moment, made at each start if they are missing.

use std::net::{IpAddr, SocketAddr};

use pilothouse_api::Status;
use pilothouse_client::UserInfo;
use serde_json::{Value, json};

use crate::registry::{Call, Current, Registry, Subresource, Updated};

/// Who owns what the server makes by itself, as in Kubernetes.
const FIELD_MANAGER: &str = "kube-apiserver";
/// The server acts on itself under this name.
const USER: &str = "system:apiserver";

/// Namespaces, priority classes and the `kubernetes` service with its endpoints. `public` is where the server is reached; on the
/// loopback the service has no endpoints.
pub(crate) async fn make_first_objects(
    registry: &Registry,
    public: SocketAddr,
    service_ip: IpAddr,
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
    let family = if service_ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let labels = json!({ "component": "apiserver", "provider": "kubernetes" });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "kubernetes", "namespace": "default", "labels": labels },
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
        ("default", "kubernetes"),
        &service,
        false,
    )
    .await?;
    if public.ip().is_loopback() {
        return Ok(()); // reached from this machine only: there is no address that an endpoint may have
    }
    let address_type = if public.is_ipv4() { "IPv4" } else { "IPv6" };
    let endpoints = json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" },
        },
        "subsets": [{
            "addresses": [{ "ip": public.ip() }],
            "ports": [{ "name": "https", "port": public.port(), "protocol": "TCP" }],
        }],
    });
    make(
        registry,
        ("", "v1", "endpoints"),
        ("default", "kubernetes"),
        &endpoints,
        true,
    )
    .await?;
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": { "kubernetes.io/service-name": "kubernetes" },
        },
        "addressType": address_type,
        "endpoints": [{ "addresses": [public.ip()], "conditions": { "ready": true } }],
        "ports": [{ "name": "https", "port": public.port(), "protocol": "TCP" }],
    });
    make(
        registry,
        ("discovery.k8s.io", "v1", "endpointslices"),
        ("default", "kubernetes"),
        &slice,
        true,
    )
    .await
}

/// Creates an object unless it is there; `refresh` brings one that is there up to date. Kinds that are not served are left out.
async fn make(
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
