//! Durable writes: the disk alone, the embedded engine, and an etcd on the same disk.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use bytes::Bytes;
use pilothouse_e2e::{Process, own_url, tool};
use pilothouse_storage::{Etcd, EtcdOptions, Lease, Revision, Storage, Txn};
use tokio::task::JoinSet;

use super::{open, pod};
use crate::print;

const BYTES: usize = 2000;
const WRITERS: [usize; 4] = [1, 16, 64, 256];
/// How long each figure is measured.
const TIME: Duration = Duration::from_secs(5);

/// Every figure right after the disk's own, since a shared disk is not the same from minute to minute.
pub(super) async fn writes(dir: &Path) -> Result<()> {
    for writers in WRITERS {
        bare(dir)?;
        let part = dir.join(format!("writers-{writers}"));
        let engine: Arc<dyn Storage> = Arc::new(open(&part)?);
        measure("embedded", engine, writers).await?;
        let etcd = EtcdServer::start(dir)?;
        let engine = Etcd::connect(EtcdOptions::new([etcd.endpoint.clone()])).await?;
        measure("etcd 3.5", Arc::new(engine), writers).await?;
    }
    Ok(())
}

/// One write of 2 kB after the other, each synced, at the end of a file whose length is set beforehand.
fn bare(dir: &Path) -> Result<()> {
    let file = File::create(dir.join("bare"))?;
    file.set_len(256 << 20)?;
    file.sync_all()?;
    let bytes = [0x55; BYTES];
    let mut times = Vec::new();
    let started = Instant::now();
    while started.elapsed() < TIME / 2 {
        let before = Instant::now();
        file.write_all_at(&bytes, (times.len() * BYTES) as u64)?;
        file.sync_data()?;
        times.push(before.elapsed());
    }
    report(
        "2 kB and fdatasync, nothing else",
        &mut times,
        started.elapsed(),
    );
    Ok(())
}

async fn measure(engine: &str, storage: Arc<dyn Storage>, writers: usize) -> Result<()> {
    let values: Arc<Vec<Bytes>> = Arc::new((0..1000).map(|n| pod(n, BYTES)).collect());
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let (storage, values) = (storage.clone(), values.clone());
        tasks.spawn(async move {
            let mut times = Vec::new();
            while started.elapsed() < TIME {
                let key = format!("/registry/pods/ns-{writer}/web-{}", times.len());
                let value = values[(writer + times.len()) % values.len()].clone();
                let before = Instant::now();
                let txn = Txn::put_if(&key, Revision(0), value, Lease::default());
                ensure!(storage.txn(txn).await?.succeeded, "{key} exists");
                times.push(before.elapsed());
            }
            Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(done) = tasks.join_next().await {
        times.extend(done??);
    }
    let what = format!("durable creates of 2 kB, {engine}, {writers} writers");
    report(&what, &mut times, started.elapsed());
    Ok(())
}

fn report(what: &str, times: &mut [Duration], took: Duration) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    let note = format!("p50 {:?}, p99 {:?}", at(50), at(99));
    print(what, times.len() as f64 / took.as_secs_f64(), "/s", &note);
}

/// An etcd of one member that syncs, unlike the one of the tests.
struct EtcdServer {
    endpoint: String,
    _process: Process,
    _dir: tempfile::TempDir,
}

impl EtcdServer {
    fn start(dir: &Path) -> Result<Self> {
        let dir = tempfile::tempdir_in(dir)?;
        let [client, peer] = [own_url()?, own_url()?];
        let process = Process::start(
            Command::new(tool("etcd")?)
                .args(["--name", "bench", "--logger", "zap"])
                .args(["--quota-backend-bytes", "8589934592"])
                .arg("--data-dir")
                .arg(dir.path())
                .args(["--listen-client-urls", &client])
                .args(["--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer])
                .args(["--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &format!("bench={peer}")]),
        )?;
        process.wait_for_line("ready to serve client requests")?;
        Ok(Self {
            endpoint: client,
            _process: process,
            _dir: dir,
        })
    }
}
