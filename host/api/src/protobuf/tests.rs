mod round_trip;

use serde_json::{Value, json};

use super::*;

/// A length-delimited field.
fn field(number: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    assert!(number < 16 && bytes.len() < 128);
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// A number.
fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version), field(2, kind)].concat();
    let mut length = Vec::new();
    let mut rest = object.len();
    while rest >= 128 {
        length.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    length.push(rest as u8);
    [
        MAGIC,
        &field(1, meta),
        &[2 << 3 | 2],
        &length,
        object,
        &field(3, ""),
        &field(4, ""),
    ]
    .concat()
}

fn read(body: &[u8]) -> Value {
    serde_json::from_slice(&to_json(body).unwrap()).unwrap()
}

#[test]
fn zero_fields_are_left_out_and_pointers_kept() {
    // creationTimestamp (8) is an empty message, namespace (3) an empty text: Go writes both
    let metadata = [
        field(1, "a"),
        field(3, ""),
        field(8, ""),
        field(11, [field(1, "k"), field(2, "v")].concat()),
    ]
    .concat();
    let entry = [field(1, "key"), field(2, "value")].concat();
    let map = [field(1, metadata), field(2, entry), number(4, 0)].concat();
    assert_eq!(
        read(&body("v1", "ConfigMap", &map)),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "a", "labels": { "k": "v" } },
            "data": { "key": "value" },
            "immutable": false,
        })
    );
}

#[test]
fn every_special_type_has_its_json_form() {
    // Service: spec.ports[0] with port 80 and targetPort "http"; a time; a number as targetPort
    let named = [
        number(3, 80),
        field(4, [number(1, 1), number(2, 0), field(3, "http")].concat()),
    ]
    .concat();
    let numbered = [
        number(3, 81),
        field(4, [number(1, 0), number(2, 8), field(3, "")].concat()),
    ]
    .concat();
    let spec = [field(1, named), field(1, numbered)].concat();
    let metadata = field(8, [number(1, 100)].concat());
    let service = [field(1, metadata), field(2, spec)].concat();
    let service = read(&body("v1", "Service", &service));
    assert_eq!(
        service["metadata"]["creationTimestamp"],
        "1970-01-01T00:01:40Z"
    );
    assert_eq!(
        service["spec"]["ports"],
        json!([{ "port": 80, "targetPort": "http" }, { "port": 81, "targetPort": 8 }])
    );
    // Secret: data is bytes
    let secret = field(2, [field(1, "k"), field(2, [0, 255])].concat());
    assert_eq!(
        read(&body("v1", "Secret", &secret))["data"],
        json!({ "k": "AP8=" })
    );
    // Pod: limits are quantities; emptyDir is there though it is empty
    let limits = field(1, [field(1, "cpu"), field(2, field(1, "100m"))].concat());
    let container = [field(1, "c"), field(8, limits)].concat();
    let volume = [field(1, "v"), field(2, field(2, ""))].concat();
    let spec = [field(1, volume), field(2, container)].concat();
    let pod = read(&body("v1", "Pod", &field(2, spec)));
    assert_eq!(
        pod["spec"]["containers"][0]["resources"],
        json!({ "limits": { "cpu": "100m" } })
    );
    assert_eq!(
        pod["spec"]["volumes"],
        json!([{ "name": "v", "emptyDir": {} }])
    );
    // Lease: times with microseconds, negative numbers
    let minus_one = [&[2 << 3][..], &[0xff; 9], &[1]].concat();
    let spec = [minus_one, field(3, number(1, 1))].concat();
    let lease = read(&body("coordination.k8s.io/v1", "Lease", &field(2, spec)));
    assert_eq!(
        lease["spec"],
        json!({ "leaseDurationSeconds": -1, "acquireTime": "1970-01-01T00:00:01.000000Z" })
    );
    // ControllerRevision: JSON inside
    let revision = [field(2, field(1, r#"{"a":1}"#)), number(3, 7)].concat();
    let revision = read(&body("apps/v1", "ControllerRevision", &revision));
    assert_eq!(
        (&revision["data"], &revision["revision"]),
        (&json!({ "a": 1 }), &json!(7))
    );
}

#[test]
fn options_come_under_the_version_of_their_resource() {
    let options = [number(1, 5), field(4, "Foreground")].concat();
    let options = read(&body("apps/v1", "DeleteOptions", &options));
    assert_eq!(
        (
            &options["gracePeriodSeconds"],
            &options["propagationPolicy"]
        ),
        (&json!(5), &json!("Foreground"))
    );
}

#[test]
fn durations_are_written_as_go_does() {
    let cases = [
        (0, "0s"),
        (1_500_000_000, "1.5s"),
        (90_000_000_000, "1m30s"),
        (3_600_000_000_000, "1h0m0s"),
        (-1_000_000_000, "-1s"),
    ];
    for (nanos, text) in cases {
        assert_eq!(duration(nanos), text);
        assert_eq!(encode::duration(text), Some(nanos));
    }
}

#[test]
fn damaged_bodies_are_refused() {
    assert_eq!(to_json(b"{}"), Err(ProtobufError::NoMagic));
    let whole = body("v1", "ConfigMap", &field(1, field(1, "a")));
    let object_end = whole.len() - 4; // two empty fields stand behind it
    for end in MAGIC.len() + 1..object_end {
        // wherever it is cut it is an error or another object, never a panic
        if let Ok(json) = to_json(&whole[..end]) {
            assert_ne!(json, to_json(&whole).unwrap());
        }
    }
    let unknown = to_json(&body("v9", "Thing", b""));
    assert!(
        matches!(unknown, Err(ProtobufError::UnknownKind { .. })),
        "{unknown:?}"
    );
    for wrong in [&b"\x0a\xff"[..], b"\x0b", b"\x08\x01"] {
        assert_eq!(
            to_json(&body("v1", "ConfigMap", wrong)),
            Err(ProtobufError::Damaged),
            "{wrong:?}"
        );
    }
}

#[test]
fn what_is_written_is_what_the_format_says() {
    let map = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": { "name": "a", "labels": { "k": "v" }, "creationTimestamp": null },
        "data": { "key": "value" }, "immutable": false, "unknown": [1],
    });
    let metadata = [
        field(11, [field(1, "k"), field(2, "v")].concat()),
        field(1, "a"),
    ]
    .concat();
    let entry = [field(1, "key"), field(2, "value")].concat();
    let object = [field(2, entry), number(4, 0), field(1, metadata)].concat();
    let type_meta = [field(1, "v1"), field(2, "ConfigMap")].concat();
    let expected = [MAGIC, &field(1, type_meta), &field(2, object)].concat();
    assert_eq!(from_json(map.to_string().as_bytes()), Ok(expected.clone()));

    let length = 10 + 4 + expected.len() as u8;
    let event = [
        &[0, 0, 0, length][..],
        &field(1, "MODIFIED"),
        &[2 << 3 | 2, expected.len() as u8 + 2],
        &field(1, &expected),
    ]
    .concat();
    assert_eq!(watch_event("MODIFIED", &expected), event);
}

#[test]
fn a_list_is_its_metadata_and_its_items() {
    let items: Vec<Vec<u8>> = (0..3)
        .map(|n| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": format!("s{n}") }, "data": { "k": "AP8=" } }))
        .map(|secret| secret.to_string().into_bytes())
        .collect();
    let metadata = br#"{"resourceVersion":"7","remainingItemCount":0}"#;
    let encoder = Encoder::new("v1", "SecretList").unwrap();
    let body = encoder
        .list(metadata, items.iter().map(Vec::as_slice))
        .unwrap();
    let list = read(&body);
    assert_eq!(list["kind"], "SecretList");
    assert_eq!(
        list["metadata"],
        json!({ "resourceVersion": "7", "remainingItemCount": 0 })
    );
    assert_eq!(
        list["items"][2],
        json!({ "metadata": { "name": "s2" }, "data": { "k": "AP8=" } })
    );
    let of_no_list = Encoder::new("v1", "Secret").unwrap().list(b"{}", []);
    assert!(
        matches!(of_no_list, Err(ProtobufError::Unsupported(_))),
        "{of_no_list:?}"
    );
}

#[test]
fn what_does_not_fit_is_not_written() {
    let pod = |spec: Value| json!({ "apiVersion": "v1", "kind": "Pod", "spec": spec });
    let cases = [
        json!({}),
        json!({ "apiVersion": "example.com/v1", "kind": "Thing" }),
        json!([1]),
        pod(json!("text")),
        pod(json!({ "containers": {} })),
        pod(json!({ "nodeSelector": ["a"] })),
        pod(json!({ "nodeName": 7 })),
        pod(json!({ "terminationGracePeriodSeconds": "soon" })),
        pod(json!({ "terminationGracePeriodSeconds": 1.5 })),
        json!({ "apiVersion": "v1", "kind": "Secret", "data": { "k": "no base64!" } }),
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "creationTimestamp": "now" } }),
    ];
    for case in cases {
        assert!(from_json(case.to_string().as_bytes()).is_err(), "{case}");
    }
    assert!(from_json(b"{").is_err());
}
