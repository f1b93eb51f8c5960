//! Mirrors one resource: list, watch from the list's revision, resume where a watch ended, list anew when that is too old.
//!
//! ```text
//!            ┌────────────── too old ──────────────┐
//!            ▼                                     │
//!   List ── items, revision ──► Connect ──► Watch ─┤
//!    ▲ ▲                         ▲  │         │    │
//!    │ └── failed: wait ─────────┼──┘         │    │
//!    │                           └── ended ───┘    │
//!    └─────────────────────────────────────────────┘
//! ```
//!
//! One [`Reflector::step`] is one transition. Invariants: nothing is lost between a list and its watch; after a break the
//! watch resumes from the last event's revision; a wait grows with failures in a row and ends when an event arrives.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use pilothouse_api::{GroupVersionResource, Revision, SharedObject, Status};

use crate::{
    client::{Client, ListParams, WatchParams},
    clock::{Backoff, Clock},
    watch::WatchEvent,
};

/// Objects per page of the first list.
const PAGE: u32 = 500;
/// A watch is asked to end after this long and twice as long, at random, so that watches of many clients do not end together.
const WATCH_SECONDS: u32 = 300;
/// A connection without any event or bookmark for so long is taken for dead.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 * 2 + 60);

/// Everything that is mirrored.
#[derive(Clone)]
pub struct Source {
    pub client: Client,
    pub resource: GroupVersionResource,
    /// Empty: all namespaces, or cluster-scoped.
    pub namespace: String,
    pub label_selector: String,
    pub field_selector: String,
    /// Selectable fields to read into the headers.
    pub fields: Arc<[String]>,
}

/// See the module.
pub struct Reflector {
    source: Source,
    clock: Arc<dyn Clock>,
    backoff: Backoff,
    state: State,
}

enum State {
    /// A list from the server's cache is enough at first; after `410 Gone` it must be consistent.
    List {
        consistent: bool,
    },
    Connect {
        from: Revision,
    },
    Watch {
        from: Revision,
        events: Events,
    },
    Wait {
        ms: u64,
        then: Box<State>,
    },
}

type Events = BoxStream<'static, Result<WatchEvent, Status>>;

/// What a transition brought.
#[derive(Debug)]
pub enum Step {
    /// Everything there is.
    Replace(Vec<SharedObject>, Revision),
    Event(WatchEvent),
    /// A request failed; the next step waits.
    Failed(Status),
    /// A state was left without news.
    Moved,
}

impl Reflector {
    /// Begins with a list.
    pub fn new(source: Source, clock: Arc<dyn Clock>) -> Self {
        Self {
            source,
            clock,
            backoff: Backoff::new(800, 30_000),
            state: State::List { consistent: false },
        }
    }

    /// One transition. Dropping the future between transitions loses nothing; dropping it within one repeats it.
    pub async fn step(&mut self) -> Step {
        match &mut self.state {
            State::List { consistent } => {
                let consistent = *consistent;
                self.list(consistent).await
            }
            State::Connect { from } => {
                let from = *from;
                self.connect(from).await
            }
            State::Watch { from, events } => {
                let from = *from;
                let event = tokio::time::timeout(SILENCE, events.next()).await;
                self.event(from, event.unwrap_or(None))
            }
            State::Wait { ms, then } => {
                tokio::time::sleep(Duration::from_millis(*ms)).await;
                let then = std::mem::replace(then.as_mut(), State::List { consistent: false });
                self.state = then;
                Step::Moved
            }
        }
    }

    async fn list(&mut self, consistent: bool) -> Step {
        let Source {
            client,
            resource,
            namespace,
            ..
        } = &self.source;
        let params = ListParams {
            label_selector: self.source.label_selector.clone(),
            field_selector: self.source.field_selector.clone(),
            resource_version: if consistent { "" } else { "0" }.to_owned(),
            limit: if consistent { PAGE } else { 0 }, // a list from the cache is never paged
            continue_token: String::new(),
        };
        let listed = client.list_all(resource, namespace, &params, &self.source.fields);
        match listed.await {
            Ok(list) => {
                self.backoff.reset();
                self.state = State::Connect {
                    from: list.revision,
                };
                Step::Replace(list.items, list.revision)
            }
            Err(status) => {
                let consistent = consistent || status.is_expired();
                self.wait(State::List { consistent });
                Step::Failed(status)
            }
        }
    }

    async fn connect(&mut self, from: Revision) -> Step {
        let seconds = f64::from(WATCH_SECONDS) * (1.0 + self.clock.random());
        let params = WatchParams {
            label_selector: self.source.label_selector.clone(),
            field_selector: self.source.field_selector.clone(),
            resource_version: from.to_string(),
            timeout_seconds: seconds as u32,
            send_initial_events: false,
        };
        let Source {
            client,
            resource,
            namespace,
            fields,
            ..
        } = &self.source;
        match client
            .watch(resource, namespace, &params, fields.clone())
            .await
        {
            Ok(events) => {
                self.state = State::Watch { from, events };
                Step::Moved
            }
            Err(status) => self.broken(from, status),
        }
    }

    fn event(&mut self, from: Revision, event: Option<Result<WatchEvent, Status>>) -> Step {
        match event {
            Some(Ok(event)) => {
                self.backoff.reset();
                if let State::Watch { from, .. } = &mut self.state {
                    *from = revision_of(&event).max(*from);
                }
                Step::Event(event)
            }
            Some(Err(status)) => self.broken(from, status),
            None => {
                // a server that ends every watch at once must not be asked in a tight loop
                self.wait(State::Connect { from });
                Step::Moved
            }
        }
    }

    fn broken(&mut self, from: Revision, status: Status) -> Step {
        if status.is_expired() {
            self.state = State::List { consistent: true };
            return Step::Moved;
        }
        self.wait(State::Connect { from });
        Step::Failed(status)
    }

    fn wait(&mut self, then: State) {
        self.state = State::Wait {
            ms: self.backoff.next_ms(&*self.clock),
            then: Box::new(then),
        };
    }
}

fn revision_of(event: &WatchEvent) -> Revision {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            object.revision
        }
        WatchEvent::Bookmark { revision, .. } => *revision,
    }
}

#[cfg(test)]
mod tests;
