//! The Kubernetes API server: filters, handlers, admission, the generic registry and one strategy per kind.

pub mod registry;
