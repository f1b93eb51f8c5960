//! Gets, lists, and waiting for revisions.

use super::*;

#[tokio::test]
async fn lists_are_in_key_order_and_by_namespace() {
    let storage = Scripted::new();
    for name in ["b/x", "a/y", "a-b/z", "a/x"] {
        storage.put(name, pod(name, "u", "n1"));
    }
    let cache = ready(&storage, CacheOptions::default()).await;
    let all = cache.list(None).expect("list");
    assert_eq!(all.revision, Revision(14));
    assert_eq!(
        names(&all),
        ["a-b/z@13 n1", "a/x@14 n1", "a/y@12 n1", "b/x@11 n1"]
    );
    assert_eq!(
        names(&cache.list(Some("a")).expect("list")),
        ["a/x@14 n1", "a/y@12 n1"]
    );
    assert!(names(&cache.list(Some("c")).expect("list")).is_empty());

    let next = format!("{}\0", key("a/x"));
    let rest: Vec<&str> = all.from(&next).map(|(key, _)| &**key).collect();
    assert_eq!(rest, [key("a/y"), key("b/x")]);
    let in_namespace = cache.list(Some("a")).expect("list");
    assert_eq!(
        in_namespace.from("").count(),
        2,
        "a list never leaves its namespace"
    );
    assert_eq!(in_namespace.from(&key("b/")).count(), 0);

    let found = cache.get("a", "y").expect("get").expect("a/y");
    assert_eq!(found.revision, Revision(12));
    assert!(cache.get("a", "z").expect("get").is_none());
    assert!(
        found
            .bytes
            .starts_with(br#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"12","#)
    );
}

#[tokio::test]
async fn a_snapshot_stays_as_it_was() {
    let storage = Scripted::new();
    storage.put("a/x", pod("a/x", "u", "n1"));
    let cache = ready(&storage, CacheOptions::default()).await;
    let before = cache.list(None).expect("list");
    storage.put("a/x", pod("a/x", "u", "n2"));
    let last = storage.put("a/y", pod("a/y", "u", "n2"));
    cache.wait_until(last, SOON).await.expect("seen");
    assert_eq!(names(&before), ["a/x@11 n1"]);
    assert_eq!(
        names(&cache.list(None).expect("list")),
        ["a/x@12 n2", "a/y@13 n2"]
    );
}

#[tokio::test]
async fn more_than_one_page_is_listed() {
    let storage = Scripted::new();
    let pods: Vec<(String, String)> = (0..2500)
        .map(|i| format!("a/p{i:04}"))
        .map(|name| (name.clone(), pod(&name, "u", "")))
        .collect();
    let pods: Vec<(&str, String)> = pods.iter().map(|(n, p)| (n.as_str(), p.clone())).collect();
    storage.put_all(&pods);
    let cache = ready(&storage, CacheOptions::default()).await;
    assert_eq!(cache.list(None).expect("list").iter().count(), 2500);
}

#[tokio::test]
async fn a_cache_that_fills_says_so() {
    let storage = Scripted::new();
    storage.refuse_lists(true);
    let cache = WatchCache::start(storage.clone(), pods());
    assert!(!cache.is_ready());
    assert!(matches!(cache.list(None), Err(CacheError::NotReady(_))));
    assert!(matches!(cache.get("a", "x"), Err(CacheError::NotReady(_))));
    assert!(matches!(
        cache.subscribe(None, None),
        Err(CacheError::NotReady(_))
    ));
    let waited = cache.ready(Duration::ZERO).await;
    assert!(matches!(waited, Err(CacheError::NotReady(_))));
    storage.refuse_lists(false);
    cache.ready(SOON).await.expect("tried again");
}

#[tokio::test]
async fn writes_elsewhere_bring_the_cache_forward_when_asked() {
    let storage = Scripted::new();
    let cache = ready(&storage, CacheOptions::default()).await;
    let elsewhere = storage.write_elsewhere();
    assert_eq!(cache.catch_up(SOON).await.expect("caught up"), elsewhere);
    assert_eq!(cache.list(None).expect("list").revision, elsewhere);

    let future = Revision(elsewhere.0 + 5);
    match cache.wait_until(future, Duration::ZERO).await {
        Err(CacheError::Behind { asked, current }) => {
            assert_eq!((asked, current), (future, elsewhere))
        }
        other => panic!("expected Behind, got {other:?}"),
    }
}

#[tokio::test]
async fn a_wait_survives_a_broken_watch() {
    let storage = Scripted::new();
    let cache = ready(&storage, CacheOptions::default()).await;
    let first = storage.put("a/x", pod("a/x", "u", "n1"));
    cache.wait_until(first, SOON).await.expect("seen");
    storage.break_watch();
    let elsewhere = storage.write_elsewhere();
    cache
        .wait_until(elsewhere, SOON)
        .await
        .expect("seen after the watch is back");
}

#[tokio::test]
async fn an_unreadable_object_is_named_and_never_taken_for_deleted() {
    let storage = Scripted::new();
    storage.put("a/bad", "k8s:enc:aescbc:v1:key1:xyz".to_owned());
    storage.put("a/good", pod("a/good", "u", "n1"));
    storage.put("b/good", pod("b/good", "u", "n1"));
    let cache = ready(&storage, CacheOptions::default()).await;
    let refused = |listed: Result<CacheList, CacheError>| match listed {
        Err(CacheError::Storage(StorageError::Unreadable { key, why })) => format!("{key}: {why}"),
        Err(error) => panic!("{error}"),
        Ok(list) => panic!("{:?}", names(&list)),
    };
    // where it is not, all goes on
    assert_eq!(
        names(&cache.list(Some("b")).expect("list")),
        ["b/good@13 n1"]
    );
    assert!(cache.get("a", "good").expect("get").is_some());
    for listed in [cache.list(None), cache.list(Some("a"))] {
        let why = refused(listed);
        assert!(why.starts_with("/registry/pods/a/bad: "), "{why}");
        assert!(
            why.contains(r#"by provider aescbc with key "key1""#),
            "{why}"
        );
    }
    for found in [
        cache.get("a", "bad").map(drop),
        cache.get_fresh("a", "bad").await.map(drop),
    ] {
        assert!(
            matches!(
                found,
                Err(CacheError::Storage(StorageError::Unreadable { .. }))
            ),
            "{found:?}"
        );
    }

    // a watch that would have to show it ends, and so does one when it goes
    let mut watch = cache.subscribe(None, None).expect("subscribe");
    let revision = storage.put("b/good", "{".to_owned());
    assert!(matches!(
        watch.next().await,
        Err(CacheError::Expired { .. })
    ));
    cache.wait_until(revision, SOON).await.expect("seen");
    let why = refused(cache.list(Some("b")));
    assert!(why.starts_with("/registry/pods/b/good: "), "{why}");
    let mut watch = cache.subscribe(None, None).expect("subscribe");
    let revision = storage.put("b/good", pod("b/good", "u", "n2"));
    assert_eq!(
        told(&mut watch, 1).await,
        [format!("ADDED b/good@{revision} n2")]
    );
    storage.delete("a/bad");
    assert!(matches!(
        watch.next().await,
        Err(CacheError::Expired { .. })
    ));
    let listed = names(&cache.list(None).expect("all is readable"));
    assert_eq!(listed, ["a/good@12 n1", &format!("b/good@{revision} n2")]);
}

#[tokio::test]
async fn an_object_that_became_unreadable_unseen_is_not_told_as_deleted() {
    let storage = Scripted::new();
    storage.put("a/x", pod("a/x", "u", "n1"));
    let cache = ready(&storage, CacheOptions::default()).await;
    let mut watch = cache.subscribe(None, None).expect("subscribe");
    let listed = storage.lose(&[("a/x", "{".to_owned())], &[]);
    cache.wait_until(listed, SOON).await.expect("listed again");
    assert!(matches!(
        watch.next().await,
        Err(CacheError::Expired { .. })
    ));
    assert!(cache.list(None).is_err());
}

#[tokio::test]
async fn a_fresh_get_reads_storage_and_shares_what_is_cached() {
    let storage = Scripted::new();
    storage.put("a/x", pod("a/x", "u", "n1"));
    let cache = ready(&storage, CacheOptions::default()).await;
    let cached = cache.get("a", "x").expect("get").expect("a/x");
    let (fresh, _) = cache.get_fresh("a", "x").await.expect("get");
    assert!(Arc::ptr_eq(&cached, &fresh.expect("a/x")));

    let revision = storage.put("a/x", pod("a/x", "u", "n2"));
    let (fresh, read_at) = cache.get_fresh("a", "x").await.expect("get");
    assert_eq!(describe(&fresh.expect("a/x")), format!("a/x@{revision} n2"));
    assert_eq!(read_at, revision);
    let (absent, _) = cache.get_fresh("a", "y").await.expect("get");
    assert!(absent.is_none());
}
