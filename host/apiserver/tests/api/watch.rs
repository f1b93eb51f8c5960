//! Watches: where they begin, what they send, how they end.

use serde_json::json;

use crate::harness::{Api, MAPS, config_map};

fn event(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

async fn revision(api: &Api) -> String {
    let list = api.get(MAPS).await.expect(200);
    list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn a_watch_resumes_after_a_revision() {
    let api = Api::start().await;
    api.post(MAPS, config_map("old", "1")).await.expect(201);
    let from = revision(&api).await;
    let created = api.post(MAPS, config_map("a", "1")).await.expect(201);
    let mut watch = api
        .watch(&format!("{MAPS}?watch=1&resourceVersion={from}"), &[])
        .await;
    assert_eq!(
        watch.next().await.unwrap(),
        json!({ "type": "ADDED", "object": created })
    );
    let changed = api
        .put(&format!("{MAPS}/a"), config_map("a", "2"))
        .await
        .expect(200);
    assert_eq!(
        watch.next().await.unwrap(),
        json!({ "type": "MODIFIED", "object": changed })
    );
    api.delete(&format!("{MAPS}/a")).await.expect(200);
    let deleted = watch.next().await.unwrap();
    assert_eq!(
        (&deleted["type"], &deleted["object"]["data"]),
        (&json!("DELETED"), &changed["data"])
    );
    let version = |object: &serde_json::Value| {
        object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    assert!(version(&deleted["object"]) > version(&changed));
}

#[tokio::test]
async fn without_a_revision_a_watch_begins_with_what_is_there() {
    let api = Api::start().await;
    for name in ["a", "b"] {
        api.post(MAPS, config_map(name, "1")).await.expect(201);
    }
    for query in ["watch=true", "watch=true&resourceVersion=0"] {
        let mut watch = api.watch(&format!("{MAPS}?{query}"), &[]).await;
        assert_eq!(watch.event().await, event("ADDED", "a"));
        assert_eq!(watch.event().await, event("ADDED", "b"));
    }
    let mut old = api
        .watch("/api/v1/watch/namespaces/default/configmaps/b", &[])
        .await;
    assert_eq!(old.event().await, event("ADDED", "b"));
}

#[tokio::test]
async fn a_streaming_list_ends_with_an_annotated_bookmark() {
    let api = Api::start().await;
    api.post(MAPS, config_map("a", "1")).await.expect(201);
    let path = format!(
        "{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut watch = api.watch(&path, &[]).await;
    assert_eq!(watch.event().await, event("ADDED", "a"));
    let bookmark = watch.next().await.unwrap();
    assert_eq!(
        (&bookmark["type"], &bookmark["object"]["kind"]),
        (&json!("BOOKMARK"), &json!("ConfigMap"))
    );
    let metadata = &bookmark["object"]["metadata"];
    assert_eq!(
        metadata["annotations"],
        json!({ "k8s.io/initial-events-end": "true" })
    );
    assert_eq!(metadata["resourceVersion"], revision(&api).await);
    assert_eq!(metadata.as_object().unwrap().len(), 2);
    api.post(MAPS, config_map("b", "1")).await.expect(201);
    assert_eq!(watch.event().await, event("ADDED", "b"));
}

#[tokio::test]
async fn every_combination_of_options_begins_where_it_should() {
    let api = Api::start().await;
    api.post(MAPS, config_map("a", "1")).await.expect(201);
    let at = format!("resourceVersion={}", revision(&api).await);
    api.post(MAPS, config_map("b", "1")).await.expect(201);
    let (streamed, resumed) = (
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
    );
    let bookmarks = "allowWatchBookmarks=true";
    let all = ["a", "b"];
    // options, what comes before `c`, whether the end of it is marked
    let cases = [
        (String::new(), &all[..], false),
        (bookmarks.to_owned(), &all, true),
        ("resourceVersion=0".to_owned(), &all, false),
        (format!("resourceVersion=0&{bookmarks}"), &all, true),
        (at.clone(), &all[1..], false),
        (format!("{at}&{bookmarks}"), &all[1..], false),
        (streamed.to_owned(), &all, false),
        (format!("{streamed}&{bookmarks}"), &all, true),
        (format!("{streamed}&{bookmarks}&{at}"), &all, true),
        (
            format!("{streamed}&{bookmarks}&resourceVersion=0"),
            &all,
            true,
        ),
        (resumed.to_owned(), &[], false),
        (format!("{resumed}&{bookmarks}"), &[], false),
        (format!("{resumed}&{bookmarks}&{at}"), &all[1..], false),
    ];
    let mut watches = Vec::new();
    for (options, ..) in &cases {
        watches.push(api.watch(&format!("{MAPS}?watch=1&{options}"), &[]).await);
    }
    api.post(MAPS, config_map("c", "1")).await.expect(201);
    for ((options, names, marked), watch) in cases.iter().zip(&mut watches) {
        for name in *names {
            assert_eq!(watch.event().await, event("ADDED", name), "{options}");
        }
        if *marked {
            let end = watch.next().await.unwrap();
            let annotations = &end["object"]["metadata"]["annotations"];
            assert_eq!(
                annotations["k8s.io/initial-events-end"], "true",
                "{options}"
            );
        }
        assert_eq!(watch.event().await, event("ADDED", "c"), "{options}");
    }
}

#[tokio::test]
async fn a_watch_of_the_future_waits_for_it() {
    let api = Api::start().await;
    let now: u64 = revision(&api).await.parse().unwrap();
    let path = format!("{MAPS}?watch=1&resourceVersion={}", now + 2);
    let mut watch = api.watch(&path, &[]).await;
    for name in ["a", "b", "c"] {
        api.post(MAPS, config_map(name, "1")).await.expect(201);
    }
    assert_eq!(watch.event().await, event("ADDED", "c"));
    // who wants to begin with what is there at that time is told that it does not come
    let path = format!(
        "{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={}",
        now + 1000
    );
    let mut watch = api.watch(&path, &[]).await;
    let error = watch.next().await.unwrap();
    assert_eq!(
        (
            &error["type"],
            &error["object"]["code"],
            &error["object"]["details"]["causes"][0]["reason"]
        ),
        (
            &json!("ERROR"),
            &json!(504),
            &json!("ResourceVersionTooLarge")
        )
    );
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn the_old_form_of_a_watch_names_one_object() {
    let api = Api::start().await;
    for name in ["a", "b"] {
        api.post(MAPS, config_map(name, "1")).await.expect(201);
    }
    let old = "/api/v1/watch/namespaces/default/configmaps/b";
    let mut watch = api
        .watch(&format!("{old}?fieldSelector=metadata.name%3Db"), &[])
        .await;
    assert_eq!(watch.event().await, event("ADDED", "b"));
    let other = api
        .get(&format!("{old}?fieldSelector=metadata.name%3Da"))
        .await;
    other.refused(400, "BadRequest", "doesn't match requested name");
    let yaml = [("accept", "application/yaml")];
    let refused = api.send("GET", &format!("{MAPS}?watch=1"), &yaml, "").await;
    assert_eq!(refused.code, 406);
}

#[tokio::test]
async fn metadata_and_tables_can_be_watched() {
    let api = Api::start().await;
    api.post(MAPS, config_map("a", "1")).await.expect(201);
    let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true");
    let partial = [(
        "accept",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    )];
    let mut watch = api.watch(&path, &partial).await;
    for kind in ["ADDED", "BOOKMARK"] {
        let event = watch.next().await.unwrap();
        assert_eq!(
            (
                &event["type"],
                &event["object"]["kind"],
                &event["object"]["data"]
            ),
            (&json!(kind), &json!("PartialObjectMetadata"), &json!(null))
        );
    }
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let mut watch = api.watch(&path, &table).await;
    watch.next().await.unwrap();
    let bookmark = watch.next().await.unwrap();
    let object = &bookmark["object"]["rows"][0]["object"];
    assert_eq!(
        (
            &bookmark["object"]["kind"],
            &object["kind"],
            &object["metadata"]["annotations"]["k8s.io/initial-events-end"]
        ),
        (
            &json!("Table"),
            &json!("PartialObjectMetadata"),
            &json!("true")
        )
    );
}

#[tokio::test]
async fn with_a_selector_objects_enter_and_leave() {
    let api = Api::start().await;
    let from = revision(&api).await;
    let labelled = |value: &str, data: &str| {
        let mut map = config_map("a", data);
        map["metadata"]["labels"] = json!({ "app": value });
        map
    };
    let path = format!("{MAPS}?watch=1&labelSelector=app%3Dx&resourceVersion={from}");
    let mut watch = api.watch(&path, &[]).await;
    api.post(MAPS, labelled("y", "1")).await.expect(201);
    let entered = api
        .put(&format!("{MAPS}/a"), labelled("x", "2"))
        .await
        .expect(200);
    assert_eq!(
        watch.next().await.unwrap(),
        json!({ "type": "ADDED", "object": entered })
    );
    api.put(&format!("{MAPS}/a"), labelled("x", "3"))
        .await
        .expect(200);
    assert_eq!(watch.event().await, event("MODIFIED", "a"));
    let left = api
        .put(&format!("{MAPS}/a"), labelled("y", "4"))
        .await
        .expect(200);
    let gone = watch.next().await.unwrap();
    assert_eq!(
        (&gone["type"], &gone["object"]["data"]["key"]),
        (&json!("DELETED"), &json!("3"))
    );
    assert_eq!(gone["object"]["metadata"]["labels"]["app"], "x");
    assert_eq!(
        gone["object"]["metadata"]["resourceVersion"],
        left["metadata"]["resourceVersion"]
    );
    // what happens out of sight is not told
    api.delete(&format!("{MAPS}/a")).await.expect(200);
    api.post(MAPS, labelled("x", "5")).await.expect(201);
    assert_eq!(watch.event().await, event("ADDED", "a"));
}

#[tokio::test]
async fn a_watch_sees_its_namespace_only() {
    let api = Api::start().await;
    let from = revision(&api).await;
    let mut watch = api
        .watch(&format!("{MAPS}?watch=1&resourceVersion={from}"), &[])
        .await;
    api.post(
        "/api/v1/namespaces/kube-system/configmaps",
        config_map("other", "1"),
    )
    .await
    .expect(201);
    api.post(MAPS, config_map("mine", "1")).await.expect(201);
    assert_eq!(watch.event().await, event("ADDED", "mine"));
}

#[tokio::test]
async fn only_the_first_table_of_a_watch_has_columns() {
    let api = Api::start().await;
    for name in ["a", "b"] {
        api.post(MAPS, config_map(name, "1")).await.expect(201);
    }
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let mut watch = api.watch(&format!("{MAPS}?watch=1"), &accept).await;
    let first = watch.next().await.unwrap();
    assert_eq!(first["object"]["kind"], "Table");
    assert_eq!(
        first["object"]["columnDefinitions"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
    let second = watch.next().await.unwrap();
    assert_eq!(second["object"]["columnDefinitions"], json!([]));
    assert_eq!(
        second["object"]["rows"][0]["object"]["metadata"]["name"],
        "b"
    );
}

#[tokio::test]
async fn what_is_too_old_is_told_in_the_stream() {
    let api = Api::start().await;
    api.post(MAPS, config_map("a", "1")).await.expect(201);
    let api = api.restart().await; // what happened before is not in the new server's window
    let mut watch = api
        .watch(&format!("{MAPS}?watch=1&resourceVersion=1"), &[])
        .await;
    let error = watch.next().await.unwrap();
    assert_eq!(
        (&error["type"], &error["object"]["kind"]),
        (&json!("ERROR"), &json!("Status"))
    );
    assert_eq!(
        (&error["object"]["code"], &error["object"]["reason"]),
        (&json!(410), &json!("Expired"))
    );
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn a_bookmark_comes_before_the_end() {
    let api = Api::start().await;
    let from = revision(&api).await;
    let path =
        format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=3&resourceVersion={from}");
    let mut watch = api.watch(&path, &[]).await;
    let bookmark = watch.next().await.unwrap();
    assert_eq!(
        (
            &bookmark["type"],
            &bookmark["object"]["metadata"]["resourceVersion"]
        ),
        (&json!("BOOKMARK"), &json!(from))
    );
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn a_shutdown_ends_watches_cleanly() {
    let api = Api::start().await;
    let mut watch = api.watch(&format!("{MAPS}?watch=1"), &[]).await;
    api.server.shutdown().await;
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn a_bookmark_comes_every_minute() {
    let api = Api::start().await;
    let from = revision(&api).await;
    let path = format!("{MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={from}");
    let mut watch = api.watch(&path, &[]).await;
    tokio::time::pause(); // time goes on when there is nothing else to do
    let begin = tokio::time::Instant::now();
    for minute in 1..=3 {
        let bookmark = watch.next().await.unwrap();
        assert_eq!(
            bookmark,
            json!({
                "type": "BOOKMARK",
                "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": from}},
            })
        );
        let seconds = begin.elapsed().as_secs();
        assert!(
            (minute * 60..minute * 60 + 5).contains(&seconds),
            "{seconds}"
        );
    }
}

#[tokio::test]
async fn a_watch_without_a_timeout_ends_after_half_an_hour_or_more() {
    let api = Api::start().await;
    let from = revision(&api).await;
    let mut ends = Vec::new();
    for _ in 0..3 {
        let mut watch = api
            .watch(&format!("{MAPS}?watch=1&resourceVersion={from}"), &[])
            .await;
        tokio::time::pause();
        let begin = tokio::time::Instant::now();
        assert_eq!(watch.next().await, None);
        let seconds = begin.elapsed().as_secs();
        tokio::time::resume();
        assert!((1800..=3600).contains(&seconds), "{seconds}");
        ends.push(seconds);
    }
    ends.dedup();
    assert!(ends.len() > 1, "they end together: {ends:?}");
}
