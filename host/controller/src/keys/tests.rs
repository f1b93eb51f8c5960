use std::sync::Arc;

use pilothouse_api::{ResourceInfo, SharedObject};
use serde_json::json;

use super::*;

fn cache() -> Cache {
    let info = ResourceInfo {
        gvr: GroupVersionResource::of("", "v1", "pods"),
        kind: "Pod".into(),
        singular: "pod".into(),
        namespaced: true,
        short_names: Vec::new(),
        categories: Vec::new(),
        selectable_fields: vec!["spec.nodeName".to_owned()],
        storage_prefix: "pods".into(),
    };
    Cache::new(info, Vec::new())
}

fn object(name: &str, more: serde_json::Value) -> SharedObject {
    let mut document =
        json!({"metadata": {"namespace": "a", "name": name, "resourceVersion": "1"}});
    json_merge(&mut document, more);
    let bytes = document.to_string().into();
    Arc::new(Object::from_response(bytes, &["spec.nodeName"]).unwrap())
}

fn json_merge(target: &mut serde_json::Value, patch: serde_json::Value) {
    match patch {
        serde_json::Value::Object(members) => {
            for (key, value) in members {
                json_merge(&mut target[key], value);
            }
        }
        other => *target = other,
    }
}

fn mapper(watch: serde_json::Value) -> Mapper {
    let mut full = json!({"version": "v1", "resource": "pods"});
    json_merge(&mut full, watch);
    let watch: Watch = serde_json::from_value(full).unwrap();
    Mapper::new(&watch, &cache()).unwrap()
}

fn keys(map: serde_json::Value, more: serde_json::Value) -> Vec<String> {
    let event = CacheEvent::Added(object("pod", more));
    let keys = mapper(json!({"map": map})).keys(&event, &Selectors::default());
    keys.iter().map(Key::to_string).collect()
}

#[test]
fn each_map_makes_its_keys() {
    let owners = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1beta1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true},
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "2"},
    ]}});
    let labels = json!({"metadata": {"labels": {"svc": "web"}}});
    let spec = json!({"spec": {"nodeName": "n1", "port": 80, "list": [1]}});
    let owner =
        |api_version: &str, kind: &str| json!({"owner": {"apiVersion": api_version, "kind": kind}});
    for (map, more, expected) in [
        (json!("self"), json!({}), vec!["a/pod"]),
        (owner("apps/v1", "ReplicaSet"), owners.clone(), vec!["a/rs"]),
        (owner("v1", "ReplicaSet"), owners.clone(), vec![]),
        (owner("v1", "Node"), owners.clone(), vec![]),
        (
            json!({"owner": {"apiVersion": "v1", "kind": "Node", "any": true, "clusterScoped": true}}),
            owners,
            vec!["n"],
        ),
        (
            json!({"label": {"key": "svc"}}),
            labels.clone(),
            vec!["a/web"],
        ),
        (
            json!({"label": {"key": "svc", "clusterScoped": true}}),
            labels.clone(),
            vec!["web"],
        ),
        (json!({"label": {"key": "other"}}), labels, vec![]),
        (
            json!({"field": {"path": "spec.nodeName"}}),
            spec.clone(),
            vec!["n1"],
        ),
        (
            json!({"field": {"path": "spec.nodeName", "namespaced": true}}),
            spec.clone(),
            vec!["a/n1"],
        ),
        (
            json!({"field": {"path": "spec.port"}}),
            spec.clone(),
            vec!["80"],
        ),
        (json!({"field": {"path": "spec.list"}}), spec, vec![]),
        (json!("namespace"), json!({}), vec!["a"]),
        (json!({"key": {"name": "all"}}), json!({}), vec!["all"]),
        (json!("custom"), json!({}), vec![]),
        (json!("none"), json!({}), vec![]),
    ] {
        assert_eq!(keys(map.clone(), more), expected, "{map}");
    }
}

#[test]
fn a_modification_makes_the_keys_of_both_versions_once() {
    let node = |name: &str| object("pod", json!({"spec": {"nodeName": name}}));
    let mapper = mapper(json!({"map": {"field": {"path": "spec.nodeName"}}}));
    let keys = |old: &str, new: &str| {
        let event = CacheEvent::Modified {
            old: node(old),
            new: node(new),
        };
        let keys = mapper.keys(&event, &Selectors::default());
        keys.iter().map(Key::to_string).collect::<Vec<_>>()
    };
    assert_eq!(keys("n1", "n2"), ["n2", "n1"]);
    assert_eq!(keys("n1", "n1"), ["n1"]);
    assert_eq!(keys("", "n1"), ["n1"]);
}

#[test]
fn filters_let_an_object_that_leaves_them_through_once_more() {
    let mapper = mapper(
        json!({"map": "self", "labelSelector": "app=web", "fieldSelector": "spec.nodeName!="}),
    );
    let pod = |app: &str, node: &str| {
        object(
            "pod",
            json!({"metadata": {"labels": {"app": app}}, "spec": {"nodeName": node}}),
        )
    };
    let count = |event: CacheEvent| {
        let keys = mapper.keys(&event, &Selectors::default()).len();
        assert_eq!(mapper.wants(&event), keys == 1);
        keys
    };
    assert_eq!(count(CacheEvent::Added(pod("web", "n"))), 1);
    assert_eq!(count(CacheEvent::Added(pod("web", ""))), 0);
    assert_eq!(count(CacheEvent::Added(pod("db", "n"))), 0);
    assert_eq!(
        count(CacheEvent::Modified {
            old: pod("web", "n"),
            new: pod("db", "n")
        }),
        1
    );
    assert_eq!(count(CacheEvent::Deleted(pod("web", "n"))), 1);
}

#[test]
fn selectors_of_own_objects_find_what_they_select() {
    let selectors = Selectors::at("spec.selector");
    let own = |name: &str, selector: serde_json::Value| {
        object(name, json!({"spec": {"selector": selector}}))
    };
    for (name, selector) in [
        ("service", json!({"app": "web"})),
        (
            "set",
            json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
        ),
        ("empty", json!({})),
        ("everything", json!({"matchLabels": {}})),
        (
            "broken",
            json!({"matchExpressions": [{"key": "tier", "operator": "What"}]}),
        ),
    ] {
        selectors.follow(&CacheEvent::Added(own(name, selector)));
    }
    let found = |labels: serde_json::Value, orphans: bool, owned: bool| {
        let mapper =
            mapper(json!({"map": {"selector": {"path": "spec.selector", "orphans": orphans}}}));
        let owners = match owned {
            true => {
                json!([{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1", "controller": true}])
            }
            false => json!([]),
        };
        let pod = object(
            "pod",
            json!({"metadata": {"labels": labels, "ownerReferences": owners}}),
        );
        let mut keys = mapper.keys(&CacheEvent::Added(pod), &selectors);
        keys.sort();
        keys.iter().map(Key::to_string).collect::<Vec<_>>()
    };
    assert_eq!(found(json!({"app": "web"}), false, false), ["a/service"]);
    assert_eq!(
        found(json!({"app": "web", "tier": "1"}), false, false),
        ["a/service", "a/set"]
    );
    assert_eq!(found(json!({"app": "web"}), true, true), [""; 0]);
    assert_eq!(found(json!({"app": "web"}), false, true), ["a/service"]);
    let changed = CacheEvent::Modified {
        old: own("service", json!({"app": "web"})),
        new: own("service", json!({"app": "db"})),
    };
    selectors.follow(&changed);
    assert_eq!(found(json!({"app": "web"}), false, false), [""; 0]);
    selectors.follow(&CacheEvent::Deleted(own("service", json!({"app": "db"}))));
    assert_eq!(found(json!({"app": "db"}), false, false), [""; 0]);
}
