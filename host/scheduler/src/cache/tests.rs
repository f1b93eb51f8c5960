use std::collections::BTreeMap;

use bytes::Bytes;
use pilothouse_api::Revision;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;

use super::*;

fn node(name: &str, cpu: u32) -> NodeInfo {
    let json = json!({
        "metadata": { "name": name },
        "status": { "allocatable": { "cpu": cpu.to_string(), "pods": "110" } },
    });
    NodeInfo::parse(Revision(1), Bytes::from(json.to_string())).unwrap()
}

fn pod(uid: &str, node_name: &str, cpu_milli: u32) -> Arc<PodInfo> {
    let json = json!({
        "metadata": { "name": uid, "namespace": "default", "uid": uid },
        "spec": { "nodeName": node_name, "containers": [
            { "name": "c", "resources": { "requests": { "cpu": format!("{cpu_milli}m") } } },
        ] },
    });
    Arc::new(PodInfo::parse(Revision(1), Bytes::from(json.to_string())).unwrap())
}

fn uid(uid: &str) -> Uid {
    uid.into()
}

/// A mirror as a plugin keeps it: index to name, and index to pods with CPU.
#[derive(Debug, Default, PartialEq)]
struct Mirror {
    epoch: u64,
    nodes: BTreeMap<u32, (String, Vec<i64>)>,
    pods: BTreeMap<u32, BTreeMap<String, i64>>,
}

impl Mirror {
    fn told_everything(cache: &Cache) -> Self {
        let mut mirror = Self::default();
        mirror.apply(cache.everything(), cache.epoch());
        mirror
    }

    fn follow(&mut self, cache: &Cache) {
        match cache.delta(self.epoch) {
            Some(delta) => self.apply(delta, cache.epoch()),
            None => *self = Self::told_everything(cache),
        }
    }

    fn apply(&mut self, delta: Delta, epoch: u64) {
        for index in delta.removed {
            self.nodes.remove(&index);
            self.pods.remove(&index);
        }
        for (index, node) in delta.upserts {
            let amounts = node.record.allocatable.iter().map(|q| q.value).collect();
            self.nodes.insert(index, (node.name.clone(), amounts));
        }
        for (index, added, pod) in delta.pods {
            let pods = self.pods.entry(index).or_default();
            let cpu = pod.assigned.requests[0].value;
            match added {
                true => assert_eq!(pods.insert(pod.uid.to_string(), cpu), None),
                false => assert_eq!(pods.remove(&*pod.uid), Some(cpu)),
            }
        }
        self.pods.retain(|_, pods| !pods.is_empty());
        self.epoch = epoch;
    }
}

#[test]
fn assumed_forgotten_confirmed_gone() {
    let mut cache = Cache::default();
    assert_eq!(
        cache.upsert_node(node("n", 4)),
        ClusterEvent::NodeAdd.into()
    );
    let release = EventSet::from(ClusterEvent::PodRelease);

    cache.assume(pod("a", "", 100), "n");
    assert!(cache.is_assumed(&uid("a")));
    assert_eq!(cache.forget(&uid("a")), release);
    assert_eq!(cache.pods_on("n").count(), 0);

    cache.assume(pod("a", "", 100), "n");
    cache.observe_pod(pod("a", "n", 100));
    assert!(!cache.is_assumed(&uid("a")));
    assert_eq!(cache.forget(&uid("a")), EventSet::NONE);
    assert_eq!(cache.pods_on("n").count(), 1);

    assert_eq!(cache.remove_pod(&uid("a")), release);
    assert_eq!(cache.remove_pod(&uid("a")), EventSet::NONE);
}

#[test]
fn observation_wins_over_assumption() {
    let mut cache = Cache::default();
    cache.upsert_node(node("n", 4));
    cache.upsert_node(node("m", 4));
    cache.assume(pod("a", "", 100), "n");
    cache.observe_pod(pod("a", "m", 100));
    assert_eq!(cache.pods_on("n").count(), 0);
    assert_eq!(cache.pods_on("m").count(), 1);
}

#[test]
fn a_pod_may_come_before_its_node() {
    let mut cache = Cache::default();
    let mut mirror = Mirror::default();
    cache.observe_pod(pod("a", "late", 100));
    mirror.follow(&cache);
    assert_eq!(mirror.pods.len(), 0);
    cache.upsert_node(node("late", 4));
    mirror.follow(&cache);
    assert_eq!(mirror.pods[&0].len(), 1);
}

#[test]
fn what_does_not_matter_makes_no_epoch() {
    let mut cache = Cache::default();
    cache.upsert_node(node("n", 4));
    cache.observe_pod(pod("a", "n", 100));
    let epoch = cache.epoch();
    cache.upsert_node(node("n", 4));
    cache.observe_pod(pod("a", "n", 100));
    assert_eq!(cache.epoch(), epoch);
}

#[test]
fn a_mirror_fed_by_deltas_is_like_one_told_everything() {
    for seed in 0..50 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut cache = Cache::default();
        let mut mirror = Mirror::default();
        for step in 0..300 {
            let name = format!("n{}", rng.random_range(0..6));
            let id = format!("p{}", rng.random_range(0..12));
            match rng.random_range(0..8) {
                0 | 1 => drop(cache.upsert_node(node(&name, rng.random_range(1..5)))),
                2 => cache.remove_node(&name),
                3 => cache.assume(pod(&id, "", 100), &name),
                4 => drop(cache.forget(&uid(&id))),
                5 | 6 => drop(cache.observe_pod(pod(&id, &name, rng.random_range(1..3) * 100))),
                _ => drop(cache.remove_pod(&uid(&id))),
            }
            if rng.random_bool(0.3) {
                mirror.follow(&cache);
                let fresh = Mirror::told_everything(&cache);
                assert_eq!(mirror, fresh, "seed {seed}, step {step}");
                if rng.random_bool(0.5) {
                    cache.trim(mirror.epoch);
                }
            }
        }
    }
}

#[test]
fn a_mirror_too_far_behind_is_told_everything() {
    let mut cache = Cache::default();
    cache.upsert_node(node("n", 4));
    for i in 0..LOG_CAPACITY {
        cache.observe_pod(pod(&format!("p{}", i % 7), "n", 1 + (i as u32 % 3)));
    }
    assert!(cache.delta(0).is_none());
    let mut mirror = Mirror::default();
    mirror.follow(&cache);
    assert_eq!(mirror.pods[&0].len(), 7);
}
