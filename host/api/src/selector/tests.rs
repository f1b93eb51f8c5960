use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1;
use proptest::prelude::*;

use super::{FieldSelector, LabelSelector, Operator, Requirement, escape_value};
use crate::{GroupVersionResource, Header, ResourceInfo};

fn labels(pairs: &[(&str, &str)]) -> Header {
    let mut labels: Vec<(String, String)> = pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    labels.sort();
    Header {
        labels,
        ..Header::default()
    }
}

fn parse(text: &str) -> LabelSelector {
    LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn label_selectors_match() {
    let object = labels(&[
        ("app", "web"),
        ("tier", ""),
        ("in", "notin"),
        ("n", "7"),
        ("x.io/y", "z"),
    ]);
    for (selector, matches) in [
        ("", true),
        (" ", true),
        ("app=web", true),
        ("app==web", true),
        ("app = web , n=7", true),
        ("app!=web", false),
        ("absent!=web", true),
        ("app in (api, web)", true),
        ("app notin (api,web)", false),
        ("absent notin (a)", true),
        ("absent in (a)", false),
        ("app", true),
        ("!app", false),
        ("!absent", true),
        ("! absent", true),
        ("tier=", true),
        ("tier in ()", true),
        ("tier in (,a)", true),
        ("app in (,)", false),
        ("in in (in,notin)", true),
        ("in=notin", true),
        ("n>6", true),
        ("n>7", false),
        ("n<8", true),
        ("app>6", false),
        ("x.io/y=z,app", true),
        ("app=web,app=api", false),
    ] {
        assert_eq!(parse(selector).matches(&object), matches, "{selector}");
    }
}

#[test]
fn label_selector_errors_read_as_upstream() {
    for (selector, error) in [
        (
            ",",
            "found ',', expected: !, identifier, or 'end of string'",
        ),
        ("a,", "found '', expected: identifier after ','"),
        (
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        (
            "a in b",
            "unable to parse requirement: found 'b' expected: '('",
        ),
        (
            "a in (b",
            "unable to parse requirement: found '', expected: ',' or ')'",
        ),
        (
            "a in (",
            "unable to parse requirement: found '', expected: ',', ')' or identifier",
        ),
        (
            "a in (b,!)",
            "unable to parse requirement: found '!', expected: ',', or identifier",
        ),
        (
            "!,a",
            "unable to parse requirement: found ',', expected: identifier",
        ),
        (
            "a=!b",
            "unable to parse requirement: found '!', expected: identifier",
        ),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "-a=b",
            "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
        (
            "a=b/c",
            "unable to parse requirement: values[0][a]: Invalid value: \"b/c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    ] {
        let found = LabelSelector::parse(selector).map_err(|e| e.0);
        assert_eq!(found, Err(error.to_owned()), "{selector}");
    }
}

#[test]
fn label_selectors_come_from_objects() {
    assert!(!LabelSelector::from_meta(None).is_ok_and(|s| s.matches(&labels(&[]))));
    let empty = v1::LabelSelector::default();
    assert!(LabelSelector::from_meta(Some(&empty)).is_ok_and(|s| s.is_everything()));
    let expression = |key: &str, operator: &str, values: &[&str]| v1::LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: Some(values.iter().map(|v| (*v).to_owned()).collect()),
    };
    let mut selector = v1::LabelSelector {
        match_labels: Some(BTreeMap::from([("z".to_owned(), "1".to_owned())])),
        match_expressions: Some(vec![
            expression("app", "In", &["web", "api"]),
            expression("b", "NotIn", &["x"]),
            expression("c", "Exists", &[]),
            expression("d", "DoesNotExist", &[]),
        ]),
    };
    let parsed = LabelSelector::from_meta(Some(&selector)).unwrap();
    assert_eq!(parsed.to_string(), "app in (api,web),b notin (x),c,!d,z=1");
    assert!(parsed.matches(&labels(&[("app", "api"), ("c", ""), ("z", "1")])));
    selector.match_expressions = Some(vec![expression("a", "Like", &[])]);
    assert_eq!(
        LabelSelector::from_meta(Some(&selector)).unwrap_err().0,
        "\"Like\" is not a valid label selector operator"
    );
}

fn pods() -> ResourceInfo {
    ResourceInfo {
        gvr: GroupVersionResource::of("", "v1", "pods"),
        kind: Cow::Borrowed("Pod"),
        singular: Cow::Borrowed("pod"),
        namespaced: true,
        short_names: Vec::new(),
        categories: Vec::new(),
        selectable_fields: vec!["spec.nodeName".to_owned(), "status.phase".to_owned()],
        storage_prefix: Cow::Borrowed("pods"),
    }
}

fn pod(name: &str, node: &str, phase: &str) -> Header {
    Header {
        name: name.to_owned(),
        namespace: "default".to_owned(),
        fields: vec![node.to_owned(), phase.to_owned()],
        ..Header::default()
    }
}

#[test]
fn field_selectors_match() {
    let object = pod("web", "n1", "Running");
    for (selector, matches) in [
        ("", true),
        (",", true),
        ("metadata.name=web", true),
        ("metadata.name==web,metadata.namespace=default", true),
        ("metadata.name!=web", false),
        ("spec.nodeName!=n2,status.phase==Running", true),
        ("spec.nodeName=", false),
        ("status.phase!=Running", false),
    ] {
        let parsed = FieldSelector::parse(selector, &pods()).unwrap();
        assert_eq!(parsed.matches(&object), matches, "{selector}");
    }
    let selector = FieldSelector::parse("spec.nodeName=n1,metadata.name!=x", &pods()).unwrap();
    assert_eq!(selector.exact("spec.nodeName"), Some("n1"));
    assert_eq!(selector.exact("metadata.name"), None);
    assert!(FieldSelector::name("web").matches(&object));
}

#[test]
fn field_selector_errors_are_bad_requests() {
    let custom = ResourceInfo {
        selectable_fields: Vec::new(),
        ..pods()
    };
    for (selector, resource, error) in [
        ("spec.foo=x", &pods(), "field label not supported: spec.foo"),
        (
            "spec.foo=x",
            &custom,
            "\"spec.foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (
            "metadata.name",
            &pods(),
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
        ),
        (
            "metadata.name=a=b",
            &pods(),
            "invalid field selector: unescaped character in value: 61",
        ),
        (
            "metadata.name=a\\b",
            &pods(),
            "invalid field selector: invalid escape sequence: \\b",
        ),
        (
            "metadata.name=a\\",
            &pods(),
            "invalid field selector: invalid escape sequence: \\",
        ),
    ] {
        let status = FieldSelector::parse(selector, resource).unwrap_err();
        assert_eq!(
            (status.code, status.message.as_str()),
            (400, error),
            "{selector}"
        );
    }
}

const KEYS: [&str; 4] = ["a", "b", "x.io/c", "in"];
const VALUES: [&str; 4] = ["", "1", "2", "in"];

fn operator() -> impl Strategy<Value = Operator> {
    prop::sample::select(vec![
        Operator::In,
        Operator::NotIn,
        Operator::Equals,
        Operator::DoubleEquals,
        Operator::NotEquals,
        Operator::Exists,
        Operator::DoesNotExist,
        Operator::GreaterThan,
        Operator::LessThan,
    ])
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let values = prop::collection::btree_set(prop::sample::select(&VALUES[..]), 1..4);
    (operator(), prop::sample::select(&KEYS[..]), values).prop_map(|(operator, key, values)| {
        let mut values: Vec<String> = values.into_iter().map(str::to_owned).collect();
        match operator {
            Operator::In | Operator::NotIn => {}
            Operator::Exists | Operator::DoesNotExist => values.clear(),
            Operator::GreaterThan | Operator::LessThan => values = vec!["1".to_owned()],
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => values.truncate(1),
        }
        Requirement::new(key, operator, values).unwrap()
    })
}

/// The documentation's words, one requirement after the other, over a plain map.
fn model(requirements: &[Requirement], labels: &BTreeMap<String, String>) -> bool {
    requirements.iter().all(|r| {
        let value = labels.get(r.key());
        let number = |text: &String| text.parse::<i64>().ok();
        match r.operator() {
            Operator::In | Operator::Equals | Operator::DoubleEquals => {
                value.is_some() && r.values().contains(value.unwrap())
            }
            Operator::NotIn | Operator::NotEquals => {
                value.is_none() || !r.values().contains(value.unwrap())
            }
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => value.and_then(number) > number(&r.values()[0]),
            Operator::LessThan => value
                .and_then(number)
                .is_some_and(|n| n < number(&r.values()[0]).unwrap()),
        }
    })
}

proptest! {
    #[test]
    fn label_selectors_agree_with_the_model(
        requirements in prop::collection::vec(requirement(), 0..4),
        object in prop::collection::btree_map(
            prop::sample::select(&KEYS[..]).prop_map(str::to_owned),
            prop::sample::select(&VALUES[..]).prop_map(str::to_owned),
            0..4,
        ),
    ) {
        let selector = LabelSelector::new(requirements.clone());
        let read_back = parse(&selector.to_string());
        prop_assert_eq!(&read_back, &selector);
        let header = Header { labels: object.clone().into_iter().collect(), ..Header::default() };
        let expected = model(&requirements, &object);
        prop_assert_eq!(selector.matches(&header), expected);
        prop_assert_eq!(selector.matches(&object), expected);
    }

    #[test]
    fn any_text_is_a_selector_or_an_error(text in "[-a-c/.,=!<>() ]{0,24}|\\PC{0,12}") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            prop_assert_eq!(parse(&selector.to_string()), selector);
        }
        let _ = FieldSelector::parse(&text, &pods());
    }

    #[test]
    fn field_selector_values_are_escaped(name in "[a-c,=\\\\!]{0,8}", node in "[a-c,=\\\\]{0,4}", equal in any::<bool>()) {
        let operator = if equal { "=" } else { "!=" };
        let text = format!("metadata.name={},spec.nodeName{operator}{}", escape_value(&name), escape_value(&node));
        // a value that begins with `=` turns `=` into `==` unless it is escaped, and it always is
        let selector = FieldSelector::parse(&text, &pods()).unwrap();
        prop_assert_eq!(selector.matches(&pod(&name, &node, "")), equal);
        prop_assert_eq!(selector.matches(&pod(&name, "other", "")), !equal);
        prop_assert_eq!(FieldSelector::parse(&selector.to_string(), &pods()).unwrap(), selector);
    }
}
