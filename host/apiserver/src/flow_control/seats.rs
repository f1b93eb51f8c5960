//! Seats: how many requests are served at a time, and who is next.
//! Source: <https://kubernetes.io/docs/concepts/cluster-administration/flow-control/>
//!
//! ```text
//! acquire ──► a seat is free ─────────────────► served ──► released: the next in line is let in
//!        └──► none ──► in line (or refused) ──┘
//! ```
//!
//! A level has its share of all seats. Beyond it, it may take what others lend and do not use. Within a level the flows take
//! turns, so that one with many requests does not hold up the others.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// What a priority level is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) name: String,
    /// Its part of all seats, relative to the other levels'.
    pub(super) shares: u32,
    /// What others may have of it as long as it does not need it.
    pub(super) lendable_percent: u32,
    /// How many requests may wait; 0: they are refused.
    pub(super) may_wait: usize,
}

/// There is no seat, and none to wait for, or none in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// All seats.
#[derive(Debug)]
pub(super) struct Seats {
    total: u32,
    levels: Mutex<BTreeMap<String, Taken>>,
}

/// The state of a level.
#[derive(Debug, Default)]
struct Taken {
    nominal: u32,
    /// What nobody else gets.
    kept: u32,
    may_wait: usize,
    in_use: u32,
    waiting: usize,
    /// Those who wait, by flow; the first flow is next.
    flows: VecDeque<(String, VecDeque<oneshot::Sender<Seat>>)>,
}

/// A seat; dropping it lets the next one in.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    level: String,
}

impl Seats {
    pub(super) fn new(total: u32) -> Arc<Self> {
        Arc::new(Self {
            total,
            levels: Mutex::default(),
        })
    }

    /// Shares the seats out anew. Requests of a level that is gone go on; nobody new gets in.
    pub(super) fn configure(self: &Arc<Self>, levels: &[Level]) {
        let all: u32 = levels.iter().map(|level| level.shares).sum();
        let mut taken = self.levels.lock();
        taken.retain(|name, level| {
            level.in_use > 0 || levels.iter().any(|known| known.name == *name)
        });
        for (_, gone) in taken.iter_mut() {
            (gone.nominal, gone.kept, gone.may_wait) = (0, 0, 0);
        }
        for level in levels {
            let nominal = (self.total * level.shares).div_ceil(all.max(1)).max(1);
            let lent = (nominal * level.lendable_percent.min(100) + 50) / 100;
            let state = taken.entry(level.name.clone()).or_default();
            state.nominal = nominal;
            state.kept = nominal - lent;
            state.may_wait = level.may_wait;
        }
        let admitted = self.admit(&mut taken);
        drop(taken);
        admitted.into_iter().for_each(Admitted::go);
    }

    /// A seat of a level, at once or after others of the level, at most after `wait`.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        level: &str,
        flow: &str,
        wait: Duration,
    ) -> Result<Seat, Full> {
        let turn = {
            let mut levels = self.levels.lock();
            let is_free = self.is_free(&levels, level);
            let state = levels.get_mut(level).ok_or(Full)?;
            if is_free && state.waiting == 0 {
                state.in_use += 1;
                return Ok(self.seat(level));
            }
            if state.waiting >= state.may_wait {
                return Err(Full);
            }
            state.wait(flow)
        };
        match tokio::time::timeout(wait, turn).await {
            Ok(Ok(seat)) => Ok(seat),
            _ => Err(Full), // the place in line is given up with the receiver
        }
    }

    fn seat(self: &Arc<Self>, level: &str) -> Seat {
        Seat {
            seats: self.clone(),
            level: level.to_owned(),
        }
    }

    /// Whether a level may have one more seat: of its own, or one that nobody else has or keeps for itself.
    fn is_free(&self, levels: &BTreeMap<String, Taken>, name: &str) -> bool {
        let Some(level) = levels.get(name) else {
            return false;
        };
        if level.in_use < level.nominal {
            return true;
        }
        let others = levels.iter().filter(|(other, _)| *other != name);
        let spoken_for: u32 = others.map(|(_, other)| other.in_use.max(other.kept)).sum();
        level.nominal > 0 && spoken_for + level.in_use < self.total
    }

    /// Gives free seats to those who wait. They are told when the lock is gone: a seat that nobody wants any more comes back.
    fn admit(self: &Arc<Self>, levels: &mut BTreeMap<String, Taken>) -> Vec<Admitted> {
        let mut admitted = Vec::new();
        let names: Vec<String> = levels.keys().cloned().collect();
        for name in names {
            while self.is_free(levels, &name) {
                let Some(level) = levels.get_mut(&name) else {
                    break;
                };
                let Some(turn) = level.next() else {
                    break;
                };
                level.in_use += 1;
                admitted.push(Admitted {
                    turn,
                    seat: self.seat(&name),
                });
            }
        }
        admitted
    }

    fn release(self: &Arc<Self>, level: &str) {
        let mut levels = self.levels.lock();
        if let Some(level) = levels.get_mut(level) {
            level.in_use -= 1;
        }
        let admitted = self.admit(&mut levels);
        drop(levels);
        admitted.into_iter().for_each(Admitted::go);
    }

    /// How many seats a level has taken, and how many requests wait for one.
    #[cfg(test)]
    fn of(&self, level: &str) -> (u32, usize) {
        let levels = self.levels.lock();
        let level = &levels[level];
        (level.in_use, level.waiting)
    }
}

/// Somebody who is let in.
struct Admitted {
    turn: oneshot::Sender<Seat>,
    seat: Seat,
}

impl Admitted {
    fn go(self) {
        drop(self.turn.send(self.seat));
    }
}

impl Taken {
    /// A place in line.
    fn wait(&mut self, flow: &str) -> oneshot::Receiver<Seat> {
        // those who have gone away are not counted
        for (_, waiting) in &mut self.flows {
            waiting.retain(|turn| !turn.is_closed());
        }
        self.flows.retain(|(_, waiting)| !waiting.is_empty());
        let (turn, mine) = oneshot::channel();
        match self.flows.iter_mut().find(|(name, _)| name == flow) {
            Some((_, waiting)) => waiting.push_back(turn),
            None => self.flows.push_back((flow.to_owned(), [turn].into())),
        }
        self.count();
        mine
    }

    /// The next in line who is still there; the next one will be of another flow.
    fn next(&mut self) -> Option<oneshot::Sender<Seat>> {
        let mut found = None;
        while found.is_none()
            && let Some((flow, mut waiting)) = self.flows.pop_front()
        {
            found = std::iter::from_fn(|| waiting.pop_front()).find(|turn| !turn.is_closed());
            if !waiting.is_empty() {
                self.flows.push_back((flow, waiting));
            }
        }
        self.count();
        found
    }

    fn count(&mut self) {
        self.waiting = self.flows.iter().map(|(_, waiting)| waiting.len()).sum();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let seats = self.seats.clone();
        seats.release(&self.level);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(15);

    fn level(name: &str, shares: u32, lendable_percent: u32, may_wait: usize) -> Level {
        Level {
            name: name.to_owned(),
            shares,
            lendable_percent,
            may_wait,
        }
    }

    fn seats(total: u32, levels: &[Level]) -> Arc<Seats> {
        let seats = Seats::new(total);
        seats.configure(levels);
        seats
    }

    /// Takes seats until there are none.
    async fn take_all(seats: &Arc<Seats>, level: &str) -> Vec<Seat> {
        let mut taken = Vec::new();
        while let Ok(seat) = seats.acquire(level, "", Duration::ZERO).await {
            taken.push(seat);
        }
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn a_level_has_its_share_and_what_others_lend() {
        // shares and lendable percents of a and b, seats of a with b idle, then of b
        for (a, b, of_a, of_b) in [
            ((50, 0), (50, 0), 5, 5),
            ((50, 0), (50, 100), 10, 5),
            ((50, 0), (50, 40), 7, 5),
            ((10, 0), (90, 0), 1, 9),
            ((1, 0), (99, 0), 1, 10),
        ] {
            let seats = seats(10, &[level("a", a.0, a.1, 0), level("b", b.0, b.1, 0)]);
            let taken = take_all(&seats, "a").await;
            assert_eq!(taken.len(), of_a, "{a:?} {b:?}");
            // its own share is never taken away by a loan
            assert_eq!(take_all(&seats, "b").await.len(), of_b, "{a:?} {b:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn flows_take_turns() {
        let seats = seats(1, &[level("a", 1, 0, 10)]);
        let first = seats.acquire("a", "x", WAIT).await.unwrap();
        let (told, mut order) = tokio::sync::mpsc::unbounded_channel();
        for flow in ["x", "x", "x", "y", "z"] {
            let (mine, told) = (seats.clone(), told.clone());
            tokio::spawn(async move {
                let seat = mine.acquire("a", flow, WAIT).await.unwrap();
                told.send(flow).unwrap();
                drop(seat);
            });
            tokio::task::yield_now().await;
        }
        assert_eq!(seats.of("a"), (1, 5));
        drop((first, told));
        let mut seen = Vec::new();
        while let Some(flow) = order.recv().await {
            seen.push(flow);
        }
        assert_eq!(seen, ["x", "y", "z", "x", "x"]);
        assert_eq!(seats.of("a"), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_or_cannot_wait_is_refused() {
        let seats = seats(1, &[level("a", 1, 0, 1), level("b", 0, 0, 0)]);
        let seat = seats.acquire("a", "x", WAIT).await.unwrap();
        let waits = tokio::spawn({
            let seats = seats.clone();
            async move { seats.acquire("a", "x", WAIT).await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert_eq!(
            seats.acquire("a", "x", WAIT).await.map(drop),
            Err(Full),
            "the line is full"
        );
        assert_eq!(seats.acquire("none", "x", WAIT).await.map(drop), Err(Full));
        assert_eq!(waits.await.unwrap(), Err(Full), "its time is up");
        drop(seat);
        // the place of the one who has gone is free again
        let _seat = seats.acquire("a", "x", WAIT).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn more_seats_let_in_those_who_wait() {
        let seats = seats(4, &[level("a", 1, 0, 10), level("b", 3, 0, 10)]);
        let _held = seats.acquire("a", "x", WAIT).await.unwrap();
        let waits = tokio::spawn({
            let seats = seats.clone();
            async move { seats.acquire("a", "x", WAIT).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(seats.of("a"), (1, 1));
        seats.configure(&[level("a", 3, 0, 10), level("b", 1, 0, 10)]);
        assert!(waits.await.unwrap().is_ok());
    }
}
