//! Scheduling decisions by the plugins that ship with the host, against an API server that takes no time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_api::{Revision, Status};
use pilothouse_plugin::{
    Cluster, Engine, EngineConfig, Settings,
    cluster::{CallingPlugin, GroupVersionResource, NoCluster},
    scheduler::{Component, Sandboxed},
    testing,
};
use pilothouse_scheduler::{
    Api, Core, Input, NodeInfo, Options, PodEvent, PodInfo, Step, start_with,
};
use serde_json::json;
use tokio::{
    runtime::Runtime,
    sync::{Notify, mpsc, watch},
};

use crate::{print, start::own_resident_kb};

/// Decisions about one pod, and pods a second.
pub(crate) fn decisions() -> Result<()> {
    Runtime::new()?.block_on(async {
        let wasm = testing::component("scheduler-defaults");
        let engine = Engine::new(EngineConfig::default())?;
        let quiet: Arc<dyn Cluster> = Arc::new(NoCluster);
        let component = load(&engine, &wasm, quiet).await?;
        let all = "filter+score of one pod over all 5,000 nodes";
        decide(&component, 5_000, Some(100), all, "aim 1,000").await?;
        let sampled = "one decision at 5,000 nodes, sampled";
        decide(&component, 5_000, None, sampled, "").await?;
        mirrors(&component, 5_000).await?;
        for nodes in [1_000, 5_000] {
            throughput(&engine, &wasm, nodes, 10_000).await?;
        }
        Ok(())
    })
}

async fn load(
    engine: &Engine,
    wasm: &[u8],
    cluster: Arc<dyn Cluster>,
) -> Result<Arc<dyn Component>> {
    let name = "scheduler-defaults";
    let settings = Settings::default().of_a_built_in();
    let revision = pilothouse_plugin::Revision::load(engine, name, wasm, settings, cluster).await?;
    let component = Sandboxed::new(&Arc::new(revision)).context("no scheduler plugins in it")?;
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

/// How long decisions take about one pod after the other, `percentage` of the nodes being scored.
async fn decide(
    component: &Arc<dyn Component>,
    nodes: usize,
    percentage: Option<u32>,
    what: &str,
    note: &str,
) -> Result<()> {
    let mut core = core(component, nodes, percentage)?;
    let mut times = Vec::new();
    for index in 0..500 {
        core.observe(Input::Pod(pod(index)?), 0);
        let started = Instant::now();
        let step = core.schedule_one(0).await;
        times.push(started.elapsed());
        ensure!(matches!(step, Some(Step::Bind(_))), "a pod did not fit");
    }
    times.remove(0); // it fills the mirror
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize];
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let micros = at(share).as_secs_f64() * 1e6;
        print(&format!("{what}, {name}"), micros, "µs", note);
    }
    Ok(())
}

/// What one more component with a mirror of its own costs.
async fn mirrors(component: &Arc<dyn Component>, nodes: usize) -> Result<()> {
    const COUNT: u32 = 8;
    let mut cores = Vec::new();
    let before = own_resident_kb()?;
    let started = Instant::now();
    for _ in 0..COUNT {
        let mut core = core(component, nodes, None)?;
        core.observe(Input::Pod(pod(0)?), 0);
        core.schedule_one(0).await;
        cores.push(core);
    }
    let each = started.elapsed() / COUNT;
    let memory = (own_resident_kb()? - before) / u64::from(COUNT);
    let what = format!("an instance with a mirror of {nodes} nodes");
    let note = format!("{memory} KiB with the host's cache");
    print(&what, each.as_secs_f64() * 1000.0, "ms", &note);
    Ok(())
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
async fn throughput(engine: &Engine, wasm: &[u8], nodes: usize, pods: usize) -> Result<()> {
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
    let what = format!("pods decided and bound, {nodes} nodes");
    print(&what, rate, "pods/s", "");
    handle.stop().await;
    Ok(())
}
