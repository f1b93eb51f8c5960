//! Request bodies: read with a limit, turned into JSON.

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use pilothouse_api::{Status, protobuf};
use serde::Deserialize;

/// The most that a body may have.
pub(crate) const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
/// How much of a larger one is read only to be able to say so.
const MAX_DRAINED_BYTES: usize = 16 * 1024 * 1024;

/// A body: already whole for requests from this process, still on its way for others.
#[derive(Debug)]
pub(crate) enum RequestBody {
    Whole(Bytes),
    Incoming(Incoming),
}

impl RequestBody {
    /// Reads it all; more than 3 MiB is 413.
    pub(crate) async fn read(self) -> Result<Bytes, Status> {
        match self {
            Self::Whole(bytes) if bytes.len() > MAX_BODY_BYTES => Err(too_large()),
            Self::Whole(bytes) => Ok(bytes),
            Self::Incoming(mut incoming) => {
                let limited = Limited::new(&mut incoming, MAX_BODY_BYTES);
                match limited.collect().await {
                    Ok(collected) => Ok(collected.to_bytes()),
                    Err(error) if error.is::<LengthLimitError>() => {
                        drain(incoming).await;
                        Err(too_large())
                    }
                    Err(error) => Err(Status::bad_request(format!(
                        "reading the request body: {error}"
                    ))),
                }
            }
        }
    }
}

/// Reads on for a while and throws away what comes: a client that is still sending would otherwise lose the connection before
/// it reads the answer.
async fn drain(mut incoming: Incoming) {
    let mut left = MAX_DRAINED_BYTES;
    while let Some(Ok(frame)) = incoming.frame().await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}

fn too_large() -> Status {
    Status::too_large(format!(
        "Request entity too large: limit is {MAX_BODY_BYTES}"
    ))
}

/// The media type of a body without its parameters; JSON if none is given.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(str::trim)
        .filter(|media| !media.is_empty())
        .unwrap_or("application/json")
}

/// An object's body as JSON. YAML and protobuf are converted; other media types are 415.
pub(crate) fn to_json(headers: &HeaderMap, body: Bytes) -> Result<Bytes, Status> {
    match content_type(headers) {
        "application/json" => Ok(body),
        "application/yaml" => yaml_to_json(&body),
        "application/vnd.kubernetes.protobuf" => {
            protobuf::to_json(&body).map(Bytes::from).map_err(|error| {
                Status::bad_request(format!(
                    "the body of the request cannot be read as protobuf: {error}"
                ))
            })
        }
        other => Err(Status::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf (got {other})"
        ))),
    }
}

/// YAML, of which JSON is a part, to JSON.
pub(crate) fn yaml_to_json(yaml: &[u8]) -> Result<Bytes, Status> {
    let text = std::str::from_utf8(yaml).map_err(|error| {
        Status::bad_request(format!("the body of the request is not UTF-8: {error}"))
    })?;
    let value: serde_json::Value = serde_saphyr::from_str(text)
        .map_err(|error| Status::bad_request(format!("error converting YAML to JSON: {error}")))?;
    serde_json::to_vec(&value)
        .map(Bytes::from)
        .map_err(|error| Status::bad_request(format!("error converting YAML to JSON: {error}")))
}

/// `apiVersion` and `kind` of a document.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TypeMeta {
    pub api_version: String,
    pub kind: String,
}

/// Reads `apiVersion` and `kind`, and thereby whether it is JSON at all.
pub(crate) fn type_meta(json: &[u8]) -> Result<TypeMeta, Status> {
    serde_json::from_slice(json).map_err(|error| {
        Status::bad_request(format!(
            "couldn't get version/kind; json parse error: {error}"
        ))
    })
}

/// Refuses a document of another kind or version than the endpoint's; what is missing is filled in later.
pub(crate) fn expect_type(json: &[u8], api_version: &str, kind: &str) -> Result<(), Status> {
    let found = type_meta(json)?;
    if !found.api_version.is_empty() && found.api_version != api_version {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({api_version})",
            found.api_version
        )));
    }
    if !found.kind.is_empty() && found.kind != kind {
        return Err(Status::bad_request(format!(
            "{} in version \"{api_version}\" cannot be handled as a {kind}: no kind {:?} is registered for this endpoint",
            found.kind, found.kind
        )));
    }
    Ok(())
}
