//! Requests over TLS, 32 connections, the client on the same machine.

use std::ops::Range;

use anyhow::Result;
use tokio::runtime::Runtime;

use crate::{
    load::{self, Call, Measured},
    print,
    start::{peak_resident_mb, resident_mb},
};

const CONNECTIONS: usize = 32;
const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A pod that no scheduler looks at, some 500 bytes as sent and 1.5 kB as stored.
fn pod(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{{"app":"bench"}}}},"spec":{{"schedulerName":"none","containers":[{{"name":"c","image":"registry.example/pause:3.10","resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}}}},"env":[{{"name":"A","value":"1"}},{{"name":"B","value":"2"}}]}}]}}}}"#
    )
}

fn config_map(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{{"app":"bench"}}}},"data":{{"a":"{}"}}}}"#,
        "x".repeat(256)
    )
}

/// Creates of ConfigMaps and of pods.
pub(crate) fn creates() -> Result<()> {
    let cluster = load::cluster(0)?;
    let address = load::address(&cluster)?;
    let runtime = Runtime::new()?;
    let measured = runtime.block_on(load::run(&address, CONNECTIONS, 20_000, |n| {
        Call::post(CONFIG_MAPS, config_map(&format!("bench-{n}")))
    }))?;
    print(
        "ConfigMap creates",
        measured.rate(),
        "/s",
        &measured.latencies(),
    );
    let measured = runtime.block_on(create_pods(&address, 0..20_000))?;
    print("pod creates", measured.rate(), "/s", &measured.latencies());
    let memory = resident_mb(&cluster)?;
    print("memory after 20,000 of both", memory, "MB", "resident");
    Ok(())
}

async fn create_pods(address: &str, numbers: Range<usize>) -> Result<Measured> {
    let first = numbers.start;
    load::run(address, CONNECTIONS, numbers.len(), move |n| {
        Call::post(PODS, pod(&format!("bench-{}", first + n)))
    })
    .await
}

/// Gets of one pod.
pub(crate) fn gets() -> Result<()> {
    let cluster = load::cluster(0)?;
    let address = load::address(&cluster)?;
    let measured = Runtime::new()?.block_on(async {
        load::run(&address, 1, 1, |_| Call::post(PODS, pod("bench"))).await?;
        load::run(&address, CONNECTIONS, 100_000, |_| {
            Call::get(&format!("{PODS}/bench"))
        })
        .await
    })?;
    print("gets", measured.rate(), "/s", &measured.latencies());
    Ok(())
}

/// LIST of all pods, one after the other on one connection, as their number grows.
pub(crate) fn lists() -> Result<()> {
    let cluster = load::cluster(0)?;
    let address = load::address(&cluster)?;
    let mut there = 0;
    for (pods, times) in [(5_000, 50), (6_000, 50), (100_000, 5)] {
        let measured = Runtime::new()?.block_on(async {
            create_pods(&address, there..pods).await?;
            load::run(&address, 1, times, |_| Call::get(PODS)).await
        })?;
        there = pods;
        let megabytes = measured.bytes as f64 / f64::from(1 << 20);
        print(
            &format!("LIST of {pods} pods"),
            megabytes / measured.elapsed.as_secs_f64(),
            "MB/s",
            &measured.latencies(),
        );
        let peak = peak_resident_mb(&cluster)?;
        print(
            &format!("peak memory with {pods} pods"),
            peak,
            "MB",
            "resident",
        );
    }
    Ok(())
}
