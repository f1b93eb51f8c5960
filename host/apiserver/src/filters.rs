//! The way of every request, from the connection to the handlers.

pub(crate) mod authentication;
pub(crate) mod authorization;

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::FutureExt;
use http::{HeaderValue, Response, header, request::Parts};
use pilothouse_api::Status;
use pilothouse_client::{Body, UserInfo};
use tokio::time::Instant;

use crate::{
    body::RequestBody,
    handlers::{self, Request},
    metrics::Labels,
    negotiation::Negotiated,
    query::{self, Query},
    request_info::RequestInfo,
    response::status_response,
    state::State,
};

/// The most that a request may take unless it stays open.
const DEADLINE: Duration = Duration::from_secs(60);
/// The most that a write may take, whatever the client asks.
const WRITE_DEADLINE: Duration = Duration::from_secs(34);

/// Who calls, as far as the connection knows.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// Over the network, with the user of the client certificate if one was shown.
    Remote(Option<Arc<UserInfo>>),
    /// From this process, as this user.
    Local(UserInfo),
}

/// Serves one request. The order of the steps is the point of this function.
pub(crate) async fn serve(
    state: &Arc<State>,
    caller: Caller,
    parts: Parts,
    body: RequestBody,
) -> Response<Body> {
    let query = Query::parse(parts.uri.query());
    let info = RequestInfo::parse(&parts.method, parts.uri.path(), &query);
    let headers = &parts.headers;

    // The request's id comes first: whatever happens, the answer names it.
    let audit_id = match headers.get("audit-id") {
        Some(given) if given.len() <= 64 => given.clone(),
        _ => HeaderValue::from_str(&state.environment.uuid())
            .unwrap_or(HeaderValue::from_static("unknown")),
    };
    // Counting stands outside everything that can refuse, so that refusals are counted too.
    let labels = Labels::new(state, &info, headers);
    let measured = state.metrics.begin(&labels, &query, info.is_mutating());

    let charged = OnceLock::new();
    let way = async {
        // Audit will stand here: before authentication, so that refused callers are recorded.

        // Authentication before all that depends on the user. Requests of this process bring their user along.
        let is_remote = matches!(caller, Caller::Remote(_));
        let user = match caller {
            Caller::Local(user) => user,
            Caller::Remote(certificate) => {
                let certificate = certificate.as_deref();
                let authenticator = &state.authenticator;
                authenticator
                    .authenticate(headers, certificate, &info.path)
                    .await?
            }
        };

        // Impersonation will stand here: it changes the user, so everything below must see the changed one.

        // Flow control after it: it charges the user on whose behalf the work is done, before any work is done.
        let takes_seat = is_remote && !info.is_long_running();
        let time = deadline(&info, &query).ok().flatten().unwrap_or(DEADLINE);
        let admitted = state.flow_control.admit(&user, &info, takes_seat, time);
        let (charge, seat) = admitted.await;
        if let Some(charge) = charge {
            _ = charged.set(charge);
        }
        let _seat = match seat {
            Ok(seat) => seat,
            Err(refusal) => return Ok(refusal),
        };

        // Authorization before routing: who may not look is not told what there is.
        authorization::authorize(&user, &info)?;

        // The deadline covers all that follows, reading the body included; a watch has its own end.
        let deadline = deadline(&info, &query)?;
        let request = Request {
            info: &info,
            query: &query,
            parts: &parts,
            user,
            audit_id: audit_id.to_str().unwrap_or_default(),
            labels: &labels,
            deadline: deadline.map(|after| Instant::now() + after),
        };
        let handled = handlers::handle(state, request, body);
        match deadline {
            None => Ok(handled.await),
            Some(deadline) => tokio::time::timeout(deadline, handled).await.map_err(|_| {
                let text = "request did not complete within the allotted timeout";
                Status::timeout(format!("Timeout: {text}"), 0)
            }),
        }
    };
    // The panic guard holds all of it: a bug costs one request.
    let mut response = match AssertUnwindSafe(way).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(status)) => refused(&status, headers),
        Err(_) => {
            tracing::error!(
                verb = info.verb,
                resource = info.resource,
                name = info.name,
                "a request panicked"
            );
            let why = "this request caused apiserver to panic. Look in the logs for details";
            refused(&Status::internal(why), headers)
        }
    };
    if let Some(charged) = charged.get() {
        charged.mark(&mut response);
    }
    let headers = response.headers_mut();
    headers.insert("audit-id", audit_id);
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
    let bytes = http_body::Body::size_hint(response.body()).exact();
    measured.end(response.status().as_u16(), bytes);
    response
}

/// A refusal before anything has been agreed on.
fn refused(status: &Status, headers: &http::HeaderMap) -> Response<Body> {
    let mut response = status_response(status, Negotiated::default(), headers);
    if status.code == 401 {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// How long a request may take; `None` for what stays open.
fn deadline(info: &RequestInfo, query: &Query) -> Result<Option<Duration>, Status> {
    let asked = query::timeout(query)?;
    if info.is_long_running() {
        return Ok(None);
    }
    let most = if info.is_mutating() {
        WRITE_DEADLINE
    } else {
        DEADLINE
    };
    Ok(Some(asked.map_or(most, |asked| asked.min(most))))
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn every_request_has_its_time() {
        // method, path and query, seconds or the code of the refusal
        for (method, target, expected) in [
            ("GET", "/api/v1/pods", Ok(Some(60))),
            ("GET", "/api/v1/pods?timeout=10s", Ok(Some(10))),
            ("GET", "/api/v1/pods?timeout=10m", Ok(Some(60))),
            ("POST", "/api/v1/pods", Ok(Some(34))),
            ("POST", "/api/v1/pods?timeout=10s", Ok(Some(10))),
            ("PATCH", "/api/v1/pods/x?timeout=10m", Ok(Some(34))),
            ("DELETE", "/api/v1/pods?timeout=35s", Ok(Some(34))),
            ("GET", "/api/v1/pods?watch=1", Ok(None)),
            ("POST", "/api/v1/pods?timeout=soon", Err(400)),
        ] {
            let uri: http::Uri = target.parse().unwrap();
            let query = Query::parse(uri.query());
            let method: Method = method.parse().unwrap();
            let info = RequestInfo::parse(&method, uri.path(), &query);
            let found = deadline(&info, &query);
            let found = found.map(|time| time.map(|time| time.as_secs()));
            assert_eq!(found.map_err(|status| status.code), expected, "{target}");
        }
    }
}
