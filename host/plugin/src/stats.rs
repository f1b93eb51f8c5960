//! Counters of one plugin component, kept across its revisions.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// Names of counters that a component may have; further ones are dropped.
const MAX_COUNTERS: usize = 64;

/// Calls, failures, latency and the plugin's own counters.
pub(crate) struct Stats {
    calls: AtomicU64,
    reloads: AtomicU64,
    /// Bytes.
    memory_peak: AtomicU64,
    instructions: AtomicU64,
    compared: AtomicU64,
    shadow_dropped: AtomicU64,
    /// Calls by their share of the time that their caller had left; by the first bound that it does not exceed.
    shares: [AtomicU64; SHARES.len() + 1],
    /// Of these shares, in millionths.
    share_sum: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    /// Nanoseconds.
    latency: Histogram<u32>,
    latency_sum: u64,
    traps: BTreeMap<&'static str, u64>,
    counters: BTreeMap<String, u64>,
    differences: BTreeMap<&'static str, u64>,
}

/// Counters at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Guest calls that ended, in whatever way.
    pub calls: u64,
    /// Microseconds; 0 without calls.
    pub p50_us: f64,
    pub p99_us: f64,
    /// By cause: `trap`, `time`, `memory` …
    pub traps: BTreeMap<&'static str, u64>,
    pub reloads: u64,
    /// The most linear memory that an instance had, in bytes.
    pub memory_peak: u64,
    /// Of the last call; 0 where they are not counted.
    pub instructions: u64,
    /// The plugin's own.
    pub counters: BTreeMap<String, u64>,
    /// Answers that did not act and were compared with what was done, by all revisions so far.
    pub compared: u64,
    /// Such answers that were not asked for, because too many waited.
    pub shadow_dropped: u64,
    /// What they differed in.
    pub differences: BTreeMap<&'static str, u64>,
}

/// What a histogram shows: how long calls took, in microseconds, or their shares.
#[derive(Debug)]
pub(crate) struct Distribution {
    pub(crate) sum: f64,
    pub(crate) count: u64,
    /// Upper bounds, each with the calls above the bound before it.
    pub(crate) buckets: Vec<(f64, u64)>,
}

/// Upper bounds of shares.
const SHARES: [f64; 7] = [0.0001, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5];

/// Upper bounds in microseconds; above the last there is infinity.
const BOUNDS_US: [u64; 15] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000, 1_000_000,
];

impl Stats {
    pub(crate) fn new() -> Self {
        let highest = Duration::from_secs(60).as_nanos() as u64;
        // The bounds are right by construction: 1 < 2 × lowest <= highest, 2 digits.
        let latency =
            Histogram::new_with_bounds(100, highest, 2).unwrap_or_else(|_| unreachable!());
        Self {
            calls: AtomicU64::new(0),
            reloads: AtomicU64::new(0),
            memory_peak: AtomicU64::new(0),
            instructions: AtomicU64::new(0),
            compared: AtomicU64::new(0),
            shadow_dropped: AtomicU64::new(0),
            shares: std::array::from_fn(|_| AtomicU64::new(0)),
            share_sum: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                latency,
                latency_sum: 0,
                traps: BTreeMap::new(),
                counters: BTreeMap::new(),
                differences: BTreeMap::new(),
            }),
        }
    }

    pub(crate) fn call(&self, took: Duration, failure: Option<&'static str>) {
        self.calls.fetch_add(1, Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mut inner = self.inner.lock();
        inner.latency.saturating_record(nanos);
        inner.latency_sum = inner.latency_sum.saturating_add(nanos);
        if let Some(cause) = failure {
            *inner.traps.entry(cause).or_default() += 1;
        }
    }

    /// A call that counted as good turned out not to be.
    pub(crate) fn fault(&self, cause: &'static str) {
        *self.inner.lock().traps.entry(cause).or_default() += 1;
    }

    /// An instance has so much linear memory.
    pub(crate) fn memory(&self, bytes: usize) {
        self.memory_peak.fetch_max(bytes as u64, Relaxed);
    }

    /// The call that ended took so many instructions.
    pub(crate) fn instructions(&self, count: u64) {
        self.instructions.store(count, Relaxed);
    }

    pub(crate) fn reload(&self) {
        self.reloads.fetch_add(1, Relaxed);
    }

    /// How much of what its caller had left a call took.
    pub(crate) fn share(&self, took: Duration, left: Duration) {
        let share = (took.as_secs_f64() / left.as_secs_f64().max(f64::MIN_POSITIVE)).min(1.0);
        let bound = SHARES.iter().position(|bound| share <= *bound);
        self.shares[bound.unwrap_or(SHARES.len())].fetch_add(1, Relaxed);
        self.share_sum.fetch_add((share * 1e6) as u64, Relaxed);
    }

    /// The shares so far, as a fraction of 1.
    pub(crate) fn shares(&self) -> Distribution {
        let bounds = SHARES.into_iter().chain([f64::MAX]);
        let counts = self.shares.iter().map(|count| count.load(Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        Distribution {
            sum: self.share_sum.load(Relaxed) as f64 / 1e6,
            count: buckets.iter().map(|(_, count)| count).sum(),
            buckets,
        }
    }

    /// An answer that did not act was compared.
    pub(crate) fn compared(&self) {
        self.compared.fetch_add(1, Relaxed);
    }

    pub(crate) fn shadow_dropped(&self) {
        self.shadow_dropped.fetch_add(1, Relaxed);
    }

    pub(crate) fn differs(&self, kind: &'static str) {
        *self.inner.lock().differences.entry(kind).or_default() += 1;
    }

    pub(crate) fn add(&self, counter: &str, by: u64) {
        let mut inner = self.inner.lock();
        if let Some(value) = inner.counters.get_mut(counter) {
            *value = value.saturating_add(by);
        } else if inner.counters.len() < MAX_COUNTERS {
            inner.counters.insert(counter.to_owned(), by);
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        let inner = self.inner.lock();
        let quantile = |q| inner.latency.value_at_quantile(q) as f64 / 1000.0;
        Figures {
            calls: self.calls.load(Relaxed),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            traps: inner.traps.clone(),
            reloads: self.reloads.load(Relaxed),
            memory_peak: self.memory_peak.load(Relaxed),
            instructions: self.instructions.load(Relaxed),
            counters: inner.counters.clone(),
            compared: self.compared.load(Relaxed),
            shadow_dropped: self.shadow_dropped.load(Relaxed),
            differences: inner.differences.clone(),
        }
    }

    pub(crate) fn latencies(&self) -> Distribution {
        let inner = self.inner.lock();
        let mut buckets = Vec::with_capacity(BOUNDS_US.len() + 1);
        let mut above = 0;
        for bound in BOUNDS_US {
            let nanos = bound * 1000;
            buckets.push((bound as f64, inner.latency.count_between(above, nanos)));
            above = nanos + 1;
        }
        let counted: u64 = buckets.iter().map(|(_, count)| count).sum();
        buckets.push((f64::MAX, inner.latency.len().saturating_sub(counted)));
        Distribution {
            sum: inner.latency_sum as f64 / 1000.0,
            count: inner.latency.len(),
            buckets,
        }
    }
}
