//! Makes the claims on numbers match the Services: those that were stored before there were claims get them, and claims that
//! nothing stands behind go. A claim is doubted for one round first, since upstream's API server claims before it writes.
//! Source: Kubernetes, the repair loops of `ipallocator` and `portallocator`.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Service;
use pilothouse_api::{Kind, Revision, Status};
use pilothouse_storage::{Lease, Txn, WatchCache};

use super::{Allocators, Held, Parent, PortRange, ip_addresses, port_range};
use crate::registry::{Registry, errors};

/// Between two rounds; upstream's.
const ROUND: Duration = Duration::from_secs(180);
/// How long the caches may take to show what is stored.
const FRESHNESS_WAIT: Duration = Duration::from_secs(10);
const ATTEMPTS: usize = 32;

/// What the last round doubted.
pub(crate) struct Repair {
    registry: Arc<Registry>,
    allocators: Arc<Allocators>,
    doubted_ips: HashSet<IpAddr>,
    doubted_ports: HashSet<u16>,
}

/// What Services hold.
#[derive(Default)]
struct InUse {
    ips: HashMap<IpAddr, Parent>,
    ports: HashSet<u16>,
}

impl Repair {
    pub(crate) fn new(registry: Arc<Registry>, allocators: Arc<Allocators>) -> Self {
        Self {
            registry,
            allocators,
            doubted_ips: HashSet::new(),
            doubted_ports: HashSet::new(),
        }
    }

    /// Goes round until it is aborted.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::time::sleep(ROUND).await;
            if let Err(status) = self.round().await {
                tracing::warn!(%status, "repairing the claims of Services on numbers");
            }
        }
    }

    /// Once.
    pub(crate) async fn round(&mut self) -> Result<(), Status> {
        self.ips().await?;
        self.ports().await
    }

    fn cache(&self, group: &str, resource: &str) -> Result<&WatchCache, Status> {
        let resource = self.registry.resource(group, "v1", resource);
        let resource = resource.ok_or_else(|| Status::internal("a kind is not served"))?;
        Ok(&resource.cache)
    }

    /// What is held by now at least.
    async fn in_use(&self) -> Result<InUse, Status> {
        let services = self.cache("", "services")?;
        let fresh = services.catch_up(FRESHNESS_WAIT).await;
        fresh.map_err(errors::from_cache)?;
        let mut in_use = InUse::default();
        for service in services.list(None).map_err(errors::from_cache)?.iter() {
            let held = Held::of(&Service::decode(&service.bytes)?);
            let header = &service.header;
            let owner = Parent::service(&header.namespace, &header.name);
            let ips = held.ips.into_iter().map(|ip| (ip, owner.clone()));
            in_use.ips.extend(ips);
            in_use.ports.extend(held.ports);
        }
        Ok(in_use)
    }

    async fn ips(&mut self) -> Result<(), Status> {
        let addresses = self.cache("networking.k8s.io", "ipaddresses")?;
        let fresh = addresses.catch_up(FRESHNESS_WAIT).await;
        fresh.map_err(errors::from_cache)?;
        let claims = addresses.list(None).map_err(errors::from_cache)?;
        let in_use = self.in_use().await?; // no older than the claims
        let mut claimed = HashSet::new();
        let mut doubted = HashSet::new();
        for claim in claims.iter() {
            let Ok(ip) = claim.header.name.parse::<IpAddr>() else {
                continue;
            };
            claimed.insert(ip);
            let (label, ours) = ip_addresses::MANAGED_BY;
            let owner = Parent::of(&claim.bytes);
            if claim.header.label(label) != Some(ours) || in_use.ips.get(&ip) == owner.as_ref() {
                continue;
            }
            match self.doubted_ips.contains(&ip) {
                true => {
                    let gone = Txn::delete_if(&ip_addresses::key(ip), claim.revision);
                    self.write(gone).await?;
                }
                false => _ = doubted.insert(ip),
            }
        }
        for (ip, owner) in &in_use.ips {
            if self.allocators.pool_of(*ip).is_some() && !claimed.contains(ip) {
                let document = ip_addresses::document(*ip, owner, &*self.registry.environment);
                let key = ip_addresses::key(*ip);
                let put = Txn::put_if(&key, Revision(0), document.into(), Lease::default());
                self.write(put).await?;
            }
        }
        self.doubted_ips = doubted;
        Ok(())
    }

    async fn ports(&mut self) -> Result<(), Status> {
        for _ in 0..ATTEMPTS {
            let storage = &*self.registry.storage;
            let range = PortRange::read(storage, &self.allocators.port_range).await;
            let mut range = range.map_err(errors::from_storage)?;
            let stored = range.clone();
            let in_use = self.in_use().await?; // no older than the bitmap
            let unfounded = range.taken().filter(|port| !in_use.ports.contains(port));
            let unfounded: HashSet<u16> = unfounded.collect();
            for port in unfounded.intersection(&self.doubted_ports) {
                range.give_back(*port);
                self.allocators.node_ports.give_back((*port).into());
            }
            for port in &in_use.ports {
                range.take(*port);
            }
            if range != stored || range.revision == Revision(0) {
                let value = range.encode().into();
                let put = Txn::put_if(port_range::KEY, range.revision, value, Lease::default());
                if !self.write(put).await? {
                    continue; // somebody moved it
                }
            }
            self.doubted_ports = unfounded.difference(&self.doubted_ports).copied().collect();
            return Ok(());
        }
        Err(Status::internal(
            "the bitmap of node ports moves all the time",
        ))
    }

    async fn write(&self, txn: Txn) -> Result<bool, Status> {
        let written = self.registry.storage.txn(txn).await;
        Ok(written.map_err(errors::from_storage)?.succeeded)
    }
}
