//! The endpoints of the `kubernetes` Service: the API servers that are alive, whichever of them are.
//!
//! Each server keeps a key with a TTL below `/registry/masterleases/`, and brings the Service's Endpoints and EndpointSlice in
//! step with the keys that are there. A server that stops takes its key away; that of a killed one runs out.
//! Source: Kubernetes, the lease endpoint reconciler, with whose servers the keys are shared.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Endpoints;
use pilothouse_api::{Kind, Status, protobuf};
use pilothouse_storage::{Op, RangeRequest, Txn};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::{
    boot::{self, make},
    registry::{Registry, errors},
};

const LEASES: &str = "/registry/masterleases/";
/// How long a server is believed to be alive, and how often it says so; upstream's.
const TTL: Duration = Duration::from_secs(15);
const INTERVAL: Duration = Duration::from_secs(10);
/// What a stopping server gives the last writes.
const GOODBYE: Duration = Duration::from_secs(2);

/// One server's part.
pub(crate) struct KubernetesEndpoints {
    registry: Arc<Registry>,
    /// Where others reach this server.
    public: SocketAddr,
}

impl KubernetesEndpoints {
    /// `None` on the loopback: no endpoint may have such an address.
    pub(crate) fn new(registry: Arc<Registry>, public: SocketAddr) -> Option<Arc<Self>> {
        (!public.ip().is_loopback()).then(|| Arc::new(Self { registry, public }))
    }

    /// Says that this server is alive, and shows who else is.
    async fn renew(&self) -> Result<(), Status> {
        let storage = &self.registry.storage;
        let lease = storage.grant_lease(TTL).await;
        let lease = lease.map_err(errors::from_storage)?;
        let value = json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": { "creationTimestamp": null },
            "subsets": [{ "addresses": [{ "ip": self.public.ip() }] }],
        });
        let put = Op::Put {
            key: self.key(),
            value: value.to_string().into(),
            lease,
        };
        self.write(put).await?;
        self.show().await
    }

    /// Does so now, and again and again until it is aborted.
    pub(crate) async fn begin(self: Arc<Self>) -> AbortHandle {
        self.try_renew().await;
        let going_on = tokio::spawn(async move {
            let mut rounds = tokio::time::interval(INTERVAL);
            rounds.tick().await; // the first has been
            loop {
                rounds.tick().await;
                self.try_renew().await;
            }
        });
        going_on.abort_handle()
    }

    async fn try_renew(&self) {
        if let Err(status) = self.renew().await {
            tracing::warn!(%status, "the endpoints of the kubernetes Service are out of step");
        }
    }

    /// This server is about to stop.
    pub(crate) async fn leave(&self) {
        let leaving = async {
            self.write(Op::Delete { key: self.key() }).await?;
            self.show().await
        };
        match tokio::time::timeout(GOODBYE, leaving).await {
            Ok(Err(status)) => {
                tracing::warn!(%status, "leaving the endpoints of the kubernetes Service");
            }
            Err(_) => tracing::warn!("no time to leave the endpoints of the kubernetes Service"),
            Ok(Ok(())) => {}
        }
    }

    fn key(&self) -> String {
        format!("{LEASES}{}", self.public.ip())
    }

    async fn write(&self, op: Op) -> Result<(), Status> {
        let txn = Txn {
            success: vec![op],
            ..Txn::default()
        };
        let written = self.registry.storage.txn(txn).await;
        written.map(drop).map_err(errors::from_storage)
    }

    /// The addresses of those that are alive.
    async fn alive(&self) -> Result<BTreeSet<IpAddr>, Status> {
        let found = self.registry.storage.range(RangeRequest::prefix(LEASES));
        let found = found.await.map_err(errors::from_storage)?.kvs;
        let address = |value: &[u8]| -> Option<IpAddr> {
            let json = protobuf::stored_as_json(value).ok()?;
            let endpoints = Endpoints::decode(&json).ok()?;
            let subset = endpoints.subsets?.into_iter().next()?;
            subset.addresses?.into_iter().next()?.ip.parse().ok()
        };
        let same_family = |ip: &IpAddr| ip.is_ipv4() == self.public.is_ipv4();
        let alive = found.iter().filter_map(|kv| address(&kv.value));
        Ok(alive.filter(same_family).collect())
    }

    async fn show(&self) -> Result<(), Status> {
        let alive = self.alive().await?;
        let ports = self.ports().await?;
        let addresses: Vec<Value> = alive.iter().map(|ip| json!({ "ip": ip })).collect();
        let endpoints = json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                "name": boot::SERVICE,
                "namespace": boot::NAMESPACE,
                "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" },
            },
            "subsets": match addresses.is_empty() {
                true => json!([]),
                false => json!([{ "addresses": addresses, "ports": ports }]),
            },
        });
        let key = (boot::NAMESPACE, boot::SERVICE);
        let resource = ("", "v1", "endpoints");
        make(&self.registry, resource, key, &endpoints, true).await?;
        let ready = |ip: &IpAddr| json!({ "addresses": [ip], "conditions": { "ready": true } });
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": boot::SERVICE,
                "namespace": boot::NAMESPACE,
                "labels": { "kubernetes.io/service-name": boot::SERVICE },
            },
            "addressType": if self.public.is_ipv4() { "IPv4" } else { "IPv6" },
            "endpoints": alive.iter().map(ready).collect::<Vec<Value>>(),
            "ports": ports,
        });
        let resource = ("discovery.k8s.io", "v1", "endpointslices");
        make(&self.registry, resource, key, &slice, true).await
    }

    /// The ports that the Endpoints have: all servers are believed to listen on those of the first.
    async fn ports(&self) -> Result<Value, Status> {
        let own = json!([{ "name": "https", "port": self.public.port(), "protocol": "TCP" }]);
        let Some(endpoints) = self.registry.resource("", "v1", "endpoints") else {
            return Ok(own);
        };
        let key = endpoints.info.storage_key(boot::NAMESPACE, boot::SERVICE);
        let found = self.registry.storage.get(&key, None).await;
        let Some(kv) = found.map_err(errors::from_storage)?.kv else {
            return Ok(own);
        };
        let json = protobuf::stored_as_json(&kv.value).map_err(Status::internal)?;
        let stored: Value = serde_json::from_slice(&json).map_err(Status::internal)?;
        Ok(match &stored["subsets"][0]["ports"] {
            ports @ Value::Array(_) => ports.clone(),
            _ => own,
        })
    }
}
