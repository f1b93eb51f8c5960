//! `GET /pilothouse/v1/plugins/<component>/calls?timeoutSeconds=60`: the calls of a plugin as they are made, a JSON document a
//! line, for `pilothouse plugin replay`. For administrators alone, since whole requests are in them.

use std::{io, time::Duration};

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use pilothouse_api::Status;
use pilothouse_client::Body;
use tokio::time::{Instant, sleep_until};

use super::Request;
use crate::{negotiation::Negotiated, response::status_response, state::State};

const MASTERS: &str = "system:masters";
const DEFAULT_SECONDS: u64 = 60;
const MOST_SECONDS: u64 = 24 * 60 * 60;

/// The component that a path is about.
pub(super) fn component(path: &str) -> Option<&str> {
    let name = path.strip_prefix("/pilothouse/v1/plugins/")?;
    let name = name.strip_suffix("/calls")?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

/// Answers with the calls from now on, until the time is up, the client leaves or the server stops.
pub(super) fn answer(state: &State, request: &Request<'_>, component: &str) -> Response<Body> {
    let refuse = |status| status_response(&status, Negotiated::default(), request.headers());
    if !request.user.in_group(MASTERS) {
        let why = format!(
            "forbidden: User {:?} cannot get the calls of plugin {component:?}: only members of {MASTERS} may",
            request.user.name
        );
        return refuse(Status::new(403, "Forbidden", why));
    }
    let seconds = match request.query.get("timeoutSeconds").map(str::parse) {
        None => DEFAULT_SECONDS,
        Some(Ok(seconds)) if (1..=MOST_SECONDS).contains(&seconds) => seconds,
        Some(_) => {
            let why = format!("timeoutSeconds must be between 1 and {MOST_SECONDS}");
            return refuse(Status::bad_request(why));
        }
    };
    let Some(calls) = state.registry.record_calls(component) else {
        let why = format!(
            "no plugin component {component:?} is active in this process; `kubectl get plugins` lists them"
        );
        return refuse(Status::new(404, "NotFound", why));
    };
    let until = Instant::now() + Duration::from_secs(seconds);
    let stopping = state.stopping.clone();
    let lines = stream::unfold((calls, stopping), move |(mut calls, stopping)| async move {
        let call = tokio::select! {
            call = calls.recv() => call?,
            () = sleep_until(until) => return None,
            () = stopping.cancelled() => return None,
        };
        let mut line = serde_json::to_vec(&call).unwrap_or_default();
        line.push(b'\n');
        let frame: io::Result<_> = Ok(Frame::data(Bytes::from(line)));
        Some((frame, (calls, stopping)))
    });
    let mut response = Response::new(StreamBody::new(lines).boxed_unsync());
    let media = HeaderValue::from_static("application/jsonl");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}
