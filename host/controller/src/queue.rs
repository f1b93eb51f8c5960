//! A keyed work queue: what is added twice before it is taken runs once, one key never runs twice at the same time, failures
//! wait longer each time.
//!
//! ```text
//!             add                get                  done
//!   (absent) ────► queued ──────────► running ───────────────► (absent)
//!        ▲           ▲                 │ add: marked dirty        │ dirty: queued again
//!  due   │           └─────────────────┴──────────────────────────┘
//!   add_after, add_rate_limited ──► delayed
//! ```

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    hash::Hash,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// The first delay of a failing key; it doubles up to [`MAX_DELAY`], as upstream's default controller rate limiter has it.
const BASE_DELAY: Duration = Duration::from_millis(5);
const MAX_DELAY: Duration = Duration::from_secs(1000);

/// See the module.
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

struct State<K> {
    ready: VecDeque<K>,
    /// In `ready`, or running and added again.
    dirty: HashSet<K>,
    running: HashSet<K>,
    due: BTreeSet<(Instant, u64)>,
    /// What each entry of `due` is for.
    delayed: HashMap<u64, K>,
    /// The entry of a key in `due`; the earliest one counts.
    waiting: HashMap<K, (Instant, u64)>,
    entries: u64,
    failures: HashMap<K, u32>,
    closed: bool,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            dirty: HashSet::new(),
            running: HashSet::new(),
            due: BTreeSet::new(),
            delayed: HashMap::new(),
            waiting: HashMap::new(),
            entries: 0,
            failures: HashMap::new(),
            closed: false,
        }
    }
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs the key as soon as it can.
    pub fn add(&self, key: K) {
        if self.state.lock().add(key) {
            self.changed.notify_one();
        }
    }

    /// Runs the key after a delay, or earlier if it is added meanwhile.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        self.state.lock().delay(key, Instant::now() + delay);
        self.changed.notify_one(); // somebody may be asleep until a later moment
    }

    /// Runs a failed key after its next back-off.
    pub fn add_rate_limited(&self, key: K) {
        let delay = self.state.lock().next_delay(&key);
        self.add_after(key, delay);
    }

    /// The key's next failure is its first.
    pub fn forget(&self, key: &K) {
        self.state.lock().failures.remove(key);
    }

    /// How often the key has failed in a row.
    pub fn failures(&self, key: &K) -> u32 {
        self.state.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// The next key, which counts as running until [`Self::done`]; `None` when the queue is closed.
    pub async fn get(&self) -> Option<K> {
        loop {
            let changed = self.changed.notified();
            let next_due = {
                let mut state = self.state.lock();
                if state.closed {
                    self.changed.notify_one(); // pass it on
                    return None;
                }
                state.move_due(Instant::now());
                if let Some(key) = state.take() {
                    if !state.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return Some(key);
                }
                state.due.first().map(|(at, _)| *at)
            };
            match next_due {
                Some(at) => drop(tokio::time::timeout_at(at, changed).await),
                None => changed.await,
            }
        }
    }

    /// The key has run; if it was added meanwhile it is queued again.
    pub fn done(&self, key: &K) {
        if self.state.lock().done(key) {
            self.changed.notify_one();
        }
    }

    /// Keys that are ready to run.
    pub fn len(&self) -> usize {
        self.state.lock().ready.len()
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing is ready, running or delayed.
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.ready.is_empty() && state.running.is_empty() && state.waiting.is_empty()
    }

    /// Ends every `get`.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_one();
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    /// Whether there is something to take now.
    fn add(&mut self, key: K) -> bool {
        self.cancel_delay(&key);
        if !self.dirty.insert(key.clone()) || self.running.contains(&key) {
            return false;
        }
        self.ready.push_back(key);
        true
    }

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.dirty.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    fn done(&mut self, key: &K) -> bool {
        self.running.remove(key);
        let again = self.dirty.contains(key);
        if again {
            self.ready.push_back(key.clone());
        }
        again
    }

    fn delay(&mut self, key: K, at: Instant) {
        if self.waiting.get(&key).is_some_and(|(old, _)| *old <= at) {
            return;
        }
        self.cancel_delay(&key);
        self.entries += 1;
        let entry = (at, self.entries);
        self.due.insert(entry);
        self.delayed.insert(entry.1, key.clone());
        self.waiting.insert(key, entry);
    }

    fn cancel_delay(&mut self, key: &K) {
        if let Some(entry) = self.waiting.remove(key) {
            self.due.remove(&entry);
            self.delayed.remove(&entry.1);
        }
    }

    fn move_due(&mut self, now: Instant) {
        while let Some(entry) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            match self.delayed.get(&entry.1).cloned() {
                Some(key) => drop(self.add(key)), // which takes the entry out
                None => drop(self.due.remove(&entry)),
            }
        }
    }

    fn next_delay(&mut self, key: &K) -> Duration {
        let failures = self.failures.entry(key.clone()).or_default();
        let delay = BASE_DELAY.saturating_mul(1 << (*failures).min(30));
        *failures = failures.saturating_add(1);
        delay.min(MAX_DELAY)
    }
}

#[cfg(test)]
mod tests;
