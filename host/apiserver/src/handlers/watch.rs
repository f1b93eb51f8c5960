//! WATCH: events in JSON or protobuf, one after the other, as long as both sides like.
//! Source: <https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes>
//!
//! ```text
//! begin ──► initial events (if asked) ──► bookmark that ends them (if asked) ──► events and bookmarks ──► end
//!                                                                                  timeout, shutdown: a clean end
//!                                                                                  history lost: an ERROR event
//! ```
//!
//! An event is made once for all watches. A connection that does not take them is not read for: what it misses
//! waits in the history, and a watch that falls behind it ends with 410.

use std::{sync::Arc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use futures::{FutureExt, Stream, StreamExt, stream};
use http::{HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use pilothouse_api::{FieldSelector, Revision, SharedObject, Status, protobuf};
use pilothouse_client::Body;
use pilothouse_storage::{CacheError, CacheEvent, CacheWatch, EventType, watch_cache::CacheBatch};
use serde_json::json;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::{
    Request,
    view::{self, IncludeObject},
    websocket,
};
use crate::{
    environment::{Environment, whole_seconds},
    metrics::OpenWatch,
    negotiation::{Media, Negotiated, View},
    query::ListOptions,
    registry::{Resource, Selection, errors, revision_of},
    state::State,
};

/// Without `timeoutSeconds` a watch lasts between this and twice this.
const LEAST_TIMEOUT_SECONDS: u64 = 30 * 60;
/// Clients learn about so often how far they are.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// And so long before the end, so that they resume where they stopped.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// How long a bookmark waits for the cache to learn where storage is.
const BOOKMARK_WAIT: Duration = Duration::from_millis(500);
/// Events that are ready together go out together, up to this size.
const PIECE_BYTES: usize = 64 * 1024;

/// GET with `watch=true`.
pub(crate) async fn watch(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    request: &Request<'_>,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    if negotiated.view == View::PartialObjectList {
        return Err(view::not_a_list());
    }
    if negotiated.media == Media::Yaml {
        return Err(crate::negotiation::not_acceptable(
            "only the following media types are accepted for a watch: application/json, application/vnd.kubernetes.protobuf",
        ));
    }
    let options = ListOptions::parse(request.query, true)?;
    let mut selection = Selection::parse(resource, &request.info.namespace, &options)?;
    if request.info.named {
        // the old form, .../watch/.../pods/x
        let name = &request.info.name;
        if selection.fields.is_everything() {
            selection.fields = FieldSelector::name(name);
        } else if selection.fields.exact("metadata.name") != Some(name) {
            return Err(Status::bad_request(
                "fieldSelector metadata.name doesn't match requested name",
            ));
        }
    }
    let writer = Writer {
        resource: resource.clone(),
        negotiated,
        include: IncludeObject::parse(request.query)?,
        environment: state.environment.clone(),
        columns_sent: false,
    };
    let timeout = options
        .timeout
        .unwrap_or_else(|| default_timeout(&*state.environment));
    let open = state.metrics.open_watch(request.labels);
    let watching = begin(
        state,
        resource,
        selection,
        &options,
        writer,
        (timeout, open),
    )
    .await;
    let pieces = match watching {
        Ok(watching) => watching.into_stream().left_stream(),
        // what is too old to begin from or does not come is told in the stream, with the code 200 in front
        Err(status) if status.is_expired() || status.code == 504 => {
            let piece = error_event(&status, negotiated.media);
            stream::once(async move { piece }).right_stream()
        }
        Err(status) => return Err(status),
    };
    if websocket::is_asked_for(request.headers()) {
        return websocket::upgrade(request.parts, negotiated.media, pieces);
    }
    let frames = pieces.map(|piece| Ok(Frame::data(piece)));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(match negotiated.media {
            Media::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            media => media.content_type(),
        }),
    );
    Ok(response)
}

fn default_timeout(environment: &dyn Environment) -> Duration {
    let extra = (environment.random() % u128::from(LEAST_TIMEOUT_SECONDS)) as u64;
    Duration::from_secs(LEAST_TIMEOUT_SECONDS + extra)
}

/// Where the watch starts and what it sends first.
async fn begin(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    selection: Selection,
    options: &ListOptions,
    mut writer: Writer,
    (timeout, open): (Duration, OpenWatch),
) -> Result<Watching, Status> {
    let registry = &state.registry;
    let asked = revision_of(&options.resource_version)?;
    let start = asked.filter(|r| r.0 > 0);
    let initial = match options.version_match {
        Some(_) => options.send_initial_events,
        None => start.is_none(), // a watch from nowhere begins with what is there
    };
    let mut first = BytesMut::new();
    let after = match (initial, start) {
        (true, _) => {
            let list = ListOptions {
                resource_version: options.resource_version.clone(),
                ..ListOptions::default()
            };
            let page = registry.list(resource, &selection, &list).await?;
            for object in &page.items {
                writer.object(&mut first, EventType::Added, object)?;
            }
            if options.allow_bookmarks {
                writer.bookmark(&mut first, page.revision, true)?;
            }
            page.revision
        }
        (false, Some(revision)) => revision, // if it is yet to come, so is what follows it
        (false, None) => {
            resource.catch_up(asked).await?;
            resource.cache.revision()
        }
    };
    let changes = resource.subscribe(&selection.namespace, after)?;
    let now = Instant::now();
    let mut bookmarks = tokio::time::interval_at(now + BOOKMARK_EVERY, BOOKMARK_EVERY);
    bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Ok(Watching {
        changes,
        selection,
        writer,
        first,
        bookmarks: options.allow_bookmarks.then_some(bookmarks),
        last_bookmark_at: now + timeout.saturating_sub(BOOKMARK_BEFORE_END),
        end_at: now + timeout,
        stopping: state.stopping.clone(),
        ended: false,
        open,
    })
}

/// An open watch.
struct Watching {
    changes: CacheWatch,
    selection: Selection,
    writer: Writer,
    /// What goes out before any change.
    first: BytesMut,
    bookmarks: Option<Interval>,
    /// When the bookmark before the end is due.
    last_bookmark_at: Instant,
    end_at: Instant,
    stopping: CancellationToken,
    ended: bool,
    open: OpenWatch,
}

/// What happened while waiting.
enum Step {
    Changes(Result<CacheBatch, CacheError>),
    Bookmark,
    End,
}

impl Watching {
    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, |mut watching| async move {
            let piece = watching.next().await?;
            Some((piece, watching))
        })
    }

    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.first.is_empty() {
            return Some(self.first.split().freeze());
        }
        while !self.ended {
            let mut piece = BytesMut::new();
            match self.step().await {
                Step::Changes(changes) => self.take(&mut piece, changes),
                Step::Bookmark => {
                    // the newer the better, but an older one will do
                    let _ = self.writer.resource.cache.catch_up(BOOKMARK_WAIT).await;
                    let position = self.changes.position();
                    if let Err(status) = self.writer.bookmark(&mut piece, position, false) {
                        self.fail(&mut piece, &status);
                    }
                }
                Step::End => self.ended = true,
            }
            if !piece.is_empty() {
                return Some(piece.freeze());
            }
        }
        None
    }

    async fn step(&mut self) -> Step {
        let bookmarks = &mut self.bookmarks;
        let (last_bookmark_at, wants_bookmarks) = (self.last_bookmark_at, bookmarks.is_some());
        tokio::select! {
            biased; // the end comes even if changes never pause
            () = self.stopping.cancelled() => Step::End,
            () = tokio::time::sleep_until(self.end_at) => Step::End,
            () = tokio::time::sleep_until(last_bookmark_at), if wants_bookmarks => {
                self.bookmarks = None;
                Step::Bookmark
            }
            changes = self.changes.next() => Step::Changes(changes),
            () = tick(bookmarks) => Step::Bookmark,
        }
    }

    /// Writes these changes and those that are ready behind them.
    fn take(&mut self, piece: &mut BytesMut, changes: Result<CacheBatch, CacheError>) {
        let mut next = Some(changes);
        while let Some(changes) = next {
            let written = changes.map_err(errors::from_cache).and_then(|batch| {
                self.open.sent(batch.events.len() as u64);
                batch
                    .events
                    .iter()
                    .try_for_each(|event| self.write(piece, event))
            });
            if let Err(status) = written {
                return self.fail(piece, &status);
            }
            next = match piece.len() < PIECE_BYTES {
                true => self.changes.next().now_or_never(),
                false => None,
            };
        }
    }

    /// Ends with a reason.
    fn fail(&mut self, piece: &mut BytesMut, status: &Status) {
        piece.extend_from_slice(&error_event(status, self.writer.negotiated.media));
        self.ended = true;
    }

    /// One change as this watch's selection sees it.
    fn write(&mut self, piece: &mut BytesMut, event: &CacheEvent) -> Result<(), Status> {
        let selected = |object: &SharedObject| self.selection.matches(&object.header);
        let deleted = event.kind == EventType::Deleted;
        let was = match &event.previous {
            Some(previous) => selected(previous),
            None => deleted && selected(&event.object),
        };
        let kind = match (was, !deleted && selected(&event.object)) {
            (false, false) => return Ok(()),
            (false, true) => EventType::Added,
            (true, true) => EventType::Modified,
            (true, false) => EventType::Deleted,
        };
        self.writer.event(piece, kind, event)
    }
}

async fn tick(bookmarks: &mut Option<Interval>) {
    match bookmarks {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

/// Writes events in the view agreed on.
struct Writer {
    resource: Arc<Resource>,
    negotiated: Negotiated,
    include: IncludeObject,
    environment: Arc<dyn Environment>,
    /// Only the first table of a watch has columns.
    columns_sent: bool,
}

impl Writer {
    /// A change, called `kind` by this watch.
    fn event(
        &mut self,
        piece: &mut BytesMut,
        kind: EventType,
        event: &CacheEvent,
    ) -> Result<(), Status> {
        if self.negotiated.view == View::Whole && self.resource.strategy.conversion().is_none() {
            let shared = match self.negotiated.media {
                Media::Protobuf => {
                    let make = |object: &SharedObject| {
                        let frame = protobuf_frame(kind.as_str(), &object.bytes);
                        frame
                            .inspect_err(|error| tracing::error!(%error, "encoding an event"))
                            .ok()
                    };
                    let why = "an event cannot be written as protobuf";
                    event
                        .encoded(kind, make)
                        .ok_or_else(|| Status::internal(why))?
                }
                _ => event.frame(kind),
            };
            piece.extend_from_slice(&shared);
            return Ok(());
        }
        let shown = match kind {
            EventType::Deleted => event.departed(),
            EventType::Added | EventType::Modified => &event.object,
        };
        let served = self.resource.served(shown)?;
        self.object(piece, kind, &served)
    }

    fn object(
        &mut self,
        piece: &mut BytesMut,
        kind: EventType,
        object: &SharedObject,
    ) -> Result<(), Status> {
        let bytes = &object.bytes;
        let shown = match self.negotiated.view {
            View::Table => self.table(bytes)?,
            View::PartialObject | View::PartialObjectList => view::partial(bytes, self.negotiated)?,
            View::Whole => bytes.clone(),
        };
        self.frame(piece, kind.as_str(), &shown)
    }

    /// One event in the media type agreed on.
    fn frame(&self, piece: &mut BytesMut, kind: &str, object: &[u8]) -> Result<(), Status> {
        match self.negotiated.media {
            Media::Protobuf => piece.extend_from_slice(&protobuf_frame(kind, object)?),
            _ => json_frame(piece, kind, object),
        }
        Ok(())
    }

    fn table(&mut self, bytes: &Bytes) -> Result<Bytes, Status> {
        let columns = !std::mem::replace(&mut self.columns_sent, true);
        let object = self.resource.strategy.decode(bytes)?;
        let now = whole_seconds(self.environment.now());
        let mut table = view::table_head(&self.resource, self.negotiated, columns);
        table["metadata"]["resourceVersion"] = json!(object.metadata().resource_version);
        let row = view::row(
            &self.resource,
            &object,
            bytes,
            self.negotiated,
            self.include,
            now,
        )?;
        table["rows"] = json!([row]);
        Ok(table.to_string().into())
    }

    /// How far the client is. In a table it is a row like another.
    fn bookmark(
        &mut self,
        piece: &mut BytesMut,
        revision: Revision,
        initial_events_end: bool,
    ) -> Result<(), Status> {
        let mut metadata = json!({ "resourceVersion": revision.to_string() });
        if initial_events_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let info = &self.resource.info;
        let object = json!({ "kind": info.kind, "apiVersion": info.gvr.api_version(), "metadata": metadata });
        let document = match self.negotiated.view {
            View::Table => {
                let mut table = view::table_head(&self.resource, self.negotiated, false);
                table["metadata"]["resourceVersion"] = json!(revision.to_string());
                let shown = match self.include {
                    IncludeObject::Object => object,
                    _ => json!({
                        "kind": "PartialObjectMetadata",
                        "apiVersion": self.negotiated.view_version(),
                        "metadata": metadata,
                    }),
                };
                table["rows"] = json!([{ "cells": [], "object": shown }]);
                table
            }
            View::PartialObject | View::PartialObjectList => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": self.negotiated.view_version(),
                "metadata": metadata,
            }),
            View::Whole => object,
        };
        self.frame(piece, "BOOKMARK", document.to_string().as_bytes())
    }
}

fn protobuf_frame(kind: &str, object: &[u8]) -> Result<Bytes, Status> {
    let body = protobuf::from_json(object).map_err(Status::internal)?;
    Ok(protobuf::watch_event(kind, &body).into())
}

fn json_frame(piece: &mut BytesMut, kind: &str, object: &[u8]) {
    piece.reserve(object.len() + 40);
    piece.put_slice(b"{\"type\":\"");
    piece.put_slice(kind.as_bytes());
    piece.put_slice(b"\",\"object\":");
    piece.put_slice(object);
    piece.put_slice(b"}\n");
}

/// An event that ends a watch with a reason.
fn error_event(status: &Status, media: Media) -> Bytes {
    let json = status.to_json();
    if media == Media::Protobuf
        && let Ok(frame) = protobuf_frame("ERROR", &json)
    {
        return frame;
    }
    let mut piece = BytesMut::new();
    json_frame(&mut piece, "ERROR", &json);
    piece.freeze()
}
