//! What happens when storage's history is lost: the cache lists again and tells the differences.

use super::*;

#[tokio::test]
async fn differences_are_told_after_lost_history() {
    let storage = Scripted::new();
    for name in ["a/kept", "a/changed", "a/deleted", "a/replaced"] {
        storage.put(name, pod(name, "u", "n1"));
    }
    let cache = ready(&storage, CacheOptions::default()).await;
    let mut watch = cache.subscribe(None, None).expect("subscribe");
    let known = cache.revision();
    let changes = [
        ("a/changed", pod("a/changed", "u", "n2")),
        ("a/added", pod("a/added", "u", "n2")),
        ("a/replaced", pod("a/replaced", "another", "n2")),
    ];
    let listed = storage.lose(&changes, &["a/deleted"]);
    cache.wait_until(listed, SOON).await.expect("listed again");
    let expected = [
        "MODIFIED a/changed@15 n2",
        "ADDED a/added@16 n2",
        "DELETED a/replaced@17 n1",
        "ADDED a/replaced@17 n2",
        "DELETED a/deleted@18 n1",
    ];
    assert_eq!(told(&mut watch, 5).await, expected);

    let mut resumed = cache
        .subscribe(None, Some(known))
        .expect("from before the gap");
    assert_eq!(told(&mut resumed, 5).await, expected);
    let inside = cache.subscribe(None, Some(Revision(known.0 + 2)));
    assert!(
        matches!(inside, Err(CacheError::Expired { .. })),
        "changes inside are not known"
    );
    let mut after = cache.subscribe(None, Some(listed)).expect("from the list");
    storage.put("a/kept", pod("a/kept", "u", "n3"));
    assert_eq!(told(&mut after, 1).await, ["MODIFIED a/kept@19 n3"]);
}

#[tokio::test]
async fn a_broken_watch_goes_on_where_it_was() {
    let storage = Scripted::new();
    let cache = ready(&storage, CacheOptions::default()).await;
    let mut watch = cache.subscribe(None, None).expect("subscribe");
    storage.put("a/x", pod("a/x", "u", "n1"));
    assert_eq!(told(&mut watch, 1).await, ["ADDED a/x@11 n1"]);
    storage.break_watch();
    let elsewhere = storage.write_elsewhere();
    cache.catch_up(SOON).await.expect("watching again");
    storage.put("a/x", pod("a/x", "u", "n2"));
    assert_eq!(
        told(&mut watch, 1).await,
        [format!("MODIFIED a/x@{} n2", elsewhere.0 + 1)]
    );
    assert!(cache.subscribe(None, Some(Revision(10))).is_ok(), "no gap");
}

#[tokio::test]
async fn storage_that_was_set_back_expires_everybody() {
    let storage = Scripted::new();
    storage.put("a/x", pod("a/x", "u", "n1"));
    let cache = ready(&storage, CacheOptions::default()).await;
    let mut watch = cache.subscribe(None, None).expect("subscribe");
    storage.set_back(5);
    assert!(matches!(
        watch.next().await,
        Err(CacheError::Expired { .. })
    ));
    assert_eq!(cache.revision(), Revision(5));
    assert!(names(&cache.list(None).expect("list")).is_empty());
    storage.allow_watches();
    storage.write_elsewhere();
    assert_eq!(
        cache.catch_up(SOON).await.expect("watching again"),
        Revision(6)
    );
    let mut again = cache.subscribe(None, None).expect("subscribe");
    storage.put("a/x", pod("a/x", "u", "n1"));
    assert_eq!(told(&mut again, 1).await, ["ADDED a/x@7 n1"]);
}

#[tokio::test]
async fn the_window_may_be_smaller_than_the_differences() {
    let storage = Scripted::new();
    let cache = ready(&storage, CacheOptions { window_events: 4 }).await;
    let mut watch = cache.subscribe(None, None).expect("subscribe");
    let names: Vec<String> = (0..10).map(|i| format!("a/p{i}")).collect();
    let puts: Vec<(&str, String)> = names
        .iter()
        .map(|n| (n.as_str(), pod(n, "u", "")))
        .collect();
    let listed = storage.lose(&puts, &[]);
    cache.wait_until(listed, SOON).await.expect("listed again");
    assert!(matches!(
        watch.next().await,
        Err(CacheError::Expired { .. })
    ));
}
