//! Requests over TLS, 32 connections, the client on the same machine.

use anyhow::Result;
use tokio::runtime::Runtime;

use crate::{
    load::{self, Call},
    print,
    start::resident_mb,
};

const CONNECTIONS: usize = 32;
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod that no scheduler looks at, some 500 bytes as sent and 1.5 kB as stored.
fn pod(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{{"app":"bench"}}}},"spec":{{"schedulerName":"none","containers":[{{"name":"c","image":"registry.example/pause:3.10","resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}}}},"env":[{{"name":"A","value":"1"}},{{"name":"B","value":"2"}}]}}]}}}}"#
    )
}

/// Creates of pods.
pub(crate) fn pod_creates() -> Result<()> {
    let cluster = load::cluster(0)?;
    let address = load::address(&cluster)?;
    let measured = Runtime::new()?.block_on(load::run(&address, CONNECTIONS, 20_000, |n| {
        Call::post(PODS, pod(&format!("bench-{n}")))
    }))?;
    print("pod creates", measured.rate(), "/s", &measured.latencies());
    print(
        "memory after 20,000 pods",
        resident_mb(&cluster)?,
        "MB",
        "resident",
    );
    Ok(())
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

/// One LIST of 5,000 pods, again and again on one connection.
pub(crate) fn list_of_5000_pods() -> Result<()> {
    let cluster = load::cluster(0)?;
    let address = load::address(&cluster)?;
    let measured = Runtime::new()?.block_on(async {
        load::run(&address, CONNECTIONS, 5_000, |n| {
            Call::post(PODS, pod(&format!("bench-{n}")))
        })
        .await?;
        load::run(&address, 1, 50, |_| Call::get(PODS)).await
    })?;
    let megabytes = measured.bytes as f64 / f64::from(1 << 20);
    print(
        "LIST of 5,000 pods",
        megabytes / measured.elapsed.as_secs_f64(),
        "MB/s",
        &measured.latencies(),
    );
    Ok(())
}
