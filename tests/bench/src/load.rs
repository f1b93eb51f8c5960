//! A closed-loop HTTPS load: so many connections, each sending its next request when the last was answered.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response, body::Incoming, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use pilothouse_e2e::{Cluster, ClusterOptions};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{net::TcpStream, task::JoinSet};

/// The administrator's token in a cluster of [`cluster`].
const TOKEN: &str = "bench-token";

/// A cluster that accepts [`TOKEN`].
pub(crate) fn cluster(nodes: u32) -> Result<Cluster> {
    let tokens = std::env::temp_dir().join(format!("pilothouse-bench-{}.csv", std::process::id()));
    fs::write(&tokens, format!("{TOKEN},bench,bench,\"system:masters\"\n"))?;
    Cluster::start_with(ClusterOptions {
        nodes,
        flags: vec!["--token-auth-file".to_owned(), tokens.display().to_string()],
        ..ClusterOptions::default()
    })
}

/// A connection is a file, here and in the server, which inherits the limit.
pub(crate) fn raise_file_limit() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    // that it cannot be raised shows when a connection is refused
    _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}

/// Where a cluster listens: `127.0.0.1:6443`.
pub(crate) fn address(cluster: &Cluster) -> Result<String> {
    let server =
        cluster.kubectl("config view --minify -o jsonpath={.clusters[0].cluster.server}")?;
    Ok(server.trim_start_matches("https://").to_owned())
}

/// One request.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: String,
}

impl Call {
    /// GET of a path.
    pub(crate) fn get(path: &str) -> Self {
        Self {
            method: Method::GET,
            path: path.to_owned(),
            body: String::new(),
        }
    }

    /// PUT of a JSON object.
    pub(crate) fn put(path: &str, body: String) -> Self {
        Self {
            method: Method::PUT,
            ..Self::post(path, body)
        }
    }

    /// POST of a JSON object.
    pub(crate) fn post(path: &str, body: String) -> Self {
        Self {
            method: Method::POST,
            path: path.to_owned(),
            body,
        }
    }
}

/// What a load measured.
pub(crate) struct Measured {
    pub(crate) elapsed: Duration,
    pub(crate) latency_us: Histogram<u64>,
    pub(crate) bytes: usize,
}

impl Measured {
    /// Requests a second.
    pub(crate) fn rate(&self) -> f64 {
        self.latency_us.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// `p50 … µs, p99 … µs`
    pub(crate) fn latencies(&self) -> String {
        let at = |q| self.latency_us.value_at_quantile(q);
        format!("p50 {} µs, p99 {} µs", at(0.5), at(0.99))
    }
}

/// Sends `total` requests, `call(n)` for the n-th, over `connections`; every one must be answered with 2xx.
pub(crate) async fn run(
    address: &str,
    connections: usize,
    total: usize,
    call: impl Fn(usize) -> Call + Send + Sync + 'static,
) -> Result<Measured> {
    let (call, next) = (Arc::new(call), Arc::new(AtomicUsize::new(0)));
    let mut senders = Vec::new();
    for _ in 0..connections {
        senders.push(connect(address).await?);
    }
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for mut sender in senders {
        let (call, next) = (call.clone(), next.clone());
        tasks.spawn(async move {
            let mut latency = Histogram::<u64>::new(3)?;
            let mut bytes = 0;
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= total {
                    return anyhow::Ok((latency, bytes));
                }
                let begun = Instant::now();
                bytes += send(&mut sender, call(n)).await?.len();
                latency.record(u64::try_from(begun.elapsed().as_micros())?)?;
            }
        });
    }
    let mut latency_us = Histogram::<u64>::new(3)?;
    let mut bytes = 0;
    while let Some(done) = tasks.join_next().await {
        let (latency, count) = done??;
        latency_us.add(latency)?;
        bytes += count;
    }
    Ok(Measured {
        elapsed: started.elapsed(),
        latency_us,
        bytes,
    })
}

/// Sends one request and returns the body of its 2xx answer.
pub(crate) async fn send(sender: &mut SendRequest<Full<Bytes>>, call: Call) -> Result<Bytes> {
    let path = call.path.clone();
    let response = begin(sender, call).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    ensure!(
        status.is_success(),
        "{path} answered {status}: {}",
        String::from_utf8_lossy(&body)
    );
    Ok(body)
}

/// Sends one request and returns its answer, whose body may go on.
pub(crate) async fn begin(
    sender: &mut SendRequest<Full<Bytes>>,
    call: Call,
) -> Result<Response<Incoming>> {
    let request = Request::builder()
        .method(call.method)
        .uri(&call.path)
        .header("host", "127.0.0.1")
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("content-type", "application/json")
        .body(Full::from(call.body))?;
    sender.ready().await?;
    Ok(sender.send_request(request).await?)
}

/// A TLS connection speaking HTTP/1.1.
pub(crate) async fn connect(address: &str) -> Result<SendRequest<Full<Bytes>>> {
    let tcp = TcpStream::connect(address)
        .await
        .with_context(|| format!("connecting to {address}"))?;
    tcp.set_nodelay(true)?;
    let provider = rustls::crypto::ring::default_provider();
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost")?;
    let tls = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// The server under measurement is a child of this process on the loopback interface: its certificate is not the question.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
