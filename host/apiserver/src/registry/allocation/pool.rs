//! A range of numbers, each taken once. Numbers given out without being asked for go round the range, so that one that was
//! given back is not used again at once.

use std::collections::HashSet;

use parking_lot::Mutex;

/// Why a number is not given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::registry) enum Refusal {
    #[error("not in the valid range")]
    OutOfRange,
    #[error("already allocated")]
    Taken,
    #[error("range is full")]
    Full,
}

pub(super) struct Pool {
    first: u32,
    last: u32,
    /// Numbers below it are given out only if all others are taken: they are for those who ask for one.
    asked_for_below: u32,
    state: Mutex<State>,
}

struct State {
    taken: HashSet<u32>,
    next: u32,
}

impl Pool {
    /// The numbers from `first` to `last`. Some at the start are spared for those who ask for them: the n-th part, but within
    /// `bounds`. Source: <https://kubernetes.io/docs/concepts/services-networking/cluster-ip-allocation/>
    pub(super) fn new(first: u32, last: u32, part: u32, (least, most): (u32, u32)) -> Self {
        let len = last.saturating_sub(first).saturating_add(1);
        let spared = match len > least {
            true => (len / part).clamp(least, most),
            false => 0,
        };
        let asked_for_below = first.saturating_add(spared);
        Self {
            first,
            last,
            asked_for_below,
            state: Mutex::new(State {
                taken: HashSet::new(),
                next: asked_for_below,
            }),
        }
    }

    pub(super) fn take(&self, number: u32) -> Result<(), Refusal> {
        if !(self.first..=self.last).contains(&number) {
            return Err(Refusal::OutOfRange);
        }
        match self.state.lock().taken.insert(number) {
            true => Ok(()),
            false => Err(Refusal::Taken),
        }
    }

    pub(super) fn take_any(&self) -> Result<u32, Refusal> {
        let mut state = self.state.lock();
        let from = state.next;
        let order = (from..=self.last)
            .chain(self.asked_for_below..from)
            .chain(self.first..self.asked_for_below);
        let taken = &state.taken;
        let free = order.into_iter().find(|number| !taken.contains(number));
        let number = free.ok_or(Refusal::Full)?;
        state.taken.insert(number);
        state.next = match number {
            n if n >= self.asked_for_below && n < self.last => n + 1,
            _ => self.asked_for_below,
        };
        Ok(number)
    }

    /// Takes a number whoever has it, in the range or not.
    pub(super) fn adopt(&self, number: u32) {
        self.state.lock().taken.insert(number);
    }

    pub(super) fn give_back(&self, number: u32) {
        self.state.lock().taken.remove(&number);
    }

    pub(super) fn range(&self) -> String {
        format!("{}-{}", self.first, self.last)
    }
}
