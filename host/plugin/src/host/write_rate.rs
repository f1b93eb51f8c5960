//! How fast a component may write to the cluster: a controller whose own writes wake it again would otherwise write for ever, as
//! fast as the API server answers.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// So long a quiet component may save up: a burst of twice its rate.
const SAVED: Duration = Duration::from_secs(2);
/// So long a write waits for its turn; one that had to wait longer is refused, so that its key backs off.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The rate of one component across its revisions and calls: the generic cell rate algorithm.
#[derive(Debug, Default)]
pub(crate) struct WriteRate {
    /// When the next write would be on time if all came evenly, in nanoseconds of the monotonic clock.
    due: AtomicU64,
}

impl WriteRate {
    /// Takes the next turn: how long to wait for it, or, if that is too long, after how long to come again.
    pub(crate) fn take(&self, now: Duration, per_second: u32) -> Result<Duration, Duration> {
        let now = nanos(now);
        let apart = nanos(Duration::from_secs(1)) / u64::from(per_second.max(1));
        let turn = self.due.fetch_update(Relaxed, Relaxed, |due| {
            let next = due.max(now) + apart;
            (next <= now + nanos(SAVED + LONGEST_WAIT)).then_some(next)
        });
        match turn {
            Ok(due) => {
                let ahead = (due.max(now) + apart).saturating_sub(now + nanos(SAVED));
                Ok(Duration::from_nanos(ahead))
            }
            Err(due) => Err(Duration::from_nanos(due.saturating_sub(now)).saturating_sub(SAVED)),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn a_burst_is_free_then_writes_wait_then_they_are_refused() {
        let (rate, now) = (WriteRate::default(), Duration::from_secs(100));
        let answers: Vec<_> = (0..3001).map(|_| rate.take(now, 1000)).collect();
        assert!(
            answers[..2000]
                .iter()
                .all(|wait| *wait == Ok(Duration::ZERO))
        );
        assert_eq!(answers[2000], Ok(MILLI));
        assert_eq!(answers[2999], Ok(1000 * MILLI));
        assert_eq!(answers[3000], Err(1000 * MILLI));
    }

    #[test]
    fn a_refused_write_costs_nothing_and_time_brings_new_turns() {
        let rate = WriteRate::default();
        while rate.take(Duration::ZERO, 10).is_ok() {}
        assert!(rate.take(Duration::ZERO, 10).is_err());
        assert_eq!(rate.take(100 * MILLI, 10), Ok(1000 * MILLI));
        assert!(rate.take(100 * MILLI, 10).is_err());
        assert_eq!(rate.take(Duration::from_secs(60), 10), Ok(Duration::ZERO));
    }
}
