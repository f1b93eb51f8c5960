//! What is no resource: discovery, version, health, metrics, OpenAPI.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Response, header};
use pilothouse_api::Status;
use pilothouse_client::Body;
use serde_json::{Value, json};

use super::{Request, health, recorded_calls, snapshot};
use crate::{
    metrics::{Form, GIT_VERSION},
    negotiation::{Media, Negotiated, Offer, negotiate},
    openapi,
    response::{self, path_not_found, status_response},
    service_account_tokens::{CONFIGURATION_PATH, KEY_SET_PATH},
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
        if !known
            && !matches!(
                path,
                "/version" | "/metrics" | "/openapi/v2" | "/openapi/v3" | "" | snapshot::PATH
            )
        {
            return path_not_found();
        }
        let status = Status::method_not_allowed(
            "the server does not allow this method on the requested resource",
        );
        return status_response(&status, Negotiated::default(), headers);
    }
    let offer = Offer {
        views: false,
        protobuf: true,
    };
    let negotiated = negotiate(headers, request.query, offer).unwrap_or_default();
    if let Some(response) = state.discovery.answer(path, headers, negotiated) {
        return response;
    }
    // the others are JSON, whatever the client would rather have
    let json = Negotiated {
        media: Media::Json,
        ..negotiated
    };
    if let Some(response) = openapi::answer(state, path, request, json) {
        return response;
    }
    match path {
        "" => response::document(200, paths(), json, headers),
        "/version" => response::document(200, version(), json, headers),
        snapshot::PATH if request.parts.method == Method::GET => {
            snapshot::answer(state, request).await
        }
        path if let Some(component) = recorded_calls::component(path) => {
            recorded_calls::answer(state, request, component)
        }
        CONFIGURATION_PATH => match state.tokens.configuration(&state.public_address) {
            Some(configuration) => of_issuer("application/json", &configuration),
            None => path_not_found(),
        },
        KEY_SET_PATH if state.tokens.configuration("").is_some() => {
            of_issuer("application/jwk-set+json", &state.tokens.key_set())
        }
        "/metrics" => match metrics(state, Form::of(headers)).await {
            Ok(text) => response::response(200, Form::of(headers).content_type(), text),
            Err(error) => status_response(&Status::internal(error), Negotiated::default(), headers),
        },
        _ => path_not_found(),
    }
}

/// A document about the issuer of tokens; others may keep it for an hour.
fn of_issuer(media: &'static str, document: &Value) -> Response<Body> {
    let mut response = response::response(200, media, document.to_string());
    let hour = HeaderValue::from_static("public, max-age=3600");
    response.headers_mut().insert(header::CACHE_CONTROL, hour);
    response
}

/// How long a scrape waits for storage to say how large it is; without an answer the figures stay as they were.
const SIZE_WAIT: Duration = Duration::from_secs(1);

async fn metrics(state: &State, form: Form) -> Result<String, std::fmt::Error> {
    let size = state.registry.storage.size();
    let size = tokio::time::timeout(SIZE_WAIT, size).await;
    let size = size.ok().and_then(Result::ok);
    let text = state.metrics.text(&state.registry, size.as_ref(), form);
    text.await
}

/// The paths that `GET /` lists.
fn paths() -> Bytes {
    let paths = [
        CONFIGURATION_PATH,
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        KEY_SET_PATH,
        "/readyz",
        "/version",
    ];
    json!({ "paths": paths }).to_string().into()
}

fn version() -> Bytes {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": GIT_VERSION,
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
