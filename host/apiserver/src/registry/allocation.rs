//! Numbers that no two Services share: cluster IPs and node ports.
//!
//! Whose a number is, storage says: of an address its IPAddress object, of a port its bit in one bitmap. Both are written in
//! the transaction that writes the Service, so they hold among all API servers of an etcd, upstream's among them. The pools here
//! are what this process knows of it, so that it seldom asks for what is taken; [`follow`] keeps them up to date.
//!
//! Lock order: `Allocators::turn`, awaited and held for one write of node ports; then a pool's lock, held for one operation, no
//! two together.

mod cluster_ips;
mod follow;
mod ip_addresses;
mod pool;
mod port_range;
mod repair;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    ops::RangeInclusive,
    sync::Arc,
};

use k8s_openapi::api::core::v1::Service;
use pilothouse_api::Revision;
use pilothouse_storage::{BoxFuture, KeyValue, Storage};
use tokio::sync::{Mutex, OwnedMutexGuard};

use cluster_ips::ClusterIps;
pub use cluster_ips::{ClusterIpRange, RangeError};
pub(crate) use follow::follow;
use ip_addresses::Parent;
use pool::Pool;
pub(super) use pool::Refusal;
use port_range::PortRange;
pub(crate) use repair::Repair;

use super::claims::{ClaimError, Claims, Reservation};
use crate::environment::Environment;

/// `10.96.0.0/16`.
pub const DEFAULT_CLUSTER_IP_RANGE: &str = "10.96.0.0/16";
/// `30000-32767`.
pub const DEFAULT_NODE_PORTS: RangeInclusive<u16> = 30000..=32767;

/// The pools of one cluster.
pub struct Allocators {
    /// One for each family; the first is the default.
    cluster_ips: Vec<ClusterIps>,
    node_ports: Pool,
    port_range: RangeInclusive<u16>,
    /// Who writes the bitmap of ports now: of writers at the same time all but one would have to begin again.
    turn: Arc<Mutex<()>>,
}

impl Allocators {
    /// Pools in which everything is free. `ranges`: one of each family at most, the default first.
    pub fn new(ranges: &[ClusterIpRange], node_ports: RangeInclusive<u16>) -> Arc<Self> {
        let (first, last) = (u32::from(*node_ports.start()), u32::from(*node_ports.end()));
        Arc::new(Self {
            cluster_ips: ranges.iter().map(ClusterIps::new).collect(),
            node_ports: Pool::new(first, last, 32, (16, 128)),
            port_range: node_ports,
            turn: Arc::default(),
        })
    }

    /// Marks what a stored Service holds; for the start, before the first request.
    pub fn adopt(&self, service: &Service) {
        self.mark(&Held::of(service));
    }

    fn mark(&self, held: &Held) {
        for ip in &held.ips {
            if let Some(pool) = self.pool_of(*ip) {
                pool.adopt(*ip);
            }
        }
        for port in &held.ports {
            self.node_ports.adopt((*port).into());
        }
    }

    /// The address of the `kubernetes` Service: the first of the default range.
    pub fn kubernetes_service_ip(&self) -> Option<IpAddr> {
        self.cluster_ips.first().map(ClusterIps::first)
    }

    /// The families that this cluster has, the default first: `IPv4`, `IPv6`.
    pub(super) fn families(&self) -> impl Iterator<Item = &'static str> {
        self.cluster_ips.iter().map(ClusterIps::family)
    }

    /// What gives back all that a Service holds which is being deleted.
    pub(super) fn release(self: &Arc<Self>, service: &Service) -> Transaction {
        let mut transaction = self.begin(false);
        transaction.obsolete = Held::of(service);
        transaction
    }

    /// Begins a reservation; what `old` holds and the stored object will not hold any more is given back on commit.
    pub(super) fn begin(self: &Arc<Self>, dry_run: bool) -> Transaction {
        Transaction {
            allocators: Arc::clone(self),
            fresh: Held::default(),
            obsolete: Held::default(),
            keep: !dry_run,
            owner: Parent::default(),
            left_over: HashMap::new(),
            lost: false,
            turn: None,
        }
    }

    fn pool_of(&self, ip: IpAddr) -> Option<&ClusterIps> {
        let mut pools = self.cluster_ips.iter();
        pools.find(|pool| pool.is_ipv4() == ip.is_ipv4())
    }

    fn give_back(&self, held: &Held) {
        for ip in &held.ips {
            if let Some(pool) = self.pool_of(*ip) {
                pool.give_back(*ip);
            }
        }
        for port in &held.ports {
            self.node_ports.give_back((*port).into());
        }
    }
}

/// The numbers that a Service holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) ips: BTreeSet<IpAddr>,
    pub(super) ports: BTreeSet<u16>,
}

impl Held {
    pub(super) fn of(service: &Service) -> Self {
        let Some(spec) = &service.spec else {
            return Self::default();
        };
        let ips = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
        let node_ports = spec.ports.iter().flatten().filter_map(|p| p.node_port);
        Self {
            ips: ips.filter_map(|ip| ip.parse().ok()).collect(),
            ports: node_ports
                .chain(spec.health_check_node_port)
                .filter_map(|port| u16::try_from(port).ok())
                .filter(|port| *port != 0)
                .collect(),
        }
    }

    fn without(&self, other: &Self) -> Self {
        Self {
            ips: self.ips.difference(&other.ips).copied().collect(),
            ports: self.ports.difference(&other.ports).copied().collect(),
        }
    }
}

/// Numbers taken for one write. Dropping it without `commit` gives them back.
pub(super) struct Transaction {
    allocators: Arc<Allocators>,
    fresh: Held,
    obsolete: Held,
    /// Whether a commit keeps anything: not in a dry run.
    keep: bool,
    /// The Service that this is for.
    owner: Parent,
    /// Addresses whose object names this Service though it is not stored, with that object's revision.
    left_over: HashMap<IpAddr, Revision>,
    /// Somebody else has one of the numbers.
    lost: bool,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Transaction {
    /// Takes a certain address.
    pub(super) fn take_ip(&mut self, ip: IpAddr) -> Result<(), Refusal> {
        let pool = self.allocators.pool_of(ip);
        pool.ok_or(Refusal::OutOfRange)?.take(ip)?;
        self.fresh.ips.insert(ip);
        Ok(())
    }

    /// Takes any address of a family.
    pub(super) fn take_any_ip(&mut self, ipv4: bool) -> Result<IpAddr, Refusal> {
        let mut pools = self.allocators.cluster_ips.iter();
        let pool = pools.find(|pool| pool.is_ipv4() == ipv4);
        let ip = pool.ok_or(Refusal::OutOfRange)?.take_any()?;
        self.fresh.ips.insert(ip);
        Ok(ip)
    }

    /// Takes a certain node port.
    pub(super) fn take_port(&mut self, port: u16) -> Result<(), Refusal> {
        self.allocators.node_ports.take(port.into())?;
        self.fresh.ports.insert(port);
        Ok(())
    }

    /// Takes any node port.
    pub(super) fn take_any_port(&mut self) -> Result<u16, Refusal> {
        let port = self.allocators.node_ports.take_any()?;
        let port = u16::try_from(port).map_err(|_| Refusal::OutOfRange)?;
        self.fresh.ports.insert(port);
        Ok(port)
    }

    /// Whether this transaction has taken the port.
    pub(super) fn has_port(&self, port: u16) -> bool {
        self.fresh.ports.contains(&port)
    }

    /// Says which Service the numbers are for.
    pub(super) fn set_owner(&mut self, namespace: &str, name: &str) {
        self.owner = Parent::service(namespace, name);
    }

    /// What the old object holds and the new one does not is given back on commit.
    pub(super) fn replaces(&mut self, old: &Held, new: &Held) {
        self.obsolete = old.without(new);
    }

    /// The valid node ports, for messages: `30000-32767`.
    pub(super) fn port_range(&self) -> String {
        self.allocators.node_ports.range()
    }

    /// The valid addresses of a family, for messages: `10.96.0.0/16`.
    pub(super) fn ip_range(&self, ip: IpAddr) -> String {
        let pool = self.allocators.pool_of(ip);
        pool.map_or_else(String::new, ClusterIps::range)
    }
}

impl Transaction {
    fn claim_ips(&self, claims: &mut Claims, environment: &dyn Environment) {
        for ip in &self.fresh.ips {
            let expected = self.left_over.get(ip).copied().unwrap_or_default();
            let document = ip_addresses::document(*ip, &self.owner, environment);
            claims.replace(ip_addresses::key(*ip), expected, document);
        }
        for ip in &self.obsolete.ips {
            if self.allocators.pool_of(*ip).is_some() {
                claims.remove(ip_addresses::key(*ip));
            }
        }
    }

    async fn claim_ports(
        &mut self,
        claims: &mut Claims,
        storage: &dyn Storage,
    ) -> Result<(), ClaimError> {
        if self.fresh.ports.is_empty() && self.obsolete.ports.is_empty() {
            return Ok(());
        }
        if self.turn.is_none() {
            self.turn = Some(self.allocators.turn.clone().lock_owned().await);
        }
        let mut range = PortRange::read(storage, &self.allocators.port_range).await?;
        // what others have stays marked as taken, so that it is not tried again
        self.fresh.ports.retain(|port| {
            let free = range.take(*port);
            self.lost |= !free;
            free
        });
        if self.lost {
            return Err(ClaimError::Lost);
        }
        for port in &self.obsolete.ports {
            range.give_back(*port);
        }
        claims.replace(port_range::KEY.to_owned(), range.revision, range.encode());
        Ok(())
    }
}

impl Reservation for Transaction {
    fn claims<'a>(
        &'a mut self,
        storage: &'a dyn Storage,
        environment: &'a dyn Environment,
    ) -> BoxFuture<'a, Result<Claims, ClaimError>> {
        Box::pin(async move {
            if self.lost {
                return Err(ClaimError::Lost);
            }
            let mut claims = Claims::default();
            self.claim_ips(&mut claims, environment);
            self.claim_ports(&mut claims, storage).await?;
            Ok(claims)
        })
    }

    /// The addresses come first, in their order.
    fn refused(&mut self, found: Vec<Option<KeyValue>>) {
        let ips: Vec<IpAddr> = self.fresh.ips.iter().copied().collect();
        for (ip, found) in ips.into_iter().zip(found) {
            match found {
                None => _ = self.left_over.remove(&ip),
                Some(kv) if Parent::of(&kv.value).as_ref() == Some(&self.owner) => {
                    self.left_over.insert(ip, kv.mod_revision);
                }
                Some(_) => {
                    self.fresh.ips.remove(&ip);
                    self.lost = true;
                }
            }
        }
    }

    fn commit(mut self: Box<Self>) {
        if self.keep {
            self.fresh = Held::default();
            self.allocators.give_back(&self.obsolete);
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.allocators.give_back(&self.fresh);
    }
}
