//! Several API servers on one etcd: whatever happens to its members, what clients read and write is linearizable, and so are reads
//! through a watch cache that has caught up.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use pilothouse_api::{GroupVersionResource, ResourceInfo, SharedObject};
use pilothouse_storage::{
    KeyValue, Lease, Revision, Storage, StorageError, Txn, WatchCache, engine::Op,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{sync::Notify, task::JoinSet};

use crate::{
    etcd_cluster::EtcdCluster,
    etcd_faults::engines,
    harness::{PATIENCE, just},
    linearizability::{Answer, Call, Event, Version, linearizable},
};

/// Few, so that clients meet.
const KEYS: usize = 6;
const CLIENTS: usize = 6;
const CALLS: usize = 80;
const NAMESPACE: &str = "default";

fn config_maps() -> ResourceInfo {
    ResourceInfo {
        gvr: GroupVersionResource::of("", "v1", "configmaps"),
        kind: "ConfigMap".into(),
        singular: "configmap".into(),
        namespaced: true,
        short_names: vec![],
        categories: vec![],
        selectable_fields: vec![],
        storage_prefix: "configmaps".into(),
    }
}

fn name(key: usize) -> String {
    format!("k{key}")
}

/// The document of a token, and the token of a document.
fn document(key: usize, token: &str) -> Bytes {
    let name = name(key);
    format!(r#"{{"metadata":{{"name":"{name}","namespace":"{NAMESPACE}"}},"data":{{"token":"{token}"}}}}"#)
        .into()
}

fn token(document: &[u8]) -> String {
    let text = String::from_utf8_lossy(document);
    let (_, rest) = text.split_once(r#""token":""#).expect("a token");
    rest.split('"').next().unwrap_or_default().to_owned()
}

fn stored(kv: &KeyValue) -> Version {
    (kv.mod_revision.0, token(&kv.value))
}

fn cached(object: &SharedObject) -> Version {
    (object.revision.0, token(&object.bytes))
}

/// What an API server has.
#[derive(Clone)]
struct Server {
    storage: Arc<dyn Storage>,
    cache: Arc<WatchCache>,
}

/// What all clients share.
#[derive(Default)]
struct Notes {
    events: Mutex<Vec<Event>>,
    /// A client whose call got no answer goes on under another number.
    numbers: AtomicUsize,
    answered: AtomicUsize,
    moved: Notify,
}

impl Notes {
    fn note(&self, event: Event) {
        self.events.lock().expect("nobody panicked").push(event);
    }

    fn number(&self) -> usize {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits until so many calls have been answered.
    async fn answers(&self, goal: usize) {
        let answered = async {
            loop {
                let moved = self.moved.notified();
                if self.answered.load(Ordering::Acquire) >= goal {
                    return;
                }
                moved.await;
            }
        };
        let answered = tokio::time::timeout(PATIENCE, answered).await;
        answered.expect("the clients hang");
    }
}

struct Client {
    servers: Vec<Server>,
    notes: Arc<Notes>,
    chance: StdRng,
    /// The revision in which each key was seen last.
    known: [u64; KEYS],
}

impl Client {
    /// Makes calls until so many have been answered.
    async fn run(mut self) {
        let mut number = self.notes.number();
        let mut answered = 0;
        for n in 0.. {
            let key = self.chance.random_range(0..KEYS);
            let server = self.chance.random_range(0..self.servers.len());
            let server = self.servers[server].clone();
            let value = format!("{number}-{n}");
            let call = match self.chance.random_range(0..10) {
                0..2 => Call::Put(value),
                2..4 => Call::PutIf(self.known[key], value),
                4 if self.known[key] > 0 => Call::DeleteIf(self.known[key]),
                _ => Call::Get,
            };
            self.notes.note(Event::Called {
                client: number,
                key: name(key),
                call: call.clone(),
            });
            let answer = match call {
                Call::Get => self.read(&server, key).await,
                call => write(&server, key, call).await,
            };
            let Some(answer) = answer else {
                number = self.notes.number();
                continue;
            };
            self.known[key] = match &answer {
                Answer::Written(revision) => *revision,
                Answer::Found(seen) | Answer::Refused(seen) => {
                    seen.as_ref().map_or(0, |seen| seen.0)
                }
            };
            self.notes.note(Event::Answered {
                client: number,
                answer,
            });
            self.notes.answered.fetch_add(1, Ordering::AcqRel);
            self.notes.moved.notify_waiters();
            answered += 1;
            if answered == CALLS {
                return;
            }
        }
    }

    /// From storage, from storage with the cache's help, from the cache once it has caught up, or from a list of it.
    async fn read(&mut self, server: &Server, key: usize) -> Option<Answer> {
        let (cache, name) = (&server.cache, name(key));
        let caught_up = async || {
            cache
                .catch_up(std::time::Duration::from_secs(10))
                .await
                .ok()
        };
        let found = match self.chance.random_range(0..4) {
            0 => {
                let key = config_maps().storage_key(NAMESPACE, &name);
                let response = server.storage.get(&key, None).await.ok()?;
                response.kv.as_ref().map(stored)
            }
            1 => {
                let (found, _) = cache.get_fresh(NAMESPACE, &name).await.ok()?;
                found.as_ref().map(cached)
            }
            2 => {
                caught_up().await?;
                cache.get(NAMESPACE, &name).ok()?.as_ref().map(cached)
            }
            _ => {
                caught_up().await?;
                let list = cache.list(Some(NAMESPACE)).ok()?;
                let found = list.iter().find(|object| object.header.name == name);
                found.map(cached)
            }
        };
        Some(Answer::Found(found))
    }
}

/// `None` if its outcome is not known.
async fn write(server: &Server, key: usize, call: Call) -> Option<Answer> {
    let path = config_maps().storage_key(NAMESPACE, &name(key));
    let txn = match call {
        Call::Put(value) => just(vec![Op::Put {
            key: path,
            value: document(key, &value),
            lease: Lease::default(),
        }]),
        Call::PutIf(expected, value) => {
            let value = document(key, &value);
            Txn::put_if(&path, Revision(expected), value, Lease::default())
        }
        Call::DeleteIf(expected) => Txn::delete_if(&path, Revision(expected)),
        Call::Get => return None,
    };
    match server.storage.txn(txn).await {
        Ok(response) if response.succeeded => Some(Answer::Written(response.revision.0)),
        Ok(response) => {
            let seen = response.gets.into_iter().flatten().next();
            Some(Answer::Refused(seen.as_ref().map(stored)))
        }
        Err(StorageError::Unavailable(_) | StorageError::OutcomeUnknown(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_linearizable_through_watch_caches_too() {
    let mut cluster = EtcdCluster::start();
    let mut servers = Vec::new();
    for storage in engines(&cluster).await {
        let cache = Arc::new(WatchCache::start(storage.clone(), config_maps()));
        cache.ready(PATIENCE).await.expect("ready");
        servers.push(Server { storage, cache });
    }
    let notes = Arc::new(Notes::default());
    let seed: u64 = rand::random();
    eprintln!("seed {seed}");
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let client = Client {
            servers: servers.clone(),
            notes: notes.clone(),
            chance: StdRng::seed_from_u64(seed.wrapping_add(client as u64)),
            known: [0; KEYS],
        };
        clients.spawn(client.run());
    }
    let part = CLIENTS * CALLS / 4;
    notes.answers(part).await;
    let leader = cluster.leader().await;
    cluster.kill(leader);
    notes.answers(2 * part).await;
    cluster.restart(leader);
    let other = (leader + 1) % 3;
    cluster.freeze(other);
    notes.answers(3 * part).await;
    cluster.thaw(other);
    let ended = tokio::time::timeout(PATIENCE, clients.join_all()).await;
    ended.expect("the clients hang");
    let events = std::mem::take(&mut *notes.events.lock().expect("nobody panicked"));
    linearizable(&events);
}
