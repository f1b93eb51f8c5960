//! Start to ready, and memory when idle.

use std::{fs, time::Instant};

use anyhow::{Context, Result};
use pilothouse_e2e::Cluster;

use crate::{load, print};

/// From the start of the process to its line "is ready", with an existing data directory.
pub(crate) fn time_to_ready() -> Result<()> {
    let mut cluster = load::cluster(3)?;
    let mut best = f64::MAX;
    for _ in 0..5 {
        cluster.process.interrupt()?;
        let started = Instant::now();
        cluster.restart()?;
        best = best.min(started.elapsed().as_secs_f64());
    }
    print(
        "start to ready, existing data directory",
        best * 1000.0,
        "ms",
        "best of 5; aim 300",
    );
    Ok(())
}

/// Resident memory of `up` with all built-in plugins and three nodes, after it has settled.
pub(crate) fn idle_memory() -> Result<()> {
    let cluster = load::cluster(3)?;
    cluster.kubectl("wait node --all --for=condition=Ready --timeout=60s")?;
    std::thread::sleep(std::time::Duration::from_secs(10)); // idle is what is measured
    print(
        "idle memory of `up`",
        resident_mb(&cluster)?,
        "MB",
        "resident; aim 100",
    );
    Ok(())
}

/// The resident set of the cluster's process in MB.
pub(crate) fn resident_mb(cluster: &Cluster) -> Result<f64> {
    megabytes(cluster, "VmRSS:")
}

/// The largest resident set that the cluster's process has had, in MB.
pub(crate) fn peak_resident_mb(cluster: &Cluster) -> Result<f64> {
    megabytes(cluster, "VmHWM:")
}

fn megabytes(cluster: &Cluster, field: &str) -> Result<f64> {
    let kilobytes = memory_kb(&cluster.process.id().to_string(), field)?;
    Ok(kilobytes as f64 / 1024.0)
}

/// The resident set of this process in kB.
pub(crate) fn own_resident_kb() -> Result<u64> {
    memory_kb("self", "VmRSS:")
}

fn memory_kb(process: &str, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .with_context(|| format!("no {field}"))?;
    let number = line.split_whitespace().next().context("no number")?;
    Ok(number.parse()?)
}
