use super::{correlator::Verdict, *};
use crate::{clock::ManualClock, testing::Script};

fn regarding(name: &str) -> Regarding {
    Regarding {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: "a".to_owned(),
        name: name.to_owned(),
        uid: "u".to_owned(),
    }
}

fn occurrence(name: &str, note: &str) -> Occurrence {
    Occurrence {
        regarding: regarding(name),
        kind: "Normal".to_owned(),
        reason: "Scheduled".to_owned(),
        action: "Binding".to_owned(),
        note: note.to_owned(),
        reporter: "default-scheduler".to_owned(),
    }
}

#[test]
fn the_same_again_is_a_series_and_after_ten_minutes_a_new_event() {
    let mut correlator = Correlator::default();
    let create = |verdict| match verdict {
        Verdict::Create { name } => name,
        other => panic!("{other:?}"),
    };
    let first = create(correlator.judge(&occurrence("web", "x"), 1_000));
    assert!(first.starts_with("web."));
    for count in [2, 3] {
        let series = Verdict::Series {
            name: first.clone(),
            count,
        };
        assert_eq!(correlator.judge(&occurrence("web", "x"), 2_000), series);
    }
    let other = create(correlator.judge(&occurrence("web", "y"), 2_000));
    assert_ne!(first, other);
    let later = create(correlator.judge(&occurrence("web", "x"), 2_000 + 10 * 60_000));
    assert_ne!(first, later);
    correlator.forget(&occurrence("web", "x"));
    create(correlator.judge(&occurrence("web", "x"), 2_001 + 10 * 60_000));
}

#[test]
fn one_subject_gets_a_burst_and_then_one_every_five_minutes() {
    let mut correlator = Correlator::default();
    let mut granted = |now_ms: u64, tries: u32| {
        let verdicts =
            (0..tries).map(|n| correlator.judge(&occurrence("web", &n.to_string()), now_ms));
        verdicts.filter(|v| *v != Verdict::Drop).count()
    };
    assert_eq!(granted(0, 40), 25);
    assert_eq!(granted(299_999, 5), 0);
    assert_eq!(granted(600_000, 5), 2);
    assert_ne!(
        correlator.judge(&occurrence("other", "x"), 0),
        Verdict::Drop
    );
}

#[tokio::test(start_paused = true)]
async fn events_are_written_in_the_subjects_namespace_and_then_counted() {
    let (client, script) = Script::client();
    let clock = Arc::new(ManualClock::new(1_767_225_600_123, 1));
    let recorder = EventRecorder::new(client, "host-1", clock);
    for _ in 0..2 {
        script.answer(201, &[], r#"{"metadata":{"name":"e"}}"#);
        recorder.record(
            "default-scheduler",
            regarding("web"),
            "Normal",
            "Scheduled",
            "Binding",
            "assigned",
        );
        tokio::task::yield_now().await;
    }
    let mut node = regarding("n");
    node.namespace.clear();
    script.answer(201, &[], r#"{"metadata":{"name":"e"}}"#);
    recorder.record("x", node, "Warning", "NodeNotReady", "", &"é".repeat(2000));
    tokio::task::yield_now().await;

    let requests = script.requests();
    let first: Value = serde_json::from_slice(requests[0].body()).unwrap();
    assert_eq!(
        requests[0].uri(),
        "/apis/events.k8s.io/v1/namespaces/a/events"
    );
    assert_eq!(first["eventTime"], "2026-01-01T00:00:00.123000Z");
    assert_eq!(first["regarding"]["name"], "web");
    assert_eq!(first["reportingController"], "default-scheduler");
    assert_eq!(first["note"], "assigned");
    let name = first["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        requests[1].uri().path(),
        format!("/apis/events.k8s.io/v1/namespaces/a/events/{name}")
    );
    let series: Value = serde_json::from_slice(requests[1].body()).unwrap();
    assert_eq!(series["series"]["count"], 2);
    assert_eq!(
        requests[2].uri(),
        "/apis/events.k8s.io/v1/namespaces/default/events"
    );
    let third: Value = serde_json::from_slice(requests[2].body()).unwrap();
    assert_eq!(third["note"].as_str().unwrap().len(), 1024);
    assert_eq!(
        third["action"], "NodeNotReady",
        "events.k8s.io requires an action"
    );
}
