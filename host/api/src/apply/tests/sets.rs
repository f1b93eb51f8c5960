use super::*;

fn set(json: &str) -> FieldSet<'_> {
    FieldSet::from_json(json).unwrap()
}

#[test]
fn fields_v1_reads_and_writes_every_form() {
    // what is read, what is written
    let cases = [
        (r#"{}"#, r#"{}"#),
        (r#"{"f:a":{}}"#, r#"{"f:a":{}}"#),
        (r#"{"f:a":{".":{}}}"#, r#"{"f:a":{}}"#),
        (
            r#"{"f:a":{".":{},"f:b":{}}}"#,
            r#"{"f:a":{".":{},"f:b":{}}}"#,
        ),
        (r#"{"f:b":{},"f:a":{}}"#, r#"{"f:a":{},"f:b":{}}"#),
        (
            r#"{"k:{\"port\":80,\"name\":\"a\\\"b\"}":{"f:x":{}},"v:\"y\"":{},"f:z":{},"i:3":{}}"#,
            r#"{"f:z":{},"k:{\"name\":\"a\\\"b\",\"port\":80}":{"f:x":{}},"v:\"y\"":{},"i:3":{}}"#,
        ),
        (
            r#"{"k:{\"port\":443}":{},"k:{\"port\":80}":{}}"#,
            r#"{"k:{\"port\":80}":{},"k:{\"port\":443}":{}}"#,
        ),
        (
            r#"{"v:1":{},"v:true":{},"v:\"a\\nb\"":{}}"#,
            r#"{"v:1":{},"v:\"a\\nb\"":{},"v:true":{}}"#,
        ),
        (r#"{"f:a":{},"q:later":{"f:b":{}}}"#, r#"{"f:a":{}}"#), // of some later version
        (r#"{"f:é\"\\":{}}"#, r#"{"f:é\"\\":{}}"#),
    ];
    for (read, written) in cases {
        assert_eq!(set(read).to_json(), written, "{read}");
        assert_eq!(set(written).to_json(), written);
    }
    for broken in [
        r#"{"x":{}}"#,
        r#"{"f":{}}"#,
        r#"{"k:[1]":{}}"#,
        r#"{"v:":{}}"#,
        r#"{"i:a":{}}"#,
        r#"{"f:a":1}"#,
        "[]",
        "",
    ] {
        assert!(FieldSet::from_json(broken).is_err(), "{broken}");
    }
}

#[test]
fn sets_are_combined_path_by_path() {
    let a = r#"{"f:a":{".":{},"f:b":{},"f:c":{}},"f:d":{}}"#;
    let b = r#"{"f:a":{"f:b":{}},"f:d":{"f:e":{}},"f:g":{}}"#;
    assert_eq!(
        set(a).union(set(b)).to_json(),
        r#"{"f:a":{".":{},"f:b":{},"f:c":{}},"f:d":{".":{},"f:e":{}},"f:g":{}}"#
    );
    assert_eq!(
        set(a).intersection(&set(b)).to_json(),
        r#"{"f:a":{"f:b":{}}}"#
    );
    // parent less child is parent, child less parent is child, unless what is below goes with it
    let parent = r#"{"f:d":{}}"#;
    let child = r#"{"f:d":{"f:e":{}}}"#;
    assert_eq!(set(parent).difference(&set(child)).to_json(), parent);
    assert_eq!(set(child).difference(&set(parent)).to_json(), child);
    assert_eq!(
        set(child).recursive_difference(&set(parent)).to_json(),
        "{}"
    );
    assert_eq!(
        set(a).difference(&set(b)).to_json(),
        r#"{"f:a":{".":{},"f:c":{}},"f:d":{}}"#
    );
    assert!(set(a).overlaps(&set(b)) && !set(parent).overlaps(&set(child)));
}

#[test]
fn text_overlaps_as_its_set_does() {
    let text = r#"{"f:a":{".":{},"f:b":{},"k:{\"n\":1}":{"f:x":{}}},"f:c":{"f:d":{}},"f:e":{}}"#;
    let changes = [
        (r#"{"f:a":{}}"#, true),
        (r#"{"f:a":{"f:z":{}}}"#, false),
        (r#"{"f:a":{"f:b":{}}}"#, true),
        (r#"{"f:a":{"k:{\"n\":1}":{}}}"#, false),
        (r#"{"f:a":{"k:{\"n\":1}":{"f:x":{}}}}"#, true),
        (r#"{"f:c":{}}"#, false),
        (r#"{"f:c":{".":{},"f:q":{}}}"#, false),
        (r#"{"f:e":{}}"#, true),
        (r#"{"f:e":{"f:x":{}}}"#, false),
        (r#"{}"#, false),
    ];
    for (changed, expected) in changes {
        assert_eq!(set(text).overlaps(&set(changed)), expected, "{changed}");
        for (changed, removed) in [(changed, "{}"), ("{}", changed)] {
            let changes = Changes {
                changed: set(changed),
                removed: set(removed),
            };
            let found = fields_v1::overlaps(text, &changes).unwrap();
            assert_eq!(found, expected, "{changes:?}");
        }
    }
}

#[test]
fn scopes_leave_out_or_let_through() {
    let all = r#"{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{},"f:resources":{"f:limits":{}}}},"f:x":{}},"f:status":{"f:y":{}}}"#;
    let cases = [
        (
            Scope::Without(&[&["spec"], &["metadata", "labels"]]),
            r#"{"f:status":{"f:y":{}}}"#,
        ),
        (
            Scope::Only(&[&["spec", "containers", "*", "resources"]]),
            r#"{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:resources":{"f:limits":{}}}}}}"#,
        ),
        (Scope::Only(&[&["spec", "x"]]), r#"{"f:spec":{"f:x":{}}}"#),
        (Scope::Without(&[]), all),
    ];
    for (scope, left) in cases {
        assert_eq!(scope.filter(set(all)).to_json(), left, "{scope:?}");
    }
}

#[test]
fn values_are_equal_by_number_and_sorted_by_name() {
    let value = |json: &'static str| Value::parse(json.as_bytes()).unwrap();
    assert_eq!(value("1"), value("1.0"));
    assert_ne!(value("1"), value("\"1\""));
    assert_ne!(value("null"), value("{}"));
    assert_eq!(
        value(r#"{"b":1,"a":[2],"b":3}"#).to_json(),
        br#"{"a":[2],"b":3}"#
    );
    assert!(
        value("2") < value("10") && value("10") < value("\"a\"") && value("\"a\"") < value("true")
    );
}
