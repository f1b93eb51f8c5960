//! Which occurrences are written, as what.

use std::collections::HashMap;

use super::{Occurrence, Regarding};

/// The same event after so long is a new one.
const SERIES_MS: u64 = 10 * 60_000;
const BURST: f64 = 25.0;
const REFILL_MS: f64 = 300_000.0;
/// Bounds the memory: the oldest half is forgotten when this many are remembered.
const REMEMBERED: usize = 4096;

/// What becomes of an occurrence.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Create { name: String },
    Series { name: String, count: u32 },
    Drop,
}

#[derive(Default)]
pub(super) struct Correlator {
    series: HashMap<Occurrence, Series>,
    buckets: HashMap<(String, Regarding), Bucket>,
    created: u64,
}

struct Series {
    name: String,
    count: u32,
    last_ms: u64,
}

struct Bucket {
    tokens: f64,
    last_ms: u64,
}

impl Correlator {
    pub(super) fn judge(&mut self, occurrence: &Occurrence, now_ms: u64) -> Verdict {
        if !self.take_token(occurrence, now_ms) {
            return Verdict::Drop;
        }
        if let Some(series) = self.series.get_mut(occurrence)
            && now_ms.saturating_sub(series.last_ms) < SERIES_MS
        {
            series.count += 1;
            series.last_ms = now_ms;
            return Verdict::Series {
                name: series.name.clone(),
                count: series.count,
            };
        }
        self.created += 1;
        // unique by time and number, as Kubernetes makes it of the time in nanoseconds
        let unique = now_ms * 1_000_000 + self.created % 1_000_000;
        let name = format!("{}.{unique:x}", occurrence.regarding.name);
        self.remember(occurrence, &name, now_ms);
        Verdict::Create { name }
    }

    pub(super) fn forget(&mut self, occurrence: &Occurrence) {
        self.series.remove(occurrence);
    }

    fn take_token(&mut self, occurrence: &Occurrence, now_ms: u64) -> bool {
        if self.buckets.len() >= REMEMBERED {
            self.buckets.retain(|_, bucket| bucket.at(now_ms) < BURST);
        }
        let key = (occurrence.reporter.clone(), occurrence.regarding.clone());
        let bucket = self.buckets.entry(key).or_insert(Bucket {
            tokens: BURST,
            last_ms: now_ms,
        });
        bucket.tokens = bucket.at(now_ms);
        bucket.last_ms = now_ms;
        let granted = bucket.tokens >= 1.0;
        if granted {
            bucket.tokens -= 1.0;
        }
        granted
    }

    fn remember(&mut self, occurrence: &Occurrence, name: &str, now_ms: u64) {
        if self.series.len() >= REMEMBERED {
            let mut times: Vec<u64> = self.series.values().map(|s| s.last_ms).collect();
            times.sort_unstable();
            let middle = times[times.len() / 2];
            self.series.retain(|_, series| series.last_ms > middle);
        }
        let series = Series {
            name: name.to_owned(),
            count: 1,
            last_ms: now_ms,
        };
        self.series.insert(occurrence.clone(), series);
    }
}

impl Bucket {
    fn at(&self, now_ms: u64) -> f64 {
        let gained = now_ms.saturating_sub(self.last_ms) as f64 / REFILL_MS;
        (self.tokens + gained).min(BURST)
    }
}
