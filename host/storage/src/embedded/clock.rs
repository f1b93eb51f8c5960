//! The clock of leases and history, injected so that tests need not wait.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Where the engine reads the time.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch. Never goes back and never jumps while the process runs.
    fn now_ms(&self) -> u64;
}

/// The machine's clock: the time of day when it was made, and from then on what a monotonic clock measures, so that leases
/// neither end early nor live long when somebody sets the time of day.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    made: Instant,
    made_ms: u64,
}

impl Default for SystemClock {
    fn default() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            made: Instant::now(),
            made_ms: since.map_or(0, |since| since.as_millis() as u64),
        }
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        self.made_ms + self.made.elapsed().as_millis() as u64
    }
}
