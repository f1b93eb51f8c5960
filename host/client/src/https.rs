//! A transport over the network with a kubeconfig, with `kube::Client` as the HTTP stack: TLS, client certificates, tokens
//! with refresh, exec plugins. Works against any conformant API server.

use std::{path::Path, pin::Pin};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use pilothouse_api::Status;

use crate::transport::{Body, Transport, UserInfo};

/// Requests go out as whoever the kubeconfig authenticates; with [`Self::impersonating`] those of plugins as the plugins' users.
#[derive(Clone)]
pub struct HttpsTransport {
    client: kube::Client,
    impersonate_plugins: bool,
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
            impersonate_plugins: false,
        })
    }

    /// Impersonates the users of plugins, whom the cluster must then have granted what they need; the kubeconfig's own user
    /// must be allowed to impersonate them.
    /// Source: <https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/>
    #[must_use]
    pub fn impersonating(mut self) -> Self {
        self.impersonate_plugins = true;
        self
    }
}

impl Transport for HttpsTransport {
    fn send(
        &self,
        user: &UserInfo,
        mut request: http::Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<http::Response<Body>, Status>> + Send + '_>> {
        if self.impersonate_plugins && user.in_group(PLUGINS) {
            impersonate(request.headers_mut(), user);
        }
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

/// The group of all plugins' users.
const PLUGINS: &str = "system:plugins";

/// A user whose name is no header value is named as nobody, lest the request be made as the kubeconfig's own user.
fn impersonate(headers: &mut HeaderMap, user: &UserInfo) {
    let name = HeaderValue::from_str(&user.name);
    let name = name.unwrap_or(HeaderValue::from_static("system:anonymous"));
    headers.insert("impersonate-user", name);
    for group in &user.groups {
        if let Ok(group) = HeaderValue::from_str(group) {
            headers.append("impersonate-group", group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_impersonated_with_their_groups() {
        let mut headers = HeaderMap::new();
        impersonate(&mut headers, &UserInfo::plugin("x"));
        assert_eq!(headers["impersonate-user"], "system:plugin:x");
        let groups: Vec<_> = headers.get_all("impersonate-group").iter().collect();
        assert_eq!(groups, ["system:plugins", "system:authenticated"]);

        let mut headers = HeaderMap::new();
        impersonate(&mut headers, &UserInfo::new("a\nb", &[]));
        assert_eq!(headers["impersonate-user"], "system:anonymous");
    }
}
