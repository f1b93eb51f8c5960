//! Watches: events, frames, resuming, slowness, namespaces.

use super::*;

#[tokio::test]
async fn changes_are_told_in_order_with_their_revisions() {
    let storage = Scripted::new();
    let cache = ready(&storage, CacheOptions::default()).await;
    let mut watch = cache.subscribe(None, None).expect("subscribe");
    storage.put("a/x", pod("a/x", "u", "n1"));
    storage.put("a/x", pod("a/x", "u", "n2"));
    storage.delete("a/x");
    let mut events = Vec::new();
    while events.len() < 3 {
        events.extend(watch.next().await.expect("watch").events);
    }
    let said: Vec<String> = events
        .iter()
        .map(|e| format!("{} {}", e.kind.as_str(), describe(&e.object)))
        .collect();
    assert_eq!(
        said,
        ["ADDED a/x@11 n1", "MODIFIED a/x@12 n2", "DELETED a/x@13 n2"]
    );
    let previous: Vec<Option<u64>> = events
        .iter()
        .map(|e| e.previous.as_ref().map(|p| p.revision.0))
        .collect();
    assert_eq!(previous, [None, Some(11), Some(12)]);
    let deleted = std::str::from_utf8(&events[2].object.bytes).expect("text");
    assert!(deleted.contains(r#""resourceVersion":"13""#), "{deleted}");
    assert!(!deleted.contains(r#""12""#), "{deleted}");
}

#[tokio::test]
async fn frames_are_made_once_and_follow_the_selector() {
    let storage = Scripted::new();
    storage.put("a/x", pod("a/x", "u", "n1"));
    let cache = ready(&storage, CacheOptions::default()).await;
    let mut one = cache.subscribe(None, None).expect("subscribe");
    let mut other = cache.subscribe(Some("a"), None).expect("subscribe");
    storage.put("a/x", pod("a/x", "u", "n2"));
    let event = one.next().await.expect("watch").events[0].clone();
    let same = other.next().await.expect("watch").events[0].clone();
    let frame = event.frame(EventType::Modified);
    assert_eq!(frame.as_ptr(), same.frame(EventType::Modified).as_ptr());

    let document = |revision: u64, node: &str| {
        pod("a/x", "u", node).replace(
            r#""metadata":{"#,
            &format!(r#""metadata":{{"resourceVersion":"{revision}","#),
        )
    };
    for (kind, expected) in [
        (EventType::Modified, document(12, "n2")),
        (EventType::Added, document(12, "n2")),
        (EventType::Deleted, document(12, "n1")), // leaving: the state before, the new revision
    ] {
        let line = format!("{{\"type\":\"{}\",\"object\":{expected}}}\n", kind.as_str());
        assert_eq!(std::str::from_utf8(&event.frame(kind)), Ok(line.as_str()));
    }
    storage.delete("a/x");
    let deleted = one.next().await.expect("watch").events[0].clone();
    let line = format!(
        "{{\"type\":\"DELETED\",\"object\":{}}}\n",
        document(13, "n2")
    );
    assert_eq!(
        std::str::from_utf8(&deleted.frame(EventType::Deleted)),
        Ok(line.as_str())
    );
}

#[tokio::test]
async fn watches_resume_after_what_they_know() {
    let storage = Scripted::new();
    storage.put("a/w", pod("a/w", "u", ""));
    let cache = ready(&storage, CacheOptions::default()).await;
    for name in ["a/x", "a/y", "a/z"] {
        storage.put(name, pod(name, "u", ""));
    }
    cache.wait_until(Revision(14), SOON).await.expect("seen");
    let mut resumed = cache
        .subscribe(None, Some(Revision(12)))
        .expect("subscribe");
    assert_eq!(
        told(&mut resumed, 2).await,
        ["ADDED a/y@13 ", "ADDED a/z@14 "]
    );
    let mut from_list = cache
        .subscribe(None, Some(Revision(11)))
        .expect("the list's revision");
    assert_eq!(told(&mut from_list, 3).await.len(), 3);
    match cache.subscribe(None, Some(Revision(10))).err() {
        Some(CacheError::Expired { asked, oldest }) => {
            assert_eq!((asked, oldest), (Revision(10), Revision(11)));
        }
        other => panic!("expected Expired, got {other:?}"),
    }

    let mut ahead = cache
        .subscribe(None, Some(Revision(15)))
        .expect("the future");
    storage.put("a/x", pod("a/x", "u", "n15"));
    storage.put("a/x", pod("a/x", "u", "n16"));
    assert_eq!(told(&mut ahead, 1).await, ["MODIFIED a/x@16 n16"]);
}

#[tokio::test]
async fn other_namespaces_neither_wake_nor_expire_a_watch() {
    let storage = Scripted::new();
    let options = CacheOptions { window_events: 4 };
    let cache = ready(&storage, options).await;
    let mut quiet = cache.subscribe(Some("quiet"), None).expect("subscribe");
    let mut next = Box::pin(quiet.next());
    assert!(futures::poll!(&mut next).is_pending());
    let mut last = Revision(0);
    for i in 0..20 {
        last = storage.put(&format!("busy/p{i}"), pod(&format!("busy/p{i}"), "u", ""));
    }
    cache.wait_until(last, SOON).await.expect("seen");
    assert!(futures::poll!(&mut next).is_pending());
    let own = storage.put("quiet/x", pod("quiet/x", "u", ""));
    let batch = next.await.expect("not expired");
    assert_eq!((batch.events.len(), batch.revision), (1, own));
}

#[tokio::test]
async fn a_watch_that_is_too_slow_expires_and_holds_up_nobody() {
    let storage = Scripted::new();
    let cache = ready(&storage, CacheOptions { window_events: 4 }).await;
    let mut slow = cache.subscribe(None, None).expect("subscribe");
    let mut quick = cache.subscribe(None, None).expect("subscribe");
    for i in 0..10 {
        let name = format!("a/p{i}");
        storage.put(&name, pod(&name, "u", ""));
        assert_eq!(told(&mut quick, 1).await.len(), 1);
    }
    match slow.next().await {
        Err(CacheError::Expired { asked, oldest }) => {
            assert_eq!((asked, oldest), (Revision(10), Revision(16)));
        }
        other => panic!("expected Expired, got {other:?}"),
    }
}

#[tokio::test]
async fn a_position_follows_the_cache_once_all_is_read() {
    let storage = Scripted::new();
    let cache = ready(&storage, CacheOptions::default()).await;
    let mut watch = cache.subscribe(Some("a"), None).expect("subscribe");
    storage.put("b/x", pod("b/x", "u", ""));
    let own = storage.put("a/x", pod("a/x", "u", ""));
    let elsewhere = storage.write_elsewhere();
    cache.catch_up(SOON).await.expect("caught up");
    assert_eq!(watch.position(), Revision(10), "a/x is not read yet");
    let batch = watch.next().await.expect("watch");
    assert_eq!(batch.events[0].revision, own);
    assert_eq!((batch.revision, watch.position()), (elsewhere, elsewhere));
}

#[tokio::test]
async fn a_large_batch_is_told_whole() {
    let storage = Scripted::new();
    let cache = ready(&storage, CacheOptions::default()).await;
    let mut watch = cache.subscribe(None, None).expect("subscribe");
    let names: Vec<String> = (0..1000).map(|i| format!("a/p{i:04}")).collect();
    let pods: Vec<(&str, String)> = names
        .iter()
        .map(|n| (n.as_str(), pod(n, "u", "")))
        .collect();
    let last = storage.put_batch(&pods, 300);
    cache.wait_until(last, SOON).await.expect("seen");
    let mut told = Vec::new();
    while told.len() < 1000 {
        let batch = watch.next().await.expect("watch");
        let revisions: Vec<u64> = batch.events.iter().map(|e| e.revision.0).collect();
        for same in revisions.chunk_by(|a, b| a == b) {
            assert!(
                same.len() == 300 || same[0] == last.0,
                "a revision was split"
            );
        }
        told.extend(revisions);
    }
    assert!(told.is_sorted());
}

#[tokio::test]
async fn a_dropped_cache_ends_its_watches() {
    let storage = Scripted::new();
    let cache = ready(&storage, CacheOptions::default()).await;
    let mut watch = cache.subscribe(None, None).expect("subscribe");
    drop(cache);
    assert!(matches!(watch.next().await, Err(CacheError::Closed)));
}

#[tokio::test]
async fn a_dropped_watch_leaves_nothing_behind() {
    let storage = Scripted::new();
    let cache = ready(&storage, CacheOptions::default()).await;
    for namespace in [None, Some("a")] {
        drop(cache.subscribe(namespace, None).expect("subscribe"));
    }
    assert!(cache.shared.watchers.lock().is_empty());
}
