//! The Kubernetes API server: filters, handlers, admission, the generic registry and one strategy per kind.

pub mod admission;
pub mod environment;
pub mod registry;

mod body;
mod boot;
mod discovery;
mod filters;
mod flow_control;
mod handlers;
mod kubeconfig;
mod kubernetes_endpoints;
mod metrics;
mod negotiation;
mod openapi;
mod options;
mod pki;
mod query;
mod request_info;
mod response;
mod reviews;
mod server;
mod service_account_tokens;
mod state;
mod tls;
mod transport;

pub use options::{ApiServerOptions, ServiceAccountOptions};
pub use pki::PkiError;
pub use registry::allocation::ClusterIpRange;
pub use server::{ApiServer, RunningServer, StartError};
pub use transport::InProcess;
