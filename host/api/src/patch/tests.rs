use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Patch, PatchType};
use crate::{GroupVersionKind, Status, facts};

fn schema(group: &'static str, kind: &'static str) -> Option<&'static facts::Type> {
    facts::by_kind(&GroupVersionKind::of(group, "v1", kind))
}

fn strategic(kind: &'static str, live: &Value, patch: &Value) -> Result<Value, Status> {
    let group = if kind == "Deployment" { "apps" } else { "" };
    let patch = Patch::strategic(patch.to_string().as_bytes())?;
    patch.apply(live, schema(group, kind))
}

#[test]
fn content_types() {
    for (content_type, patch_type) in [
        ("application/json-patch+json", Some(PatchType::Json)),
        (
            "application/merge-patch+json; charset=utf-8",
            Some(PatchType::Merge),
        ),
        (
            "application/strategic-merge-patch+json",
            Some(PatchType::Strategic),
        ),
        ("application/apply-patch+yaml", Some(PatchType::Apply)),
        ("application/json", None),
        ("", None),
    ] {
        assert_eq!(
            PatchType::from_content_type(content_type),
            patch_type,
            "{content_type}"
        );
    }
}

#[test]
fn json_patches_apply_or_fail_as_a_whole() {
    let live = json!({"metadata": {"name": "a", "labels": {"x/y": "1"}}, "list": [1, 2]});
    let apply = |patch: Value| {
        Patch::json(patch.to_string().as_bytes()).and_then(|patch| patch.apply(&live, None))
    };
    let patched = apply(json!([
        {"op": "test", "path": "/metadata/labels/x~1y", "value": "1"},
        {"op": "replace", "path": "/metadata/labels/x~1y", "value": "2"},
        {"op": "add", "path": "/list/-", "value": 3},
        {"op": "remove", "path": "/list/0"},
        {"op": "copy", "from": "/list", "path": "/copy"},
        {"op": "move", "from": "/metadata/name", "path": "/name"},
    ]));
    let expected =
        json!({"metadata": {"labels": {"x/y": "2"}}, "list": [2, 3], "copy": [2, 3], "name": "a"});
    assert_eq!(patched, Ok(expected));
    for (patch, code) in [
        (
            json!([{"op": "test", "path": "/metadata/name", "value": "b"}]),
            422,
        ),
        (json!([{"op": "remove", "path": "/absent"}]), 422),
        (
            json!([{"op": "replace", "path": "/absent", "value": 1}]),
            422,
        ),
        (json!([{"op": "unknown", "path": "/metadata"}]), 422),
        (json!([{"op": "add", "path": "/list/7", "value": 1}]), 422),
        (json!({"op": "add"}), 400),
        (json!(["add"]), 400),
        (
            json!(vec![json!({"op": "remove", "path": "/a"}); 10_001]),
            413,
        ),
        (
            json!(vec![
                json!({"op": "copy", "from": "", "path": "/list/-"});
                40
            ]),
            422,
        ),
    ] {
        let status = apply(patch.clone()).unwrap_err();
        assert_eq!(
            status.code,
            code,
            "{}",
            &patch.to_string()[..40.min(patch.to_string().len())]
        );
    }
    assert_eq!(Patch::json(b"[").unwrap_err().code, 400);
    let reason = apply(json!([{"op": "remove", "path": "/absent"}])).unwrap_err();
    assert_eq!(reason.reason, "Invalid");
    assert_eq!(
        reason.message,
        "the server rejected our request due to an error in our request"
    );
}

#[test]
fn strategic_merges() {
    for (name, kind, live, patch, expected) in [
        (
            "containers merge by name",
            "Pod",
            json!({"spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}}),
            json!({"spec": {"containers": [{"name": "b", "image": "b:2"}]}}),
            json!({"spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]}}),
        ),
        (
            "a new element keeps its place in the patch",
            "Pod",
            json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
            json!({"spec": {"containers": [{"name": "c"}, {"name": "a", "image": "x"}]}}),
            json!({"spec": {"containers": [{"name": "c"}, {"name": "a", "image": "x"}, {"name": "b"}]}}),
        ),
        (
            "an element is deleted",
            "Pod",
            json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
            json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}, {"name": "none", "$patch": "delete"}]}}),
            json!({"spec": {"containers": [{"name": "b"}]}}),
        ),
        (
            "a list is replaced",
            "Pod",
            json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
            json!({"spec": {"containers": [{"name": "c", "image": null}, {"$patch": "replace"}]}}),
            json!({"spec": {"containers": [{"name": "c"}]}}),
        ),
        (
            "an object is replaced",
            "Deployment",
            json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
            json!({"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}}),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
        ),
        (
            "an object is emptied",
            "Deployment",
            json!({"spec": {"strategy": {"type": "RollingUpdate"}}}),
            json!({"spec": {"strategy": {"$patch": "delete"}}}),
            json!({"spec": {"strategy": {}}}),
        ),
        (
            "$patch: merge changes nothing",
            "Pod",
            json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "a", "image": "1"}]}}),
            json!({"metadata": {"labels": {"$patch": "merge", "b": "2"}}, "spec": {"containers": [{"name": "a", "$patch": "merge", "tty": true}]}}),
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"containers": [{"name": "a", "image": "1", "tty": true}]}}),
        ),
        (
            "null deletes, and is dropped from what is added",
            "Pod",
            json!({"metadata": {"labels": {"a": "1"}}, "spec": {"nodeName": "n"}}),
            json!({"metadata": {"labels": {"a": null, "b": null}, "annotations": {"x": null, "y": "z"}}, "spec": {"nodeName": null}}),
            json!({"metadata": {"labels": {}, "annotations": {"y": "z"}}, "spec": {}}),
        ),
        (
            "lists without a merge strategy are replaced",
            "Pod",
            json!({"spec": {"tolerations": [{"key": "a"}, {"key": "b"}], "containers": [{"name": "a", "command": ["x", "y"]}]}}),
            json!({"spec": {"tolerations": [{"key": "c"}], "containers": [{"name": "a", "command": ["z"]}]}}),
            json!({"spec": {"tolerations": [{"key": "c"}], "containers": [{"name": "a", "command": ["z"]}]}}),
        ),
        (
            "container ports merge by number alone, service ports by port",
            "Pod",
            json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": "UDP"}]}]}}),
            json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": "TCP"}]}]}}),
            json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": "TCP"}]}]}}),
        ),
        (
            "sets of values unite",
            "Pod",
            json!({"metadata": {"finalizers": ["a/1", "b/2"]}}),
            json!({"metadata": {"finalizers": ["c/3", "a/1"]}}),
            json!({"metadata": {"finalizers": ["c/3", "a/1", "b/2"]}}),
        ),
        (
            "values leave a set",
            "Pod",
            json!({"metadata": {"finalizers": ["a/1", "b/2", "c/3"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b/2", "x/9"], "finalizers": ["d/4"], "$setElementOrder/finalizers": ["d/4", "c/3", "a/1"]}}),
            json!({"metadata": {"finalizers": ["d/4", "c/3", "a/1"]}}),
        ),
        (
            "$deleteFromPrimitiveList for no list does nothing",
            "Pod",
            json!({"metadata": {}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b/2"]}}),
            json!({"metadata": {}}),
        ),
        (
            "order: directive, then live where it says nothing",
            "Pod",
            json!({"spec": {"containers": [{"name": "sidecar"}, {"name": "a"}, {"name": "b"}, {"name": "late"}]}}),
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}, {"name": "c"}], "containers": [{"name": "b", "image": "2"}, {"name": "c"}]}}),
            json!({"spec": {"containers": [{"name": "sidecar"}, {"name": "b", "image": "2"}, {"name": "a"}, {"name": "c"}, {"name": "late"}]}}),
        ),
        (
            "order without changes",
            "Pod",
            json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}),
            json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}]}}),
        ),
        (
            "order of a list that is added",
            "Pod",
            json!({"spec": {}}),
            json!({"spec": {"$setElementOrder/volumes": [{"name": "a"}, {"name": "b"}], "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {"medium": null}}]}}),
            json!({"spec": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]}}),
        ),
        (
            "only retained keys remain",
            "Pod",
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]}}),
            json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}}),
        ),
        (
            "directives in what is added do not stay",
            "Pod",
            json!({"metadata": {"name": "p"}}),
            json!({"spec": {"containers": [{"name": "a", "$setElementOrder/ports": [{"containerPort": 1}], "ports": [{"containerPort": 1}], "$retainKeys": ["name"]}, {"name": "b", "$patch": "delete"}], "$retainKeys": ["containers"]}}),
            json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "ports": [{"containerPort": 1}]}]}}),
        ),
        (
            "a value of another type takes the place",
            "Pod",
            json!({"spec": {"nodeSelector": "x"}}),
            json!({"spec": {"nodeSelector": {"a": "b", "c": null}}}),
            json!({"spec": {"nodeSelector": {"a": "b"}}}),
        ),
    ] {
        assert_eq!(strategic(kind, &live, &patch), Ok(expected), "{name}");
    }
}

#[test]
fn senseless_strategic_merges_are_refused() {
    let live = json!({"metadata": {"finalizers": ["a/1"]}, "spec": {"containers": [{"name": "a"}], "volumes": [{"name": "v"}]}});
    for (patch, code, message) in [
        (json!([]), 400, "error decoding patch"),
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            400,
            "does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"containers": [{"image": "x", "$patch": "delete"}]}}),
            400,
            "does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"$patch": "burn"}}),
            400,
            "unknown patch type: burn in map: {}",
        ),
        (
            json!({"spec": {"containers": [{"name": "a", "$patch": 7}]}}),
            400,
            "unknown patch type: 7",
        ),
        (
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name"], "emptyDir": {}}]}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": "name"}]}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "a/1"}}),
            400,
            "invalid patch format of primitive list",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveListfinalizers": []}}),
            400,
            "invalid patch format of primitive list",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": {}}}),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"image": "x"}]}}),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}}),
            400,
            "doesn't match $setElementOrder list",
        ),
        (
            json!({"metadata": {"finalizers": [["a"]]}}),
            422,
            "the server rejected our request",
        ),
        (
            json!({"spec": {"containers": ["a"]}}),
            400,
            "list element types are not identical",
        ),
    ] {
        let status = strategic("Pod", &live, &patch).unwrap_err();
        assert_eq!(status.code, code, "{patch}");
        assert!(
            status.message.contains(message),
            "{patch}: {}",
            status.message
        );
    }
}

/// RFC 7396, section 2, word for word.
fn merge_model(target: Option<Value>, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut object = match target {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    };
    for (name, value) in patch {
        let before = object.remove(name);
        if !value.is_null() {
            object.insert(name.clone(), merge_model(before, value));
        }
    }
    Value::Object(object)
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (0..3i64).prop_map(|n| json!(n)),
        "[ab]{0,2}".prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A pod with lists that merge by key, lists in lists, sets, and lists that are replaced.
fn pod() -> impl Strategy<Value = Value> {
    let names = || prop::sample::subsequence(vec!["a", "b", "c", "d"], 0..4).prop_shuffle();
    let env = (names(), "[xy]").prop_map(|(names, value)| {
        names
            .into_iter()
            .map(|name| json!({"name": name, "value": value}))
            .collect::<Vec<_>>()
    });
    let container = (
        env,
        prop::option::of("[xy]"),
        prop::collection::vec("[xy]", 0..2),
    );
    let containers = (names(), prop::collection::vec(container, 4)).prop_map(|(names, contents)| {
        let each = names.into_iter().zip(contents).map(|(name, (env, image, command))| {
            json!({"name": name, "env": env, "image": image.unwrap_or_default(), "command": command})
        });
        each.collect::<Vec<_>>()
    });
    let labels = prop::collection::btree_map("[a-c]", "[xy]", 0..3);
    (containers, names(), labels).prop_map(|(containers, finalizers, labels)| {
        json!({"metadata": {"labels": labels, "finalizers": finalizers}, "spec": {"containers": containers}})
    })
}

/// A patch from one object to another as clients compute it.
fn diff(from: &Value, to: &Value, kind: facts::Kind) -> Map<String, Value> {
    let facts::Kind::Message(of) = kind else {
        panic!("{kind:?} has no fields");
    };
    let mut patch = Map::new();
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        panic!("no objects");
    };
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, new) in to {
        let field = of.get().json_field(name).unwrap();
        match (from.get(name), new, field.shape) {
            (Some(old), new, _) if old == new => {}
            (Some(old @ Value::Object(_)), Value::Object(_), facts::Shape::One(kind)) => {
                patch.insert(name.clone(), Value::Object(diff(old, new, kind)));
            }
            (Some(Value::Object(old)), Value::Object(new), facts::Shape::Map(_)) => {
                let gone = old.keys().filter(|key| !new.contains_key(*key));
                let mut entries: Map<String, Value> =
                    gone.map(|key| (key.clone(), Value::Null)).collect();
                entries.extend(new.clone());
                patch.insert(name.clone(), Value::Object(entries));
            }
            (Some(Value::Array(old)), Value::Array(new), facts::Shape::List(kind))
                if field.patch.merge =>
            {
                diff_list(&mut patch, name, old, new, kind, field.patch.merge_key);
            }
            _ => {
                patch.insert(name.clone(), new.clone());
            }
        }
    }
    patch
}

fn diff_list(
    patch: &mut Map<String, Value>,
    name: &str,
    old: &[Value],
    new: &[Value],
    kind: facts::Kind,
    merge_key: Option<&str>,
) {
    let Some(key) = merge_key else {
        let gone: Vec<&Value> = old.iter().filter(|value| !new.contains(value)).collect();
        let added: Vec<&Value> = new.iter().filter(|value| !old.contains(value)).collect();
        patch.insert(format!("$deleteFromPrimitiveList/{name}"), json!(gone));
        patch.insert(format!("$setElementOrder/{name}"), json!(new));
        patch.insert(name.to_owned(), json!(added));
        return;
    };
    let find = |list: &[Value], element: &Value| {
        list.iter()
            .find(|other| other[key] == element[key])
            .cloned()
    };
    let mut changes = Vec::new();
    for element in new {
        let mut change = match find(old, element) {
            Some(before) if before == *element => continue,
            Some(before) => diff(&before, element, kind),
            None => element.as_object().unwrap().clone(),
        };
        change.insert(key.to_owned(), element[key].clone());
        changes.push(Value::Object(change));
    }
    for element in old.iter().filter(|element| find(new, element).is_none()) {
        changes.push(json!({key: element[key], "$patch": "delete"}));
    }
    let order: Vec<Value> = new
        .iter()
        .map(|element| json!({key: element[key]}))
        .collect();
    patch.insert(format!("$setElementOrder/{name}"), json!(order));
    patch.insert(name.to_owned(), json!(changes));
}

fn has_directive(value: &Value) -> bool {
    match value {
        Value::Object(object) => object
            .iter()
            .any(|(name, value)| name.starts_with('$') || has_directive(value)),
        Value::Array(elements) => elements.iter().any(has_directive),
        _ => false,
    }
}

/// The merge of two keyed lists without any order: by key, the patch over the live one.
fn merged_names(live: &Value, patch: &Value) -> BTreeSet<String> {
    let names = |pod: &Value| -> BTreeSet<String> {
        let containers = pod["spec"]["containers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        containers.iter().map(|c| c["name"].to_string()).collect()
    };
    names(live).union(&names(patch)).cloned().collect()
}

proptest! {
    #[test]
    fn merge_patches_agree_with_the_rfc(live in tree(), patch in prop::collection::btree_map("[a-d]", tree(), 0..4)) {
        let patch = Value::Object(patch.into_iter().collect());
        let patched = Patch::merge(patch.to_string().as_bytes()).unwrap().apply(&live, None).unwrap();
        prop_assert_eq!(patched, merge_model(Some(live), &patch));
    }

    #[test]
    fn a_computed_patch_leads_to_what_it_was_computed_from(from in pod(), to in pod()) {
        let root = schema("", "Pod").unwrap();
        let spec = facts::Kind::Message(match root.json_field("spec").unwrap().shape.kind() {
            facts::Kind::Message(spec) => spec,
            other => panic!("{other:?}"),
        });
        let metadata = root.json_field("metadata").unwrap().shape.kind();
        let patch = json!({
            "metadata": diff(&from["metadata"], &to["metadata"], metadata),
            "spec": diff(&from["spec"], &to["spec"], spec),
        });
        prop_assert_eq!(strategic("Pod", &from, &patch).unwrap(), to, "{}", patch);
    }

    #[test]
    fn an_object_as_a_patch_is_in_the_result(live in pod(), patch in pod()) {
        let patched = strategic("Pod", &live, &patch).unwrap();
        prop_assert_eq!(strategic("Pod", &patched, &patch).unwrap(), patched.clone(), "twice is once");
        prop_assert_eq!(merged_names(&patched, &json!({})), merged_names(&live, &patch));
        let order = |pod: &Value| -> Vec<String> {
            pod["spec"]["containers"].as_array().unwrap().iter().map(|c| c["name"].to_string()).collect()
        };
        let mut kept = order(&patched);
        kept.retain(|name| order(&patch).contains(name));
        prop_assert_eq!(kept, order(&patch));
    }

    #[test]
    fn no_directive_reaches_a_result(
        live in pod(),
        value in tree(),
        directive in prop::sample::select(vec!["$patch", "$retainKeys", "$setElementOrder/containers", "$setElementOrder/x", "$deleteFromPrimitiveList/finalizers"]),
        argument in prop_oneof![
            Just(json!("replace")), Just(json!("merge")), Just(json!("delete")), Just(json!(["a"])),
            Just(json!([{"name": "a"}, {"name": "b"}])), tree(),
        ],
    ) {
        let patch = json!({
            "metadata": {directive: argument, "a": value},
            "spec": {directive: argument, "new": {"deep": [{directive: argument}]}, "containers": [{"name": "a", directive: argument, "env": [{"name": "b"}]}]},
        });
        if let Ok(patched) = strategic("Pod", &live, &patch) {
            prop_assert!(!has_directive(&patched), "{}", patched);
        }
    }
}
