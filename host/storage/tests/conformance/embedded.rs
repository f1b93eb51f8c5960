//! The suite on the embedded engine, whose clock the tests set.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pilothouse_storage::{BoxFuture, Embedded, EmbeddedOptions, Storage, embedded::Clock};
use tempfile::TempDir;

use crate::harness::Engine;

/// A clock that tests set. It starts late enough for lease identifiers to be above zero.
pub(crate) struct HandClock(AtomicU64);

impl Default for HandClock {
    fn default() -> Self {
        Self(AtomicU64::new(1_000_000))
    }
}

impl HandClock {
    pub(crate) fn advance(&self, time: Duration) {
        self.0.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) struct EmbeddedEngine {
    storage: Arc<Embedded>,
    clock: Arc<HandClock>,
    _dir: TempDir,
}

impl EmbeddedEngine {
    pub(crate) fn make() -> Box<dyn Engine> {
        let dir = tempfile::tempdir().expect("temporary directory");
        let clock = Arc::new(HandClock::default());
        let options = EmbeddedOptions {
            clock: clock.clone(),
            ..EmbeddedOptions::new(dir.path())
        };
        Box::new(Self {
            storage: Arc::new(Embedded::open(options).expect("open")),
            clock,
            _dir: dir,
        })
    }
}

impl Engine for EmbeddedEngine {
    fn storage(&self) -> Arc<dyn Storage> {
        self.storage.clone()
    }

    fn pass_time<'a>(&'a self, time: Duration) -> BoxFuture<'a, ()> {
        self.clock.advance(time);
        Box::pin(async { self.storage.tick().await.expect("tick") })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded() {
    crate::conformance(&EmbeddedEngine::make).await;
}
