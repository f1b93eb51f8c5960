//! `kill -9` at a random moment under load: the test starts this test binary again as the process that is killed.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt;
use pilothouse_storage::{Embedded, EmbeddedOptions, Revision, Storage, WatchRequest};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    Round,
    client::{self, Log},
    history::{Answer, Call, Event, Version, check},
    seeds,
};

/// Histories; each has [`KILLS`].
const ROUNDS: u64 = 25;
const KILLS: usize = 4;
const CALLS: usize = 40;

/// Directory, life, seed: what the process that is killed is told.
const VICTIM: &str = "PILOTHOUSE_TEST_VICTIM";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_kill() {
    for seed in seeds(ROUNDS) {
        let _round = Round(seed);
        round(seed).await;
    }
}

async fn round(seed: u64) {
    let mut chance = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut events = Vec::new();
    for life in 0..KILLS {
        let moment = (chance.random_range(0..600), chance.random_range(0..1000));
        events.extend(kill_one(dir.path(), life, chance.random(), moment, &events));
    }
    let storage =
        Embedded::open(EmbeddedOptions::new(dir.path())).expect("a kill leaves no damage");
    let current = storage.current_revision().await.expect("revision");
    let read = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = read.clone();
    let log: Log = Arc::new(move |event| sink.lock().expect("nobody panicked").push(event));
    client::read_all(&storage, &log, usize::MAX).await;
    events.extend(read.lock().expect("nobody panicked").drain(..));
    rest_of_watch(&storage, current.0, &mut events).await;
    check(&events, current.0);
}

/// What the watch had not seen yet.
async fn rest_of_watch(storage: &Embedded, current: u64, events: &mut Vec<Event>) {
    let mut seen = last_watched(events);
    let request = WatchRequest::new("/k/", Revision(seen));
    let mut watch = storage.watch(request).await.expect("watch");
    while seen < current {
        let batch = watch.next().await.expect("open").expect("watch");
        for event in &batch.events {
            events.push(client::watched(event));
        }
        seen = batch.revision.0;
    }
}

fn last_watched(events: &[Event]) -> u64 {
    let watched = events.iter().rev().find_map(|event| match event {
        Event::Watched { revision, .. } => Some(*revision),
        _ => None,
    });
    watched.unwrap_or(1)
}

/// Runs a victim until it has said so many lines and so many microseconds longer, kills it, and returns what it said.
fn kill_one(
    dir: &Path,
    life: usize,
    seed: u64,
    moment: (usize, u64),
    before: &[Event],
) -> Vec<Event> {
    let (lines, longer) = moment;
    let order = format!("{life} {seed} {} {}", last_watched(before), dir.display());
    let mut victim = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "kill::victim", "--nocapture", "--test-threads=1"])
        .env(VICTIM, order)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("start");
    let mut output = BufReader::new(victim.stdout.take().expect("its output"));
    let mut events = Vec::new();
    let mut line = String::new();
    let mut killed = false;
    loop {
        line.clear();
        if output.read_line(&mut line).expect("read") == 0 {
            break;
        }
        // The kill may cut a line; the test harness says some of its own.
        if line.ends_with('\n') {
            events.extend(parse(&line));
        }
        if !killed && events.len() > lines {
            let until = Instant::now() + Duration::from_micros(longer);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            victim.kill().expect("kill -9");
            killed = true;
        }
    }
    victim.wait().expect("wait");
    events
}

/// Runs clients and says what they see. Only in the process that is to be killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim() {
    let Ok(order) = std::env::var(VICTIM) else {
        return;
    };
    let mut words = order.splitn(4, ' ');
    let mut number = || {
        words
            .next()
            .expect("a number")
            .parse::<u64>()
            .expect("a number")
    };
    let (life, seed, after) = (number() as usize, number(), number());
    let dir = words.next().expect("a directory");
    let storage: Arc<dyn Storage> =
        Arc::new(Embedded::open(EmbeddedOptions::new(dir)).expect("open"));
    let say: Log = Arc::new(|event| {
        let line = format!("{}\n", show(&event));
        std::io::stdout()
            .lock()
            .write_all(line.as_bytes())
            .expect("say");
    });
    tokio::spawn(client::watch(storage.clone(), say.clone(), after));
    client::run(storage, say, life, seed, CALLS).await;
}

fn show(event: &Event) -> String {
    let version = |version: &Option<Version>| match version {
        Some((revision, value)) => format!("{revision} {value}"),
        None => String::new(),
    };
    match event {
        Event::Called { client, key, call } => {
            let call = match call {
                Call::Put(value) => format!("put {value}"),
                Call::PutIf(expected, value) => format!("put-if {expected} {value}"),
                Call::DeleteIf(expected) => format!("delete-if {expected}"),
                Call::Get => "get".to_owned(),
            };
            format!("called {client} {key} {call}")
        }
        Event::Answered { client, answer } => {
            let answer = match answer {
                Answer::Written(revision) => format!("written {revision}"),
                Answer::Refused(seen) => format!("refused {}", version(seen)),
                Answer::Found(seen) => format!("found {}", version(seen)),
            };
            format!("answered {client} {answer}")
        }
        Event::Watched {
            revision,
            key,
            value,
        } => {
            format!(
                "watched {revision} {key} {}",
                value.as_deref().unwrap_or_default()
            )
        }
    }
}

/// `None` if it is no line of an event. A test harness may have begun the line.
fn parse(line: &str) -> Option<Event> {
    let line = line.split_once(" ... ").map_or(line, |(_, rest)| rest);
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &str| word.parse::<u64>().ok();
    let version = |words: &[&str]| match words {
        [revision, value] => Some(Some((number(revision)?, (*value).to_owned()))),
        _ => Some(None),
    };
    Some(match words.as_slice() {
        ["called", client, key, call @ ..] => Event::Called {
            client: number(client)? as usize,
            key: (*key).to_owned(),
            call: match call {
                ["put", value] => Call::Put((*value).to_owned()),
                ["put-if", expected, value] => Call::PutIf(number(expected)?, (*value).to_owned()),
                ["delete-if", expected] => Call::DeleteIf(number(expected)?),
                ["get"] => Call::Get,
                _ => return None,
            },
        },
        ["answered", client, answer @ ..] => Event::Answered {
            client: number(client)? as usize,
            answer: match answer {
                ["written", revision] => Answer::Written(number(revision)?),
                ["refused", seen @ ..] => Answer::Refused(version(seen)?),
                ["found", seen @ ..] => Answer::Found(version(seen)?),
                _ => return None,
            },
        },
        ["watched", revision, key, value @ ..] => Event::Watched {
            revision: number(revision)?,
            key: (*key).to_owned(),
            value: value.first().map(|value| (*value).to_owned()),
        },
        _ => return None,
    })
}
