//! The power fails at a random moment: of what was not synced, any sector may be on the disk or not.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use pilothouse_storage::{Embedded, EmbeddedOptions, Lease, Storage};
use rand::{Rng, RngCore, SeedableRng, rngs::StdRng};

use crate::{
    Round,
    client::{self, Log},
    disk::Disk,
    history::{Event, check},
    seeds,
};

const ROUNDS: u64 = 40;
const FREEING_ROUNDS: u64 = 10;
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

/// The same while the disk is freed of what compaction has forgotten: tables are dropped and written anew all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn freeing_the_disk_loses_nothing_when_the_power_fails() {
    for seed in seeds(FREEING_ROUNDS) {
        let _round = Round(seed);
        freeing_round(seed).await;
    }
}

async fn freeing_round(seed: u64) {
    const KEYS: u64 = 8;
    const WRITES: u64 = 100;
    let mut chance = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().expect("temporary directory");
    let disk = Disk::at(dir.path());
    disk.fail_power_in(chance.random_range(100..1500));
    // of each key what was acknowledged, and what may be there as well
    let (mut acknowledged, mut unknown) = ([None; KEYS as usize], None);
    if let Ok(storage) = Embedded::open(freeing(dir.path())) {
        for n in 0..WRITES {
            let key = chance.random_range(0..KEYS);
            let op = client::put(&format!("/k/{key}"), numbered(n), Lease::default());
            let Ok(response) = storage.txn(client::just(op)).await else {
                unknown = Some((key, n));
                break;
            };
            acknowledged[key as usize] = Some(n);
            storage.compact(response.revision).await.ok(); // the power may have failed
            storage.tick().await.ok();
            if n % KEYS == 0 {
                storage.reclaim().await.ok();
            }
        }
    }
    let survivors = tempfile::tempdir().expect("temporary directory");
    disk.survivors(survivors.path(), &mut chance);
    drop(disk);
    let storage = Embedded::open(freeing(survivors.path())).expect("it is no damage");
    for _ in 0..2 {
        for key in 0..KEYS {
            let found = storage.get(&format!("/k/{key}"), None).await.expect("get");
            let found = found.kv.map(|kv| kv.value);
            let may_be = [
                acknowledged[key as usize],
                unknown.filter(|(k, _)| *k == key).map(|(_, n)| n),
            ];
            let is_it = may_be.map(|n| found.as_deref() == n.map(numbered).as_deref());
            let is = (0..WRITES).find(|n| found.as_deref() == Some(&*numbered(*n)));
            assert!(
                is_it.contains(&true),
                "/k/{key} should be one of {may_be:?} and is {is:?}, {:?} bytes",
                found.map(|value| value.len())
            );
        }
        storage.tick().await.expect("tick");
        storage.reclaim().await.expect("reclaim");
    }
}

fn freeing(dir: &Path) -> EmbeddedOptions {
    EmbeddedOptions {
        slack_bytes: 0,
        ..EmbeddedOptions::new(dir)
    }
}

/// Bytes that cannot be compressed, another's for each number.
fn numbered(n: u64) -> Vec<u8> {
    let mut bytes = vec![0; 300 << 10];
    StdRng::seed_from_u64(n).fill_bytes(&mut bytes);
    bytes
}
