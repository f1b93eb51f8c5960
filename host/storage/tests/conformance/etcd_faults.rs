//! What may happen to an etcd of three members under load, and what must hold all the same: see [`crate::history`].

use std::{sync::Arc, time::Duration};

use pilothouse_storage::{
    Etcd, EtcdOptions, Lease, Op, RangeRequest, Result, Revision, Storage, StorageError,
    WatchRequest,
};

use crate::{
    etcd_cluster::EtcdCluster,
    harness::{PATIENCE, Watched, just},
    history::History,
};

const WRITES: usize = 200;

/// Two API servers' engines; each prefers another member.
pub(crate) async fn engines(cluster: &EtcdCluster) -> Vec<Arc<dyn Storage>> {
    let mut engines: Vec<Arc<dyn Storage>> = Vec::new();
    for first in 0..2 {
        let options = EtcdOptions::new(cluster.endpoints(first));
        let engine = answered(async || Etcd::connect(options.clone()).await).await;
        engines.push(Arc::new(engine));
    }
    engines
}

/// The answer to something that may be done twice: on a busy machine a cluster may be without a leader now and then.
async fn answered<T>(call: impl AsyncFn() -> Result<T>) -> T {
    let answer = async {
        loop {
            match call().await {
                Ok(answer) => return answer,
                Err(StorageError::Unavailable(_) | StorageError::OutcomeUnknown(_)) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    answer.expect("an answer")
}

async fn put(storage: &dyn Storage, key: &str) -> Revision {
    let put = || Op::Put {
        key: key.to_owned(),
        value: "1".into(),
        lease: Lease::default(),
    };
    let response = answered(async || storage.txn(just(vec![put()])).await).await;
    response.revision
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
        answered(async || engine.current_revision().await).await;
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
        let written = put(&**storage, &key).await;
        first = if n == 0 { written } else { first };
    }
    let mut page = RangeRequest {
        limit: 5,
        ..RangeRequest::prefix("/registry/pods/")
    };
    let listed = answered(async || storage.range(page.clone()).await).await;
    assert!(listed.more);
    let history = History::start(&engines).await;
    history.writes(WRITES).await;

    let now = answered(async || other.current_revision().await).await;
    history.watched(now).await; // else they are told that they have been overtaken
    answered(async || other.compact(now).await).await;
    page.revision = Some(listed.revision);
    page.start = format!("{}\0", listed.kvs[4].key);
    match storage.range(page).await {
        Err(StorageError::Compacted { oldest, .. }) => assert!(oldest > listed.revision),
        other => panic!("expected Compacted, got {other:?}"),
    }
    let request = WatchRequest::new("/registry/pods/", first);
    match Watched::of(&**storage, request).await.next().await {
        Err(StorageError::Compacted { asked, .. }) => assert!(asked <= now),
        other => panic!("expected Compacted, got {other:?}"),
    }
    // who watches from after it goes on
    let request = WatchRequest::new("/registry/pods/", now);
    let mut ahead = Watched::of(&**storage, request).await;
    let written = put(&**storage, "/registry/pods/default/x").await;
    assert_eq!(ahead.revision().await, written);
    history.writes(WRITES).await;
    history.check().await;
}
