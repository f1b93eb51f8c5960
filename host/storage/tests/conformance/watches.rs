//! Watches: from the past and live, order, completeness, progress, compaction.

use bytes::Bytes;
use pilothouse_storage::{Event, EventKind, Lease, Op, Revision, StorageError, WatchRequest};

use crate::harness::{Case, just, text};

fn describe(case: &Case, event: &Event) -> String {
    let name = event.kv.key.strip_prefix(&case.prefix).unwrap_or("?");
    let previous = event
        .previous
        .as_ref()
        .map_or("-".into(), |kv| text(&kv.value));
    match event.kind {
        EventKind::Put => format!("put {name} {previous}>{}", text(&event.kv.value)),
        EventKind::Delete => format!("delete {name} {previous}"),
    }
}

pub(crate) async fn the_past_with_previous_pairs(case: Case) {
    let start = case.current().await;
    case.put("a", "1").await;
    case.put("b", "1").await;
    let changed = case.put("a", "2").await;
    let deleted = case.delete("a").await;
    case.put("a", "3").await;
    let request = WatchRequest {
        previous: true,
        ..WatchRequest::new(&case.prefix, start)
    };
    let events = case.watch_with(request).await.events(5).await;
    let told: Vec<String> = events.iter().map(|e| describe(&case, e)).collect();
    assert_eq!(
        told,
        [
            "put a ->1",
            "put b ->1",
            "put a 1>2",
            "delete a 2",
            "put a ->3"
        ]
    );
    let previous = events[2].previous.as_ref().expect("previous");
    assert_eq!(
        (previous.mod_revision, previous.version),
        (Revision(start.0 + 1), 1)
    );
    assert_eq!(events[2].kv.mod_revision, changed);
    assert_eq!(
        (events[2].kv.version, events[2].kv.create_revision),
        (2, previous.create_revision)
    );
    assert_eq!(events[3].kv.mod_revision, deleted);
    assert_eq!(events[3].kv.value, Bytes::new());
    assert_eq!(
        (events[3].kv.version, events[3].kv.create_revision.0),
        (0, 0)
    );
}

pub(crate) async fn previous_pairs_live(case: Case) {
    case.put("a", "1").await;
    let request = WatchRequest {
        previous: true,
        ..WatchRequest::new(&case.prefix, case.current().await)
    };
    let mut watch = case.watch_with(request).await;
    case.put("a", "2").await;
    assert_eq!(describe(&case, &watch.events(1).await[0]), "put a 1>2");
    case.delete("a").await;
    assert_eq!(describe(&case, &watch.events(1).await[0]), "delete a 2");
}

pub(crate) async fn past_and_live_join_without_a_gap(case: Case) {
    let start = case.current().await;
    for i in 0..50 {
        case.put(&format!("past{i}"), "").await;
    }
    let mut watch = case.watch(start).await;
    for i in 0..50 {
        case.put(&format!("live{i}"), "").await;
    }
    let events = watch.events(100).await;
    let revisions: Vec<u64> = events.iter().map(|e| e.kv.mod_revision.0).collect();
    let expected: Vec<u64> = (start.0 + 1..=start.0 + 100).collect();
    assert_eq!(revisions, expected);
}

pub(crate) async fn only_the_prefix(case: Case) {
    let start = case.current().await;
    let mut watch = case
        .watch_with(WatchRequest::new(&case.key("pods/"), start))
        .await;
    let mut odd = case
        .watch_with(WatchRequest::new(&case.key("pods/a"), start))
        .await;
    let mut everything = case.watch_with(WatchRequest::new("", start)).await;
    for name in ["pods0", "pod", "pods/a", "pods.x/a", "pods/b/c", "pods/ab"] {
        case.put(name, "").await;
    }
    let names = |events: Vec<Event>| -> Vec<String> {
        let name = |e: &Event| {
            e.kv.key
                .strip_prefix(&case.prefix)
                .unwrap_or("?")
                .to_owned()
        };
        events.iter().map(name).collect()
    };
    assert_eq!(
        names(watch.events(3).await),
        ["pods/a", "pods/b/c", "pods/ab"]
    );
    assert_eq!(names(odd.events(2).await), ["pods/a", "pods/ab"]);
    assert_eq!(everything.events(6).await.len(), 6);
}

pub(crate) async fn a_revision_is_never_split(case: Case) {
    let start = case.current().await;
    let mut live = case.watch(start).await;
    for round in 0..20 {
        let ops =
            (0..7).map(|i| case.op_put(&format!("k{i}"), &round.to_string(), Lease::default()));
        case.txn(just(ops.collect())).await;
    }
    let mut past = case.watch(start).await;
    for watch in [&mut live, &mut past] {
        let mut revisions = Vec::new();
        while revisions.len() < 140 {
            let batch = watch.next().await.expect("watch");
            let in_batch: Vec<u64> = batch.events.iter().map(|e| e.kv.mod_revision.0).collect();
            for revision in in_batch.chunk_by(|a, b| a == b) {
                assert_eq!(revision.len(), 7, "revision {} was split", revision[0]);
            }
            revisions.extend(in_batch);
        }
        assert!(revisions.is_sorted());
    }
}

pub(crate) async fn a_watch_may_start_in_the_future(case: Case) {
    let start = case.current().await;
    let mut watch = case.watch(Revision(start.0 + 2)).await;
    case.put("a", "1").await;
    case.put("a", "2").await;
    case.put("a", "3").await;
    let events = watch.events(1).await;
    assert_eq!(events[0].kv.mod_revision, Revision(start.0 + 3));
}

pub(crate) async fn progress_follows_other_keys(case: Case) {
    let start = case.current().await;
    let mut watch = case
        .watch_with(WatchRequest::new(&case.key("quiet/"), start))
        .await;
    let elsewhere = case.put("busy/a", "1").await;
    case.storage
        .request_progress(&case.key("quiet/"), elsewhere);
    assert!(watch.progress().await >= elsewhere);

    let own = case.put("quiet/a", "1").await;
    case.storage.request_progress(&case.key("quiet/"), own);
    let first = watch.next().await.expect("watch");
    assert_eq!(
        first.events.len(),
        1,
        "events come before the progress that covers them"
    );
    assert_eq!(first.events[0].kv.mod_revision, own);
}

pub(crate) async fn progress_waits_for_its_revision(case: Case) {
    let start = case.current().await;
    let mut watch = case
        .watch_with(WatchRequest::new(&case.key("quiet/"), start))
        .await;
    case.storage
        .request_progress(&case.key("quiet/"), Revision(start.0 + 3));
    for i in 0..3 {
        case.put(&format!("busy/{i}"), "").await;
    }
    assert!(watch.progress().await >= Revision(start.0 + 3));
}

pub(crate) async fn a_compacted_past_cannot_be_watched(case: Case) {
    let first = case.put("a", "1").await;
    for i in 0..5 {
        case.put("a", &i.to_string()).await;
    }
    let last = case.put("a", "last").await;
    case.storage.compact(last).await.expect("compact");

    let error = match case
        .storage
        .watch(WatchRequest::new(&case.prefix, first))
        .await
    {
        Err(error) => error,
        Ok(_) => case.watch(first).await.next().await.expect_err("compacted"),
    };
    assert!(matches!(error, StorageError::Compacted { .. }), "{error:?}");

    let mut watch = case.watch(last).await;
    let next = case.put("a", "next").await;
    assert_eq!(watch.events(1).await[0].kv.mod_revision, next);
}

pub(crate) async fn a_slow_watch_misses_nothing(case: Case) {
    let start = case.current().await;
    let mut slow = case.watch(start).await;
    let first = case.put("k0", "").await;
    assert_eq!(
        slow.events(1).await[0].kv.mod_revision,
        first,
        "the watch is live"
    );
    const ROUNDS: u64 = 60;
    for round in 0..ROUNDS {
        let op = |i| case.op_put(&format!("k{i}"), &round.to_string(), Lease::default());
        case.txn(just((0..100).map(op).collect())).await; // far more than a queue holds
    }
    let events = slow.events(ROUNDS as usize * 100).await;
    let mut revisions: Vec<u64> = events.iter().map(|e| e.kv.mod_revision.0).collect();
    assert_eq!(revisions.len(), ROUNDS as usize * 100);
    revisions.dedup();
    let expected: Vec<u64> = (first.0 + 1..=first.0 + ROUNDS).collect();
    assert_eq!(revisions, expected);
}

pub(crate) async fn replaying_equals_reading(case: Case) {
    let start = case.current().await;
    for i in 0..40 {
        match i % 5 {
            4 => case.delete(&format!("k{}", i % 3)).await,
            _ => case.put(&format!("k{}", i % 7), &i.to_string()).await,
        };
    }
    let middle = Revision(start.0 + 20);
    let mut state: Vec<String> = case.all(Some(middle)).await;
    let end = case.current().await;
    let mut watch = case.watch(middle).await;
    case.txn(just(vec![Op::Delete {
        key: case.key("absent"),
    }]))
    .await;
    let mut seen = middle;
    while seen < end {
        for event in watch.events(1).await {
            let name = event
                .kv
                .key
                .strip_prefix(&case.prefix)
                .expect("below the prefix")
                .to_owned();
            state.retain(|pair| !pair.starts_with(&format!("{name}=")));
            if event.kind == EventKind::Put {
                state.push(format!("{name}={}", text(&event.kv.value)));
            }
            seen = event.kv.mod_revision;
        }
    }
    state.sort();
    assert_eq!(state, case.all(None).await);
}
