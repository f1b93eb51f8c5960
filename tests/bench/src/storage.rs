//! The embedded engine and the watch cache by themselves, without a server around them.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use pilothouse_api::{GroupVersionResource, Object, ResourceInfo};
use pilothouse_storage::{
    Embedded, EmbeddedOptions, Lease, Revision, Storage, Txn, WatchCache, engine::Op,
};
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{print, start::own_resident_kb};

const OBJECTS: usize = 100_000;
const NAMESPACES: usize = 50;

/// Durable writes, starts with many objects, reads from the cache.
pub(crate) fn storage() -> Result<()> {
    let dir = tempfile::tempdir()?;
    Runtime::new()?.block_on(async {
        for (writers, total) in [(1, 2_000), (64, 60_000), (256, 60_000)] {
            let part = dir.path().join(format!("writers-{writers}"));
            writes(&part, writers, total).await?;
        }
        let objects = dir.path().join("objects");
        fill(&objects).await?;
        start(&objects, "right after writing")?;
        start(&objects, "again")?;
        cache(&objects).await?;
        decode()
    })
}

fn pods() -> ResourceInfo {
    ResourceInfo {
        gvr: GroupVersionResource::of("", "v1", "pods"),
        kind: "Pod".into(),
        singular: "pod".into(),
        namespaced: true,
        short_names: vec![],
        categories: vec![],
        selectable_fields: vec!["spec.nodeName".into(), "status.phase".into()],
        storage_prefix: "pods".into(),
    }
}

/// A pod of about so many bytes.
fn pod(n: usize, bytes: usize) -> Bytes {
    let head = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"web-{n}","namespace":"ns-{}","uid":"{n:036}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"web","pod-template-hash":"{n:x}"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"0","controller":true}}]}},"spec":{{"nodeName":"node-{}","containers":["#,
        n % NAMESPACES,
        n % 1000
    );
    let tail = r#"]},"status":{"phase":"Running"}}"#;
    let mut text = head;
    let mut container = 0;
    while text.len() + tail.len() < bytes {
        let comma = if container == 0 { "" } else { "," };
        text += &format!(
            r#"{comma}{{"name":"c{container}","image":"registry.example/app:{:x}","env":[{{"name":"N","value":"{:x}"}}]}}"#,
            n.wrapping_mul(2_654_435_761),
            n.wrapping_mul(40_503)
        );
        container += 1;
    }
    text += tail;
    text.into()
}

fn key(n: usize) -> String {
    pods().storage_key(&format!("ns-{}", n % NAMESPACES), &format!("web-{n}"))
}

async fn create(storage: &dyn Storage, n: usize, value: Bytes) -> Result<()> {
    let txn = Txn::put_if(&key(n), Revision(0), value, Lease::default());
    ensure!(storage.txn(txn).await?.succeeded, "{} exists", key(n));
    Ok(())
}

async fn writes(dir: &Path, writers: usize, total: usize) -> Result<()> {
    let storage: Arc<dyn Storage> = Arc::new(open(dir)?);
    let values: Arc<Vec<Bytes>> = Arc::new((0..1000).map(|n| pod(n, 1000)).collect());
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let (storage, values) = (storage.clone(), values.clone());
        tasks.spawn(async move {
            let mut times = Vec::new();
            for n in (writer..total).step_by(writers) {
                let started = Instant::now();
                create(&*storage, n, values[n % values.len()].clone()).await?;
                times.push(started.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(done) = tasks.join_next().await {
        times.extend(done??);
    }
    let per_second = total as f64 / started.elapsed().as_secs_f64();
    times.sort_unstable();
    let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    let what = format!("durable creates of 1 kB, {writers} writers");
    print(
        &what,
        per_second,
        "/s",
        &format!("p50 {p50:?}, p99 {p99:?}"),
    );
    Ok(())
}

fn open(dir: &Path) -> Result<Embedded> {
    Ok(Embedded::open(EmbeddedOptions::new(dir))?)
}

async fn fill(dir: &Path) -> Result<()> {
    let storage = open(dir)?;
    for first in (0..OBJECTS).step_by(500) {
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

fn start(dir: &Path, when: &str) -> Result<()> {
    let before = own_resident_kb()?;
    let started = Instant::now();
    let storage = open(dir)?;
    let opened = started.elapsed();
    let memory = own_resident_kb()?.saturating_sub(before) >> 10;
    let disk = storage.disk_bytes()? >> 20;
    print(
        &format!("open with {OBJECTS} objects, {when}"),
        opened.as_secs_f64() * 1000.0,
        "ms",
        &format!("{memory} MB of memory more, {disk} MB on disk"),
    );
    Ok(())
}

async fn cache(dir: &Path) -> Result<()> {
    let storage: Arc<dyn Storage> = Arc::new(open(dir)?);
    let started = Instant::now();
    let cache = WatchCache::start(storage.clone(), pods());
    cache.ready(Duration::from_secs(60)).await?;
    print(
        &format!("cache of {OBJECTS} objects filled"),
        started.elapsed().as_secs_f64() * 1000.0,
        "ms",
        "",
    );

    const GETS: usize = 200_000;
    let started = Instant::now();
    for n in 0..GETS {
        let (namespace, name) = place(n);
        cache.get(&namespace, &name)?.context("it is gone")?;
    }
    print_rate("gets from the cache, one thread", GETS, started);
    let started = Instant::now();
    for n in 0..GETS / 10 {
        let (namespace, name) = place(n);
        let (found, _) = cache.get_fresh(&namespace, &name).await?;
        found.context("it is gone")?;
    }
    print_rate("linearizable gets, one thread", GETS / 10, started);

    let other_watches = (0..1000).map(|n| {
        let namespace = format!("ns-{}", n % NAMESPACES);
        cache.subscribe(Some(&namespace), None)
    });
    let other_watches = other_watches.collect::<Result<Vec<_>, _>>()?;
    let mut everywhere = cache.subscribe(None, None)?;
    const WRITES: usize = 2_000;
    let started = Instant::now();
    for n in OBJECTS..OBJECTS + WRITES {
        create(&*storage, n, pod(n, 1000)).await?;
        let batch = everywhere.next().await?;
        ensure!(batch.events.len() == 1, "more than one event");
    }
    print(
        "write until a watch has it",
        started.elapsed().as_secs_f64() * 1e6 / WRITES as f64,
        "µs",
        &format!("average, {} other watches", other_watches.len()),
    );
    Ok(())
}

/// Namespace and name of the n-th object to read, far from the one before.
fn place(n: usize) -> (String, String) {
    let n = n * 7919 % OBJECTS;
    (format!("ns-{}", n % NAMESPACES), format!("web-{n}"))
}

fn print_rate(what: &str, count: usize, started: Instant) {
    let rate = count as f64 / started.elapsed().as_secs_f64();
    print(what, rate, "/s", "");
}

fn decode() -> Result<()> {
    const TIMES: u32 = 50_000;
    let pod = pod(7, 2000);
    let fields = &pods().selectable_fields;
    let started = Instant::now();
    for _ in 0..TIMES {
        let object = Object::from_stored(&pod, Revision(7), fields)?;
        std::hint::black_box(object);
    }
    let each = started.elapsed() / TIMES;
    print(
        "decode of a pod of 2 kB",
        each.as_secs_f64() * 1e6,
        "µs",
        "",
    );
    Ok(())
}
