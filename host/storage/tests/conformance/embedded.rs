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

#[derive(Default)]
struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct EmbeddedEngine {
    storage: Arc<Embedded>,
    clock: Arc<HandClock>,
    _dir: TempDir,
}

impl EmbeddedEngine {
    fn make() -> Box<dyn Engine> {
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
        self.clock
            .0
            .fetch_add(time.as_millis() as u64, Ordering::Relaxed);
        Box::pin(async { self.storage.tick().await.expect("tick") })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded() {
    crate::conformance(&EmbeddedEngine::make).await;
}
