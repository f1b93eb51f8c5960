//! `/openapi/v2` and `/openapi/v3`: what the registry serves, described for clients.
//! Source: <https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-v3>

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Response, header};
use k8s_openapi::api::{
    authentication::v1::TokenRequest, autoscaling::v1::Scale, core::v1::Binding,
    policy::v1::Eviction,
};
use pilothouse_api::{
    GroupVersionKind,
    openapi::{OpenApi, SchemaProvider, Served, Subresource, provider},
};
use pilothouse_client::Body;

use crate::{
    discovery::{self, Row},
    handlers::Request,
    negotiation::{Negotiated, clauses},
    registry::{Registry, Resource},
    response::{self, path_not_found},
    reviews::REVIEWS,
    state::State,
};

/// The media type of the protobuf form of `/openapi/v2`.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The documents of everything that a registry serves, and of what is asked and not stored.
pub(crate) fn describe(registry: &Registry) -> OpenApi {
    let stored = registry.resources().iter().map(|resource| Served {
        resource: resource.info.clone(),
        verbs: resource.verbs().into_iter().map(str::to_owned).collect(),
        schema: resource.strategy.schema(),
        subresources: discovery::subresources(resource)
            .iter()
            // what is behind a connection is no object of the kind
            .filter(|row| row.name != "log" && !row.kind.ends_with("Options"))
            .map(|row| subresource(resource, row))
            .collect(),
    });
    OpenApi::new(stored.chain(REVIEWS.iter().map(|review| Served {
        resource: review.info(),
        verbs: vec!["create".to_owned()],
        schema: (review.schema)(),
        subresources: Vec::new(),
    })))
}

fn subresource(resource: &Resource, row: &Row) -> Subresource {
    let own = resource.info.gvk();
    let (group, version) = match row.group_version {
        Some((group, version)) => (group.into(), version.into()),
        None => (own.group, own.version),
    };
    Subresource {
        name: row.name.clone(),
        kind: GroupVersionKind {
            group,
            version,
            kind: match row.kind {
                "" => own.kind,
                kind => kind.into(),
            },
        },
        verbs: row.verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        schema: schema(resource, row.kind),
    }
}

fn schema(resource: &Resource, kind: &str) -> SchemaProvider {
    match kind {
        "Scale" => provider::<Scale>(),
        "Binding" => provider::<Binding>(),
        "Eviction" => provider::<Eviction>(),
        "TokenRequest" => provider::<TokenRequest>(),
        _ => resource.strategy.schema(),
    }
}

/// The answer to `/openapi/v2` or a path below `/openapi/v3`; `None`: it is neither. The right hash may be kept for a year, a
/// wrong one is sent to the right one.
pub(crate) fn answer(
    state: &Arc<State>,
    path: &str,
    request: &Request<'_>,
    negotiated: Negotiated,
) -> Option<Response<Body>> {
    let headers = &request.parts.headers;
    if path == "/openapi/v2" {
        let document = state.openapi.v2();
        let response = match wants_protobuf(headers) {
            true => response::encoded(200, state.openapi.v2_protobuf(), V2_PROTOBUF, headers),
            false => response::document(200, document.bytes.clone(), negotiated, headers),
        };
        return Some(tagged(response, &document.hash, headers));
    }
    let rest = path.strip_prefix("/openapi/v3")?;
    if rest.is_empty() {
        return Some(response::document(
            200,
            state.openapi.index(),
            negotiated,
            headers,
        ));
    }
    let path = rest.strip_prefix('/')?;
    let Some(document) = state.openapi.document(path) else {
        return Some(path_not_found());
    };
    let asked = request.query.get("hash");
    if let Some(asked) = asked
        && asked != document.hash
    {
        let target = format!("/openapi/v3/{path}?hash={}", document.hash);
        let mut response = response::text(301, "");
        if let Ok(target) = HeaderValue::from_str(&target) {
            response.headers_mut().insert(header::LOCATION, target);
        }
        return Some(response);
    }
    let response = response::document(200, document.bytes.clone(), negotiated, headers);
    let mut response = tagged(response, &document.hash, headers);
    if asked.is_some() {
        response.headers_mut().insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("public, max-age=31536000, immutable"),
        );
    }
    Some(response)
}

/// Whether a client would rather have `/openapi/v2` in protobuf than in JSON.
fn wants_protobuf(headers: &HeaderMap) -> bool {
    let best = clauses(headers)
        .into_iter()
        .find_map(|clause| match clause.media {
            V2_PROTOBUF | "application/com.github.proto-openapi.spec.v2@v1.0+protobuf" => {
                Some(true)
            }
            "application/json" | "application/*" | "*/*" => Some(false),
            _ => None,
        });
    best.unwrap_or(false)
}

/// With its hash as entity tag.
fn tagged(response: Response<Body>, hash: &str, request: &HeaderMap) -> Response<Body> {
    match HeaderValue::from_str(&format!("\"{hash}\"")) {
        Ok(etag) => response::tagged(response, &etag, request),
        Err(_) => response, // a hash is hexadecimal
    }
}
