//! The embedded engine on a disk that fails, in a process that is killed, under a clock that is set.
//!
//! Histories are drawn from a seed, which a failure prints: `PILOTHOUSE_FAULT_SEED` draws them again, `PILOTHOUSE_FAULT_ROUNDS`
//! says how many. The system's scheduling is not drawn, so that a replay is another run of the same plan.
#![cfg(target_os = "linux")]

mod client;
mod clock;
mod disk;
mod errors;
mod history;
mod kill;
#[path = "../shared/linearizability.rs"]
mod linearizability;
mod power;

use std::{env, fmt::Debug, str::FromStr};

/// The seeds of so many rounds.
fn seeds(rounds: u64) -> std::ops::Range<u64> {
    let rounds = from_environment("PILOTHOUSE_FAULT_ROUNDS").unwrap_or(rounds);
    match from_environment("PILOTHOUSE_FAULT_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = rand::random_range(0..1 << 40);
            first..first + rounds
        }
    }
}

fn from_environment<T: FromStr<Err: Debug>>(name: &str) -> Option<T> {
    let value = env::var(name).ok()?;
    Some(value.parse().expect(name))
}

/// Says how to draw a round again if it fails.
struct Round(u64);

impl Drop for Round {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "to draw this history again: PILOTHOUSE_FAULT_SEED={}",
                self.0
            );
        }
    }
}
