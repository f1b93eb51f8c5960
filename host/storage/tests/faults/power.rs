//! The power fails at a random moment: of what was not synced, any sector may be on the disk or not.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use pilothouse_storage::{Embedded, EmbeddedOptions, Storage};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    Round,
    client::{self, Log},
    disk::Disk,
    history::{Event, check},
    seeds,
};

const ROUNDS: u64 = 40;
/// Failures in one history, each on what the one before left.
const FAILURES: usize = 3;
const CALLS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_the_power_fails() {
    for seed in seeds(ROUNDS) {
        let _round = Round(seed);
        round(seed).await;
    }
}

async fn round(seed: u64) {
    let mut chance = StdRng::seed_from_u64(seed);
    let mut dir = tempfile::tempdir().expect("temporary directory");
    let events = Arc::new(Mutex::new(Vec::new()));
    for life in 0..FAILURES {
        let disk = Disk::at(dir.path());
        disk.fail_power_in(chance.random_range(60..400));
        live(dir.path(), &events, life, chance.random()).await;
        let survivors = tempfile::tempdir().expect("temporary directory");
        disk.survivors(survivors.path(), &mut chance);
        drop(disk);
        dir = survivors;
    }
    let storage = open(dir.path());
    let current = storage.current_revision().await.expect("revision");
    let log = log(&events);
    client::read_all(&*storage, &log, usize::MAX).await;
    let after = last_watched(&events);
    let watching = tokio::spawn(client::watch(storage.clone(), log, after));
    while last_watched(&events) < current.0 {
        tokio::task::yield_now().await;
    }
    watching.abort();
    let events = events.lock().expect("nobody panicked").clone();
    check(&events, current.0);
}

/// Opens, runs clients until they are done or the power fails, and closes.
async fn live(dir: &Path, events: &Arc<Mutex<Vec<Event>>>, life: usize, seed: u64) {
    let Ok(storage) = Embedded::open(EmbeddedOptions::new(dir)) else {
        return; // the power failed during the start
    };
    let storage = Arc::new(storage);
    let after = last_watched(events);
    let watching = tokio::spawn(client::watch(storage.clone(), log(events), after));
    client::run(storage.clone(), log(events), life, seed, CALLS).await;
    watching.abort();
    let _aborted = watching.await;
    let closed = Arc::into_inner(storage).is_some();
    assert!(closed, "somebody still uses the engine");
}

fn open(dir: &Path) -> Arc<Embedded> {
    Arc::new(
        Embedded::open(EmbeddedOptions::new(dir))
            .expect("what a power failure leaves is no damage"),
    )
}

fn log(events: &Arc<Mutex<Vec<Event>>>) -> Log {
    let events = events.clone();
    Arc::new(move |event| events.lock().expect("nobody panicked").push(event))
}

fn last_watched(events: &Mutex<Vec<Event>>) -> u64 {
    let events = events.lock().expect("nobody panicked");
    let watched = events.iter().rev().find_map(|event| match event {
        Event::Watched { revision, .. } => Some(*revision),
        _ => None,
    });
    watched.unwrap_or(1)
}
