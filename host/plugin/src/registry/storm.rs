//! When failures are too many: so many within a window of time.

use std::{collections::VecDeque, time::Duration};

/// When a component counts as failing too often, and how long it then pauses if it cannot be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StormPolicy {
    pub traps: usize,
    pub within: Duration,
    /// Doubled with every quarantine, up to `max_pause`.
    pub first_pause: Duration,
    pub max_pause: Duration,
}

impl Default for StormPolicy {
    fn default() -> Self {
        Self {
            traps: 5,
            within: Duration::from_secs(10),
            first_pause: Duration::from_secs(10),
            max_pause: Duration::from_secs(600),
        }
    }
}

/// The failures of one component.
pub(super) struct Storm {
    policy: StormPolicy,
    recent: VecDeque<Duration>,
    pauses: u32,
    /// Until when one failure is too many, after a pause.
    probation_until: Option<Duration>,
}

impl Storm {
    pub(super) fn new(policy: StormPolicy) -> Self {
        Self {
            policy,
            recent: VecDeque::new(),
            pauses: 0,
            probation_until: None,
        }
    }

    /// Counts a failure; answers whether they are too many.
    pub(super) fn strike(&mut self, now: Duration) -> bool {
        match self.probation_until {
            Some(until) if now < until => return true,
            Some(_) => self.forget(), // it has proved itself
            None => {}
        }
        self.recent.push_back(now);
        while self
            .recent
            .front()
            .is_some_and(|at| now.saturating_sub(*at) > self.policy.within)
        {
            self.recent.pop_front();
        }
        let storm = self.recent.len() >= self.policy.traps;
        if storm {
            self.recent.clear();
        }
        storm
    }

    /// How long the next quarantine lasts.
    pub(super) fn next_pause(&mut self) -> Duration {
        self.pauses += 1;
        self.pause(self.pauses - 1)
    }

    /// The n-th from 0 on.
    fn pause(&self, n: u32) -> Duration {
        let pause = self
            .policy
            .first_pause
            .saturating_mul(2_u32.saturating_pow(n));
        pause.min(self.policy.max_pause)
    }

    /// A pause is over: for as long as it lasted, one failure is enough for the next, longer one.
    pub(super) fn try_again(&mut self, now: Duration) {
        self.probation_until = Some(now + self.pause(self.pauses.saturating_sub(1)));
    }

    /// What counts from now on.
    pub(super) fn follow(&mut self, policy: StormPolicy) {
        self.policy = policy;
    }

    /// Another revision begins with a clean record.
    pub(super) fn forget(&mut self) {
        self.recent.clear();
        self.pauses = 0;
        self.probation_until = None;
    }

    /// `5 times in 10 s`.
    pub(super) fn describe(&self) -> String {
        format!(
            "{} times in {} s",
            self.policy.traps,
            self.policy.within.as_secs()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_of_the_window_count() {
        let mut storm = Storm::new(StormPolicy {
            traps: 3,
            ..StormPolicy::default()
        });
        let at = Duration::from_secs;
        assert!(!storm.strike(at(0)));
        assert!(!storm.strike(at(5)));
        assert!(!storm.strike(at(11)));
        assert!(storm.strike(at(12)));
        assert!(!storm.strike(at(12)));
    }

    #[test]
    fn after_a_pause_one_failure_is_enough_until_it_has_proved_itself() {
        let mut storm = Storm::new(StormPolicy {
            traps: 2,
            ..StormPolicy::default()
        });
        let at = Duration::from_secs;
        assert!(!storm.strike(at(0)));
        assert!(storm.strike(at(0)));
        assert_eq!(storm.next_pause(), at(10));
        storm.try_again(at(10));
        assert!(storm.strike(at(19)));
        assert_eq!(storm.next_pause(), at(20));
        storm.try_again(at(40));
        assert!(!storm.strike(at(60)));
        assert!(storm.strike(at(61)));
        assert_eq!(storm.next_pause(), at(10));
    }

    #[test]
    fn pauses_double_up_to_the_highest() {
        let mut storm = Storm::new(StormPolicy::default());
        let pauses: Vec<u64> = (0..8).map(|_| storm.next_pause().as_secs()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 600, 600]);
        storm.forget();
        assert_eq!(storm.next_pause().as_secs(), 10);
    }
}
