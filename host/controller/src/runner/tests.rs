use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use pilothouse_plugin::{
    CallError,
    cluster::{CallingPlugin, Cluster, DeleteOptions, GroupVersionResource as Outward},
};
use serde_json::json;

use super::*;
use crate::testing::{CONFIG_MAPS, Native, World, settings, settle};

const BY: CallingPlugin<'static> = CallingPlugin {
    name: "test",
    component: "test",
};

fn outward() -> Outward {
    Outward {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "configmaps".to_owned(),
    }
}

fn watch_own() -> serde_json::Value {
    json!({"watches": [{"version": "v1", "resource": "configmaps", "map": "self"}]})
}

#[tokio::test(start_paused = true)]
async fn every_present_object_is_a_key_at_load_and_every_change_afterwards() {
    let world = World::new();
    world.config_map("x").await;
    world.config_map("y").await;
    let native = Native::idle();
    let runner = world.runner(native.clone(), watch_own());
    settle().await;
    let mut keys = native.taken();
    keys.sort();
    assert_eq!(keys, ["a/x", "a/y"]);
    assert!(runner.is_idle());

    world.config_map("z").await;
    settle().await;
    assert_eq!(native.taken(), ["a/z"]);
    assert_eq!(world.shared.metrics.reconciles("test", "success"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_key_runs_again_only_when_the_caches_have_seen_what_it_wrote() {
    let world = World::new();
    world.config_map("x").await;
    let cluster = world.shared.cluster.clone();
    let stale = Arc::new(AtomicU32::new(0));
    let seen_stale = stale.clone();
    let native = Native::new(move |key| {
        let (cluster, stale) = (cluster.clone(), seen_stale.clone());
        async move {
            let bytes = cluster.get(BY, &outward(), "a", &key.name).await.unwrap();
            let live = cluster
                .get_live(BY, &outward(), "a", &key.name)
                .await
                .unwrap();
            if bytes != live {
                stale.fetch_add(1, SeqCst);
            }
            let object: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            let count = object["data"]["count"].as_i64().unwrap_or(0);
            if count < 5 {
                let patch = json!({"data": {"count": count + 1}}).to_string();
                let kind = pilothouse_plugin::cluster::PatchType::Merge;
                let of = outward();
                let written = cluster.patch(BY, &of, "a", &key.name, "", kind, patch.into());
                written.await.unwrap();
                return Ok(Outcome::RequeueAfter(Duration::ZERO));
            }
            Ok(Outcome::Done)
        }
    });
    let runner = world.runner(native.clone(), watch_own());
    settle().await;
    assert_eq!(native.taken().len(), 6, "five writes and a look");

    // with watches held back the key stays running, although it asked to run at once
    world.server.hold_watches();
    let patch = json!({"data": {"count": 0}}).to_string();
    let client = world.server.client();
    let kind = pilothouse_client::PatchType::Merge;
    client
        .patch(&CONFIG_MAPS, "a", "x", "", kind, patch)
        .await
        .unwrap();
    world.server.release_watches();
    world.server.hold_watches();
    settle().await;
    assert_eq!(
        native.taken().len(),
        1,
        "one run, whose write is not seen yet"
    );
    assert!(!runner.is_idle());
    world.server.release_watches();
    settle().await;
    assert_eq!(native.taken().len(), 5);
    assert_eq!(stale.load(SeqCst), 0);
    assert_eq!(world.shared.metrics.reconciles("test", "requeue"), 10);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_waited_for_too_but_not_a_later_one_of_its_name() {
    let world = World::new();
    world.config_map("x").await;
    let cluster = world.shared.cluster.clone();
    let native = Native::new(move |key| {
        let cluster = cluster.clone();
        async move {
            if cluster.get(BY, &outward(), "a", &key.name).await.is_ok() {
                let options = DeleteOptions {
                    propagation: None,
                    grace_period_seconds: None,
                    uid: None,
                    resource_version: None,
                };
                let deleted = cluster
                    .delete(BY, &outward(), "a", &key.name, options)
                    .await;
                deleted.expect("the cache shows only what is there");
            }
            Ok(Outcome::Done)
        }
    });
    let _runner = world.runner(native.clone(), watch_own());
    settle().await;
    assert_eq!(
        native.taken(),
        ["a/x", "a/x"],
        "the event of its own deletion runs it once more"
    );
    for _ in 0..5 {
        world.config_map("x").await;
        settle().await;
    }
    assert_eq!(native.taken().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn failures_and_traps_are_backed_off_and_forgotten_after_a_success() {
    let world = World::new();
    world.config_map("x").await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let native = Native::new(move |_| {
        let run = counted.fetch_add(1, SeqCst);
        async move {
            match run {
                0 => Err(ReconcileError::Failed("Conflict: lost".to_owned())),
                1 => Err(ReconcileError::Call(CallError::Trap {
                    plugin: "test".into(),
                    interface: "controller/reconcile",
                    cause: "unreachable".to_owned(),
                })),
                2 => Ok(Outcome::RequeueAfter(Duration::from_secs(60))),
                _ => Ok(Outcome::Done),
            }
        }
    });
    let began = Instant::now();
    let runner = world.runner(native.clone(), watch_own());
    while runs.load(SeqCst) < 4 {
        settle().await;
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(60_000 + 5 + 10), "{took:?}");
    settle().await;
    assert!(runner.is_idle());
    for (result, count) in [("error", 1), ("trap", 1), ("requeue", 1), ("success", 1)] {
        assert_eq!(
            world.shared.metrics.reconciles("test", result),
            count,
            "{result}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn one_key_never_runs_twice_at_once_and_different_keys_do_even_across_a_reload() {
    let world = World::new();
    world.config_map("x").await;
    world.config_map("y").await;
    let running = Arc::new(Mutex::new(Vec::<String>::new()));
    let most = Arc::new(AtomicU32::new(0));
    let (now, max) = (running.clone(), most.clone());
    let slow = move |key: Key| {
        let (now, max) = (now.clone(), max.clone());
        async move {
            {
                let mut now = now.lock();
                assert!(!now.contains(&key.name), "{key} runs twice");
                now.push(key.name.clone());
                max.fetch_max(now.len() as u32, SeqCst);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            now.lock().retain(|name| *name != key.name);
            Ok(Outcome::Done)
        }
    };
    let first = Native::new(slow.clone());
    let second = Native::new(slow);
    let runner = world.runner(first.clone(), watch_own());
    settle().await;
    assert_eq!(running.lock().len(), 2);
    runner.load(second.clone(), &settings(watch_own()));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        first.taken().len(),
        2,
        "in-flight runs end on the old revision"
    );
    let mut keys = second.taken();
    keys.sort();
    assert_eq!(keys, ["a/x", "a/y"], "all keys run on the new one");
    assert_eq!(most.load(SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_controller_finishes_its_runs_and_takes_no_more() {
    let world = World::new();
    world.config_map("x").await;
    let ended = Arc::new(AtomicU32::new(0));
    let counted = ended.clone();
    let native = Native::new(move |_| {
        let ended = counted.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            ended.fetch_add(1, SeqCst);
            Ok(Outcome::Done)
        }
    });
    let runner = world.runner(native.clone(), watch_own());
    settle().await;
    runner.stop().await;
    assert_eq!(ended.load(SeqCst), 1);
    world.config_map("y").await;
    settle().await;
    assert_eq!(native.taken(), ["a/x"]);
    drop(runner);
    settle().await;
    assert!(
        world.shared.informers.running(&CONFIG_MAPS).is_none(),
        "its informers are gone"
    );
}

#[tokio::test(start_paused = true)]
async fn resync_runs_own_keys_and_the_singleton_again() {
    let world = World::new();
    world.config_map("x").await;
    let native = Native::idle();
    let mut with_resync = watch_own();
    with_resync["resyncSeconds"] = json!(60);
    with_resync["singleton"] = json!(true);
    let _runner = world.runner(native.clone(), with_resync);
    settle().await;
    let sorted = |mut keys: Vec<String>| {
        keys.sort();
        keys
    };
    assert_eq!(sorted(native.taken()), ["", "a/x"]);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(sorted(native.taken()), ["", "a/x"]);
}

#[tokio::test(start_paused = true)]
async fn custom_watches_ask_the_plugin_and_repeat_what_failed() {
    let world = World::new();
    world.config_map("x").await;
    let calls = Arc::new(AtomicU32::new(0));
    let native = Native::mapping(
        |_| async { Ok(Outcome::Done) },
        move |event| {
            if calls.fetch_add(1, SeqCst) == 0 {
                return Err(ReconcileError::Failed("not now".to_owned()));
            }
            let object: serde_json::Value = serde_json::from_slice(&event.object).unwrap();
            let name = object["metadata"]["name"].as_str().unwrap();
            Ok(vec![Key::new("mapped", name)])
        },
    );
    let custom = json!({"watches": [{"version": "v1", "resource": "configmaps", "map": "custom"}]});
    let _runner = world.runner(native.clone(), custom);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(native.taken(), ["mapped/x"]);
    assert_eq!(native.mapped.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_history_that_is_gone_costs_nothing_but_a_relist() {
    let world = World::new();
    world.config_map("x").await;
    let native = Native::idle();
    let _runner = world.runner(native.clone(), watch_own());
    settle().await;
    native.taken();
    world.server.hold_watches();
    world.config_map("y").await;
    world.server.compact();
    world.server.release_watches();
    world.config_map("z").await;
    settle().await;
    let mut keys = native.taken();
    keys.sort();
    assert_eq!(keys, ["a/y", "a/z"]);
}
