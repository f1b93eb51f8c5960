//! The etcd engine: for more than one machine, and for data that other API servers read and write.
//!
//! One watch over all keys feeds every watch of this process (see [`crate::hub`]). Each revision of etcd has at least one event,
//! so its events alone tell exactly how far a quiet watch has come. Progress notifications are asked for only to notice a dead
//! connection: before etcd 3.5.8 they may overtake events.
//!
//! The user must be allowed to read and write all keys. Values may come from other writers; nothing is assumed about them.

mod compactor;
mod convert;
mod errors;
mod pump;

use std::{path::PathBuf, sync::Arc, time::Duration};

use etcd_client::{
    Certificate, Client, CompactionOptions, ConnectOptions, GetOptions, Identity, KvClient,
    TlsOptions,
};
use futures::stream::BoxStream;

use crate::{
    engine::{
        BoxFuture, GetResponse, KeyValue, Lease, Op, RangeRequest, RangeResponse, Result, Revision,
        Storage, StorageError, Txn, TxnResponse, WatchBatch, WatchRequest, WatchStream,
    },
    hub::{Hub, Source},
};
use convert::Keys;
use errors::{Asked, call};

/// How to reach etcd.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// `http://host:port` or `https://host:port`.
    pub endpoints: Vec<String>,
    /// PEM files. `https` needs the CA's; the other two come together.
    pub ca_file: Option<PathBuf>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    /// User name and password.
    pub user: Option<(String, String)>,
    /// Put before every key. Keys begin with `/registry` already.
    pub prefix: String,
    /// How much history is kept, and how often older history is compacted. `None` leaves compaction to others.
    pub compaction_interval: Option<Duration>,
    /// For one request.
    pub timeout: Duration,
}

impl EtcdOptions {
    /// The defaults: no TLS, no user, no prefix, five minutes of history.
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            ca_file: None,
            cert_file: None,
            key_file: None,
            user: None,
            prefix: String::new(),
            compaction_interval: Some(Duration::from_secs(300)),
            timeout: Duration::from_secs(10),
        }
    }

    async fn connect(&self) -> Result<Client> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(self.timeout)
            .with_keep_alive(Duration::from_secs(30), Duration::from_secs(10))
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some(tls) = self.tls().await? {
            options = options.with_tls(tls);
        }
        if let Some((name, password)) = &self.user {
            options = options.with_user(name, password);
        }
        let connecting = Client::connect(&self.endpoints, Some(options));
        let client = tokio::time::timeout(self.timeout, connecting).await;
        client
            .map_err(|_| self.unreachable("no answer in time"))?
            .map_err(|e| self.unreachable(e))
    }

    fn unreachable(&self, why: impl std::fmt::Display) -> StorageError {
        let endpoints = self.endpoints.join(", ");
        StorageError::Unavailable(format!("cannot connect to etcd at {endpoints}: {why}"))
    }

    async fn tls(&self) -> Result<Option<TlsOptions>> {
        let mut tls = TlsOptions::new();
        match &self.ca_file {
            Some(ca) => tls = tls.ca_certificate(Certificate::from_pem(read(ca).await?)),
            None if self.endpoints.iter().any(|e| e.starts_with("https:")) => {
                return Err(StorageError::Invalid(
                    "https endpoints of etcd need a CA file".to_owned(),
                ));
            }
            None => return Ok(None),
        }
        match (&self.cert_file, &self.key_file) {
            (Some(cert), Some(key)) => {
                tls = tls.identity(Identity::from_pem(read(cert).await?, read(key).await?));
            }
            (None, None) => {}
            _ => {
                return Err(StorageError::Invalid(
                    "a client certificate for etcd needs both its certificate and its key file"
                        .to_owned(),
                ));
            }
        }
        Ok(Some(tls))
    }
}

async fn read(path: &PathBuf) -> Result<Vec<u8>> {
    tokio::fs::read(path)
        .await
        .map_err(|e| StorageError::Invalid(format!("cannot read {}: {e}", path.display())))
}

/// What requests and the background tasks share.
struct Shared {
    client: Client,
    keys: Keys,
    timeout: Duration,
    hub: Arc<Hub>,
}

/// The etcd engine. Dropping it ends its watches.
pub struct Etcd {
    shared: Arc<Shared>,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl Etcd {
    /// Connects, and starts the shared watch on the current tokio runtime.
    pub async fn connect(options: EtcdOptions) -> Result<Self> {
        let client = options.connect().await?;
        let mut shared = Shared {
            client,
            keys: Keys::new(options.prefix.clone()),
            timeout: options.timeout,
            hub: Arc::new(Hub::new(Revision(0))),
        };
        let revision = shared.current_revision().await?;
        shared.hub = Arc::new(Hub::new(revision));
        let shared = Arc::new(shared);
        let mut tasks = vec![tokio::spawn(pump::run(shared.clone())).abort_handle()];
        if let Some(interval) = options.compaction_interval {
            let compactor = compactor::run(shared.clone(), interval);
            tasks.push(tokio::spawn(compactor).abort_handle());
        }
        Ok(Self { shared, tasks })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        let closing = StorageError::Unavailable("the engine is closing".to_owned());
        self.shared.hub.close(&closing);
    }
}

impl Shared {
    fn kv(&self) -> KvClient {
        self.client
            .kv_client()
            .max_decoding_message_size(usize::MAX)
    }

    /// A linearizable read of nothing.
    async fn current_revision(&self) -> Result<Revision> {
        let mut kv = self.kv();
        let options = GetOptions::new().with_count_only();
        let response = call(self.timeout, kv.get("\0", Some(options))).await;
        let response = response.map_err(|e| e.without_context())?;
        Ok(convert::revision(response.header()))
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<GetResponse> {
        let mut kv = self.kv();
        let options = at.map(|at| GetOptions::new().with_revision(convert::number(at)));
        let response = call(self.timeout, kv.get(self.keys.outer(key), options)).await;
        let mut response = match response {
            Ok(response) => response,
            Err(error) => return Err(self.explain(error, Asked::revision(at)).await),
        };
        let kv = response.take_kvs().into_iter().next();
        Ok(GetResponse {
            revision: convert::revision(response.header()),
            kv: kv.and_then(|kv| self.keys.key_value(kv)),
        })
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResponse> {
        if request.start >= request.end {
            return Ok(RangeResponse {
                revision: self.range_revision(request.revision).await?,
                kvs: Vec::new(),
                more: false,
                count: 0,
            });
        }
        let mut options = GetOptions::new()
            .with_range(self.keys.outer(&request.end))
            .with_limit(i64::try_from(request.limit).unwrap_or(i64::MAX));
        if let Some(at) = request.revision {
            options = options.with_revision(convert::number(at));
        }
        if request.keys_only {
            options = options.with_keys_only();
        }
        let mut kv = self.kv();
        let get = kv.get(self.keys.start(&request.start), Some(options));
        let mut response = match call(self.timeout, get).await {
            Ok(response) => response,
            Err(error) => return Err(self.explain(error, Asked::revision(request.revision)).await),
        };
        let asked = request.revision.filter(|r| r.0 > 0);
        let kvs = response.take_kvs().into_iter();
        Ok(RangeResponse {
            revision: asked.unwrap_or_else(|| convert::revision(response.header())),
            more: response.more(),
            count: usize::try_from(response.count()).unwrap_or(0),
            kvs: kvs.filter_map(|kv| self.keys.key_value(kv)).collect(),
        })
    }

    async fn range_revision(&self, asked: Option<Revision>) -> Result<Revision> {
        match asked.filter(|r| r.0 > 0) {
            Some(asked) => Ok(asked),
            None => self.current_revision().await,
        }
    }

    async fn txn(&self, txn: Txn) -> Result<TxnResponse> {
        let asked = Asked::lease(txn.success.iter().chain(&txn.failure).find_map(leased));
        let mut kv = self.kv();
        let response = call(self.timeout, kv.txn(self.keys.txn(txn))).await;
        match response {
            Ok(response) => Ok(self.keys.txn_response(&response)),
            Err(error) => Err(self.explain(error, asked).await),
        }
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        let mut kv = self.kv();
        let options = None::<CompactionOptions>;
        let response = call(self.timeout, kv.compact(convert::number(revision), options)).await;
        match response {
            Ok(_) => Ok(()),
            Err(error) => match self.explain(error, Asked::revision(Some(revision))).await {
                StorageError::Compacted { .. } => Ok(()), // somebody was quicker
                error => Err(error),
            },
        }
    }

    async fn grant(&self, ttl: Duration) -> Result<Lease> {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let seconds = i64::try_from(seconds.max(1)).unwrap_or(i64::MAX);
        let mut leases = self.client.lease_client();
        let response = call(self.timeout, leases.grant(seconds, None)).await;
        Ok(Lease(response.map_err(|e| e.without_context())?.id()))
    }

    async fn revoke(&self, lease: Lease) -> Result<()> {
        let mut leases = self.client.lease_client();
        match call(self.timeout, leases.revoke(lease.0)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.explain(error, Asked::lease(Some(lease))).await),
        }
    }

    async fn health(&self) -> Result<()> {
        self.current_revision().await?;
        let mut maintenance = self.client.maintenance_client();
        let status = call(self.timeout, maintenance.status()).await;
        let status = status.map_err(|e| e.without_context())?;
        match status.errors() {
            [] => Ok(()),
            errors if errors.iter().any(|e| e.contains("NOSPACE")) => {
                Err(StorageError::NoSpace(errors.join("; ")))
            }
            errors => Err(StorageError::Unavailable(errors.join("; "))),
        }
    }
}

fn leased(op: &Op) -> Option<Lease> {
    match op {
        Op::Put { lease, .. } if lease.0 != 0 => Some(*lease),
        _ => None,
    }
}

impl Source for Shared {
    fn replay(
        self: Arc<Self>,
        prefix: Arc<str>,
        after: Revision,
        upto: Revision,
    ) -> BoxStream<'static, Result<WatchBatch>> {
        pump::replay(self, prefix, after, upto)
    }

    fn before<'a>(
        &'a self,
        key: &'a str,
        revision: Revision,
    ) -> BoxFuture<'a, Result<Option<KeyValue>>> {
        Box::pin(async move {
            let before = Revision(revision.0.saturating_sub(1));
            match before.0 {
                0 => Ok(None),
                _ => Ok(self.get(key, Some(before)).await?.kv),
            }
        })
    }
}

impl Storage for Etcd {
    fn get<'a>(&'a self, key: &'a str, at: Option<Revision>) -> BoxFuture<'a, Result<GetResponse>> {
        Box::pin(self.shared.get(key, at))
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse>> {
        Box::pin(self.shared.range(request))
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse>> {
        Box::pin(self.shared.txn(txn))
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream>> {
        Box::pin(async move { Ok(self.shared.hub.watch(self.shared.clone(), request)) })
    }

    fn request_progress(&self, prefix: &str, revision: Revision) {
        self.shared.hub.request_progress(prefix, revision);
    }

    fn current_revision(&self) -> BoxFuture<'_, Result<Revision>> {
        Box::pin(self.shared.current_revision())
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.shared.compact(revision))
    }

    fn grant_lease(&self, ttl: Duration) -> BoxFuture<'_, Result<Lease>> {
        Box::pin(self.shared.grant(ttl))
    }

    fn revoke_lease(&self, lease: Lease) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.shared.revoke(lease))
    }

    fn health(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.shared.health())
    }
}
