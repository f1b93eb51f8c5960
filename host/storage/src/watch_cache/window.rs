//! The recent changes of a resource, numbered without gaps.

use std::{collections::VecDeque, sync::Arc};

use pilothouse_api::Revision;

use super::CacheEvent;

/// A ring of changes. The number of a change is its place since the cache started.
pub(super) struct Window {
    events: VecDeque<Arc<CacheEvent>>,
    /// The number of the first event that is kept.
    first: u64,
    capacity: usize,
    /// Every change after this revision is kept.
    oldest: Revision,
    /// Between these revisions changes were compressed by a new list: a watch may pass through but not start inside.
    gaps: VecDeque<(Revision, Revision)>,
}

impl Window {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            events: VecDeque::new(),
            first: 0,
            capacity: capacity.max(1),
            oldest: Revision(0),
            gaps: VecDeque::new(),
        }
    }

    /// Adds the next change and returns its number.
    pub(super) fn push(&mut self, event: Arc<CacheEvent>) -> u64 {
        if self.events.len() == self.capacity
            && let Some(gone) = self.events.pop_front()
        {
            self.first += 1;
            self.oldest = self.oldest.max(gone.revision);
            while self.gaps.front().is_some_and(|(_, to)| *to <= self.oldest) {
                self.gaps.pop_front();
            }
        }
        self.events.push_back(event);
        self.end() - 1
    }

    /// Changes between two revisions were compressed.
    pub(super) fn add_gap(&mut self, from: Revision, to: Revision) {
        if from < to {
            self.gaps.push_back((from, to));
        }
    }

    /// Forgets everything; whoever has not read to the end is expired.
    pub(super) fn reset(&mut self, revision: Revision) {
        self.first = self.end() + 1;
        self.events.clear();
        self.gaps.clear();
        self.oldest = revision;
    }

    /// The number that the next change will get.
    pub(super) fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    pub(super) fn oldest(&self) -> Revision {
        self.oldest
    }

    /// The number of the first change after a revision, unless some of those changes are unknown.
    pub(super) fn position(&self, after: Revision) -> Option<u64> {
        let inside = |(from, to): &(Revision, Revision)| *from < after && after < *to;
        if after < self.oldest || self.gaps.iter().any(inside) {
            return None;
        }
        let at = self.events.partition_point(|e| e.revision <= after);
        Some(self.first + at as u64)
    }

    /// The changes from a number on, unless the first of them is gone.
    pub(super) fn from(&self, number: u64) -> Option<impl Iterator<Item = &Arc<CacheEvent>>> {
        let skip = usize::try_from(number.checked_sub(self.first)?).ok()?;
        Some(self.events.range(skip.min(self.events.len())..))
    }
}
