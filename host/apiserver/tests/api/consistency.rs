//! Lists and watches under writes: pages show one revision, and a watch leads from one list to the next.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use crate::harness::{Api, MAPS, config_map};

/// Cases differ by their seed, which a failure prints.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

const OTHER: &str = "/api/v1/namespaces/kube-public/configmaps";
const EVERYWHERE: &str = "/api/v1/configmaps";

/// Creates, changes or deletes one of a few ConfigMaps in two namespaces.
async fn write_something(api: &Api, random: &mut Random) {
    let collection = if random.below(4) == 0 { OTHER } else { MAPS };
    let name = format!("m{}", random.below(12));
    let mut map = config_map(&name, &random.below(1000).to_string());
    map["metadata"]["labels"] = json!({ "app": if random.below(2) == 0 { "x" } else { "y" } });
    let path = format!("{collection}/{name}");
    match random.below(3) {
        0 => drop(api.delete(&path).await),
        _ if api.post(collection, map.clone()).await.code == 201 => {}
        _ => drop(api.put(&path, map).await),
    }
}

/// Objects by namespace and name; items of lists have no kind, so it is taken off.
fn by_key(items: &[Value]) -> BTreeMap<String, Value> {
    items.iter().cloned().map(keyed).collect()
}

fn keyed(mut object: Value) -> (String, Value) {
    let members = object.as_object_mut().unwrap();
    members.remove("kind");
    members.remove("apiVersion");
    let text = |name: &str| object["metadata"][name].as_str().unwrap().to_owned();
    (format!("{}/{}", text("namespace"), text("name")), object)
}

fn version(of: &Value) -> u64 {
    let version = of["metadata"]["resourceVersion"].as_str().unwrap();
    version.parse().unwrap()
}

#[tokio::test]
async fn pages_equal_one_list_whatever_is_written_meanwhile() {
    let api = Arc::new(Api::start().await);
    for seed in 0..12 {
        let mut random = Random(seed);
        for _ in 0..20 {
            write_something(&api, &mut random).await;
        }
        let writer = tokio::spawn({
            let (api, mut random) = (api.clone(), Random(seed + 1000));
            async move {
                for _ in 0..60 {
                    write_something(&api, &mut random).await;
                }
            }
        });
        let collection = if random.below(2) == 0 {
            MAPS
        } else {
            EVERYWHERE
        };
        let selector = [
            "",
            "&labelSelector=app%3Dx",
            "&fieldSelector=metadata.name!%3Dm3",
        ][random.below(3) as usize];
        let (mut paged, mut token, mut revision) = (Vec::new(), String::new(), 0);
        loop {
            let limit = 1 + random.below(5);
            let query = format!("limit={limit}{selector}&continue={token}");
            let page = api.get(&format!("{collection}?{query}")).await.expect(200);
            let items = page["items"].as_array().unwrap();
            assert!(items.len() as u64 <= limit, "seed {seed}");
            if revision != 0 {
                assert_eq!(version(&page), revision, "seed {seed}");
            }
            revision = version(&page);
            paged.extend(items.iter().cloned());
            match page["metadata"]["continue"].as_str() {
                Some(next) => token = next.to_owned(),
                None => break,
            }
            if random.below(2) == 0 {
                write_something(&api, &mut random).await;
            }
        }
        let exact =
            format!("{collection}?resourceVersion={revision}&resourceVersionMatch=Exact{selector}");
        let whole = api.get(&exact).await.expect(200);
        assert_eq!(
            json!(paged),
            whole["items"],
            "seed {seed} {collection} {selector}"
        );
        assert_eq!(version(&whole), revision, "seed {seed}");
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn a_watch_leads_from_one_list_to_the_next() {
    let api = Arc::new(Api::start().await);
    for seed in 0..8 {
        let mut random = Random(seed);
        for _ in 0..15 {
            write_something(&api, &mut random).await;
        }
        let views = [
            (MAPS, ""),
            (EVERYWHERE, ""),
            (MAPS, "&labelSelector=app%3Dx"),
            (EVERYWHERE, "&labelSelector=app%20notin%20(x)"),
            (EVERYWHERE, "&fieldSelector=metadata.name!%3Dm3"),
            (
                EVERYWHERE,
                "&fieldSelector=metadata.namespace%3Dkube-public&labelSelector=app%3Dx",
            ),
        ];
        let mut watches = Vec::new();
        for (collection, selector) in views {
            let list = api
                .get(&format!("{collection}?limit=0{selector}"))
                .await
                .expect(200);
            let from = version(&list);
            // some writes fall between the list and its watch
            write_something(&api, &mut random).await;
            let watch = format!("{collection}?watch=1&resourceVersion={from}{selector}");
            let objects = by_key(list["items"].as_array().unwrap());
            watches.push((objects, api.watch(&watch, &[]).await));
        }
        let writers = (0..3).map(|writer| {
            let (api, mut random) = (api.clone(), Random(seed * 10 + writer + 2000));
            tokio::spawn(async move {
                for _ in 0..25 {
                    write_something(&api, &mut random).await;
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        for ((collection, selector), (objects, watch)) in views.iter().zip(&mut watches) {
            let next = api
                .get(&format!("{collection}?limit=0{selector}"))
                .await
                .expect(200);
            // one more object that every view sees says when everything before has come
            let end = api.post(OTHER, end_of(collection, seed, selector)).await;
            let end = match *collection {
                MAPS => api.post(MAPS, end_of(collection, seed, selector)).await,
                _ => end,
            };
            let end = version(&end.expect(201));
            let mut revision = 0;
            loop {
                let event = watch.next().await.unwrap();
                let (kind, object) = (event["type"].as_str().unwrap(), event["object"].clone());
                assert!(version(&object) > revision, "seed {seed}: {event}");
                revision = version(&object);
                if revision == end {
                    break;
                }
                let (key, object) = keyed(object);
                if key.contains("/end-") {
                    continue; // of another view
                }
                let before = match kind {
                    "DELETED" => objects.remove(&key),
                    _ => objects.insert(key, object),
                };
                assert_eq!(before.is_none(), kind == "ADDED", "seed {seed}: {event}");
            }
            let mut expected = by_key(next["items"].as_array().unwrap());
            expected.retain(|key, _| !key.contains("/end-"));
            objects.retain(|key, _| !key.contains("/end-"));
            assert_eq!(*objects, expected, "seed {seed} {collection} {selector}");
        }
    }
}

/// An object that the view's selector selects, of a name of its own.
fn end_of(collection: &str, seed: u64, selector: &str) -> Value {
    let place = collection.len();
    let mut map = config_map(&format!("end-{seed}-{place}-{}", selector.len()), "");
    let app = if selector.contains("notin") { "z" } else { "x" };
    map["metadata"]["labels"] = json!({ "app": app });
    map
}
