//! Watches: one change and many who want to know of it, each on a TLS connection of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use http_body_util::BodyExt;
use tokio::{
    runtime::Runtime,
    sync::{Notify, mpsc},
    task::JoinSet,
};

use crate::{
    load::{self, Call},
    print,
    start::resident_mb,
};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCHED: &str = "/api/v1/namespaces/default/configmaps?watch=true&fieldSelector=metadata.name%3Dwatched&resourceVersion=";

/// Events delivered to 1, 100 and 2,000 watches, and what an idle watch costs.
pub(crate) fn fan_out() -> Result<()> {
    for (watchers, changes) in [(1, 2_000), (100, 2_000), (2_000, 100)] {
        Runtime::new()?.block_on(deliver(watchers, changes))?;
    }
    Ok(())
}

/// One change after the other, each sent when the last watch has seen the one before.
async fn deliver(watchers: usize, changes: usize) -> Result<()> {
    let cluster = load::cluster(0)?;
    let address = load::address(&cluster)?;
    let mut writer = load::connect(&address).await?;
    let made = load::send(&mut writer, Call::post(CONFIG_MAPS, body(0))).await?;
    let made: serde_json::Value = serde_json::from_slice(&made)?;
    let revision = made["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();

    let before = resident_mb(&cluster)?;
    let seen = Arc::new(Seen::default());
    let (failed, mut failure) = mpsc::channel(1);
    let mut tasks = JoinSet::new();
    for _ in 0..watchers {
        let mut connection = load::connect(&address).await?;
        let answer =
            load::begin(&mut connection, Call::get(&format!("{WATCHED}{revision}"))).await?;
        ensure!(
            answer.status().is_success(),
            "a watch was refused: {}",
            answer.status()
        );
        let (seen, failed) = (seen.clone(), failed.clone());
        tasks.spawn(async move {
            let mut body = answer.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                let Some(data) = frame.data_ref() else {
                    continue;
                };
                let events = data.iter().filter(|byte| **byte == b'\n').count();
                seen.add(events);
            }
            _ = failed.try_send(()); // one is enough
            drop(connection);
        });
    }
    let idle = (resident_mb(&cluster)? - before) * 1024.0 / watchers as f64;

    let mut latency = Histogram::<u64>::new(3)?;
    let started = Instant::now();
    for change in 1..=changes {
        let begun = Instant::now();
        let path = format!("{CONFIG_MAPS}/watched");
        load::send(&mut writer, Call::put(&path, body(change))).await?;
        tokio::select! {
            () = seen.reach(change * watchers) => {}
            _ = failure.recv() => anyhow::bail!("a watch ended"),
            () = tokio::time::sleep(Duration::from_secs(30)) => anyhow::bail!("a watch misses a change"),
        }
        latency.record(u64::try_from(begun.elapsed().as_micros())?)?;
    }
    let delivered = (changes * watchers) as f64 / started.elapsed().as_secs_f64();
    let at = |quantile| latency.value_at_quantile(quantile);
    let note = format!(
        "request to last watch: p50 {} µs, p99 {} µs",
        at(0.5),
        at(0.99)
    );
    print(
        &format!("events delivered to {watchers} watches"),
        delivered,
        "/s",
        &note,
    );
    if watchers >= 1_000 {
        print(
            "memory of an idle watch",
            idle,
            "kB",
            "its TLS connection included",
        );
    }
    tasks.abort_all();
    Ok(())
}

fn body(change: usize) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"watched"}},"data":{{"change":"{change}","a":"{}"}}}}"#,
        "x".repeat(1_000)
    )
}

/// How many events all watches together have seen.
#[derive(Default)]
struct Seen {
    count: AtomicUsize,
    changed: Notify,
}

impl Seen {
    fn add(&self, events: usize) {
        self.count.fetch_add(events, Ordering::SeqCst);
        self.changed.notify_one();
    }

    async fn reach(&self, wanted: usize) {
        while self.count.load(Ordering::SeqCst) < wanted {
            self.changed.notified().await;
        }
    }
}
