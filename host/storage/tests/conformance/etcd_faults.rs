//! What may happen to an etcd of three members under load, and what must hold all the same: see [`crate::history`].

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use pilothouse_storage::{
    Etcd, EtcdOptions, Lease, RangeRequest, Revision, Storage, StorageError, Txn, WatchRequest,
};

use crate::{etcd_cluster::EtcdCluster, harness::PATIENCE, history::History};

const WRITES: usize = 200;

/// Two API servers' engines; each prefers another member.
async fn engines(cluster: &EtcdCluster) -> Vec<Arc<dyn Storage>> {
    let mut engines: Vec<Arc<dyn Storage>> = Vec::new();
    for first in 0..2 {
        let options = EtcdOptions {
            timeout: Duration::from_secs(4),
            ..EtcdOptions::new(cluster.endpoints(first))
        };
        engines.push(Arc::new(Etcd::connect(options).await.expect("connect")));
    }
    engines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_is_killed() {
    let mut cluster = EtcdCluster::start();
    let history = History::start(&engines(&cluster).await).await;
    history.writes(WRITES).await;
    let leader = cluster.leader().await;
    cluster.kill(leader);
    history.writes(WRITES).await;
    cluster.restart(leader);
    history.writes(WRITES).await;
    history.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_member_is_stopped_in_turn() {
    let mut cluster = EtcdCluster::start();
    let history = History::start(&engines(&cluster).await).await;
    for member in 0..3 {
        history.writes(WRITES).await;
        cluster.kill(member);
        history.writes(WRITES).await;
        cluster.restart(member);
    }
    history.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_are_stopped_and_come_back() {
    let mut cluster = EtcdCluster::start();
    let engines = engines(&cluster).await;
    let history = History::start(&engines).await;
    history.writes(WRITES).await;
    for member in 0..3 {
        cluster.kill(member);
    }
    history.failures(20).await;
    let error = engines[0].health().await.expect_err("nobody is there");
    assert!(error.to_string().contains("etcd at http://"), "{error}");
    cluster.start_all();
    history.writes(WRITES).await;
    history.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_hangs() {
    let cluster = EtcdCluster::start();
    let engines = engines(&cluster).await;
    let history = History::start(&engines).await;
    history.writes(WRITES).await;
    // the first engine's own member, be it leader or not
    cluster.freeze(0);
    history.writes(WRITES).await;
    for engine in &engines {
        engine.current_revision().await.expect("a read");
    }
    cluster.thaw(0);
    history.writes(WRITES).await;
    history.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_compacted_during_a_list_and_a_watch() {
    let cluster = EtcdCluster::start();
    let engines = engines(&cluster).await;
    let storage = &engines[0];
    let other = &engines[1];
    let mut first = Revision(0);
    for n in 0..20 {
        let key = format!("/registry/pods/default/{n:02}");
        let put = Txn::put_if(&key, Revision(0), "1".into(), Lease::default());
        let written = storage.txn(put).await.expect("put").revision;
        first = if n == 0 { written } else { first };
    }
    let mut page = RangeRequest {
        limit: 5,
        ..RangeRequest::prefix("/registry/pods/")
    };
    let listed = storage.range(page.clone()).await.expect("first page");
    assert!(listed.more);
    let history = History::start(&engines).await;
    history.writes(WRITES).await;

    let now = other.current_revision().await.expect("revision");
    other.compact(now).await.expect("compact");
    page.revision = Some(listed.revision);
    page.start = format!("{}\0", listed.kvs[4].key);
    match storage.range(page).await {
        Err(StorageError::Compacted { oldest, .. }) => assert!(oldest > listed.revision),
        other => panic!("expected Compacted, got {other:?}"),
    }
    let request = WatchRequest::new("/registry/pods/", first);
    let mut behind = storage.watch(request).await.expect("watch");
    let ended = tokio::time::timeout(PATIENCE, behind.next()).await;
    match ended.expect("in time") {
        Some(Err(StorageError::Compacted { asked, .. })) => assert!(asked <= now),
        other => panic!("expected Compacted, got {other:?}"),
    }
    // who watches from after it goes on
    let request = WatchRequest::new("/registry/pods/", now);
    let mut ahead = storage.watch(request).await.expect("watch");
    let put = Txn::put_if(
        "/registry/pods/default/x",
        Revision(0),
        "1".into(),
        Lease::default(),
    );
    let written = storage.txn(put).await.expect("put").revision;
    let batch = tokio::time::timeout(PATIENCE, ahead.next()).await;
    let batch = batch.expect("in time").expect("open").expect("batch");
    assert_eq!(batch.revision, written);
    history.writes(WRITES).await;
    history.check().await;
}
