//! Responses: bodies, compression, errors. The only place that knows how a `Status` becomes HTTP.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use pilothouse_api::Status;
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

/// Plain text.
pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    response(code, "text/plain; charset=utf-8", text)
}

/// What an unknown path gets: text, not a `Status`.
pub(crate) fn path_not_found() -> Response<Body> {
    text(404, "404 page not found\n")
}

/// A JSON document as the client wants it: as it is, indented, or as YAML; compressed if that pays.
pub(crate) fn document(
    code: u16,
    json: Bytes,
    negotiated: Negotiated,
    request: &HeaderMap,
) -> Response<Body> {
    let json = match (negotiated.media, negotiated.pretty) {
        (Media::Json, false) => json,
        (media, _) => match reformat(&json, media) {
            Ok(text) => text.into(),
            Err(error) => {
                return status_response(&Status::internal(error), Negotiated::default(), request);
            }
        },
    };
    if json.len() > GZIP_FROM_BYTES && accepts_gzip(request) {
        let mut encoder = GzEncoder::new(Vec::with_capacity(json.len() / 4), Compression::fast());
        if encoder.write_all(&json).is_ok()
            && let Ok(compressed) = encoder.finish()
        {
            let mut response = response(code, negotiated.media.content_type(), compressed);
            mark_gzip(response.headers_mut());
            return response;
        }
    }
    response(code, negotiated.media.content_type(), json)
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
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// Indented JSON, or YAML.
fn reformat(json: &[u8], media: Media) -> io::Result<String> {
    let value: Value = serde_json::from_slice(json)?;
    match media {
        Media::Json => Ok(serde_json::to_string_pretty(&value)? + "\n"),
        Media::Yaml => serde_saphyr::to_string(&value).map_err(io::Error::other),
    }
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
