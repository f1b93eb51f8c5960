//! Leader election by a Lease, for processes of which one at a time may work.
//! Source: <https://kubernetes.io/docs/concepts/architecture/leases/#leader-election>; timings as client-go's.
//!
//! ```text
//!   Standing by ── lease free, released or expired: write won ──► Leading
//!        ▲                                                          │ renewed every retry period
//!        └───────────── another holder, or not renewed within ──────┘
//!                       the renew deadline
//! ```
//!
//! Invariants: whether a lease has expired is judged by the local clock from when this process saw its last change, never by
//! comparing clocks of machines; a leader that could not renew in time stops leading before others may take over.

use std::{sync::Arc, time::Duration};

use pilothouse_api::{GroupVersionResource, Status};
use pilothouse_client::{Client, Clock};
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

static LEASES: GroupVersionResource =
    GroupVersionResource::of("coordination.k8s.io", "v1", "leases");

/// Which lease, who wants it, and the timings.
#[derive(Clone, Debug)]
pub struct LeaderConfig {
    pub namespace: String,
    pub name: String,
    /// Unique to this process: host name and a uuid.
    pub identity: String,
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

impl LeaderConfig {
    /// client-go's 15, 10 and 2 seconds.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// A candidate.
pub struct Leader {
    client: Client,
    config: LeaderConfig,
    clock: Arc<dyn Clock>,
    /// What the lease last said, and when that was first seen here.
    observed: Option<(Value, Instant)>,
    /// The lease as it was last read or written, with its `resourceVersion`.
    lease: Option<Value>,
    leading: watch::Sender<bool>,
}

impl Leader {
    /// Stands by.
    pub fn new(client: Client, config: LeaderConfig, clock: Arc<dyn Clock>) -> Self {
        Self {
            client,
            config,
            clock,
            observed: None,
            lease: None,
            leading: watch::Sender::new(false),
        }
    }

    /// Follows whether this process leads.
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.leading.subscribe()
    }

    /// Waits until this process leads.
    pub async fn acquire(&mut self) {
        loop {
            match self.try_hold().await {
                Ok(true) => {
                    self.leading.send_replace(true);
                    return;
                }
                Ok(false) => {}
                Err(status) => {
                    tracing::warn!(lease = %self.config.name, "leader election: {status}");
                }
            }
            // jitter keeps standing candidates apart
            let wait = self
                .config
                .retry_period
                .mul_f64(1.0 + 1.2 * self.clock.random());
            tokio::time::sleep(wait).await;
        }
    }

    /// Renews for as long as that works; returns when this process leads no longer.
    pub async fn hold(&mut self) {
        let mut renewed = Instant::now();
        loop {
            let deadline = renewed + self.config.renew_deadline;
            match tokio::time::timeout_at(deadline, self.try_hold()).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => break, // another one holds it
                Ok(Err(status)) => {
                    tracing::warn!(lease = %self.config.name, "renewing the lease: {status}");
                }
                Err(_) => break,
            }
            let next = Instant::now() + self.config.retry_period;
            if next >= renewed + self.config.renew_deadline {
                break;
            }
            tokio::time::sleep_until(next).await;
        }
        self.leading.send_replace(false);
    }

    /// Gives the lease up, so that others need not wait for it to expire. For an orderly end.
    pub async fn release(&mut self) {
        self.leading.send_replace(false);
        let Some(mut lease) = self.lease.take() else {
            return;
        };
        if holder(&lease) != self.config.identity {
            return;
        }
        lease["spec"] = json!({
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "leaseTransitions": lease["spec"]["leaseTransitions"],
            "acquireTime": lease["spec"]["acquireTime"],
            "renewTime": self.now(),
        });
        if let Err(status) = self.write(&lease).await {
            tracing::warn!(lease = %self.config.name, "releasing the lease: {status}");
        }
    }

    /// Takes or renews the lease; whether this process holds it now.
    async fn try_hold(&mut self) -> Result<bool, Status> {
        if self.is_ours()
            && let Some(lease) = &self.lease
        {
            // the common case costs one request
            let renewed = self.renewed(lease);
            match self.write(&renewed).await {
                Ok(lease) => return Ok(self.keep(lease)),
                Err(status) if status.is_conflict() || status.is_not_found() => {}
                Err(status) => return Err(status),
            }
        }
        let (namespace, name) = (&self.config.namespace, &self.config.name);
        let lease = match self.client.get(&LEASES, namespace, name).await {
            Ok(object) => decode(&object.bytes)?,
            Err(status) if status.is_not_found() => return self.create().await,
            Err(status) => return Err(status),
        };
        self.observe(&lease);
        let held = !holder(&lease).is_empty() && !self.expired(&lease);
        if held && holder(&lease) != self.config.identity {
            self.lease = Some(lease);
            return Ok(false);
        }
        let taken = self.taken(&lease);
        match self.write(&taken).await {
            Ok(lease) => Ok(self.keep(lease)),
            Err(status) if status.is_conflict() => Ok(false), // somebody was faster
            Err(status) => Err(status),
        }
    }

    async fn create(&mut self) -> Result<bool, Status> {
        let config = &self.config;
        let now = self.now();
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": config.namespace, "name": config.name},
            "spec": {
                "holderIdentity": config.identity,
                "leaseDurationSeconds": config.lease_duration.as_secs(),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        });
        let created = self
            .client
            .create(&LEASES, &config.namespace, lease.to_string());
        match created.await {
            Ok(object) => {
                let lease = decode(&object.bytes)?;
                Ok(self.keep(lease))
            }
            Err(status) if status.is_already_exists() => Ok(false),
            Err(status) => Err(status),
        }
    }

    fn is_ours(&self) -> bool {
        self.lease
            .as_ref()
            .is_some_and(|lease| holder(lease) == self.config.identity)
            && *self.leading.borrow()
    }

    fn renewed(&self, lease: &Value) -> Value {
        let mut lease = lease.clone();
        lease["spec"]["renewTime"] = json!(self.now());
        lease
    }

    fn taken(&self, lease: &Value) -> Value {
        let mut lease = lease.clone();
        let now = self.now();
        if holder(&lease) != self.config.identity {
            let transitions = lease["spec"]["leaseTransitions"].as_i64().unwrap_or(0);
            lease["spec"]["leaseTransitions"] = json!(transitions + 1);
            lease["spec"]["acquireTime"] = json!(now);
        }
        lease["spec"]["holderIdentity"] = json!(self.config.identity);
        lease["spec"]["leaseDurationSeconds"] = json!(self.config.lease_duration.as_secs());
        lease["spec"]["renewTime"] = json!(now);
        lease
    }

    async fn write(&self, lease: &Value) -> Result<Value, Status> {
        let (namespace, name) = (&self.config.namespace, &self.config.name);
        let written = self
            .client
            .update(&LEASES, namespace, name, lease.to_string())
            .await?;
        decode(&written.bytes)
    }

    fn keep(&mut self, lease: Value) -> bool {
        self.observe(&lease);
        self.lease = Some(lease);
        true
    }

    fn observe(&mut self, lease: &Value) {
        let spec = &lease["spec"];
        if self.observed.as_ref().is_none_or(|(seen, _)| seen != spec) {
            self.observed = Some((spec.clone(), Instant::now()));
        }
    }

    /// Whether the holder has let as much time pass as it announced, since its last sign of life that was seen here.
    fn expired(&self, lease: &Value) -> bool {
        let seconds = lease["spec"]["leaseDurationSeconds"].as_u64().unwrap_or(0);
        let since = self.observed.as_ref().map(|(_, at)| at.elapsed());
        since.is_some_and(|since| since >= Duration::from_secs(seconds))
    }

    fn now(&self) -> String {
        let ms = i64::try_from(self.clock.now_ms()).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
        format!("{time:.6}")
    }
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

fn decode(bytes: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(bytes)
        .map_err(|error| Status::internal(format!("undecodable lease: {error}")))
}

#[cfg(test)]
mod tests;
