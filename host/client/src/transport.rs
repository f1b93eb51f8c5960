//! How a request reaches an API server: in the same process (its pipeline is called directly, behind authentication), or
//! over HTTPS with a kubeconfig.

use std::{collections::BTreeMap, pin::Pin};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use pilothouse_api::Status;

/// A response body: whole for most requests, a stream for watches.
pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// Who makes a request. The API server puts it into the request's extensions after authentication; the in-process transport
/// puts it there itself. Source: <https://kubernetes.io/docs/reference/access-authn-authz/authentication/>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user of these groups; `system:authenticated` is added.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            groups: groups
                .iter()
                .copied()
                .chain(["system:authenticated"])
                .map(str::to_owned)
                .collect(),
            ..Self::default()
        }
    }

    /// The identity of a plugin: `system:plugin:<name>`, group `system:plugins`.
    pub fn plugin(name: &str) -> Self {
        Self::new(&format!("system:plugin:{name}"), &["system:plugins"])
    }

    /// Whether the user is in a group.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// Sends one request as `user`. An HTTP error status is an `Ok` response; `Err` is a failed transport.
pub trait Transport: Send + Sync + 'static {
    fn send(
        &self,
        user: &UserInfo,
        request: http::Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<http::Response<Body>, Status>> + Send + '_>>;
}
