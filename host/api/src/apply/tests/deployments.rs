//! Random appliers of a Deployment: what must hold whatever they apply.

use proptest::{prelude::*, sample::subsequence, test_runner::RngSeed};
use serde_json::{Value as Json, json};

use super::*;

const MANAGERS: [&str; 3] = ["ann", "bob", "cid"];

fn bare() -> Json {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" } })
}

/// Parts of a configuration: each can be applied with any other. Where two have the same field, the later one counts.
fn parts() -> Vec<Json> {
    let pod = |spec: Json| json!({ "spec": { "template": { "spec": spec } } });
    vec![
        json!({ "spec": { "replicas": 1 } }),
        json!({ "spec": { "replicas": 2 } }),
        json!({ "metadata": { "labels": { "a": "1" } } }),
        json!({ "metadata": { "labels": { "a": "2", "b": "1" } } }),
        json!({ "metadata": { "finalizers": ["x/a"] } }),
        json!({ "metadata": { "finalizers": ["x/b", "x/a"] } }),
        json!({ "spec": { "selector": { "matchLabels": { "app": "web" } } } }),
        json!({ "spec": { "strategy": { "type": "Recreate" } } }),
        json!({ "spec": { "strategy": { "rollingUpdate": { "maxSurge": "25%" } } } }),
        pod(json!({ "nodeSelector": { "zone": "a" } })),
        pod(json!({ "nodeSelector": { "disk": "ssd" } })),
        pod(json!({ "tolerations": [{ "key": "k" }] })),
        pod(json!({ "containers": [{ "name": "main", "image": "a" }] })),
        pod(
            json!({ "containers": [{ "name": "main", "image": "b", "ports": [{ "containerPort": 80 }] }] }),
        ),
        pod(
            json!({ "containers": [{ "name": "side", "env": [{ "name": "E", "value": "1" }] }, { "name": "main", "image": "a" }] }),
        ),
        pod(json!({ "containers": [{ "name": "side", "env": [{ "name": "F", "value": "2" }] }] })),
    ]
}

fn merge(into: &mut Json, part: &Json) {
    match (into, part) {
        (Json::Object(into), Json::Object(part)) => {
            for (name, value) in part {
                merge(into.entry(name.clone()).or_insert(Json::Null), value);
            }
        }
        (into, part) => *into = part.clone(),
    }
}

/// Whether all that is applied is there, list elements being found by their name, port or value.
fn holds(live: &Json, config: &Json) -> bool {
    match (live, config) {
        (Json::Object(live), Json::Object(config)) => config
            .iter()
            .all(|(name, value)| live.get(name).is_some_and(|live| holds(live, value))),
        (Json::Array(live), Json::Array(config)) => config.iter().all(|wanted| {
            live.iter().any(
                |found| match wanted.get("name").or(wanted.get("containerPort")) {
                    Some(_) => holds(found, wanted),
                    None => found == wanted,
                },
            )
        }),
        (live, config) => live == config,
    }
}

/// Leaves out objects without fields: structs are there even when they are empty.
fn drop_empty(value: &mut Json) {
    if let Json::Object(fields) = value {
        fields.values_mut().for_each(drop_empty);
        fields.retain(|_, value| value.as_object().is_none_or(|fields| !fields.is_empty()));
    }
}

fn configuration() -> impl Strategy<Value = Json> {
    subsequence(parts(), 0..6).prop_map(|parts| {
        let mut config = bare();
        for part in &parts {
            merge(&mut config, part);
        }
        config
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: RngSeed::Fixed(32), ..ProptestConfig::default() })]

    #[test]
    fn applies_keep_their_word(
        steps in prop::collection::vec((0..3usize, configuration(), any::<bool>()), 1..10),
    ) {
        let mut world = World::of("apps", "v1", "Deployment");
        for (who, config, force) in steps {
            let before = world.clone();
            match world.try_apply(MANAGERS[who], config.clone(), force) {
                Err(status) => {
                    prop_assert_eq!(status.code, 409, "{}", status.message);
                    prop_assert!(!force);
                    prop_assert_eq!((&world.live, &world.managed), (&before.live, &before.managed));
                    continue;
                }
                Ok(()) => prop_assert!(holds(&world.live(), &config), "{} lacks {config}", world.live()),
            }
            let once = world.clone();
            world.try_apply(MANAGERS[who], config, false).unwrap();
            prop_assert_eq!((&world.live, &world.managed), (&once.live, &once.managed), "applied twice");
            // nobody owns what is not there, and what the two sides of a conflict agreed on is shared
            let live = world.live().to_string();
            let live = Value::parse(live.as_bytes()).unwrap();
            let there = field_set(world.schema, &live).with_named_fields(world.schema);
            for entry in world.entries().as_array().unwrap() {
                let fields = entry["fieldsV1"].to_string();
                let missing = FieldSet::from_json(&fields).unwrap().difference(&there).paths();
                prop_assert!(missing.is_empty(), "{} owns {missing:?}", entry["manager"]);
            }
        }
        // when all have given up all, nothing is left
        for manager in MANAGERS {
            world.try_apply(manager, bare(), false).unwrap();
        }
        let mut left = world.live();
        drop_empty(&mut left);
        prop_assert_eq!((left, world.managed), (bare(), None));
    }
}
