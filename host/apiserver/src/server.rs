//! Starts, serves and stops.
//!
//! ```text
//! start ──► serving ──► leaving: not ready ──► stopping: no new connections, watches end ──► requests end ──► stopped
//! ```

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
};
use pilothouse_api::Status;
use pilothouse_client::UserInfo;
use pilothouse_storage::{Storage, StorageError};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinHandle},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

use crate::{
    admission::AdmissionChain,
    body::RequestBody,
    boot,
    discovery::Discovery,
    environment::{Environment, Machine},
    filters::{
        self, Caller,
        authentication::{Authenticator, ServiceAccounts, certificate_user},
    },
    flow_control::FlowControl,
    kubeconfig,
    kubernetes_endpoints::KubernetesEndpoints,
    metrics::Metrics,
    openapi,
    options::ApiServerOptions,
    pki::{Pki, PkiError},
    registry::{
        Registry,
        allocation::{self, Allocators, Repair},
        kinds,
    },
    service_account_tokens::{Tokens, secrets::TokenSecrets},
    state::State,
    tls,
    transport::InProcess,
};

/// A connection that says nothing for so long while it should shake hands is dropped.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The caches have read all that is stored by then, or something is wrong.
const CACHES_FILL: Duration = Duration::from_secs(60);
/// Requests that one HTTP/2 connection may have open; every watch is one.
const MAX_STREAMS: u32 = 1000;
/// Of one request, as upstream allows: selectors may be long.
const MAX_HEADER_BYTES: u32 = 1 << 20;
/// Enough for the largest body without a stop.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error("{0}")]
    Options(String),
    #[error("TLS: {0}")]
    Tls(String),
    #[error("{path}: {source}")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("listening on {address}: {source}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("making the first objects: {0}")]
    Boot(#[from] Status),
}

/// The API server.
pub struct ApiServer;

/// A server that serves until it is shut down.
pub struct RunningServer {
    state: Arc<State>,
    address: SocketAddr,
    url: String,
    kubeconfig: PathBuf,
    accepting: JoinHandle<GracefulShutdown>,
    shutdown_delay: Duration,
    /// Tasks that work on what is stored.
    keepers: Vec<AbortHandle>,
    endpoints: Option<Arc<KubernetesEndpoints>>,
    shutdown_grace: Duration,
}

impl ApiServer {
    /// Makes what is missing on disk and in storage, listens, and serves. When this returns, requests are answered.
    pub async fn start(
        options: ApiServerOptions,
        storage: Arc<dyn Storage>,
        admission: Arc<dyn AdmissionChain>,
    ) -> Result<RunningServer, StartError> {
        Self::start_connected(options, storage, admission, |_| ()).await
    }

    /// The same; `connect` gets the way in without the network before the first object is made, so that admission plugins can
    /// read from the very first request on.
    pub async fn start_connected(
        options: ApiServerOptions,
        storage: Arc<dyn Storage>,
        admission: Arc<dyn AdmissionChain>,
        connect: impl FnOnce(InProcess),
    ) -> Result<RunningServer, StartError> {
        options.check().map_err(StartError::Options)?;
        let environment: Arc<dyn Environment> = Arc::new(Machine);
        let public_ip = options.public_ip();
        let ranges = &options.service_cluster_ip_ranges;
        let allocators = Allocators::new(ranges, options.service_node_port_range.clone());
        let service_ip = allocators.kubernetes_service_ip().ok_or_else(|| {
            StartError::Options("--service-cluster-ip-range must not be empty".to_owned())
        })?;
        let addresses = [
            public_ip,
            options.reached_at(),
            Ipv4Addr::LOCALHOST.into(),
            service_ip,
        ];
        let pki = Pki::load_or_make(&options.data_dir.join("pki"), &addresses)?;
        let acceptor = TlsAcceptor::from(Arc::new(tls::server_config(&options, &pki)?));
        let service_accounts = options.service_accounts.clone();
        let tokens = Arc::new(Tokens::load(
            service_accounts,
            &options.data_dir.join("pki"),
        )?);

        let address = options.listen_address();
        let listen_error = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let public = SocketAddr::new(public_ip, address.port());
        let url = format!(
            "https://{}",
            SocketAddr::new(options.reached_at(), address.port())
        );
        let kubeconfig = options.data_dir.join("admin.kubeconfig");
        kubeconfig::write_admin(&kubeconfig, &url, &pki)?;

        let kinds = kinds::built_in(&allocators);
        let registry = Arc::new(Registry::new(
            storage,
            admission,
            environment.clone(),
            kinds,
        ));
        let authenticator = Authenticator::new(ServiceAccounts {
            tokens: tokens.clone(),
            registry: registry.clone(),
        });
        if let Some(path) = &options.token_auth_file {
            authenticator.read_token_file(path)?;
        }
        registry.ready(CACHES_FILL).await?;
        let mut keepers = keep_allocators(&registry, &allocators).await?;
        let state = Arc::new(State {
            discovery: Discovery::new(&registry, &public.to_string()),
            openapi: openapi::describe(&registry),
            registry: registry.clone(),
            authenticator,
            tokens,
            public_address: public.to_string(),
            metrics: Metrics::new(environment.now()),
            flow_control: Arc::new(FlowControl::new(
                options.max_requests_inflight + options.max_mutating_requests_inflight,
            )),
            environment,
            leaving: CancellationToken::new(),
            stopping: CancellationToken::new(),
        });
        connect(InProcess::new(state.clone()));
        let endpoints = KubernetesEndpoints::new(registry.clone(), public);
        match registry.writable().await {
            Err(StorageError::ReadOnly(why)) => {
                tracing::warn!(why, "nothing is made at this start")
            }
            _ => boot::make_first_objects(&registry, public, service_ip, ranges).await?,
        }
        if let Some(endpoints) = &endpoints {
            keepers.push(endpoints.clone().begin().await);
        }
        let flow_control = state.flow_control.clone();
        flow_control.begin(&registry).await?;
        let (follows, stopping) = (registry.clone(), state.stopping.clone());
        tokio::spawn(async move { flow_control.follow(follows, stopping).await });
        let token_secrets = TokenSecrets {
            registry,
            tokens: state.tokens.clone(),
            root_certificate: pki.ca_certificate,
        };
        tokio::spawn(token_secrets.run(state.stopping.clone()));
        let accepting = tokio::spawn(accept(state.clone(), listener, acceptor));
        tracing::info!(%address, "API server is listening");
        Ok(RunningServer {
            state,
            address,
            url,
            kubeconfig,
            accepting,
            shutdown_delay: options.shutdown_delay,
            keepers,
            endpoints,
            shutdown_grace: options.shutdown_grace,
        })
    }
}

impl RunningServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows the metrics of another part of the process at `/metrics` too. Their names must not be the server's own.
    pub fn also_expose(&self, metrics: prometheus_client::registry::Registry) {
        self.state.metrics.also(metrics);
    }

    /// The URL in the admin's kubeconfig.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The admin's kubeconfig.
    pub fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }

    /// A way in without the network.
    pub fn transport(&self) -> InProcess {
        InProcess::new(self.state.clone())
    }

    /// Lets a component of the host in from outside the process: requests with this token are `user`'s.
    pub fn register_token(&self, token: &str, user: UserInfo) {
        self.state.authenticator.register_token(token, user);
    }

    /// Says from now on that it is not ready, and serves as before: what else is to stop before the server may take its time.
    pub fn leave(&self) {
        self.state.leaving.cancel();
    }

    /// Stops: says that it is not ready, serves on for the delay, then ends watches and answers open requests, at most for the
    /// grace period. Whoever still has a connection then loses it.
    pub async fn shutdown(self) {
        self.leave();
        for keeper in &self.keepers {
            keeper.abort();
        }
        if let Some(endpoints) = &self.endpoints {
            endpoints.leave().await;
        }
        if !self.shutdown_delay.is_zero() {
            tokio::time::sleep(self.shutdown_delay).await;
        }
        self.state.stopping.cancel();
        match self.accepting.await {
            Ok(connections) => {
                if tokio::time::timeout(self.shutdown_grace, connections.shutdown())
                    .await
                    .is_err()
                {
                    tracing::warn!("requests were still open when the grace period ended");
                }
            }
            Err(error) => tracing::error!(%error, "the listener had failed"),
        }
    }
}

/// Takes the numbers out of the pools that stored Services hold, now and from now on, and makes their claims match.
async fn keep_allocators(
    registry: &Arc<Registry>,
    allocators: &Arc<Allocators>,
) -> Result<Vec<AbortHandle>, Status> {
    let Some(services) = registry.resource("", "v1", "services") else {
        return Ok(Vec::new());
    };
    let following = allocation::follow(services.cache.clone(), allocators.clone())?;
    let mut repair = Repair::new(registry.clone(), allocators.clone());
    if let Err(status) = repair.round().await {
        // such as a full disk, on which reads go on
        tracing::warn!(%status, "the claims of Services on numbers are not repaired now");
    }
    Ok(vec![following, tokio::spawn(repair.run()).abort_handle()])
}

/// Accepts until told to stop.
async fn accept(
    state: Arc<State>,
    listener: TcpListener,
    acceptor: TlsAcceptor,
) -> GracefulShutdown {
    let connections = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = state.stopping.cancelled() => return connections,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(connection(
                    state.clone(),
                    stream,
                    acceptor.clone(),
                    connections.watcher(),
                ));
            }
            Err(error) => {
                // out of file descriptors, most likely: let some go before the next attempt
                tracing::warn!(%error, "accepting a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// One connection from handshake to end.
async fn connection(state: Arc<State>, stream: TcpStream, acceptor: TlsAcceptor, watcher: Watcher) {
    let _ = stream.set_nodelay(true); // only speed depends on it
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)) => shaken,
        () = state.stopping.cancelled() => return, // nothing was asked yet
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            state.metrics.handshake_errors.inc();
            return tracing::debug!(%error, "TLS handshake failed");
        }
        Err(_) => {
            state.metrics.handshake_errors.inc();
            return tracing::debug!("TLS handshake took too long");
        }
    };
    let certificate = peer_user(&stream).map(Arc::new);
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (state, caller) = (state.clone(), Caller::Remote(certificate.clone()));
        async move {
            let (parts, body) = request.into_parts();
            let response = filters::serve(&state, caller, parts, RequestBody::Incoming(body)).await;
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let io = TokioIo::new(stream);
    let ended = match http2 {
        true => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .max_concurrent_streams(MAX_STREAMS)
                .max_header_list_size(MAX_HEADER_BYTES)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .keep_alive_interval(Duration::from_secs(30));
            let served = watcher.watch(builder.serve_connection(io, service)).await;
            served.map_err(|error| error.to_string())
        }
        false => {
            let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
            builder.http1().timer(TokioTimer::new());
            let connection = builder.serve_connection_with_upgrades(io, service); // to WebSockets
            let served = watcher.watch(connection).await;
            served.map_err(|error| error.to_string())
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The user of the client certificate, which the handshake has verified.
fn peer_user(stream: &TlsStream<TcpStream>) -> Option<UserInfo> {
    let certificates = stream.get_ref().1.peer_certificates()?;
    certificate_user(certificates.first()?)
}
