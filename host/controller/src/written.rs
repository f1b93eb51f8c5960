//! What a run wrote, and waiting until the caches have seen it. This takes the place of client-side expectations.
//!
//! The log of the run under way is a task-local: the guest's imports run within the task of its reconcile.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use pilothouse_api::{Object, Revision, SharedObject};
use pilothouse_client::Cache;

tokio::task_local! {
    static RUN: Arc<Written>;
}

/// A cache that is so far behind is broken; its reconciles go on and meet conflicts.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The writes of one run.
#[derive(Default)]
pub(crate) struct Written {
    seen: Mutex<Vec<Seen>>,
}

/// What a cache must have seen. Only caches that are running are waited for.
enum Seen {
    Revision {
        cache: Arc<Cache>,
        revision: Revision,
    },
    /// A delete whose answer names no revision.
    Gone {
        cache: Arc<Cache>,
        namespace: String,
        name: String,
        uid: String,
    },
}

impl Written {
    /// Runs a reconcile with a log of its own.
    pub(crate) async fn scope<F: Future>(self: Arc<Self>, run: F) -> F::Output {
        RUN.scope(self, run).await
    }

    /// Waits until all caches have seen everything; whether they have in time.
    pub(crate) async fn wait(&self) -> bool {
        let seen = std::mem::take(&mut *self.seen.lock());
        let waits = seen.into_iter().map(Seen::wait);
        futures::future::join_all(waits)
            .await
            .into_iter()
            .all(|in_time| in_time)
    }
}

impl Seen {
    async fn wait(self) -> bool {
        match self {
            Seen::Revision { cache, revision } => cache.wait_revision(revision, PATIENCE).await,
            Seen::Gone {
                cache,
                namespace,
                name,
                uid,
            } => {
                let gone = |cache: &Cache| {
                    let object = cache.get(&namespace, &name);
                    object.is_none_or(|o| {
                        o.header.uid != uid || o.header.deletion_timestamp.is_some()
                    })
                };
                cache.wait_until(gone, PATIENCE).await
            }
        }
    }
}

/// Notes that the run under way wrote an object of `cache`. Outside of a run nothing is noted.
pub(crate) fn wrote(cache: Option<Arc<Cache>>, object: &Object) {
    if let Some(cache) = cache {
        note(Seen::Revision {
            cache,
            revision: object.revision,
        });
    }
}

/// An object that is about to be deleted, as its cache has it.
pub(crate) struct Doomed {
    cache: Arc<Cache>,
    object: SharedObject,
}

/// Looks the object up before it is deleted: afterwards its name may be another's.
pub(crate) fn doomed(cache: Option<Arc<Cache>>, namespace: &str, name: &str) -> Option<Doomed> {
    let cache = cache?;
    let object = cache.get(namespace, name)?;
    Some(Doomed { cache, object })
}

/// Notes that the run under way deleted an object.
pub(crate) fn deleted(doomed: Option<Doomed>) {
    if let Some(Doomed { cache, object }) = doomed {
        note(Seen::Gone {
            cache,
            namespace: object.header.namespace.clone(),
            name: object.header.name.clone(),
            uid: object.header.uid.clone(),
        });
    }
}

fn note(seen: Seen) {
    // an error means: not within a run
    let _ = RUN.try_with(|run| run.seen.lock().push(seen));
}
