//! The watch cache on the embedded engine: it shows what storage holds, and its watches add up to its lists.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use pilothouse_api::{GroupVersionResource, ResourceInfo};
use pilothouse_storage::{
    Embedded, EmbeddedOptions, EventType, Lease, RangeRequest, Revision, Storage, Txn, WatchCache,
    engine::{Op, prefix_end},
};
use tokio::task::JoinSet;

/// So that a hang becomes a failure, however slow the disk is.
const SOON: Duration = Duration::from_secs(600);

fn config_maps() -> ResourceInfo {
    ResourceInfo {
        gvr: GroupVersionResource::of("", "v1", "configmaps"),
        kind: "ConfigMap".into(),
        singular: "configmap".into(),
        namespaced: true,
        short_names: vec!["cm".into()],
        categories: vec![],
        selectable_fields: vec![],
        storage_prefix: "configmaps".into(),
    }
}

fn document(namespace: &str, name: &str, n: usize) -> Bytes {
    format!(r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}},"data":{{"n":"{n}"}}}}"#)
        .into()
}

/// Writes and deletes in two namespaces, and elsewhere.
async fn write(storage: Arc<dyn Storage>, writer: usize) -> Revision {
    let resource = config_maps();
    let mut last = Revision(0);
    for n in 0..60 {
        let namespace = ["a", "b"][n % 2];
        let name = format!("c{}", (n * 7 + writer) % 11);
        let key = resource.storage_key(namespace, &name);
        let op = match n % 5 {
            4 => Op::Delete { key },
            3 => Op::Put {
                key: format!("/registry/secrets/{namespace}/{name}"),
                value: document(namespace, &name, n),
                lease: Lease::default(),
            },
            _ => Op::Put {
                key,
                value: document(namespace, &name, n),
                lease: Lease::default(),
            },
        };
        let txn = Txn {
            success: vec![op],
            ..Txn::default()
        };
        last = storage.txn(txn).await.expect("txn").revision;
    }
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_watches_agree_with_storage() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let storage = Embedded::open(EmbeddedOptions::new(dir.path())).expect("open");
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let cache = Arc::new(WatchCache::start(storage.clone(), config_maps()));
    cache.ready(SOON).await.expect("ready");
    let start = cache.revision();
    let mut everywhere = cache.subscribe(None, Some(start)).expect("subscribe");
    let mut in_a = cache.subscribe(Some("a"), Some(start)).expect("subscribe");

    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let (storage, cache) = (storage.clone(), cache.clone());
        writers.spawn(async move {
            let last = write(storage, writer).await;
            let seen = cache.catch_up(SOON).await.expect("caught up");
            assert!(seen >= last, "an answered write is seen");
        });
    }
    writers.join_all().await;
    let end = cache.catch_up(SOON).await.expect("caught up");

    let list = cache.list(None).expect("list");
    let listed: BTreeMap<String, u64> = list
        .iter()
        .map(|o| {
            let key = config_maps().storage_key(&o.header.namespace, &o.header.name);
            (key, o.revision.0)
        })
        .collect();
    let prefix = "/registry/configmaps/";
    let range = RangeRequest {
        start: prefix.to_owned(),
        end: prefix_end(prefix),
        revision: Some(list.revision),
        ..RangeRequest::default()
    };
    let stored = storage.range(range).await.expect("range");
    let stored: BTreeMap<String, u64> = stored
        .kvs
        .iter()
        .map(|kv| (kv.key.to_string(), kv.mod_revision.0))
        .collect();
    assert_eq!(listed, stored);

    for (watch, only) in [(&mut everywhere, None), (&mut in_a, Some("a"))] {
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        while watch.position() < end {
            for event in watch.next().await.expect("watch").events {
                let header = &event.object.header;
                let key = config_maps().storage_key(&header.namespace, &header.name);
                let known = seen.get(&key).copied();
                assert_eq!(
                    event.previous.as_ref().map(|p| p.revision.0),
                    known,
                    "{key}"
                );
                match event.kind {
                    EventType::Deleted => seen.remove(&key),
                    _ => seen.insert(key, event.object.revision.0),
                };
            }
        }
        let in_scope = |key: &&String| {
            only.is_none_or(|n| key.starts_with(&config_maps().storage_key_prefix(n)))
        };
        let expected: BTreeMap<String, u64> = listed
            .iter()
            .filter(|(key, _)| in_scope(key))
            .map(|(k, v)| (k.clone(), *v))
            .collect();
        assert_eq!(seen, expected, "a watch of {only:?} adds up to the list");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_what_never_comes_holds_up_nobody() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let storage = Embedded::open(EmbeddedOptions::new(dir.path())).expect("open");
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let cache = WatchCache::start(storage.clone(), config_maps());
    cache.ready(SOON).await.expect("ready");
    let never = cache
        .wait_until(Revision(1 << 60), Duration::from_millis(1))
        .await;
    assert!(never.is_err());
    for n in 0..3 {
        // elsewhere, so that only progress brings the cache there
        let key = format!("/registry/secrets/a/s{n}");
        let put = Txn::put_if(&key, Revision(0), document("a", "s", n), Lease::default());
        let written = storage.txn(put).await.expect("txn").revision;
        let shown = cache.catch_up(SOON).await.expect("it catches up");
        assert!(shown >= written);
    }
}
