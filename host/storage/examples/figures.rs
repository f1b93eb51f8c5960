//! Figures of the embedded engine and the watch cache on this machine. No assertions, only what was measured.
//!
//! `cargo run --release -p pilothouse-storage --example figures [DIRECTORY]`

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use pilothouse_api::{GroupVersionResource, Object, ResourceInfo};
use pilothouse_storage::{
    Embedded, EmbeddedOptions, Lease, Revision, Storage, Txn, WatchCache, engine::Op,
};
use tokio::task::JoinSet;

const OBJECTS: usize = 100_000;
const NAMESPACES: usize = 50;

#[tokio::main]
async fn main() {
    let argument = std::env::args_os().nth(1);
    let temporary = tempfile::tempdir().expect("temporary directory");
    let dir = argument.map_or_else(|| temporary.path().to_owned(), Into::into);
    println!("directory: {}", dir.display());
    for (writers, bytes) in [(1, 1000), (64, 1000), (256, 1000), (256, 2000)] {
        let total = if writers == 1 { 2000 } else { 60_000 };
        let part = dir.join(format!("writers-{writers}-{bytes}"));
        writes(&part, writers, bytes, total).await;
    }
    let objects = dir.join("objects");
    fill(&objects).await;
    start(&objects, "right after writing").await;
    start(&objects, "again").await;
    cache(&objects).await;
    decode();
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

async fn create(storage: &dyn Storage, n: usize, value: Bytes) {
    let txn = Txn::put_if(&key(n), Revision(0), value, Lease::default());
    assert!(storage.txn(txn).await.expect("write").succeeded);
}

async fn writes(dir: &Path, writers: usize, bytes: usize, total: usize) {
    let storage: Arc<dyn Storage> = Arc::new(open(dir));
    let values: Arc<Vec<Bytes>> = Arc::new((0..1000).map(|n| pod(n, bytes)).collect());
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let (storage, values) = (storage.clone(), values.clone());
        tasks.spawn(async move {
            let mut times = Vec::new();
            for n in (writer..total).step_by(writers) {
                let started = Instant::now();
                create(&*storage, n, values[n % values.len()].clone()).await;
                times.push(started.elapsed());
            }
            times
        });
    }
    let mut times: Vec<Duration> = tasks.join_all().await.concat();
    let per_second = total as f64 / started.elapsed().as_secs_f64();
    times.sort_unstable();
    println!(
        "durable creates, {writers} writers, {bytes} bytes: {per_second:.0}/s, p50 {:?}, p99 {:?}",
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );
}

fn open(dir: &Path) -> Embedded {
    Embedded::open(EmbeddedOptions::new(dir)).expect("open")
}

async fn fill(dir: &Path) {
    let storage = open(dir);
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
        storage.txn(txn).await.expect("write");
    }
}

async fn start(dir: &Path, when: &str) {
    let before = resident_kb();
    let started = Instant::now();
    let storage = open(dir);
    let opened = started.elapsed();
    println!(
        "open with {OBJECTS} objects, {when}: {opened:?}, {} MB of memory more, {} MB on disk",
        resident_kb().saturating_sub(before) >> 10,
        storage.disk_bytes().expect("size") >> 20
    );
}

async fn cache(dir: &Path) {
    let storage: Arc<dyn Storage> = Arc::new(open(dir));
    let started = Instant::now();
    let cache = WatchCache::start(storage.clone(), pods());
    cache.ready(Duration::from_secs(60)).await.expect("ready");
    println!(
        "cache of {OBJECTS} objects filled: {:?}, {} MB resident",
        started.elapsed(),
        resident_kb() >> 10
    );

    let started = Instant::now();
    let list = cache.list(None).expect("list");
    let snapshot = started.elapsed();
    let bytes: usize = list.iter().map(|o| o.bytes.len()).sum();
    println!(
        "list: snapshot {snapshot:?}, {bytes} bytes gone through in {:?}",
        started.elapsed()
    );

    const GETS: usize = 200_000;
    let started = Instant::now();
    for n in 0..GETS {
        let n = n * 7919 % OBJECTS;
        let found = cache.get(&format!("ns-{}", n % NAMESPACES), &format!("web-{n}"));
        assert!(found.expect("get").is_some());
    }
    println!(
        "cached gets: {:.0}/s on one thread",
        GETS as f64 / started.elapsed().as_secs_f64()
    );
    let started = Instant::now();
    for n in 0..GETS / 10 {
        let n = n * 7919 % OBJECTS;
        let (namespace, name) = (format!("ns-{}", n % NAMESPACES), format!("web-{n}"));
        let (found, _) = cache.get_fresh(&namespace, &name).await.expect("get");
        assert!(found.is_some());
    }
    println!(
        "linearizable gets: {:.0}/s on one thread",
        GETS as f64 / 10.0 / started.elapsed().as_secs_f64()
    );

    let mut watches: Vec<_> = (0..1000)
        .map(|n| {
            let namespace = format!("ns-{}", n % NAMESPACES);
            cache.subscribe(Some(&namespace), None).expect("subscribe")
        })
        .collect();
    let mut everywhere = cache.subscribe(None, None).expect("subscribe");
    let started = Instant::now();
    const UPDATES: usize = 2000;
    for n in 0..UPDATES {
        create(&*storage, OBJECTS + n, pod(OBJECTS + n, 1000)).await;
        let batch = everywhere.next().await.expect("watch");
        assert_eq!(batch.events.len(), 1);
    }
    println!(
        "write until a watch has it, 1000 other watches: {:?} on average",
        started.elapsed() / UPDATES as u32
    );
    let batch = watches[0].next().await.expect("watch");
    println!(
        "a watch of one namespace then reads {} changes at once",
        batch.events.len()
    );
}

fn decode() {
    for bytes in [1000, 2000, 4000] {
        let pod = pod(7, bytes);
        let fields = &pods().selectable_fields;
        const TIMES: u32 = 50_000;
        let started = Instant::now();
        for _ in 0..TIMES {
            let object = Object::from_stored(&pod, Revision(7), fields).expect("decode");
            std::hint::black_box(object);
        }
        println!(
            "decode of {} bytes: {:?}",
            pod.len(),
            started.elapsed() / TIMES
        );
    }
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS"));
    let number = line.and_then(|l| l.split_whitespace().nth(1));
    number.and_then(|n| n.parse().ok()).unwrap_or(0)
}
