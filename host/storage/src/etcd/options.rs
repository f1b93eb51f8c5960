//! How to reach etcd, and who to be there.

use std::{path::PathBuf, time::Duration};

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};

use crate::engine::{Result, StorageError};

/// Etcd closes connections that are pinged more often than every 5 s.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// What Kubernetes keeps its keys below, here and in every engine.
pub(super) const ROOT: &str = "/registry";

/// How to reach etcd.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// `http://host:port` or `https://host:port`. All requests go to one of them until it fails, the first one first.
    pub endpoints: Vec<String>,
    /// PEM files. `https` needs the CA's; the other two come together.
    pub ca_file: Option<PathBuf>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    /// User name and password.
    pub user: Option<(String, String)>,
    /// What stands in etcd for the `/registry` that every key begins with, as upstream's `--etcd-prefix`.
    pub prefix: String,
    /// How much history is kept, and how often older history is compacted. `None` leaves compaction to others.
    pub compaction_interval: Option<Duration>,
    /// Whether progress answers of etcd's watches never overtake events; `None`: as its version says (3.4.25, 3.5.8 and later
    /// do not). If so each resource has a watch of its own, else one watch of all keys feeds them.
    pub reliable_progress: Option<bool>,
    /// For one write; a read has half of it.
    pub timeout: Duration,
}

impl EtcdOptions {
    /// The defaults: no TLS, no user, Kubernetes' prefix, five minutes of history.
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            ca_file: None,
            cert_file: None,
            key_file: None,
            user: None,
            prefix: ROOT.to_owned(),
            compaction_interval: Some(Duration::from_secs(300)),
            reliable_progress: None,
            timeout: Duration::from_secs(10),
        }
    }

    /// What each member is connected with. The files are read once; `Invalid` if they do not fit together.
    pub(super) async fn connector(&self) -> Result<Connector> {
        if self.endpoints.is_empty() {
            return Err(StorageError::Invalid("etcd needs an endpoint".to_owned()));
        }
        Ok(Connector {
            tls: self.tls().await?,
            user: self.user.clone(),
            timeout: self.timeout,
        })
    }

    async fn tls(&self) -> Result<Option<TlsOptions>> {
        let mut tls = TlsOptions::new();
        match &self.ca_file {
            Some(ca) => tls = tls.ca_certificate(Certificate::from_pem(read(ca).await?)),
            None if self.endpoints.iter().any(|e| is_https(e)) => {
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

fn is_https(endpoint: &str) -> bool {
    endpoint.starts_with("https:")
}

async fn read(path: &PathBuf) -> Result<Vec<u8>> {
    tokio::fs::read(path)
        .await
        .map_err(|e| StorageError::Invalid(format!("cannot read {}: {e}", path.display())))
}

/// Makes the client of one member.
pub(super) struct Connector {
    tls: Option<TlsOptions>,
    user: Option<(String, String)>,
    timeout: Duration,
}

impl Connector {
    /// Reaches for the member only if there is a user to log in.
    pub(super) async fn connect(&self, endpoint: &str) -> Result<Client, etcd_client::Error> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(self.timeout)
            .with_keep_alive(KEEP_ALIVE, KEEP_ALIVE_TIMEOUT)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some(tls) = self.tls.as_ref().filter(|_| is_https(endpoint)) {
            options = options.with_tls(tls.clone());
        }
        if let Some((name, password)) = &self.user {
            options = options.with_user(name, password);
        }
        Client::connect([endpoint], Some(options)).await
    }
}
