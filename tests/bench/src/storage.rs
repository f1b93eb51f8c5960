//! The embedded engine and the watch cache by themselves, without a server around them.

mod fan_out;
mod sizes;
mod writes;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use pilothouse_api::{GroupVersionResource, Object, ResourceInfo};
use pilothouse_storage::{Embedded, EmbeddedOptions, Lease, Revision, Storage, Txn, WatchCache};
use tokio::runtime::Runtime;

use crate::print;
pub(crate) use sizes::opened_for_another;

const OBJECTS: usize = 100_000;
const NAMESPACES: usize = 50;

/// Durable writes, starts with many objects, disk after many updates, reads from the cache, watches of it. A word in
/// `PILOTHOUSE_BENCH_PART` picks one.
pub(crate) fn storage() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let part = std::env::var("PILOTHOUSE_BENCH_PART").unwrap_or_default();
    let wanted = |name: &str| part.is_empty() || part == name;
    Runtime::new()?.block_on(async {
        if wanted("writes") {
            writes::writes(dir.path()).await?;
        }
        if wanted("starts") {
            sizes::starts(dir.path()).await?;
        }
        if wanted("updates") {
            sizes::updates(dir.path()).await?;
        }
        if wanted("fan-out") {
            fan_out::fan_out(dir.path()).await?;
        }
        if wanted("cache") {
            let objects = dir.path().join("cache");
            sizes::fill(&objects, OBJECTS).await?;
            cache(&objects).await?;
            decode()?;
        }
        Ok(())
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

fn open(dir: &Path) -> Result<Embedded> {
    Ok(Embedded::open(EmbeddedOptions::new(dir))?)
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
