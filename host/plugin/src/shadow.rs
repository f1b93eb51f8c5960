//! Answers that do not act: a plugin in shadow mode, or a candidate beside the revision that serves, is asked too, and what it
//! would have done is compared with what was done.
//!
//! Invariants: nobody waits for such an answer; what comes while too many wait is dropped and counted; writes go nowhere.

mod discard;
mod queue;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;

use crate::{clock::Clock, stats::Stats};

pub use discard::Discarding;
use queue::Queue;

/// Differences that are kept to be looked at; older ones are only counted.
const KEPT: usize = 10;
/// Characters kept of what either side said.
const SHOWN: usize = 256;

/// In what two answers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    /// One lets pass what the other refuses.
    Decision,
    /// They make different objects.
    Object,
    Warnings,
    /// The shadow gave no answer: a trap, a limit, or something that cannot be used.
    Failure,
    /// It would have written to the cluster.
    Write,
    /// They prefer other nodes.
    Score,
}

impl DifferenceKind {
    /// As in metrics and status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Object => "object",
            Self::Warnings => "warnings",
            Self::Failure => "failure",
            Self::Write => "write",
            Self::Score => "score",
        }
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    pub kind: DifferenceKind,
    /// The request or the write: `CREATE pods default/web`.
    pub about: String,
    /// What was done.
    pub acted: String,
    /// What the shadow would have done.
    pub shadow: String,
}

/// How a shadow has fared so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShadowFigures {
    /// Answers that were compared.
    pub compared: u64,
    /// Calls that were not made, because too many waited.
    pub dropped: u64,
    pub differences: BTreeMap<&'static str, u64>,
    /// The last ones, oldest first.
    pub samples: Vec<Difference>,
}

/// What is known of one revision that does not act.
pub struct Shadow {
    component: Arc<str>,
    clock: Arc<dyn Clock>,
    /// The component's own, which outlive the revision.
    totals: Arc<Stats>,
    compared: AtomicU64,
    dropped: AtomicU64,
    found: Mutex<Found>,
    queue: Queue,
}

#[derive(Default)]
struct Found {
    counts: BTreeMap<&'static str, u64>,
    samples: VecDeque<Difference>,
}

impl Shadow {
    pub(crate) fn new(component: &Arc<str>, clock: &Arc<dyn Clock>, totals: &Arc<Stats>) -> Self {
        Self {
            component: Arc::clone(component),
            clock: Arc::clone(clock),
            totals: Arc::clone(totals),
            compared: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            found: Mutex::default(),
            queue: Queue::default(),
        }
    }

    pub fn figures(&self) -> ShadowFigures {
        let found = self.found.lock();
        ShadowFigures {
            compared: self.compared.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            differences: found.counts.clone(),
            samples: found.samples.iter().cloned().collect(),
        }
    }

    /// An answer was compared.
    pub fn compared(&self) {
        self.compared.fetch_add(1, Relaxed);
        self.totals.compared();
    }

    /// Does it some time, or not at all if too much waits. Within a tokio runtime only.
    pub fn some_time<W: Future<Output = ()> + Send + 'static>(&self, work: impl FnOnce() -> W) {
        if !self.queue.offer(work) {
            self.passed_over();
        }
    }

    /// A call was not made.
    pub fn passed_over(&self) {
        self.dropped.fetch_add(1, Relaxed);
        self.totals.shadow_dropped();
    }

    /// Counts a difference and keeps it for a while.
    pub fn differs(&self, kind: DifferenceKind, about: String, acted: &str, shadow: &str) {
        self.totals.differs(kind.as_str());
        let (acted, shadow) = (shorten(acted), shorten(shadow));
        tracing::info!(
            component = &*self.component,
            kind = kind.as_str(),
            about,
            acted,
            shadow,
            "a plugin in shadow differs"
        );
        let mut found = self.found.lock();
        *found.counts.entry(kind.as_str()).or_default() += 1;
        if found.samples.len() == KEPT {
            found.samples.pop_front();
        }
        found.samples.push_back(Difference {
            at_ms: self.clock.now_ms(),
            kind,
            about,
            acted,
            shadow,
        });
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn all_differences_are_counted_and_the_last_are_kept() {
        let (clock, totals): (Arc<dyn Clock>, _) =
            (Arc::new(SystemClock::default()), Arc::new(Stats::new()));
        let shadow = Shadow::new(&"it".into(), &clock, &totals);
        for n in 0..KEPT + 3 {
            let long = "x".repeat(2 * SHOWN);
            shadow.differs(DifferenceKind::Object, n.to_string(), "", &long);
        }
        let figures = shadow.figures();
        assert_eq!(figures.differences["object"], 13);
        assert_eq!(figures.samples.len(), KEPT);
        assert_eq!(figures.samples[0].about, "3");
        assert_eq!(figures.samples[0].shadow.len(), SHOWN);
    }
}
