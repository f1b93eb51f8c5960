//! What every request needs, made once.

use std::sync::Arc;

use pilothouse_api::openapi::OpenApi;
use tokio_util::sync::CancellationToken;

use crate::{
    discovery::Discovery, environment::Environment, filters::authentication::Authenticator,
    flow_control::FlowControl, metrics::Metrics, registry::Registry,
    service_account_tokens::Tokens,
};

/// The server without its listener.
pub(crate) struct State {
    pub(crate) registry: Arc<Registry>,
    pub(crate) authenticator: Authenticator,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) discovery: Discovery,
    /// Where others reach the server: host and port.
    pub(crate) public_address: String,
    pub(crate) openapi: OpenApi,
    pub(crate) metrics: Metrics,
    pub(crate) flow_control: Arc<FlowControl>,
    pub(crate) environment: Arc<dyn Environment>,
    /// Set when the server is about to stop: it is no longer ready, and serves as before.
    pub(crate) leaving: CancellationToken,
    /// Set when the server begins to stop: watches end, and connections with them.
    pub(crate) stopping: CancellationToken,
}
