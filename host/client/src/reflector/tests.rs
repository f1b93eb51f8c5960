use super::*;
use crate::{
    clock::ManualClock,
    testing::{Script, event, json, list},
};

fn reflector() -> (Reflector, Arc<Script>) {
    let (client, script) = Script::client();
    let source = Source {
        client,
        resource: GroupVersionResource::of("", "v1", "pods"),
        namespace: String::new(),
        label_selector: String::new(),
        field_selector: String::new(),
        fields: Arc::new([]),
    };
    let clock = Arc::new(ManualClock::new(0, 1));
    (Reflector::new(source, clock), script)
}

/// The steps until one brings news, in words.
async fn news(reflector: &mut Reflector) -> String {
    loop {
        match reflector.step().await {
            Step::Replace(objects, revision) => return format!("{} at {revision}", objects.len()),
            Step::Event(event) => return format!("event at {}", revision_of(&event)),
            Step::Failed(status) => return format!("failed: {}", status.reason),
            Step::Moved => {}
        }
    }
}

fn watched_from(script: &Script) -> String {
    let asked = script.asked().pop().unwrap();
    let (_, rest) = asked.split_once("resourceVersion=").unwrap();
    rest.split('&').next().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn lists_watches_and_resumes_from_the_last_event() {
    let (mut reflector, script) = reflector();
    script.answer(200, &[], &list(5, &[json("a", "b", 3, "")]));
    assert_eq!(news(&mut reflector).await, "1 at 5");
    assert_eq!(script.asked(), ["GET /api/v1/pods?resourceVersion=0"]);

    let feed = script.stream();
    feed.send(event("MODIFIED", &json("a", "b", 7, "")))
        .unwrap();
    assert_eq!(news(&mut reflector).await, "event at 7");
    assert_eq!(watched_from(&script), "5");
    feed.send(event("BOOKMARK", r#"{"metadata":{"resourceVersion":"9"}}"#))
        .unwrap();
    assert_eq!(news(&mut reflector).await, "event at 9");
    drop(feed);

    let feed = script.stream();
    feed.send(event("ADDED", &json("a", "c", 10, ""))).unwrap();
    assert_eq!(news(&mut reflector).await, "event at 10");
    assert_eq!(watched_from(&script), "9", "a watch that ended is resumed");
}

#[tokio::test(start_paused = true)]
async fn lists_anew_when_the_revision_is_too_old_whether_refused_or_told_by_an_event() {
    let (mut reflector, script) = reflector();
    script.answer(200, &[], &list(5, &[]));
    news(&mut reflector).await;
    let feed = script.stream();
    let gone = String::from_utf8(Status::expired("too old").to_json()).unwrap();
    feed.send(event("ERROR", &gone)).unwrap();
    script.answer(200, &[], &list(8, &[]));
    assert_eq!(news(&mut reflector).await, "0 at 8");
    assert_eq!(
        script.asked().pop().unwrap(),
        "GET /api/v1/pods?limit=500",
        "a consistent list, not the server's cache"
    );

    script.refuse(&Status::expired("too old"));
    script.answer(200, &[], &list(11, &[]));
    assert_eq!(news(&mut reflector).await, "0 at 11");
}

#[tokio::test(start_paused = true)]
async fn waits_longer_with_each_failure_and_starts_small_after_a_success() {
    let (mut reflector, script) = reflector();
    let mut waits = Vec::new();
    for _ in 0..8 {
        script.refuse(&Status::internal("no"));
        let began = tokio::time::Instant::now();
        assert_eq!(news(&mut reflector).await, "failed: InternalError");
        waits.push(began.elapsed().as_millis());
    }
    assert_eq!(waits[0], 0, "the first request does not wait");
    for (failures, wait) in waits[1..].iter().enumerate() {
        let base = (800u128 << failures).min(30_000);
        assert!((base..=2 * base).contains(wait), "{waits:?}");
    }
    script.answer(200, &[], &list(1, &[]));
    news(&mut reflector).await;
    script.refuse(&Status::internal("no"));
    news(&mut reflector).await;
    let began = tokio::time::Instant::now();
    let _feed = script.stream();
    drop(_feed);
    script.refuse(&Status::internal("no"));
    news(&mut reflector).await;
    assert!(began.elapsed().as_millis() <= 1600 + 3200);
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_given_up() {
    let (mut reflector, script) = reflector();
    script.answer(200, &[], &list(5, &[]));
    news(&mut reflector).await;
    let silent = script.stream();
    let feed = script.stream();
    feed.send(event("ADDED", &json("a", "b", 6, ""))).unwrap();
    assert_eq!(news(&mut reflector).await, "event at 6");
    assert!(silent.is_closed());
}
