//! `GET /pilothouse/v1/snapshot`: everything that is stored at this moment, as the file that `pilothouse snapshot` restores; on
//! etcd the file that `etcdutl` restores. For administrators alone, since all Secrets are in it.

use futures::TryStreamExt;
use http::{HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use pilothouse_api::Status;
use pilothouse_client::Body;

use super::Request;
use crate::{negotiation::Negotiated, registry::errors, response::status_response, state::State};

pub(super) const PATH: &str = "/pilothouse/v1/snapshot";
const MASTERS: &str = "system:masters";

/// Answers with the file, part by part as it is made.
pub(super) async fn answer(state: &State, request: &Request<'_>) -> Response<Body> {
    let refuse = |status| status_response(&status, Negotiated::default(), request.headers());
    if !request.user.in_group(MASTERS) {
        let why = format!(
            "forbidden: User {:?} cannot get path {PATH:?}: only members of {MASTERS} may",
            request.user.name
        );
        return refuse(Status::new(403, "Forbidden", why));
    }
    let parts = match state.registry.storage.snapshot().await {
        Ok(parts) => parts,
        Err(error) => return refuse(errors::from_storage(error)),
    };
    // an error now cuts the answer off, and a file that is cut off is refused by whoever reads it
    let frames = parts.map_ok(Frame::data).map_err(|error| {
        tracing::error!(%error, "a snapshot ends early");
        std::io::Error::other(error)
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let binary = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, binary);
    response
}
