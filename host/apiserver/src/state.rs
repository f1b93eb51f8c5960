//! What every request needs, made once.

use std::sync::Arc;

use pilothouse_api::openapi::OpenApi;
use tokio_util::sync::CancellationToken;

use crate::{
    discovery::Discovery, environment::Environment, filters::authentication::Authenticator,
    metrics::Metrics, registry::Registry,
};

/// The server without its listener.
pub(crate) struct State {
    pub(crate) registry: Arc<Registry>,
    pub(crate) authenticator: Authenticator,
    pub(crate) discovery: Discovery,
    pub(crate) openapi: OpenApi,
    pub(crate) metrics: Metrics,
    pub(crate) environment: Arc<dyn Environment>,
    /// Set when the server begins to stop: it is no longer ready, and watches end.
    pub(crate) stopping: CancellationToken,
}
