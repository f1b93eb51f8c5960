//! One watch of etcd for each prefix that somebody watches, shared by all who watch it, and ended with the last of them.
//!
//! Each feed has a hub of its own: how far a prefix has come says nothing about another. An etcd whose answers about progress
//! cannot be believed has one feed of all its keys instead: as each of its revisions has an event, the events alone tell.
//!
//! Lock order: `Feeds::open`, then nothing; the hub's locks are taken without it.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::StreamExt;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::{Shared, pump};
use crate::{
    engine::{Result, Revision, StorageError, WatchRequest, WatchStream},
    hub::Hub,
};

/// How long progress is asked for on behalf of somebody who waits: a revision may be one that never comes.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a feed reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// The engine's keys below a prefix; progress is asked for.
    Prefix(Arc<str>),
    /// All keys that etcd has, the engine's or not.
    Everything,
}

/// What feeds the watches of one prefix, or of all.
pub(super) struct Feed {
    pub(super) hub: Arc<Hub>,
    pub(super) scope: Scope,
    wanted: Mutex<Wanted>,
    asked: Notify,
}

/// The highest revision that somebody waits for, and until when it is asked for.
#[derive(Clone, Copy)]
struct Wanted {
    revision: Revision,
    until: Instant,
}

impl Feed {
    /// Whether somebody waits for what has not come yet.
    pub(super) fn is_behind(&self) -> bool {
        let wanted = *self.wanted.lock();
        wanted.revision > self.hub.published() && Instant::now() < wanted.until
    }

    /// Somebody has begun to wait.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    fn want(&self, prefix: &str, revision: Revision) {
        {
            let mut wanted = self.wanted.lock();
            wanted.revision = wanted.revision.max(revision);
            wanted.until = Instant::now() + PATIENCE;
        }
        self.hub.request_progress(prefix, revision);
        if revision > self.hub.published() {
            self.asked.notify_one();
        }
    }
}

/// A feed with its task, which ends with it.
struct Running {
    feed: Arc<Feed>,
    task: tokio::task::AbortHandle,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The feeds of one engine.
pub(super) struct Feeds {
    /// Whether etcd's answers about progress can be believed.
    has_progress: bool,
    open: Mutex<HashMap<Scope, Weak<Running>>>,
}

impl Feeds {
    pub(super) fn new(has_progress: bool) -> Self {
        Self {
            has_progress,
            open: Mutex::default(),
        }
    }

    /// A watch, fed by that of its prefix.
    pub(super) async fn watch(
        &self,
        shared: &Arc<Shared>,
        request: WatchRequest,
    ) -> Result<WatchStream> {
        let scope = self.scope(&request.prefix);
        let running = match self.of(&scope) {
            Some(running) => running,
            None => {
                let mut start = shared.current_revision().await?;
                if self.has_progress {
                    // whoever is first needs no replay; but a feed must not begin at a revision that is still to come
                    start = start.min(request.after);
                }
                self.start(shared, scope, start)
            }
        };
        let stream = running.feed.hub.watch(shared.clone(), request);
        Ok(Box::pin(stream.map(move |batch| {
            let _alive = &running;
            batch
        })))
    }

    /// See [`crate::Storage::request_progress`].
    pub(super) fn request_progress(&self, prefix: &str, revision: Revision) {
        if let Some(running) = self.of(&self.scope(prefix)) {
            running.feed.want(prefix, revision);
        }
    }

    /// Ends every watch.
    pub(super) fn close(&self, error: &StorageError) {
        let open: Vec<Weak<Running>> = self.open.lock().drain().map(|(_, feed)| feed).collect();
        for running in open.iter().filter_map(Weak::upgrade) {
            running.task.abort();
            running.feed.hub.close(error);
        }
    }

    fn scope(&self, prefix: &str) -> Scope {
        match self.has_progress {
            true => Scope::Prefix(prefix.into()),
            false => Scope::Everything,
        }
    }

    fn of(&self, scope: &Scope) -> Option<Arc<Running>> {
        self.open.lock().get(scope)?.upgrade()
    }

    fn start(&self, shared: &Arc<Shared>, scope: Scope, start: Revision) -> Arc<Running> {
        let mut open = self.open.lock();
        if let Some(running) = open.get(&scope).and_then(Weak::upgrade) {
            return running; // somebody was quicker
        }
        open.retain(|_, feed| feed.strong_count() > 0);
        let feed = Arc::new(Feed {
            hub: Arc::new(Hub::new(start)),
            scope: scope.clone(),
            wanted: Mutex::new(Wanted {
                revision: Revision(0),
                until: Instant::now(),
            }),
            asked: Notify::new(),
        });
        let task = tokio::spawn(pump::run(shared.clone(), feed.clone())).abort_handle();
        let running = Arc::new(Running { feed, task });
        open.insert(scope, Arc::downgrade(&running));
        running
    }
}
