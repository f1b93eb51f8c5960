//! A transport over the network with a kubeconfig, with `kube::Client` as the HTTP stack: TLS, client certificates, tokens
//! with refresh, exec plugins. Works against any conformant API server.

use std::{path::Path, pin::Pin};

use bytes::Bytes;
use http_body_util::BodyExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use pilothouse_api::Status;

use crate::transport::{Body, Transport, UserInfo};

/// Requests go out as whoever the kubeconfig authenticates; `UserInfo` is not sent.
#[derive(Clone)]
pub struct HttpsTransport {
    client: kube::Client,
}

/// Why there is no transport.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot read the kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    #[error("cannot set up the connection: {0}")]
    Setup(#[from] kube::Error),
}

impl HttpsTransport {
    /// From a kubeconfig file, by its current context.
    pub async fn from_kubeconfig(path: &Path) -> Result<Self, ConnectError> {
        let kubeconfig = Kubeconfig::read_from(path)?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Self::new(config)
    }

    /// From a configuration. Retries are the `Client`'s.
    pub fn new(mut config: kube::Config) -> Result<Self, ConnectError> {
        config.default_retry = false;
        Ok(Self {
            client: kube::Client::try_from(config)?,
        })
    }
}

impl Transport for HttpsTransport {
    fn send(
        &self,
        _user: &UserInfo,
        request: http::Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<http::Response<Body>, Status>> + Send + '_>> {
        Box::pin(async move {
            let request = request.map(|body| kube::client::Body::from(body.to_vec()));
            let response = self.client.send(request).await.map_err(|error| {
                Status::new(
                    503,
                    "ServiceUnavailable",
                    format!("the API server did not answer: {error}"),
                )
            })?;
            Ok(response.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
        })
    }
}
