use futures::StreamExt;

use super::*;
use crate::{
    client::WatchParams,
    testing::{Feed, Script, event, json},
};

async fn watch() -> (BoxStream<'static, Result<WatchEvent, Status>>, Feed) {
    let (client, script) = Script::client();
    let feed = script.stream();
    let pods = pilothouse_api::GroupVersionResource::of("", "v1", "pods");
    let params = WatchParams::default();
    let events = client
        .watch(&pods, "", &params, Arc::new([]))
        .await
        .unwrap();
    (events, feed)
}

#[tokio::test]
async fn events_are_framed_by_lines_however_the_body_is_cut() {
    let (mut events, feed) = watch().await;
    let mut text = Vec::new();
    for (kind, revision) in [("ADDED", 1), ("MODIFIED", 2), ("DELETED", 3)] {
        text.extend(event(kind, &json("a", "b", revision, "")).unwrap());
        text.extend(b"\r\n");
    }
    for byte in text {
        feed.send(Ok(Bytes::from(vec![byte]))).unwrap();
    }
    drop(feed);
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(match event.unwrap() {
            WatchEvent::Added(o) => format!("added {}", o.revision),
            WatchEvent::Modified(o) => format!("modified {}", o.revision),
            WatchEvent::Deleted(o) => format!("deleted {}", o.revision),
            WatchEvent::Bookmark { .. } => "bookmark".to_owned(),
        });
    }
    assert_eq!(seen, ["added 1", "modified 2", "deleted 3"]);
}

#[tokio::test]
async fn bookmarks_carry_a_revision_and_may_end_the_initial_events() {
    let (mut events, feed) = watch().await;
    feed.send(event(
        "BOOKMARK",
        r#"{"kind":"Pod","metadata":{"resourceVersion":"12"}}"#,
    ))
    .unwrap();
    let end = r#"{"kind":"Pod","metadata":{"resourceVersion":"13","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
    feed.send(event("BOOKMARK", end)).unwrap();
    for expected in [(12, false), (13, true)] {
        match events.next().await {
            Some(Ok(WatchEvent::Bookmark {
                revision,
                initial_events_end,
            })) => {
                assert_eq!((revision.0, initial_events_end), expected);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_error_event_is_its_status_and_the_end() {
    let (mut events, feed) = watch().await;
    let gone = Status::expired("too old resource version: 1 (5)");
    feed.send(event("ERROR", &String::from_utf8(gone.to_json()).unwrap()))
        .unwrap();
    feed.send(event("ADDED", &json("a", "b", 1, ""))).unwrap();
    assert_eq!(events.next().await.unwrap().unwrap_err(), gone);
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn what_is_no_event_is_an_error_and_a_torn_last_one_is_dropped() {
    let (mut events, feed) = watch().await;
    feed.send(Ok(Bytes::from_static(
        b"{\"type\":\"WHAT\",\"object\":{}}\n",
    )))
    .unwrap();
    assert_eq!(events.next().await.unwrap().unwrap_err().code, 500);

    let (mut events, feed) = watch().await;
    feed.send(Ok(Bytes::from_static(b"{\"type\":\"ADDED\",\"obj")))
        .unwrap();
    drop(feed);
    assert!(events.next().await.is_none());

    let (mut events, feed) = watch().await;
    feed.send(Err(std::io::Error::other("reset"))).unwrap();
    assert!(events.next().await.unwrap().is_err());
    assert!(events.next().await.is_none());
}
