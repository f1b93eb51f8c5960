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
//! waits in the history, and a watch that falls behind it ends with 410. Such a connection holds a few events, not copies of
//! all that it has missed.

mod outbox;
mod writer;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt, stream};
use http::{HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use pilothouse_api::{FieldSelector, Revision, SharedObject, Status};
use pilothouse_client::Body;
use pilothouse_storage::{CacheError, CacheEvent, CacheWatch, EventType, watch_cache::CacheBatch};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use self::{
    outbox::Outbox,
    writer::{Writer, error_event},
};
use super::{
    Request,
    view::{self, IncludeObject},
    websocket,
};
use crate::{
    environment::Environment,
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
        may_split: !websocket::is_asked_for(request.headers()), // there an event is one message
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
    writer: Writer,
    (timeout, open): (Duration, OpenWatch),
) -> Result<Watching, Status> {
    let registry = &state.registry;
    let asked = revision_of(&options.resource_version)?;
    let start = asked.filter(|r| r.0 > 0);
    let initial = match options.version_match {
        Some(_) => options.send_initial_events,
        None => start.is_none(), // a watch from nowhere begins with what is there
    };
    let mut first = VecDeque::new();
    let mut first_end = None;
    let after = match (initial, start) {
        (true, _) => {
            let list = ListOptions {
                resource_version: options.resource_version.clone(),
                ..ListOptions::default()
            };
            let page = registry.list(resource, &selection, &list).await?;
            first = page.items.into();
            first_end = options.allow_bookmarks.then_some(page.revision);
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
        first_end,
        batch: VecDeque::new(),
        out: Outbox::default(),
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
    /// What goes out before any change ...
    first: VecDeque<SharedObject>,
    /// ... and the revision of the bookmark behind it.
    first_end: Option<Revision>,
    /// Changes that have been read and not written yet.
    batch: VecDeque<Arc<CacheEvent>>,
    out: Outbox,
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
        loop {
            if let Some(piece) = self.out.pop() {
                return Some(piece);
            }
            // the end comes even if changes never pause
            if self.ended || self.stopping.is_cancelled() || Instant::now() >= self.end_at {
                return None;
            }
            if self.batch.is_empty() && self.first.is_empty() && self.last_bookmark_is_due() {
                self.bookmarks = None;
                self.bookmark().await;
                continue;
            }
            if let Err(status) = self.fill() {
                self.fail(&status);
            }
            if self.out.is_empty() && !self.ended {
                self.wait().await;
            }
        }
    }

    /// Writes what is there to be written, up to a piece.
    fn fill(&mut self) -> Result<(), Status> {
        while !self.out.is_full() {
            if let Some(object) = self.first.pop_front() {
                self.writer
                    .object(&mut self.out, EventType::Added, &object)?;
            } else if let Some(revision) = self.first_end.take() {
                self.writer.bookmark(&mut self.out, revision, true)?;
            } else if let Some(event) = self.batch.pop_front() {
                self.write(&event)?;
            } else if let Some(changes) = self.changes.next().now_or_never() {
                self.take(changes.map_err(errors::from_cache)?);
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Waits for something to write, or for the end.
    async fn wait(&mut self) {
        match self.step().await {
            Step::Changes(Ok(changes)) => self.take(changes),
            Step::Changes(Err(error)) => self.fail(&errors::from_cache(error)),
            Step::Bookmark => self.bookmark().await,
            Step::End => self.ended = true,
        }
    }

    fn last_bookmark_is_due(&self) -> bool {
        self.bookmarks.is_some() && Instant::now() >= self.last_bookmark_at
    }

    /// Says how far the client is, once it has been sent all that has been read for it.
    async fn bookmark(&mut self) {
        // the newer the better, but an older one will do
        let _ = self.writer.resource.cache.catch_up(BOOKMARK_WAIT).await;
        let position = self.changes.position();
        if let Err(status) = self.writer.bookmark(&mut self.out, position, false) {
            self.fail(&status);
        }
    }

    async fn step(&mut self) -> Step {
        let bookmarks = &mut self.bookmarks;
        let (last_bookmark_at, wants_bookmarks) = (self.last_bookmark_at, bookmarks.is_some());
        tokio::select! {
            biased;
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

    fn take(&mut self, changes: CacheBatch) {
        self.open.sent(changes.events.len() as u64);
        self.batch.extend(changes.events);
    }

    /// Ends with a reason.
    fn fail(&mut self, status: &Status) {
        self.out
            .share(error_event(status, self.writer.negotiated.media));
        self.ended = true;
    }

    /// One change as this watch's selection sees it.
    fn write(&mut self, event: &CacheEvent) -> Result<(), Status> {
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
        self.writer.event(&mut self.out, kind, event)
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
