//! Clients that write and read a few keys at once, and a watch beside them; all say what they see.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use pilothouse_storage::{
    EventKind, KeyValue, Lease, Op, Result, Revision, Storage, Txn, WatchRequest,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::history::{Answer, Call, Event, Version};

/// Few enough for clients to meet, and for histories of a key to be checked quickly.
const KEYS: usize = 12;
const CLIENTS: usize = 6;

/// Where events go, in the order of their happening.
pub(crate) type Log = Arc<dyn Fn(Event) + Send + Sync>;

/// A transaction of one step.
pub(crate) fn just(op: Op) -> Txn {
    Txn {
        success: vec![op],
        ..Txn::default()
    }
}

pub(crate) fn put(key: &str, value: impl Into<Bytes>, lease: Lease) -> Op {
    Op::Put {
        key: key.to_owned(),
        value: value.into(),
        lease,
    }
}

/// Lets clients loose for so many calls each. `name` makes their values and their numbers unique within a history.
pub(crate) async fn run(storage: Arc<dyn Storage>, log: Log, name: usize, seed: u64, calls: usize) {
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let client = Client {
            storage: storage.clone(),
            log: log.clone(),
            number: name * CLIENTS + client,
            chance: StdRng::seed_from_u64(seed ^ (client as u64 + 1)),
            known: vec![0; KEYS],
        };
        clients.spawn(client.run(calls));
    }
    clients.join_all().await;
}

/// Says what a watch of everything after a revision sees.
pub(crate) async fn watch(storage: Arc<dyn Storage>, log: Log, after: u64) {
    let request = WatchRequest::new("/k/", Revision(after));
    let Ok(mut stream) = storage.watch(request).await else {
        return;
    };
    while let Some(Ok(batch)) = stream.next().await {
        for event in &batch.events {
            log(watched(event));
        }
    }
}

/// What a watch saw.
pub(crate) fn watched(event: &pilothouse_storage::Event) -> Event {
    Event::Watched {
        revision: event.kv.mod_revision.0,
        key: event.kv.key.to_string(),
        value: (event.kind == EventKind::Put).then(|| version(&event.kv).1),
    }
}

/// Reads every key, as a client of its own.
pub(crate) async fn read_all(storage: &dyn Storage, log: &Log, client: usize) {
    for key in 0..KEYS {
        let key = key_name(key);
        log(Event::Called {
            client,
            key: key.clone(),
            call: Call::Get,
        });
        let found = storage.get(&key, None).await.expect("reads go on");
        let answer = Answer::Found(found.kv.as_ref().map(version));
        log(Event::Answered { client, answer });
    }
}

fn key_name(key: usize) -> String {
    format!("/k/{key}")
}

/// The revision and the part of the value that is not padding.
fn version(kv: &KeyValue) -> Version {
    let text = kv.value.split(|b| *b == b' ').next().unwrap_or_default();
    (
        kv.mod_revision.0,
        String::from_utf8_lossy(text).into_owned(),
    )
}

struct Client {
    storage: Arc<dyn Storage>,
    log: Log,
    number: usize,
    chance: StdRng,
    /// The revision in which each key was seen last.
    known: Vec<u64>,
}

impl Client {
    async fn run(mut self, calls: usize) {
        for n in 0..calls {
            let key = self.chance.random_range(0..KEYS);
            let value = format!("{}-{n}", self.number);
            let call = match self.chance.random_range(0..10) {
                0..3 => Call::Put(value),
                3..7 => Call::PutIf(self.known[key], value),
                7 if self.known[key] > 0 => Call::DeleteIf(self.known[key]),
                _ => Call::Get,
            };
            (self.log)(Event::Called {
                client: self.number,
                key: key_name(key),
                call: call.clone(),
            });
            let Ok(answer) = self.call(&key_name(key), call).await else {
                return; // its outcome is not known
            };
            self.known[key] = match &answer {
                Answer::Written(revision) => *revision,
                Answer::Found(seen) | Answer::Refused(seen) => {
                    seen.as_ref().map_or(0, |seen| seen.0)
                }
            };
            (self.log)(Event::Answered {
                client: self.number,
                answer,
            });
        }
    }

    async fn call(&mut self, key: &str, call: Call) -> Result<Answer> {
        let txn = match call {
            Call::Get => {
                let found = self.storage.get(key, None).await?;
                return Ok(Answer::Found(found.kv.as_ref().map(version)));
            }
            Call::Put(value) => just(put(key, self.padded(&value), Lease::default())),
            Call::PutIf(expected, value) => {
                let value = self.padded(&value);
                Txn::put_if(key, Revision(expected), value, Lease::default())
            }
            Call::DeleteIf(expected) => Txn::delete_if(key, Revision(expected)),
        };
        let response = self.storage.txn(txn).await?;
        Ok(match response.succeeded {
            true => Answer::Written(response.revision.0),
            false => {
                let seen = response.gets.into_iter().flatten().next();
                Answer::Refused(seen.as_ref().map(version))
            }
        })
    }

    /// Values of many sizes end writes at any place of a sector.
    fn padded(&mut self, value: &str) -> Bytes {
        let padding = match self.chance.random_range(0..4) {
            0 => self.chance.random_range(0..20_000),
            _ => self.chance.random_range(0..900),
        };
        format!("{value} {}", "x".repeat(padding)).into()
    }
}
