//! A watch: the events of a response body, framed by newlines as API servers write them.
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes>

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt};
use http_body_util::BodyExt;
use pilothouse_api::{Object, Revision, SharedObject, Status};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::transport::Body;

/// The longest event that is read; an object has at most 3 MiB.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// One event. An ERROR event is the `Err` of the stream.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    Added(SharedObject),
    Modified(SharedObject),
    /// The last state, with the revision of the deletion.
    Deleted(SharedObject),
    /// Everything up to this revision has been sent.
    Bookmark {
        revision: Revision,
        /// The bookmark that ends the initial events of a watch list.
        initial_events_end: bool,
    },
}

/// Reads events until the body ends or one is an error.
pub(crate) fn events(
    body: Body,
    fields: Arc<[String]>,
) -> BoxStream<'static, Result<WatchEvent, Status>> {
    let reader = Some(Reader {
        body,
        buffer: BytesMut::new(),
        scanned: 0,
        fields,
    });
    stream::unfold(reader, |reader| async move {
        let mut reader = reader?;
        match reader.next().await? {
            Ok(event) => Some((Ok(event), Some(reader))),
            Err(status) => Some((Err(status), None)),
        }
    })
    .boxed()
}

struct Reader {
    body: Body,
    buffer: BytesMut,
    /// So many bytes of the buffer are known to hold no newline.
    scanned: usize,
    fields: Arc<[String]>,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<WatchEvent, Status>> {
        loop {
            if let Some(line) = self.line() {
                if line.is_empty() {
                    continue;
                }
                return Some(decode(&line, &self.fields));
            }
            if self.buffer.len() > MAX_EVENT_BYTES {
                return Some(Err(Status::internal("a watch event is too long")));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    return Some(Err(Status::internal(format!("the watch broke: {error}"))));
                }
                None => return self.rest().map(|line| decode(&line, &self.fields)),
            }
        }
    }

    fn line(&mut self) -> Option<Bytes> {
        let at = self.buffer[self.scanned..].iter().position(|b| *b == b'\n');
        let Some(at) = at else {
            self.scanned = self.buffer.len();
            return None;
        };
        let mut line = self.buffer.split_to(self.scanned + at + 1);
        self.scanned = 0;
        line.truncate(line.trim_ascii_end().len());
        Some(line.freeze())
    }

    /// What follows the last newline when the body has ended: a whole event, or the torn beginning of one.
    fn rest(&mut self) -> Option<Bytes> {
        let rest = self.buffer.split().freeze();
        let whole = serde_json::from_slice::<&RawValue>(&rest).is_ok();
        whole.then_some(rest)
    }
}

fn decode(line: &[u8], fields: &[String]) -> Result<WatchEvent, Status> {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow, rename = "type")]
        kind: std::borrow::Cow<'a, str>,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let wire: Wire<'_> = serde_json::from_slice(line)
        .map_err(|error| Status::internal(format!("undecodable watch event: {error}")))?;
    let json = wire.object.get();
    let object = || {
        let bytes = Bytes::copy_from_slice(json.as_bytes());
        Object::from_response(bytes, fields).map(Arc::new)
    };
    match &*wire.kind {
        "ADDED" => Ok(WatchEvent::Added(object()?)),
        "MODIFIED" => Ok(WatchEvent::Modified(object()?)),
        "DELETED" => Ok(WatchEvent::Deleted(object()?)),
        "BOOKMARK" => bookmark(json),
        "ERROR" => {
            let status: Status = serde_json::from_str(json).unwrap_or_default();
            Err(Status::from_response(status.code, json.as_bytes()))
        }
        other => Err(Status::internal(format!("unknown watch event {other:?}"))),
    }
}

fn bookmark(json: &str) -> Result<WatchEvent, Status> {
    #[derive(Deserialize)]
    struct Wire {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
        #[serde(default)]
        annotations: std::collections::BTreeMap<String, String>,
    }
    let wire: Wire = serde_json::from_str(json)
        .map_err(|error| Status::internal(format!("undecodable bookmark: {error}")))?;
    let end = wire.metadata.annotations.get("k8s.io/initial-events-end");
    let revision = wire.metadata.resource_version.parse();
    Ok(WatchEvent::Bookmark {
        revision: Revision(revision.map_err(|_| Status::internal("a bookmark without revision"))?),
        initial_events_end: end.is_some_and(|v| v == "true"),
    })
}

#[cfg(test)]
mod tests;
