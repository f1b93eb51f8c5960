//! A disk that is full, and a start that takes no writes: writes are refused with a `Status` that says so, reads go on.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use pilothouse_apiserver::admission::NoAdmission;
use pilothouse_storage::EmbeddedOptions;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::Api;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

async fn writable(api: &Api) -> bool {
    let metrics = api.get("/metrics").await.text();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("pilothouse_storage_writable "));
    line.expect("the metric").ends_with(" 1")
}

#[tokio::test]
async fn a_full_disk_refuses_writes_says_so_and_heals() {
    let dir = TempDir::new().unwrap();
    let free = Arc::new(AtomicU64::new(u64::MAX));
    let shown = free.clone();
    let storage = EmbeddedOptions {
        free_space: Arc::new(move |_| Ok(shown.load(Ordering::Relaxed))),
        ..EmbeddedOptions::new(dir.path().join("db"))
    };
    let api = Api::on_storage(dir, storage, Arc::new(NoAdmission)).await;
    api.post(CONFIG_MAPS, config_map("before"))
        .await
        .expect(201);
    assert!(writable(&api).await);

    free.store(1 << 20, Ordering::Relaxed);
    let refused = api.post(CONFIG_MAPS, config_map("full")).await;
    refused.refused(507, "InsufficientStorage", "no space left");
    assert_eq!(
        refused.header("retry-after"),
        "",
        "clients would repeat it at once"
    );
    let patch = json!({ "data": { "a": "b" } });
    let before = format!("{CONFIG_MAPS}/before");
    api.patch(&before, "merge", patch)
        .await
        .refused(507, "InsufficientStorage", "no space left");
    api.get(&before).await.expect(200);
    assert_eq!(
        api.get(CONFIG_MAPS).await.expect(200)["items"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert_eq!(api.get("/readyz/etcd").await.code, 500);
    assert_eq!(
        api.get("/livez").await.code,
        200,
        "a restart frees no space"
    );
    assert!(!writable(&api).await);

    free.store(u64::MAX, Ordering::Relaxed);
    api.post(CONFIG_MAPS, config_map("after")).await.expect(201);
    assert_eq!(api.get("/readyz").await.code, 200);
    assert!(writable(&api).await);
}

#[tokio::test]
async fn a_read_only_start_serves_reads() {
    let api = Api::start().await;
    api.post(CONFIG_MAPS, config_map("kept")).await.expect(201);
    let dir = api.stop().await;
    let storage = EmbeddedOptions {
        read_only: true,
        ..EmbeddedOptions::new(dir.path().join("db"))
    };
    let api = Api::on_storage(dir, storage, Arc::new(NoAdmission)).await;
    api.get(&format!("{CONFIG_MAPS}/kept")).await.expect(200);
    let refused = api.post(CONFIG_MAPS, config_map("more")).await;
    refused.refused(503, "ServiceUnavailable", "storage is read-only");
    assert_eq!(api.get("/readyz").await.code, 500);
    assert_eq!(api.get("/livez").await.code, 200);
}
