//! The scheduling queue.
//!
//! ```text
//!              add                         pop
//!   new pod ─────────► active ──────────────────────────► in flight ──► done (bound or deleted)
//!                       ▲  ▲                               │      │
//!        back-off over, │  │ event that may help           │      │ error: retried after its back-off
//!        or nothing     │  │ (back-off over)               │      ▼
//!        else to do     │  └──────────── unschedulable ◄───┘   back-off
//!                       │                    │ no plugin let it pass
//!                       └──── back-off ◄─────┘ event that may help (back-off not over), or 5 minutes
//! ```
//!
//! Invariants: a pod is in one place at most; a change that comes while a pod is in flight is not lost: if it may help, the pod
//! goes to back-off instead of unschedulable. Gated pods wait outside until an update takes their gates away. Time comes in as
//! milliseconds from the caller.
//!
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/scheduling-framework/>, KEP-4247 (queueing hints).

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use pilothouse_plugin::scheduler::{ClusterEvent, EventSet};

use crate::pod::{PodInfo, Uid};

/// Milliseconds on a clock that only goes forward.
pub type Millis = u64;

/// The first back-off; it doubles with every attempt.
pub(crate) const INITIAL_BACKOFF_MS: Millis = 1_000;
/// The longest back-off.
pub(crate) const MAX_BACKOFF_MS: Millis = 10_000;
/// After this long an unschedulable pod is tried again whatever has happened.
pub(crate) const UNSCHEDULABLE_FLUSH_MS: Millis = 300_000;

/// A pod that waits to be scheduled.
#[derive(Clone, Debug)]
pub(crate) struct QueuedPod {
    pub pod: Arc<PodInfo>,
    /// How often it was popped.
    pub attempts: u32,
    /// When it came to the queue this time; orders pods of one priority.
    added: Millis,
    /// When it was popped last.
    tried: Millis,
    /// The count of events when it was popped.
    seen: u64,
    /// Whether it asks for something else than when it was popped.
    changed: bool,
}

/// Where a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Active,
    /// Until then; `true` if it may be popped early when there is nothing else to do.
    Backoff(Millis, bool),
    /// Since then, and what may help.
    Unschedulable(Millis, EventSet),
    Gated,
    InFlight,
}

/// Order among active pods: priority, then time, then arrival.
type ActiveKey = (Reverse<i32>, Millis, u64);

/// The queue. Every operation costs the logarithm of its length at most, but for events, which cost what they move.
#[derive(Debug, Default)]
pub struct Queue {
    pods: HashMap<Uid, (QueuedPod, Place, u64)>,
    active: BTreeSet<(ActiveKey, Uid)>,
    backoff: BTreeSet<(Millis, Uid)>,
    unschedulable: HashMap<EventSet, BTreeSet<(Millis, Uid)>>,
    arrivals: u64,
    /// How many events there were, and the number of the last of each kind.
    events: u64,
    last: [u64; 8],
}

impl Queue {
    /// A pod came or changed. One that is in flight only has its object replaced, for a next attempt.
    pub(crate) fn upsert(&mut self, pod: Arc<PodInfo>, now: Millis) {
        let uid = Arc::clone(&pod.uid);
        let Some((queued, place, _)) = self.pods.get_mut(&uid) else {
            let place = if pod.gated {
                Place::Gated
            } else {
                Place::Active
            };
            let queued = QueuedPod {
                pod,
                attempts: 0,
                added: now,
                tried: 0,
                seen: 0,
                changed: false,
            };
            self.put(queued, place);
            return;
        };
        let before = *place;
        let same = queued.pod.asks_the_same(&pod);
        let resort = before == Place::Active && queued.pod.record.priority != pod.record.priority;
        let gated = pod.gated;
        match before {
            Place::Active if resort || gated => {}
            Place::Active | Place::Backoff(..) | Place::InFlight => {
                queued.changed |= !same;
                queued.pod = pod;
                return;
            }
            Place::Unschedulable(..) | Place::Gated if same => {
                queued.pod = pod;
                return;
            }
            Place::Unschedulable(..) | Place::Gated => {}
        }
        if let Some(mut queued) = self.take(&uid) {
            queued.pod = pod;
            let place = match gated {
                true => Place::Gated,
                false if resort => Place::Active,
                false => queued.next_place(now),
            };
            queued.added = if resort { queued.added } else { now };
            self.put(queued, place);
        }
    }

    /// The pod is gone, or has a node.
    pub(crate) fn remove(&mut self, uid: &Uid) {
        self.take(uid);
    }

    /// The next pod to schedule, then in flight until [`Queue::done`] or one of the two ways back.
    pub(crate) fn pop(&mut self, now: Millis) -> Option<QueuedPod> {
        self.flush(now);
        let uid = match self.active.first() {
            Some((_, uid)) => Arc::clone(uid),
            None => {
                // Nothing else to do: one that only waits for its back-off may as well be tried.
                let early = self.backoff.iter().find(|(_, uid)| {
                    let place = self.pods.get(uid).map(|(_, place, _)| *place);
                    matches!(place, Some(Place::Backoff(_, true)))
                });
                Arc::clone(&early?.1)
            }
        };
        let mut queued = self.take(&uid)?;
        queued.attempts += 1;
        queued.tried = now;
        queued.seen = self.events;
        queued.changed = false;
        self.put(queued.clone(), Place::InFlight);
        Some(queued)
    }

    /// It is bound.
    pub(crate) fn done(&mut self, uid: &Uid) {
        self.take(uid);
    }

    /// No node will do until one of these events, or for five minutes.
    pub(crate) fn unschedulable(&mut self, uid: &Uid, may_help: EventSet, now: Millis) {
        let Some(mut queued) = self.take_in_flight(uid) else {
            return;
        };
        queued.added = now;
        let place = match () {
            () if queued.pod.gated => Place::Gated,
            () if queued.changed || self.happened_since(may_help, queued.seen) => {
                queued.next_place(now)
            }
            () => Place::Unschedulable(now, may_help),
        };
        self.put(queued, place);
    }

    /// Something went wrong; it is tried again after its back-off.
    pub(crate) fn retry(&mut self, uid: &Uid, now: Millis) {
        self.put_back(uid, now, false);
    }

    /// The same, but without waiting if there is nothing else to do.
    pub(crate) fn retry_early(&mut self, uid: &Uid, now: Millis) {
        self.put_back(uid, now, true);
    }

    fn put_back(&mut self, uid: &Uid, now: Millis, early: bool) {
        let Some(mut queued) = self.take_in_flight(uid) else {
            return;
        };
        queued.added = now;
        let place = match queued.pod.gated {
            true => Place::Gated,
            false => Place::Backoff(queued.backoff_ends(), early),
        };
        self.put(queued, place);
    }

    /// Something happened: pods that it may help are tried again.
    pub(crate) fn event(&mut self, event: ClusterEvent, now: Millis) {
        self.events += 1;
        self.last[event as usize] = self.events;
        let sets: Vec<EventSet> = self
            .unschedulable
            .keys()
            .copied()
            .filter(|set| set.meets(event.into()))
            .collect();
        for set in sets {
            for (_, uid) in self.unschedulable.remove(&set).unwrap_or_default() {
                self.wake(&uid, now);
            }
        }
    }

    /// When something is to be done without being told: a back-off that ends, or a pod to be flushed.
    pub fn next_wake(&self) -> Option<Millis> {
        let backoff = self.backoff.first().map(|(at, _)| *at);
        let flush = self
            .unschedulable
            .values()
            .filter_map(|pods| pods.first())
            .map(|(since, _)| since + UNSCHEDULABLE_FLUSH_MS);
        backoff.into_iter().chain(flush).min()
    }

    /// How many pods are active, in back-off, unschedulable or gated, and in flight.
    pub fn lengths(&self) -> [usize; 4] {
        let gated_or_unschedulable = self
            .pods
            .values()
            .filter(|(_, place, _)| matches!(place, Place::Unschedulable(..) | Place::Gated))
            .count();
        let (active, backoff) = (self.active.len(), self.backoff.len());
        let in_flight = self.pods.len() - active - backoff - gated_or_unschedulable;
        [active, backoff, gated_or_unschedulable, in_flight]
    }

    /// The pod as it is known now.
    pub(crate) fn get(&self, uid: &Uid) -> Option<&Arc<PodInfo>> {
        self.pods.get(uid).map(|(queued, ..)| &queued.pod)
    }

    fn flush(&mut self, now: Millis) {
        while let Some((at, uid)) = self.backoff.first()
            && *at <= now
        {
            let uid = Arc::clone(uid);
            let Some(queued) = self.take(&uid) else {
                return;
            };
            self.put(queued, Place::Active);
        }
        let overdue: Vec<Uid> = self
            .unschedulable
            .values()
            .flat_map(|pods| {
                pods.iter()
                    .take_while(|(since, _)| since + UNSCHEDULABLE_FLUSH_MS <= now)
            })
            .map(|(_, uid)| Arc::clone(uid))
            .collect();
        for uid in overdue {
            self.wake(&uid, now);
        }
    }

    fn wake(&mut self, uid: &Uid, now: Millis) {
        if let Some(mut queued) = self.take(uid) {
            queued.added = now;
            let place = queued.next_place(now);
            self.put(queued, place);
        }
    }

    fn happened_since(&self, may_help: EventSet, seen: u64) -> bool {
        ClusterEvent::ALL
            .into_iter()
            .any(|event| may_help.meets(event.into()) && self.last[event as usize] > seen)
    }

    fn take_in_flight(&mut self, uid: &Uid) -> Option<QueuedPod> {
        let (_, place, _) = self.pods.get(uid)?;
        match place {
            Place::InFlight => self.take(uid),
            _ => None,
        }
    }

    fn take(&mut self, uid: &Uid) -> Option<QueuedPod> {
        let (queued, place, arrival) = self.pods.remove(uid)?;
        match place {
            Place::Active => {
                let key = (queued.active_key(arrival), Arc::clone(uid));
                self.active.remove(&key);
            }
            Place::Backoff(at, _) => {
                self.backoff.remove(&(at, Arc::clone(uid)));
            }
            Place::Unschedulable(since, set) => {
                if let Some(pods) = self.unschedulable.get_mut(&set) {
                    pods.remove(&(since, Arc::clone(uid)));
                    if pods.is_empty() {
                        self.unschedulable.remove(&set);
                    }
                }
            }
            Place::Gated | Place::InFlight => {}
        }
        Some(queued)
    }

    fn put(&mut self, queued: QueuedPod, place: Place) {
        let uid = Arc::clone(&queued.pod.uid);
        self.arrivals += 1;
        let arrival = self.arrivals;
        match place {
            Place::Active => {
                self.active
                    .insert((queued.active_key(arrival), Arc::clone(&uid)));
            }
            Place::Backoff(at, _) => {
                self.backoff.insert((at, Arc::clone(&uid)));
            }
            Place::Unschedulable(since, set) => {
                self.unschedulable
                    .entry(set)
                    .or_default()
                    .insert((since, Arc::clone(&uid)));
            }
            Place::Gated | Place::InFlight => {}
        }
        self.pods.insert(uid, (queued, place, arrival));
    }
}

impl QueuedPod {
    fn active_key(&self, arrival: u64) -> ActiveKey {
        (Reverse(self.pod.record.priority), self.added, arrival)
    }

    fn backoff_ends(&self) -> Millis {
        let doublings = self.attempts.saturating_sub(1).min(16);
        let length = (INITIAL_BACKOFF_MS << doublings).min(MAX_BACKOFF_MS);
        self.tried + length
    }

    fn next_place(&self, now: Millis) -> Place {
        match self.attempts == 0 || self.backoff_ends() <= now {
            true => Place::Active,
            false => Place::Backoff(self.backoff_ends(), true),
        }
    }
}

#[cfg(test)]
mod tests;
