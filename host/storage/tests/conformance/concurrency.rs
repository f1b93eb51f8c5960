//! Many writers at once: revision order is commit order, nothing is lost, nobody waits for a watch.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use futures::StreamExt;
use pilothouse_storage::{
    Lease, Op, RangeRequest, Revision, Storage, StorageError, Txn, WatchRequest,
};
use tokio::task::JoinSet;

use crate::harness::{Case, just, text};

/// Adds one to a counter, again until nobody came between; returns the revisions it wrote.
async fn count(storage: Arc<dyn Storage>, key: String, times: usize) -> Vec<Revision> {
    let mut written = Vec::new();
    let mut at = Revision(0);
    let mut value = 0;
    while written.len() < times {
        let next = Bytes::from((value + 1).to_string());
        let txn = Txn::put_if(&key, at, next, Lease::default());
        let response = storage.txn(txn).await.expect("txn");
        if response.succeeded {
            written.push(response.revision);
            (at, value) = (response.revision, value + 1);
        } else {
            let kv = response
                .gets
                .into_iter()
                .flatten()
                .next()
                .expect("the counter exists");
            (at, value) = (kv.mod_revision, text(&kv.value).parse().expect("a number"));
        }
    }
    written
}

pub(crate) async fn a_counter_loses_no_step(case: Case) {
    const WRITERS: usize = 16;
    const TIMES: usize = 20;
    let start = case.current().await;
    let mut unread = case.watch(start).await; // never holds anybody up
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        writers.spawn(count(case.storage.clone(), case.key("counter"), TIMES));
    }
    let mut revisions: Vec<Revision> = writers.join_all().await.concat();
    revisions.sort();
    let total = (WRITERS * TIMES) as u64;
    let expected: Vec<Revision> = (start.0 + 1..=start.0 + total).map(Revision).collect();
    assert_eq!(
        revisions, expected,
        "each write has its own revision, without gaps"
    );
    assert_eq!(case.value("counter", None).await, Some(total.to_string()));

    let events = unread.events(total as usize).await;
    for (step, event) in events.iter().enumerate() {
        assert_eq!(
            text(&event.kv.value),
            (step + 1).to_string(),
            "commit order"
        );
        assert_eq!(event.kv.version, step as u64 + 1);
    }
}

pub(crate) async fn revision_order_is_commit_order(case: Case) {
    const WRITERS: usize = 32;
    const TIMES: usize = 10;
    let start = case.current().await;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (storage, prefix) = (case.storage.clone(), case.prefix.clone());
        writers.spawn(async move {
            let mut last = Revision(0);
            let mut written = Vec::new();
            for i in 0..TIMES {
                let key = format!("{prefix}{writer:02}-{i}");
                let txn = Txn::put_if(&key, Revision(0), Bytes::new(), Lease::default());
                let revision = storage.txn(txn).await.expect("txn").revision;
                assert!(revision > last, "later writes have later revisions");
                let current = storage.current_revision().await.expect("current revision");
                assert!(current >= revision, "an answered write is visible");
                let kv = storage
                    .get(&key, None)
                    .await
                    .expect("get")
                    .kv
                    .expect("own write");
                assert_eq!(kv.mod_revision, revision);
                last = revision;
                written.push((revision.0, key));
            }
            written
        });
    }
    let told: BTreeMap<u64, String> = writers.join_all().await.into_iter().flatten().collect();
    let events = case.watch(start).await.events(WRITERS * TIMES).await;
    let watched: BTreeMap<u64, String> = events
        .into_iter()
        .map(|e| (e.kv.mod_revision.0, e.kv.key.to_string()))
        .collect();
    assert_eq!(told, watched);
}

/// Lists of the present do not notice compactions; pages of an old revision see all of it or are refused.
pub(crate) async fn lists_while_compacting(case: Case) {
    const KEYS: usize = 30;
    const ROUNDS: usize = 40;
    for key in 0..KEYS {
        case.put(&format!("{key:02}"), "0").await;
    }
    let (storage, prefix) = (case.storage.clone(), case.prefix.clone());
    let writing = tokio::spawn(async move {
        for round in 1..=ROUNDS {
            let put = |key| Op::Put {
                key: format!("{prefix}{key:02}"),
                value: Bytes::from(round.to_string()),
                lease: Lease::default(),
            };
            let revision = storage.txn(just((0..KEYS).map(put).collect())).await;
            let revision = revision.expect("put").revision;
            storage.compact(revision).await.expect("compact");
        }
    });
    while !writing.is_finished() {
        let page = RangeRequest {
            limit: KEYS / 3,
            ..RangeRequest::prefix(&case.prefix)
        };
        let first = case.range(page.clone()).await;
        let mut values = first.kvs.clone();
        let rest = RangeRequest {
            start: format!("{}\0", first.kvs[KEYS / 3 - 1].key),
            limit: 0,
            revision: Some(first.revision),
            ..page
        };
        match case.storage.range(rest).await {
            Ok(rest) => values.extend(rest.kvs),
            Err(StorageError::Compacted { .. }) => continue,
            Err(other) => panic!("{other}"),
        }
        assert_eq!(values.len(), KEYS);
        let state: BTreeSet<&Bytes> = values.iter().map(|kv| &kv.value).collect();
        assert_eq!(state.len(), 1, "a list of two states: {state:?}");
    }
    writing.await.expect("no panic");
}

/// A watch that compactions overtake is told so, or has missed nothing.
pub(crate) async fn watches_while_compacting(case: Case) {
    const ROUNDS: u64 = 60;
    let start = case.put("key", "0").await;
    let mut watches = JoinSet::new();
    for behind in [0, 1, 20] {
        let mut stream = {
            let after = Revision(start.0.saturating_sub(behind));
            let request = WatchRequest::new(&case.prefix, after);
            case.storage.watch(request).await.expect("watch")
        };
        watches.spawn(async move {
            let mut seen: Option<u64> = None;
            while let Some(batch) = stream.next().await {
                let events = match batch {
                    Ok(batch) => batch.events,
                    Err(StorageError::Compacted { .. }) => return,
                    Err(other) => panic!("{other}"),
                };
                for event in events {
                    let value: u64 = text(&event.kv.value).parse().expect("a number");
                    let next = seen.map_or(value, |seen| seen + 1);
                    assert_eq!(value, next, "a gap that nobody was told of");
                    seen = Some(value);
                }
                if seen == Some(ROUNDS) {
                    return;
                }
                tokio::task::yield_now().await; // so that it falls behind
            }
        });
    }
    for round in 1..=ROUNDS {
        let revision = case.put("key", &round.to_string()).await;
        case.storage.compact(revision).await.expect("compact");
    }
    watches.join_all().await;
}
