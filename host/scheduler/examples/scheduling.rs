//! Figures of the scheduler with the plugins that ship with it, against an API server in memory:
//! `cargo run --release -p pilothouse-scheduler --example scheduling`. Needs `cargo xtask build` before.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_api::{Revision, Status};
use pilothouse_plugin::{
    Cluster, Engine, EngineConfig, Settings,
    cluster::{CallingPlugin, GroupVersionResource, NoCluster},
    scheduler::{Component, Sandboxed},
};
use pilothouse_scheduler::{
    Api, Core, Input, NodeInfo, Options, PodEvent, PodInfo, Step, start_with,
};
use serde_json::json;
use tokio::sync::{Notify, mpsc, watch};

const WASM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../target/wasm32-wasip2/plugin/scheduler_defaults.wasm"
);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wasm = std::fs::read(WASM)?;
    let engine = Engine::new(EngineConfig::default())?;
    let quiet: Arc<dyn Cluster> = Arc::new(NoCluster);
    let component = load(&engine, &wasm, quiet).await?;
    one_pod_over_all(&component, 5_000).await?;
    cycles(&component, 5_000).await?;
    mirrors(&component, 5_000).await?;
    for (nodes, pods) in [(1_000, 10_000), (5_000, 10_000)] {
        throughput(&engine, &wasm, nodes, pods).await?;
    }
    Ok(())
}

async fn load(
    engine: &Engine,
    wasm: &[u8],
    cluster: Arc<dyn Cluster>,
) -> Result<Arc<dyn Component>, Box<dyn std::error::Error>> {
    let name = "scheduler-defaults";
    let revision =
        pilothouse_plugin::Revision::load(engine, name, wasm, Settings::default(), cluster).await?;
    let component = Sandboxed::new(&Arc::new(revision)).ok_or("no scheduler plugins in it")?;
    Ok(Arc::new(component))
}

/// As on SchedulingBasic's nodes: 4 CPUs, 32 GiB, 110 pods; every twentieth has a taint.
fn node(index: usize) -> Result<NodeInfo, Status> {
    let taints = match index % 20 {
        0 => json!([{ "key": "slow", "effect": "PreferNoSchedule" }]),
        _ => json!([]),
    };
    let node = json!({
        "metadata": { "name": format!("node-{index}"), "labels": {
            "kubernetes.io/hostname": format!("node-{index}"),
            "topology.kubernetes.io/zone": format!("zone-{}", index % 3),
        } },
        "spec": { "taints": taints },
        "status": { "allocatable": { "cpu": "4", "memory": "32Gi", "pods": "110" } },
    });
    NodeInfo::parse(Revision(1), node.to_string().into())
}

fn pod(index: usize) -> Result<Arc<PodInfo>, Status> {
    let name = format!("pod-{index}");
    let pod = json!({
        "metadata": { "name": name, "namespace": "default", "uid": name },
        "spec": { "containers": [{ "name": "c", "image": "pause", "resources": {
            "requests": { "cpu": "100m", "memory": "500Mi" },
        } }] },
    });
    Ok(Arc::new(PodInfo::parse(
        Revision(1),
        pod.to_string().into(),
    )?))
}

fn core(
    component: &Arc<dyn Component>,
    nodes: usize,
    percentage: Option<u32>,
) -> Result<Core, Status> {
    let mut core = Core::new(Options {
        percentage_of_nodes_to_score: percentage,
        ..Options::default()
    });
    core.set_components(vec![Arc::clone(component)], 0);
    for index in 0..nodes {
        core.observe(Input::Node(node(index)?), 0);
    }
    Ok(core)
}

/// Filter and score by all plugins, with every node looked at.
async fn one_pod_over_all(component: &Arc<dyn Component>, nodes: usize) -> Result<(), Status> {
    let label = format!("filter+score of one pod over all {nodes} nodes");
    decide(component, nodes, Some(100), &label).await
}

/// The same with the sample that a cluster of this size suggests.
async fn cycles(component: &Arc<dyn Component>, nodes: usize) -> Result<(), Status> {
    let label = format!("one decision at {nodes} nodes, sampled");
    decide(component, nodes, None, &label).await
}

async fn decide(
    component: &Arc<dyn Component>,
    nodes: usize,
    percentage: Option<u32>,
    label: &str,
) -> Result<(), Status> {
    let mut core = core(component, nodes, percentage)?;
    let mut times = Vec::new();
    for index in 0..500 {
        core.observe(Input::Pod(pod(index)?), 0);
        let started = Instant::now();
        let step = core.schedule_one(0).await;
        times.push(started.elapsed());
        assert!(matches!(step, Some(Step::Bind(_))), "every pod fits");
    }
    times.remove(0); // it fills the mirror
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize];
    println!("{label}: p50 {:?}, p99 {:?}", at(0.5), at(0.99));
    Ok(())
}

/// What one more component with a mirror of its own costs.
async fn mirrors(component: &Arc<dyn Component>, nodes: usize) -> Result<(), Status> {
    const COUNT: u32 = 8;
    let mut cores = Vec::new();
    let before = resident_kib();
    let started = Instant::now();
    for _ in 0..COUNT {
        let mut core = core(component, nodes, None)?;
        core.observe(Input::Pod(pod(0)?), 0);
        core.schedule_one(0).await;
        cores.push(core);
    }
    let each = started.elapsed() / COUNT;
    let memory = (resident_kib() - before) / u64::from(COUNT);
    println!(
        "an instance with a mirror of {nodes} nodes (and the host's cache): {each:?}, {memory} KiB"
    );
    Ok(())
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or_default()
}

/// Binds by counting; the scheduler hears of a bound pod as from a watch.
struct Counting {
    bound: AtomicU64,
    wanted: u64,
    all: Notify,
}

#[async_trait]
impl Cluster for Counting {
    async fn create_subresource(
        &self,
        _: CallingPlugin<'_>,
        _: &GroupVersionResource,
        _: &str,
        _: &str,
        _: &str,
        _: Bytes,
    ) -> Result<Bytes, Status> {
        if self.bound.fetch_add(1, Ordering::Relaxed) + 1 == self.wanted {
            self.all.notify_one();
        }
        Ok(Bytes::from_static(b"{}"))
    }
}

struct Silent;

#[async_trait]
impl Api for Silent {
    async fn get_pod(&self, _: &str, _: &str) -> Result<PodInfo, Status> {
        Err(Status::internal("not needed"))
    }

    async fn patch_pod_status(&self, _: &str, _: &str, _: Vec<u8>) -> Result<(), Status> {
        Ok(())
    }

    fn record(&self, _: &PodInfo, _: PodEvent) {}
}

/// From the first pod to the last binding.
async fn throughput(
    engine: &Engine,
    wasm: &[u8],
    nodes: usize,
    pods: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let counting = Arc::new(Counting {
        bound: AtomicU64::new(0),
        wanted: pods as u64,
        all: Notify::new(),
    });
    let component = load(engine, wasm, Arc::clone(&counting) as Arc<dyn Cluster>).await?;
    let (to, inputs) = mpsc::channel(4_096);
    let (_plugins, components) = watch::channel(vec![component]);
    let handle = start_with(Arc::new(Silent), inputs, components, Options::default());
    for index in 0..nodes {
        to.send(Input::Node(node(index)?)).await?;
    }
    to.send(Input::Synced).await?;
    let parsed: Vec<_> = (0..pods).map(pod).collect::<Result<_, _>>()?;
    let started = Instant::now();
    for pod in parsed {
        to.send(Input::Pod(pod)).await?;
    }
    let all = counting.all.notified();
    tokio::time::timeout(Duration::from_secs(120), all).await?;
    let elapsed = started.elapsed();
    let rate = pods as f64 / elapsed.as_secs_f64();
    println!("{pods} pods on {nodes} nodes: {rate:.0} pods/s");
    handle.stop().await;
    Ok(())
}
