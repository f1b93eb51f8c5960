//! Reads: old revisions, ranges, pages, prefixes, compaction.

use pilothouse_storage::{RangeRequest, Revision, StorageError, engine::prefix_end};

use crate::harness::Case;

pub(crate) async fn reads_at_old_revisions(case: Case) {
    let first = case.put("a", "1").await;
    let second = case.put("b", "1").await;
    let third = case.put("a", "2").await;
    let fourth = case.delete("b").await;
    let expected: [(Revision, &[&str]); 5] = [
        (Revision(first.0 - 1), &[]),
        (first, &["a=1"]),
        (second, &["a=1", "b=1"]),
        (third, &["a=2", "b=1"]),
        (fourth, &["a=2"]),
    ];
    for (revision, pairs) in expected {
        if revision.0 > 0 {
            assert_eq!(case.all(Some(revision)).await, pairs, "at {revision}");
        }
    }
    assert_eq!(case.value("a", Some(second)).await.as_deref(), Some("1"));
    assert_eq!(case.value("b", Some(third)).await.as_deref(), Some("1"));
    assert_eq!(case.value("b", Some(fourth)).await, None);
    let get = case
        .storage
        .get(&case.key("a"), Some(first))
        .await
        .expect("get");
    assert_eq!(
        get.revision, fourth,
        "the current revision comes with an old read"
    );
    let range = RangeRequest {
        revision: Some(first),
        ..RangeRequest::prefix(&case.prefix)
    };
    assert_eq!(case.range(range).await.revision, first);
}

pub(crate) async fn zero_reads_the_present(case: Case) {
    case.put("a", "1").await;
    assert_eq!(
        case.value("a", Some(Revision(0))).await.as_deref(),
        Some("1")
    );
    assert_eq!(case.all(Some(Revision(0))).await, ["a=1"]);
}

pub(crate) async fn the_future_is_refused(case: Case) {
    let current = case.put("a", "1").await;
    let future = Revision(current.0 + 1000);
    let get = case.storage.get(&case.key("a"), Some(future)).await;
    let range = case
        .storage
        .range(RangeRequest {
            revision: Some(future),
            ..RangeRequest::prefix(&case.prefix)
        })
        .await;
    for error in [get.err(), range.err()] {
        match error {
            Some(StorageError::FutureRevision {
                asked,
                current: now,
            }) => {
                assert_eq!((asked, now), (future, current));
            }
            other => panic!("expected FutureRevision, got {other:?}"),
        }
    }
}

pub(crate) async fn pages_of_one_revision(case: Case) {
    for i in 0..10 {
        case.put(&format!("k{i}"), "v").await;
    }
    let mut request = RangeRequest {
        limit: 4,
        ..RangeRequest::prefix(&case.prefix)
    };
    let first = case.range(request.clone()).await;
    assert_eq!(case.pairs(&first), ["k0=v", "k1=v", "k2=v", "k3=v"]);
    assert!(first.more);
    assert_eq!(first.count, 10);

    case.put("k4", "changed").await;
    case.delete("k9").await;
    request.revision = Some(first.revision);
    request.start = format!("{}\0", case.key("k3"));
    let second = case.range(request.clone()).await;
    assert_eq!(case.pairs(&second), ["k4=v", "k5=v", "k6=v", "k7=v"]);
    assert!(second.more);
    assert_eq!((second.count, second.revision), (6, first.revision));

    request.start = format!("{}\0", case.key("k7"));
    let last = case.range(request).await;
    assert_eq!(case.pairs(&last), ["k8=v", "k9=v"]);
    assert!(!last.more);
    assert_eq!(last.count, 2);
}

pub(crate) async fn a_limit_of_exactly_all_has_no_more(case: Case) {
    case.put("a", "1").await;
    case.put("b", "1").await;
    let request = RangeRequest {
        limit: 2,
        ..RangeRequest::prefix(&case.prefix)
    };
    let response = case.range(request).await;
    assert_eq!(
        (response.kvs.len(), response.more, response.count),
        (2, false, 2)
    );
}

pub(crate) async fn keys_only_leaves_values_out(case: Case) {
    let revision = case.put("a", "1").await;
    let request = RangeRequest {
        keys_only: true,
        ..RangeRequest::prefix(&case.prefix)
    };
    let response = case.range(request).await;
    assert_eq!(case.pairs(&response), ["a="]);
    assert_eq!(response.kvs[0].mod_revision, revision);
}

pub(crate) async fn prefixes_do_not_leak(case: Case) {
    for name in [
        "pods/a",
        "pods/b/c",
        "pods0",
        "pods.metrics/a",
        "pod",
        "podsz",
        "pods/é",
        "pods/\u{10ffff}",
    ] {
        case.put(name, "").await;
    }
    let below = |prefix: &str| RangeRequest::prefix(&case.key(prefix));
    let pods = case.range(below("pods/")).await;
    assert_eq!(
        case.pairs(&pods),
        ["pods/a=", "pods/b/c=", "pods/é=", "pods/\u{10ffff}="]
    );
    let none = case.range(below("pods/x/")).await;
    assert_eq!((none.kvs.len(), none.count, none.more), (0, 0, false));
    let backwards = RangeRequest {
        start: prefix_end(&case.prefix),
        end: case.prefix.clone(),
        ..RangeRequest::default()
    };
    assert!(case.range(backwards).await.kvs.is_empty());
    let all = case.range(RangeRequest::prefix("")).await;
    assert!(all.count >= 8, "the empty prefix is everything");
}

pub(crate) async fn keys_are_ordered_by_bytes(case: Case) {
    for name in ["b", "a-b", "a", "a/b", "B", "a.b", "aé", "az"] {
        case.put(name, "").await;
    }
    let pairs = case.all(None).await;
    assert_eq!(
        pairs,
        ["B=", "a=", "a-b=", "a.b=", "a/b=", "az=", "aé=", "b="]
    );
}

pub(crate) async fn compaction_refuses_the_past_only(case: Case) {
    let first = case.put("a", "1").await;
    case.put("gone", "1").await;
    case.delete("gone").await;
    let second = case.put("a", "2").await;
    let third = case.put("b", "1").await;
    case.storage.compact(second).await.expect("compact");

    for read in [
        case.storage.get(&case.key("a"), Some(first)).await.err(),
        case.storage
            .range(RangeRequest {
                revision: Some(first),
                ..RangeRequest::prefix(&case.prefix)
            })
            .await
            .err(),
    ] {
        match read {
            Some(StorageError::Compacted { asked, oldest }) => {
                assert_eq!((asked, oldest), (first, second));
            }
            other => panic!("expected Compacted, got {other:?}"),
        }
    }
    assert_eq!(case.all(Some(second)).await, ["a=2"]);
    assert_eq!(case.all(Some(third)).await, ["a=2", "b=1"]);
    assert_eq!(case.all(None).await, ["a=2", "b=1"]);
    assert_eq!(
        case.current().await,
        third,
        "a compaction takes no revision"
    );

    case.storage
        .compact(first)
        .await
        .expect("already forgotten");
    let future = case.storage.compact(Revision(third.0 + 1000)).await;
    assert!(
        matches!(future, Err(StorageError::FutureRevision { .. })),
        "{future:?}"
    );
}

pub(crate) async fn a_compacted_store_goes_on(case: Case) {
    let revision = case.put("a", "1").await;
    case.storage.compact(revision).await.expect("compact");
    let changed = case.put("a", "2").await;
    assert_eq!(case.value("a", Some(revision)).await.as_deref(), Some("1"));
    let deleted = case.delete("a").await;
    case.storage.compact(deleted).await.expect("compact");
    assert_eq!(case.value("a", None).await, None);
    assert!(
        case.storage
            .get(&case.key("a"), Some(changed))
            .await
            .is_err()
    );
    case.put("a", "3").await;
    let kv = case
        .storage
        .get(&case.key("a"), None)
        .await
        .expect("get")
        .kv
        .expect("a");
    assert_eq!(kv.version, 1);
}
