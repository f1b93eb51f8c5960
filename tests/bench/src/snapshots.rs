//! Snapshots of the embedded engine: how fast they are taken and restored, and what writers notice of it.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use bytes::Bytes;
use pilothouse_storage::{
    Embedded, EmbeddedOptions, Lease, Storage, Txn, embedded, engine::Op, snapshot,
};
use tokio::{runtime::Runtime, task::JoinSet};

use crate::print;

const OBJECTS: usize = 200_000;
const OBJECT_BYTES: usize = 2000;
const WRITERS: usize = 16;

/// Taking one while 16 writers write, and restoring it.
pub(crate) fn snapshots() -> Result<()> {
    let dir = tempfile::tempdir()?;
    Runtime::new()?.block_on(async {
        let storage = Arc::new(Embedded::open(EmbeddedOptions::new(dir.path().join("db")))?);
        fill(&*storage).await?;
        let file = dir.path().join("file.snap");
        let megabytes = idle(&*storage, &file).await?;
        let started = Instant::now();
        let under_load = writing(&storage, take(&*storage, &file)).await?;
        let took = started.elapsed();
        // for as long without one, since the longest of more puts is longer
        let quiet = writing(&storage, tokio::time::sleep(took)).await?;
        report("longest put of 16 writers, no snapshot", &quiet, "");
        let rate = megabytes / took.as_secs_f64();
        let note = format!("{rate:.0} MB/s of snapshot meanwhile");
        report("longest put of 16 writers, during one", &under_load, &note);
        let pause = longest(&under_load).saturating_sub(longest(&quiet));
        print(
            "longest pause that the snapshot causes to writers",
            pause.as_secs_f64() * 1000.0,
            "ms",
            "the one less the other",
        );
        drop(storage);
        restore(&file, &dir.path().join("new"), megabytes)
    })
}

/// What is no easier to compress than objects are: text with numbers that differ.
fn value(n: usize) -> Bytes {
    let mut text = String::with_capacity(OBJECT_BYTES);
    let mut seed = n as u64 + 1;
    while text.len() < OBJECT_BYTES {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text += &format!(r#"{{"name":"v{:x}","value":"{:x}"}},"#, n, seed >> 40);
    }
    text.into()
}

fn put(n: usize) -> Op {
    Op::Put {
        key: format!("/registry/configmaps/ns-{}/object-{n}", n % 50),
        value: value(n),
        lease: Lease::default(),
    }
}

async fn fill(storage: &dyn Storage) -> Result<()> {
    for first in (0..OBJECTS).step_by(500) {
        let txn = Txn {
            success: (first..first + 500).map(put).collect(),
            ..Txn::default()
        };
        storage.txn(txn).await?;
    }
    Ok(())
}

async fn take(storage: &dyn Storage, file: &Path) -> Result<snapshot::SnapshotStatus> {
    Ok(snapshot::write_file(storage.snapshot().await?, file).await?)
}

/// Returns the file's megabytes.
async fn idle(storage: &dyn Storage, file: &Path) -> Result<f64> {
    let started = Instant::now();
    let status = take(storage, file).await?;
    let seconds = started.elapsed().as_secs_f64();
    ensure!(status.keys == OBJECTS as u64, "{status}");
    let megabytes = status.size as f64 / 1e6;
    let note = format!("{OBJECTS} objects, {megabytes:.0} MB, written, synced and read again");
    print("snapshot into a file", megabytes / seconds, "MB/s", &note);
    Ok(megabytes)
}

fn restore(file: &Path, dir: &Path, megabytes: f64) -> Result<()> {
    let started = Instant::now();
    embedded::restore(file, dir, 1_000_000_000)?;
    let rate = megabytes / started.elapsed().as_secs_f64();
    print("restore", rate, "MB/s", "checked, then written");
    Ok(())
}

/// The times of all puts while something else goes on.
async fn writing<T>(
    storage: &Arc<Embedded>,
    something: impl Future<Output = T>,
) -> Result<Vec<Duration>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (storage, stop) = (storage.clone(), stop.clone());
        writers.spawn(async move {
            let mut times = Vec::new();
            for n in (writer..OBJECTS).step_by(WRITERS).cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let txn = Txn {
                    success: vec![put(n)],
                    ..Txn::default()
                };
                let started = Instant::now();
                storage.txn(txn).await?;
                times.push(started.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    something.await;
    stop.store(true, Ordering::Relaxed);
    let mut times = Vec::new();
    while let Some(done) = writers.join_next().await {
        times.extend(done??);
    }
    times.sort_unstable();
    Ok(times)
}

/// Of sorted times.
fn longest(times: &[Duration]) -> Duration {
    times.last().copied().unwrap_or_default()
}

fn report(what: &str, times: &[Duration], note: &str) {
    let at = |part: usize| times[(times.len() * part / 1000).min(times.len() - 1)];
    let (p50, p99) = (at(500), at(990));
    let longest = longest(times).as_secs_f64() * 1000.0;
    print(
        what,
        longest,
        "ms",
        &format!("{} puts, p50 {p50:?}, p99 {p99:?}; {note}", times.len()),
    );
}
