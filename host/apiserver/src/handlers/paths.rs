//! What is no resource: discovery, version, health, metrics, OpenAPI.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response};
use pilothouse_api::Status;
use pilothouse_client::Body;
use serde_json::json;

use super::{Request, health};
use crate::{
    negotiation::{Negotiated, negotiate},
    openapi,
    response::{self, path_not_found, status_response},
    state::State,
};

/// Answers a path that is no resource.
pub(crate) async fn handle(state: &Arc<State>, request: &Request<'_>) -> Response<Body> {
    let headers = request.headers();
    let path = request.info.path.trim_end_matches('/');
    if let Some(response) = health::answer(state, path, request).await {
        return response;
    }
    if !matches!(request.parts.method, Method::GET | Method::HEAD) {
        let known = state
            .discovery
            .answer(path, headers, Negotiated::default())
            .is_some();
        if !known && !matches!(path, "/version" | "/metrics" | "") {
            return path_not_found();
        }
        let status = Status::method_not_allowed(
            "the server does not allow this method on the requested resource",
        );
        return status_response(&status, Negotiated::default(), headers);
    }
    let negotiated = negotiate(headers, request.query, false).unwrap_or_default();
    if let Some(response) = state.discovery.answer(path, headers, negotiated) {
        return response;
    }
    if let Some(response) = openapi::answer(state, path, request, negotiated) {
        return response;
    }
    match path {
        "" => response::document(200, paths(), negotiated, headers),
        "/version" => response::document(200, version(), negotiated, headers),
        "/metrics" => match state.metrics.text() {
            Ok(text) => response::response(
                200,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                text,
            ),
            Err(error) => status_response(&Status::internal(error), Negotiated::default(), headers),
        },
        _ => path_not_found(),
    }
}

/// The paths that `GET /` lists.
fn paths() -> Bytes {
    let paths = [
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ];
    json!({ "paths": paths }).to_string().into()
}

/// The version of Kubernetes whose API is served, with ours as build metadata.
fn version() -> Bytes {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": concat!("v1.36.0+pilothouse.", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
    .to_string()
    .into()
}
