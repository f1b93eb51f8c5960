//! Pods through the whole of it: created, scheduled, bound, running on simulated nodes.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::runtime::Runtime;

use crate::{
    load::{self, Call},
    print,
};

const NODES: u32 = 1_000;
const PODS: usize = 5_000;
/// Between two looks at what is left.
const PAUSE: Duration = Duration::from_millis(50);

/// Creates pods as fast as they are taken and waits until all are bound.
pub(crate) fn end_to_end_at_1000_nodes() -> Result<()> {
    let cluster = load::cluster(NODES)?;
    let address = load::address(&cluster)?;
    Runtime::new()?.block_on(all_ready(&address))?;
    let started = Instant::now();
    Runtime::new()?.block_on(async {
        load::run(&address, 16, PODS, |n| {
            let body = format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"bench-{n}"}},"spec":{{"containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}}}}}}]}}}}"#
            );
            Call::post("/api/v1/namespaces/default/pods", body)
        })
        .await?;
        none_left(&address, "spec.nodeName%3D").await
    })?;
    let elapsed = started.elapsed();
    print(
        "pods created, scheduled and bound, 1,000 nodes",
        PODS as f64 / elapsed.as_secs_f64(),
        "pods/s",
        "",
    );
    let started = Instant::now();
    Runtime::new()?.block_on(none_left(&address, "status.phase%3DPending"))?;
    print(
        "… and then all Running after",
        started.elapsed().as_secs_f64(),
        "s",
        "",
    );
    Ok(())
}

/// Lists the nodes until all are ready; kubectl would wait for one after the other.
async fn all_ready(address: &str) -> Result<()> {
    let mut connection = load::connect(address).await?;
    loop {
        let list = load::send(&mut connection, Call::get("/api/v1/nodes")).await?;
        let list: serde_json::Value = serde_json::from_slice(&list)?;
        let is_ready = |node: &&serde_json::Value| {
            let conditions = node["status"]["conditions"].as_array();
            conditions
                .into_iter()
                .flatten()
                .any(|c| c["type"] == "Ready" && c["status"] == "True")
        };
        let nodes = list["items"].as_array();
        if nodes.into_iter().flatten().filter(is_ready).count() == NODES as usize {
            return Ok(());
        }
    }
}

/// Lists the pods that a field selector selects until there are none.
async fn none_left(address: &str, selector: &str) -> Result<()> {
    let mut connection = load::connect(address).await?;
    let path = format!("/api/v1/namespaces/default/pods?fieldSelector={selector}");
    loop {
        let list = load::send(&mut connection, Call::get(&path)).await?;
        let list: serde_json::Value = serde_json::from_slice(&list)?;
        if list["items"].as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await; // a list costs the server what it measures
    }
}
