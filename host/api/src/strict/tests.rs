use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{GroupVersionKind, facts};

fn deployment() -> Option<&'static Type> {
    facts::by_kind(&GroupVersionKind::of("apps", "v1", "Deployment"))
}

#[test]
fn unknown_and_duplicate_fields_are_named_with_their_paths() {
    for (json, expected) in [
        (
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":1}}"#,
            vec![],
        ),
        (
            r#"{"spec":{"foo":1,"replicas":2}}"#,
            vec![r#"unknown field "spec.foo""#],
        ),
        (r#"{"Spec":{"foo":1}}"#, vec![r#"unknown field "Spec""#]),
        (
            r#"{"spec":{"Replicas":1}}"#,
            vec![r#"unknown field "spec.Replicas""#],
        ),
        (
            r#"{"kind":"Deployment","kind":"Deployment","bar":{}}"#,
            vec![r#"duplicate field "kind""#, r#"unknown field "bar""#],
        ),
        (
            r#"{"spec":{"replicas":1,"replicas":2,"replicas":3}}"#,
            vec![r#"duplicate field "spec.replicas""#],
        ),
        (
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"a"},{"nam":"b","ports":[{"port":1}]}]}}}}"#,
            vec![
                r#"unknown field "spec.template.spec.containers[1].nam""#,
                r#"unknown field "spec.template.spec.containers[1].ports[0].port""#,
            ],
        ),
        (
            r#"{"metadata":{"labels":{"a/b":"1","a/b":"2"}}}"#,
            vec![r#"duplicate field "metadata.labels.a/b""#],
        ),
        (
            r#"{"metadata":{"managedFields":[{"fieldsV1":{"f:x":{},"f:x":{}}}]}}"#,
            vec![],
        ),
        (
            r#"{"spec":{"template":{"spec":{"volumes":[{"name":"v","configMap":{"name":"c","nope":1}}]}}}}"#,
            vec![r#"unknown field "spec.template.spec.volumes[0].configMap.nope""#],
        ),
        (
            r#"{"spec":{"rep\u006cicas":1,"replicas":1}}"#,
            vec![r#"duplicate field "spec.replicas""#],
        ),
        (
            r#"{"spec":{"replicas":{"deep":[1,{"a":2}]},"selector":7,"template":[{}]}}"#,
            vec![],
        ),
        (r#"{"spec":{"foo":1"#, vec![r#"unknown field "spec.foo""#]),
        ("7", vec![]),
    ] {
        let findings = check(json.as_bytes(), deployment());
        assert_eq!(findings.strict, expected, "{json}");
        assert_eq!(findings.invalid, None, "{json}");
    }
}

#[test]
fn without_a_schema_duplicates_alone_count() {
    let json = r#"{"spec":{"a":[{"b":1,"b":2}],"c":{"d":1}},"x":1,"x":2}"#;
    let expected = [r#"duplicate field "spec.a[0].b""#, r#"duplicate field "x""#];
    assert_eq!(check(json.as_bytes(), None).strict, expected);
}

#[test]
fn our_own_kind_is_known_too() {
    let plugin = facts::by_kind(&GroupVersionKind::of(
        "plugins.pilothouse.dev",
        "v1alpha1",
        "Plugin",
    ));
    let json =
        r#"{"kind":"Plugin","spec":{"sorce":{},"config":{"x":1},"limits":{"timeMs":1,"time":2}}}"#;
    let expected = [
        r#"unknown field "spec.sorce""#,
        r#"unknown field "spec.limits.time""#,
    ];
    assert_eq!(check(json.as_bytes(), plugin).strict, expected);
}

#[test]
fn malformed_quantities_are_errors() {
    let with = |amount: Value| {
        let resources = json!({"limits": {"cpu": amount, "memory": "1Gi"}});
        let json = json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "resources": resources}]}}}});
        check(json.to_string().as_bytes(), deployment())
    };
    for amount in [
        json!("100m"),
        json!(" 1 "),
        json!(1),
        json!(0.5),
        json!(null),
    ] {
        assert_eq!(with(amount.clone()), Findings::default(), "{amount}");
    }
    let findings = with(json!("abc"));
    let refusal = findings.refusal("Deployment", "v1").unwrap();
    assert_eq!(refusal.code, 400);
    assert_eq!(
        refusal.message,
        "Deployment in version \"v1\" cannot be handled as a Deployment: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
}

#[test]
fn strict_refusals_name_everything() {
    let findings = check(br#"{"foo":1,"spec":{"bar":1}}"#, deployment());
    let refusal = findings.refusal("Deployment", "v1").unwrap();
    assert_eq!(
        refusal.message,
        "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown field \"foo\", unknown field \"spec.bar\""
    );
    assert_eq!(Findings::default().refusal("Deployment", "v1"), None);
}

#[test]
fn findings_are_bounded() {
    let fields: Vec<String> = (0..1000).map(|n| format!("\"f{n}\":1")).collect();
    let json = format!("{{{}}}", fields.join(","));
    assert_eq!(
        check(json.as_bytes(), deployment()).strict.len(),
        MAX_FINDINGS
    );
}

/// A document with keys that the type has and keys that it has not, in a tree of its own.
fn document(of: &'static Type, depth: usize) -> BoxedStrategy<Value> {
    let known: Vec<&'static str> = of.json_fields().iter().map(|f| f.name).collect();
    let unknown = vec!["nope", "NAME", "Metadata"];
    let keys = prop::collection::btree_set(
        prop_oneof![4 => prop::sample::select(known), 1 => prop::sample::select(unknown)],
        0..4,
    );
    keys.prop_flat_map(move |keys| {
        let values: Vec<BoxedStrategy<(String, Value)>> = keys
            .into_iter()
            .map(|key| {
                let shape = of.json_field(key).map(|field| field.shape);
                let value = match shape {
                    Some(Shape::One(Kind::Message(next))) if depth > 0 => {
                        document(next.get(), depth - 1)
                    }
                    Some(Shape::List(Kind::Message(next))) if depth > 0 => {
                        prop::collection::vec(document(next.get(), depth - 1), 0..3)
                            .prop_map(Value::Array)
                            .boxed()
                    }
                    _ => Just(Value::Null).boxed(),
                };
                value.prop_map(move |value| (key.to_owned(), value)).boxed()
            })
            .collect();
        values.prop_map(|pairs| Value::Object(pairs.into_iter().collect()))
    })
    .boxed()
}

/// The same question asked of a tree.
fn model(value: &Value, of: &'static Type, path: &str, found: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        let Some(field) = of.json_field(key) else {
            found.push(format!("unknown field {path:?}"));
            continue;
        };
        let Kind::Message(next) = field.shape.kind() else {
            continue;
        };
        match value {
            Value::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    model(element, next.get(), &format!("{path}[{index}]"), found);
                }
            }
            value => model(value, next.get(), &path, found),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn unknown_fields_agree_with_the_model(document in document(deployment().unwrap(), 4)) {
        let mut expected = Vec::new();
        model(&document, deployment().unwrap(), "", &mut expected);
        let findings = check(document.to_string().as_bytes(), deployment());
        prop_assert_eq!(findings.strict, expected);
    }

    #[test]
    fn any_bytes_are_looked_at(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = check(&bytes, deployment());
    }
}
