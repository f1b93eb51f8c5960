//! Watches over WebSocket, one event a frame. Source: RFC 6455.
//!
//! ```text
//! request ──► 101 ──► events, pongs ──► Close from either side, or the connection ends
//! ```

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Buf, Bytes};
use futures::{Stream, StreamExt};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version, header, request::Parts};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use pilothouse_api::Status;
use pilothouse_client::Body;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{filters::authentication::is_bearer_protocol, negotiation::Media, response};

/// What the key of a handshake is answered with begins with the key and ends with this.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Clients of a watch have little to say.
const MAX_CLIENT_FRAME_BYTES: u64 = 64 * 1024;
/// A clean end.
const NORMAL_CLOSURE: [u8; 2] = 1000u16.to_be_bytes();

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Whether a request asks for a WebSocket.
pub(crate) fn is_asked_for(headers: &HeaderMap) -> bool {
    let names = |name, word: &str| {
        let values = headers.get_all(name).iter();
        values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|found| found.trim().eq_ignore_ascii_case(word))
    };
    names(header::CONNECTION, "upgrade") && names(header::UPGRADE, "websocket")
}

/// Answers the handshake; the events follow as soon as the connection is handed over.
pub(super) fn upgrade(
    parts: &Parts,
    media: Media,
    pieces: impl Stream<Item = Bytes> + Send + 'static,
) -> Result<Response<Body>, Status> {
    let headers = &parts.headers;
    let version = headers.get(header::SEC_WEBSOCKET_VERSION);
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let handover = parts.extensions.get::<OnUpgrade>().cloned();
    let right = parts.method == Method::GET
        && parts.version == Version::HTTP_11
        && version.is_some_and(|version| version == "13");
    let (true, Some(key), Some(handover)) = (right, key, handover) else {
        return Err(Status::bad_request("the WebSocket handshake is incomplete"));
    };
    let accept = accept(key.as_bytes());
    let mut response = Response::new(response::whole(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        answer.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    if let Some(protocol) = protocol(headers) {
        answer.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    tokio::spawn(async move {
        match handover.await {
            Ok(connection) => serve(connection, media, pieces).await,
            Err(error) => tracing::debug!(%error, "a WebSocket was not handed over"),
        }
    });
    Ok(response)
}

fn accept(key: &[u8]) -> String {
    let keyed = [key, GUID.as_bytes()].concat();
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &keyed))
}

/// The first protocol that the client speaks and that is not its token in disguise.
fn protocol(headers: &HeaderMap) -> Option<HeaderValue> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL);
    offered
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .find(|protocol| !protocol.is_empty() && !is_bearer_protocol(protocol))
        .and_then(|protocol| HeaderValue::from_str(protocol).ok())
}

async fn serve(connection: Upgraded, media: Media, pieces: impl Stream<Item = Bytes> + Send) {
    let (read, write) = tokio::io::split(TokioIo::new(connection));
    if let Err(error) = converse(read, write, media, pieces).await {
        tracing::debug!(%error, "a WebSocket ended early");
    }
}

/// Sends events and answers pings until one side closes.
async fn converse(
    mut read: impl AsyncRead + Unpin,
    mut write: impl AsyncWrite + Unpin,
    media: Media,
    pieces: impl Stream<Item = Bytes>,
) -> std::io::Result<()> {
    let mut pieces = std::pin::pin!(pieces);
    let (opcode, split): (u8, fn(Bytes) -> Vec<Bytes>) = match media {
        Media::Protobuf => (BINARY, lengths),
        _ => (TEXT, documents),
    };
    loop {
        // a frame is read whole: the future must survive the events that come meanwhile
        let mut heard = std::pin::pin!(hear(&mut read));
        let said = loop {
            tokio::select! {
                said = &mut heard => break said?,
                piece = pieces.next() => match piece {
                    Some(piece) => {
                        for event in split(piece) {
                            write.write_all(&frame(opcode, &event)).await?;
                        }
                        write.flush().await?;
                    }
                    None => {
                        write.write_all(&frame(CLOSE, &NORMAL_CLOSURE)).await?;
                        return write.shutdown().await;
                    }
                },
            }
        };
        match said {
            Some((PING, data)) => write.write_all(&frame(PONG, &data)).await?,
            Some((CLOSE, data)) => {
                write.write_all(&frame(CLOSE, &data)).await?;
                return write.shutdown().await;
            }
            Some(_) => {} // nobody asked
            None => return Ok(()),
        }
        write.flush().await?;
    }
}

/// One frame of the client, unmasked: what it is and what it holds. `None` at the end of the connection.
async fn hear(read: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Option<(u8, Vec<u8>)>> {
    let invalid = |why| std::io::Error::new(std::io::ErrorKind::InvalidData, why);
    let mut head = [0; 2];
    match read.read_exact(&mut head).await {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    };
    let length = match head[1] & 0x7f {
        126 => u64::from(read.read_u16().await?),
        127 => read.read_u64().await?,
        short => u64::from(short),
    };
    if head[1] & 0x80 == 0 {
        return Err(invalid("a frame of a client must be masked"));
    }
    if length > MAX_CLIENT_FRAME_BYTES {
        return Err(invalid("a frame of a client is too long"));
    }
    let mut mask = [0; 4];
    read.read_exact(&mut mask).await?;
    let mut data = vec![0; length as usize];
    read.read_exact(&mut data).await?;
    for (byte, mask) in data.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    Ok(Some((head[0] & 0x0f, data)))
}

/// A whole message in one frame, as servers send it.
fn frame(opcode: u8, data: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(data.len() + 10);
    frame.push(0x80 | opcode);
    match data.len() {
        short @ 0..126 => frame.push(short as u8),
        long => match u16::try_from(long) {
            Ok(long) => {
                frame.push(126);
                frame.extend_from_slice(&long.to_be_bytes());
            }
            Err(_) => {
                frame.push(127);
                frame.extend_from_slice(&(long as u64).to_be_bytes());
            }
        },
    }
    frame.extend_from_slice(data);
    frame
}

/// The JSON documents of a piece.
fn documents(piece: Bytes) -> Vec<Bytes> {
    let all = serde_json::Deserializer::from_slice(&piece).into_iter::<&RawValue>();
    all.map_while(Result::ok)
        .map(|document| piece.slice_ref(document.get().as_bytes()))
        .collect()
}

/// The events of a piece, each with four bytes of its length in front.
fn lengths(mut piece: Bytes) -> Vec<Bytes> {
    let mut events = Vec::new();
    while piece.len() >= 4 {
        let length = piece.get_u32() as usize;
        events.push(piece.split_to(length.min(piece.len())));
    }
    events
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    #[test]
    fn the_key_is_answered_as_the_standard_says() {
        // the example of RFC 6455, 1.3
        assert_eq!(
            accept(b"dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    #[test]
    fn a_handshake_is_known_by_two_headers() {
        let cases = [
            ("Upgrade", "websocket", true),
            ("keep-alive, upgrade", "WebSocket", true),
            ("keep-alive", "websocket", false),
            ("Upgrade", "h2c", false),
        ];
        for (connection, upgrade, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONNECTION, HeaderValue::from_static(connection));
            headers.insert(header::UPGRADE, HeaderValue::from_static(upgrade));
            assert_eq!(is_asked_for(&headers), expected, "{connection} {upgrade}");
        }
    }

    #[test]
    fn a_piece_is_taken_apart_into_events() {
        let json = Bytes::from_static(b"{\"a\":1}\n{\"b\":\"}\\n{\"}\n");
        assert_eq!(documents(json), [&b"{\"a\":1}"[..], b"{\"b\":\"}\\n{\"}"]);
        let framed = Bytes::from_static(b"\0\0\0\x02ab\0\0\0\0\0\0\0\x01c");
        assert_eq!(lengths(framed), [&b"ab"[..], b"", b"c"]);
        // what is cut off never comes, and if it did it would not be a panic
        assert_eq!(lengths(Bytes::from_static(b"\0\0\0\x09ab")), [&b"ab"[..]]);
    }

    #[test]
    fn lengths_take_as_many_bytes_as_they_need() {
        for (length, head) in [(125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            let data = vec![7; length];
            assert_eq!(frame(BINARY, &data).len(), length + head, "{length}");
        }
    }

    #[tokio::test]
    async fn pings_are_answered_and_a_close_ends_it() {
        let masked = |opcode: u8, data: &[u8]| {
            let mask = [1, 2, 3, 4];
            let hidden = data.iter().zip(mask.iter().cycle()).map(|(d, m)| d ^ m);
            let mut frame = vec![0x80 | opcode, 0x80 | data.len() as u8];
            frame.extend(mask);
            frame.extend(hidden);
            frame
        };
        let said = [
            masked(TEXT, b"hello"),
            masked(PING, b"are you there"),
            masked(CLOSE, &NORMAL_CLOSURE),
        ]
        .concat();
        let mut heard = Vec::new();
        let events = stream::iter([Bytes::from_static(b"{}\n")]).chain(stream::pending());
        converse(&said[..], &mut heard, Media::Json, events)
            .await
            .unwrap();
        let (event, pong, close) = (
            frame(TEXT, b"{}"),
            frame(PONG, b"are you there"),
            frame(CLOSE, &NORMAL_CLOSURE),
        );
        let after = [pong, close].concat();
        let event_is_there = heard.windows(event.len()).any(|w| *w == *event);
        // the event may come before or between the answers, or not at all if the close was read first
        assert_eq!(
            heard.len(),
            after.len() + if event_is_there { event.len() } else { 0 }
        );
        assert!(heard.ends_with(&frame(CLOSE, &NORMAL_CLOSURE)));

        let mut heard = Vec::new();
        let silent = tokio::io::empty().chain(Pending);
        converse(
            silent,
            &mut heard,
            Media::Json,
            stream::iter([Bytes::from_static(b"{}\n")]),
        )
        .await
        .unwrap();
        assert_eq!(heard, [event, frame(CLOSE, &NORMAL_CLOSURE)].concat());
    }

    /// Says nothing and stays open.
    struct Pending;

    impl AsyncRead for Pending {
        fn poll_read(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::task::Poll::Pending
        }
    }

    #[tokio::test]
    async fn what_is_not_masked_or_too_long_ends_it() {
        for said in [&[0x81, 1, b'a'][..], &[0x81, 0xff, 0, 0, 0, 1, 0, 0, 0, 0]] {
            let mut heard = Vec::new();
            let events = stream::pending();
            let ended = converse(said, &mut heard, Media::Json, events).await;
            assert!(ended.is_err() && heard.is_empty(), "{said:?}");
        }
    }
}
