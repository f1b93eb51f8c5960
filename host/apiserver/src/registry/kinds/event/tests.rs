use serde_json::{Value, json};

use super::*;
use crate::registry::kinds::testing::{create_errors, row, update_errors, with};

/// An event as `v1` keeps it.
fn stored() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web"},
        "reason": "Started",
        "message": "it runs",
        "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": "2026-01-02T03:00:05Z",
        "lastTimestamp": "2026-01-02T03:03:05Z",
        "count": 3,
        "type": "Normal",
        "eventTime": null,
        "reportingComponent": "kubelet",
        "reportingInstance": "n",
    })
}

/// The same as `events.k8s.io/v1` shows it.
fn shown() -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "web"},
        "reason": "Started",
        "note": "it runs",
        "deprecatedSource": {"component": "kubelet", "host": "n"},
        "deprecatedFirstTimestamp": "2026-01-02T03:00:05Z",
        "deprecatedLastTimestamp": "2026-01-02T03:03:05Z",
        "deprecatedCount": 3,
        "type": "Normal",
        "eventTime": null,
        "reportingController": "kubelet",
        "reportingInstance": "n",
    })
}

/// A new event as its makers write it.
fn new() -> Value {
    json!({
        "metadata": {"name": "e", "namespace": "default"},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "web"},
        "eventTime": "2026-01-02T03:04:00.000000Z",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "assigned",
        "reportingController": "default-scheduler",
        "reportingInstance": "scheduler-0",
    })
}

fn converted(by: fn(&[u8]) -> Result<Vec<u8>, pilothouse_api::Status>, json: &Value) -> Value {
    let bytes = by(&serde_json::to_vec(json).expect("JSON")).expect("converted");
    serde_json::from_slice(&bytes).expect("JSON")
}

#[test]
fn the_versions_convert_into_each_other() {
    assert_eq!(converted(conversion::from_stored, &stored()), shown());
    assert_eq!(converted(conversion::to_stored, &shown()), stored());
}

#[test]
fn conversion_fills_what_v1_requires_and_drops_what_the_version_does_not_know() {
    let written = json!({"metadata": {"name": "e"}, "message": "unknown here", "note": "known"});
    assert_eq!(
        converted(conversion::to_stored, &written),
        json!({"apiVersion": "v1", "metadata": {"name": "e"}, "message": "known", "involvedObject": {}})
    );
    let refused = conversion::to_stored(b"[]").expect_err("no object");
    assert_eq!(refused.code, 400);
}

#[test]
fn selectable_fields_of_both_versions_stand_in_the_same_places() {
    let (stored, served) = (EventStrategy.resource(), EventsEventStrategy.resource());
    assert_eq!(stored.storage_prefix, served.storage_prefix);
    let renamed = |field: &String| {
        field
            .replace("regarding.", "involvedObject.")
            .replace("reportingController", "reportingComponent")
    };
    let as_stored: Vec<String> = served.selectable_fields.iter().map(renamed).collect();
    assert_eq!(as_stored, stored.selectable_fields);
}

#[test]
fn v1_is_lax() {
    let other_namespace =
        "involvedObject.namespace: Invalid value: \"other\": does not match event.namespace";
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/type", json!(null)), ("/reason", json!(null))],
            vec![],
        ),
        (
            vec![("/involvedObject/namespace", json!("other"))],
            vec![other_namespace],
        ),
        (vec![("/involvedObject/namespace", json!(null))], vec![]),
        (
            vec![("/eventTime", json!("2026-01-02T03:04:00.000000Z"))],
            vec!["action: Required value"],
        ),
        (
            vec![
                ("/eventTime", json!("2026-01-02T03:04:00.000000Z")),
                ("/action", json!("a")),
                ("/message", json!("x".repeat(1025))),
            ],
            vec!["message: Invalid value: \"\": can have at most 1024 characters"],
        ),
    ] {
        assert_eq!(
            create_errors(&EventStrategy, &with(&stored(), &changes)),
            expected
        );
    }
}

#[test]
fn the_newer_version_is_strict() {
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/eventTime", json!(null))],
            vec!["eventTime: Required value"],
        ),
        (
            vec![("/type", json!("Odd"))],
            vec!["type: Invalid value: \"\": has invalid value: Odd"],
        ),
        (
            vec![("/action", json!(null))],
            vec!["action: Required value"],
        ),
        (vec![("/reason", json!(""))], vec!["reason: Required value"]),
        (
            vec![("/reportingInstance", json!(null))],
            vec!["reportingInstance: Required value"],
        ),
        (
            vec![("/deprecatedCount", json!(1))],
            vec!["count: Invalid value: \"\": needs to be unset"],
        ),
        (
            vec![("/deprecatedSource", json!({"host": "n"}))],
            vec!["source: Invalid value: \"\": needs to be unset"],
        ),
        (
            vec![(
                "/series",
                json!({"count": 1, "lastObservedTime": "2026-01-02T03:04:00.000000Z"}),
            )],
            vec!["series.count: Invalid value: \"\": should be at least 2"],
        ),
    ] {
        assert_eq!(
            create_errors(&EventsEventStrategy, &with(&new(), &changes)),
            expected
        );
    }
}

#[test]
fn only_the_series_of_a_newer_event_changes() {
    let series = json!({"count": 2, "lastObservedTime": "2026-01-02T03:04:00.000000Z"});
    for (changes, expected) in [
        (vec![("/series", series)], vec![]),
        (
            vec![("/reason", json!("Other"))],
            vec!["reason: Invalid value: \"Other\": field is immutable"],
        ),
        (
            vec![("/note", json!("other"))],
            vec!["message: Invalid value: \"other\": field is immutable"],
        ),
    ] {
        assert_eq!(
            update_errors(&EventsEventStrategy, &new(), &with(&new(), &changes)),
            expected
        );
    }
}

#[test]
fn both_disappear_after_an_hour_and_are_no_garbage() {
    let (old, new) = (core::v1::Event::default(), events::v1::Event::default());
    assert_eq!(EventStrategy.ttl_seconds(&old), Some(3600));
    assert_eq!(EventsEventStrategy.ttl_seconds(&new), Some(3600));
    assert!(!EventStrategy.garbage_collected() && !EventsEventStrategy.garbage_collected());
}

#[test]
fn rows() {
    let expected = [
        ("Last Seen", json!("60s")),
        ("Type", json!("Normal")),
        ("Reason", json!("Started")),
        ("Object", json!("pod/web")),
        ("Subobject", json!("")),
        ("Source", json!("kubelet, n")),
        ("Message", json!("it runs")),
        ("First Seen", json!("4m")),
        ("Count", json!(3)),
        ("Name", json!("e")),
    ];
    assert_eq!(row(&EventStrategy, &stored()), expected);
    assert_eq!(row(&EventsEventStrategy, &shown()), expected);
    let fresh = row(&EventsEventStrategy, &new());
    assert_eq!(
        (&fresh[0].1, &fresh[7].1, &fresh[8].1),
        (&json!("5s"), &json!("5s"), &json!(1))
    );
    assert_eq!(fresh[5].1, "default-scheduler, scheduler-0");
}
