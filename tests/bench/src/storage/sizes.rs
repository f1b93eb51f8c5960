//! How start, memory and disk grow with what is stored.

use std::{os::unix::fs::MetadataExt, path::Path, process::Command, time::Instant};

use anyhow::{Result, ensure};
use pilothouse_storage::{Embedded, Lease, Storage, Txn, engine::Op};

use super::{create, key, open, pod};
use crate::{print, start::own_resident_kb};

/// Set in a process that opens this directory and says what it took.
const OPEN: &str = "PILOTHOUSE_BENCH_OPEN";

/// Start-up with so many objects of 1 kB, in a process of its own; leaves the one of 100,000 for what follows.
pub(super) async fn starts(dir: &Path) -> Result<()> {
    for objects in [10_000, 100_000, 1_000_000] {
        let part = dir.join(format!("objects-{objects}"));
        fill(&part, objects).await?;
        for when in ["right after writing", "again"] {
            open_elsewhere(&part, objects, when)?;
        }
        if objects == 1_000_000 {
            std::fs::remove_dir_all(&part)?;
        }
    }
    Ok(())
}

pub(super) async fn fill(dir: &Path, objects: usize) -> Result<()> {
    let storage = open(dir)?;
    for first in (0..objects).step_by(500) {
        let op = |n| Op::Put {
            key: key(n),
            value: pod(n, 1000),
            lease: Lease::default(),
        };
        let txn = Txn {
            success: (first..first + 500).map(op).collect(),
            ..Txn::default()
        };
        storage.txn(txn).await?;
    }
    Ok(())
}

fn open_elsewhere(dir: &Path, objects: usize, when: &str) -> Result<()> {
    let output = Command::new(std::env::current_exe()?)
        .env(OPEN, dir)
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let output = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = output
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let &[ms, memory_kb, disk_bytes] = numbers.as_slice() else {
        anyhow::bail!("{output}");
    };
    print(
        &format!("open with {objects} objects of 1 kB, {when}"),
        ms,
        "ms",
        &format!(
            "{:.0} MB of memory, {:.0} MB on disk",
            memory_kb / 1024.0,
            disk_bytes / 1e6
        ),
    );
    Ok(())
}

/// The other side of [`starts`]; `true` if this process is it.
pub(crate) fn opened_for_another() -> Result<bool> {
    let Some(dir) = std::env::var_os(OPEN) else {
        return Ok(false);
    };
    let before = own_resident_kb()?;
    let started = Instant::now();
    let storage = open(Path::new(&dir))?;
    let ms = started.elapsed().as_secs_f64() * 1000.0;
    let memory_kb = own_resident_kb()?.saturating_sub(before);
    println!("{ms} {memory_kb} {}", storage.disk_bytes()?);
    Ok(true)
}

/// Objects of 2 kB, updated a million times by many writers: what is on disk for each.
pub(super) async fn updates(dir: &Path) -> Result<()> {
    const OBJECTS: usize = 10_000;
    const UPDATES: usize = 1_000_000;
    const TOGETHER: usize = 100;
    let dir = dir.join("updates");
    let storage = open(&dir)?;
    let started = Instant::now();
    let mut most = 0;
    for first in (0..OBJECTS + UPDATES).step_by(TOGETHER) {
        if first % OBJECTS == 0 {
            most = most.max(on_disk(&dir)?);
        }
        let op = |n: usize| Op::Put {
            key: key(n % OBJECTS),
            value: pod(n, 2000),
            lease: Lease::default(),
        };
        let txn = Txn {
            success: (first..first + TOGETHER).map(op).collect(),
            ..Txn::default()
        };
        storage.txn(txn).await?;
    }
    let took = started.elapsed();
    let report = |name: &str, bytes: u64, note: &str| {
        let note = format!("{:.0} MB in all; {note}", bytes as f64 / 1e6);
        print(name, bytes as f64 / OBJECTS as f64, "bytes", &note);
    };
    let note = format!("history of up to 256 MiB included; the updates took {took:.0?}");
    report(
        "disk for each of 10,000 objects of 2 kB, at most",
        most,
        &note,
    );
    let settled = async |storage: &Embedded| -> Result<u64> {
        storage.tick().await?;
        storage.reclaim().await?;
        create(storage, OBJECTS, pod(0, 2000)).await?; // files go with the next write
        let txn = Txn::delete_if(&key(OBJECTS), storage.current_revision().await?);
        storage.txn(txn).await?;
        storage.tick().await?;
        on_disk(&dir)
    };
    report(
        "the same after a million updates",
        settled(&storage).await?,
        "history included",
    );
    storage.compact(storage.current_revision().await?).await?;
    let note = "journals included, which are at most 128 MB together";
    report("the same without history", settled(&storage).await?, note);
    drop(storage);
    let storage = open(&dir)?;
    let count = storage.range(pilothouse_storage::RangeRequest {
        keys_only: true,
        ..pilothouse_storage::RangeRequest::prefix("/registry/")
    });
    ensure!(count.await?.count == OBJECTS, "objects are missing");
    report("the same after a restart", on_disk(&dir)?, note);
    Ok(())
}

/// Bytes that a folder really takes.
fn on_disk(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        bytes += match std::fs::metadata(&path) {
            Ok(file) if file.is_dir() => on_disk(&path)?,
            Ok(file) => file.blocks() * 512,
            Err(_) => 0, // gone meanwhile
        };
    }
    Ok(bytes)
}
