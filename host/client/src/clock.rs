//! Time and chance, injected so that tests are replayable. Waiting goes through tokio, whose clock tests can pause.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where the time and random numbers come from.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// A random number in `0.0..1.0`.
    fn random(&self) -> f64;
}

/// The machine's clock and generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since_epoch.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    }

    fn random(&self) -> f64 {
        rand::random()
    }
}

/// A clock that stands where it is put, and a seeded generator: for tests.
#[derive(Debug)]
pub struct ManualClock {
    now_ms: AtomicU64,
    seed: AtomicU64,
}

impl ManualClock {
    /// Stands at `now_ms`; the same seed gives the same numbers.
    pub fn new(now_ms: u64, seed: u64) -> Self {
        Self {
            now_ms: AtomicU64::new(now_ms),
            seed: AtomicU64::new(seed),
        }
    }

    /// Moves forward.
    pub fn advance_ms(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn random(&self) -> f64 {
        // splitmix64: a counter through a mixer, so that concurrent callers need no lock
        let mut z = self
            .seed
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Exponential back-off with jitter.
#[derive(Clone, Debug)]
pub struct Backoff {
    base_ms: u64,
    max_ms: u64,
    failures: u32,
}

impl Backoff {
    /// Doubles from `base_ms` to `max_ms`.
    pub fn new(base_ms: u64, max_ms: u64) -> Self {
        Self {
            base_ms,
            max_ms,
            failures: 0,
        }
    }

    /// The next delay: the doubled one, plus up to as much again by chance.
    pub fn next_ms(&mut self, clock: &dyn Clock) -> u64 {
        let doubled = self.base_ms.saturating_mul(1 << self.failures.min(20));
        self.failures = self.failures.saturating_add(1);
        let delay = doubled.min(self.max_ms);
        delay + (delay as f64 * clock.random()) as u64
    }

    /// Something went well.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}
