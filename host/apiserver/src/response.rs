//! Responses: bodies, compression, errors. The only place that knows how a `Status` becomes HTTP.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use pilothouse_api::{Status, protobuf};
use pilothouse_client::Body;
use serde_json::Value;

use crate::negotiation::{Media, Negotiated};

/// Smaller bodies are not worth compressing.
pub(crate) const GZIP_FROM_BYTES: usize = 128 * 1024;

/// A whole body.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Any code, media type and whole body.
pub(crate) fn response(
    code: u16,
    content_type: &'static str,
    bytes: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(whole(bytes));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A document that clients may keep: with its entity tag (quotes included), and only that if they have it already.
pub(crate) fn tagged(
    mut document: Response<Body>,
    etag: &HeaderValue,
    request: &HeaderMap,
) -> Response<Body> {
    let known = request.get_all(header::IF_NONE_MATCH).iter();
    let known = known
        .filter_map(|tags| tags.to_str().ok())
        .flat_map(|tags| tags.split(','))
        .map(|tag| tag.trim().trim_start_matches("W/"))
        .any(|tag| tag == "*" || tag.as_bytes() == etag.as_bytes());
    if known {
        *document.status_mut() = StatusCode::NOT_MODIFIED;
        *document.body_mut() = whole(Bytes::new());
        document.headers_mut().remove(header::CONTENT_ENCODING);
    }
    let headers = document.headers_mut();
    headers.insert(header::ETAG, etag.clone());
    headers.append(header::VARY, HeaderValue::from_static("Accept"));
    document
}

/// Plain text.
pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    response(code, "text/plain; charset=utf-8", text)
}

/// What an unknown path gets: text, not a `Status`.
pub(crate) fn path_not_found() -> Response<Body> {
    text(404, "404 page not found\n")
}

/// A JSON document as the client wants it: as it is, indented, as YAML or as protobuf; compressed if that pays. What cannot be
/// written so goes out as JSON.
pub(crate) fn document(
    code: u16,
    json: Bytes,
    negotiated: Negotiated,
    request: &HeaderMap,
) -> Response<Body> {
    let media = negotiated.media.content_type();
    if (negotiated.media, negotiated.pretty) == (Media::Json, false) {
        return encoded(code, json, media, request);
    }
    match reformat(&json, negotiated.media) {
        Ok(body) => encoded(code, body.into(), media, request),
        Err(error) => {
            tracing::error!(%error, media = ?negotiated.media, "an answer goes out as JSON");
            encoded(code, json, Media::Json.content_type(), request)
        }
    }
}

/// A body in its final form, compressed if that pays.
pub(crate) fn encoded(
    code: u16,
    body: Bytes,
    content_type: &'static str,
    request: &HeaderMap,
) -> Response<Body> {
    if body.len() > GZIP_FROM_BYTES && accepts_gzip(request) {
        let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
        if encoder.write_all(&body).is_ok()
            && let Ok(compressed) = encoder.finish()
        {
            let mut response = response(code, content_type, compressed);
            mark_gzip(response.headers_mut());
            return response;
        }
    }
    response(code, content_type, body)
}

/// A refusal, in the media type agreed on or else in JSON.
pub(crate) fn status_response(
    status: &Status,
    negotiated: Negotiated,
    request: &HeaderMap,
) -> Response<Body> {
    let negotiated = Negotiated {
        view: Default::default(),
        ..negotiated
    };
    let mut response = document(status.code, status.to_json().into(), negotiated, request);
    let retry = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
    if retry > 0 {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, retry.into());
    }
    response
}

/// Whether the client takes gzip.
pub(crate) fn accepts_gzip(request: &HeaderMap) -> bool {
    request
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|encoding| {
            let mut parts = encoding.split(';').map(str::trim);
            parts.next() == Some("gzip") && !parts.any(|q| q == "q=0" || q == "q=0.0")
        })
}

/// Marks a body as compressed.
pub(crate) fn mark_gzip(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// Indented JSON, YAML, or protobuf.
fn reformat(json: &[u8], media: Media) -> io::Result<Vec<u8>> {
    if media == Media::Protobuf {
        return protobuf::from_json(json).map_err(io::Error::other);
    }
    let value: Value = serde_json::from_slice(json)?;
    let text = match media {
        Media::Yaml => serde_saphyr::to_string(&value).map_err(io::Error::other)?,
        _ => serde_json::to_string_pretty(&value)? + "\n",
    };
    Ok(text.into_bytes())
}

/// `Warning` headers: deduplicated, and once they are more than 4,096 characters in all, each cut to 256.
pub(crate) fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    const TOTAL: usize = 4096;
    const EACH: usize = 256;
    let mut unique: Vec<&str> = Vec::new();
    for warning in warnings {
        if !unique.contains(&warning.as_str()) {
            unique.push(warning);
        }
    }
    let total: usize = unique.iter().map(|w| w.chars().count()).sum();
    for warning in unique {
        let limit = if total > TOTAL { EACH } else { usize::MAX };
        let mut value = b"299 - \"".to_vec();
        for c in warning.chars().take(limit) {
            match c {
                '"' | '\\' => value.extend([b'\\', c as u8]),
                c if c.is_control() => value.push(b' '),
                c => value.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        value.push(b'"');
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            headers.append(header::WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_unique_quoted_and_cut_when_too_many() {
        let mut headers = HeaderMap::new();
        let long = "x".repeat(5000);
        add_warnings(
            &mut headers,
            &["say \"no\"\n".to_owned(), "say \"no\"\n".to_owned(), long],
        );
        let values: Vec<&[u8]> = headers
            .get_all(header::WARNING)
            .iter()
            .map(HeaderValue::as_bytes)
            .collect();
        assert_eq!(values.len(), 2);
        assert_eq!(values[0], b"299 - \"say \\\"no\\\" \"");
        assert_eq!(values[1].len(), "299 - \"\"".len() + 256);
    }

    #[test]
    fn a_refusal_carries_retry_after_only_if_it_says_so() {
        let none = HeaderMap::new();
        let later = status_response(
            &Status::too_many_requests("busy", 2),
            Negotiated::default(),
            &none,
        );
        assert_eq!(
            (later.status().as_u16(), &later.headers()["retry-after"]),
            (429, &HeaderValue::from_static("2"))
        );
        let never = status_response(&Status::bad_request("no"), Negotiated::default(), &none);
        assert!(!never.headers().contains_key("retry-after"));
    }

    #[test]
    fn gzip_only_when_offered_and_worth_it() {
        let big = Bytes::from(format!("{{\"a\":\"{}\"}}", "x".repeat(GZIP_FROM_BYTES)));
        for (accept, size, compressed) in [
            ("gzip, deflate", big.len(), true),
            ("deflate", big.len(), false),
            ("gzip;q=0", big.len(), false),
            ("gzip", 10, false),
        ] {
            let mut request = HeaderMap::new();
            request.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accept));
            let found = document(200, big.slice(..size), Negotiated::default(), &request);
            assert_eq!(
                found.headers().contains_key(header::CONTENT_ENCODING),
                compressed,
                "{accept} {size}"
            );
            assert_eq!(found.headers().contains_key(header::VARY), compressed);
        }
    }
}
