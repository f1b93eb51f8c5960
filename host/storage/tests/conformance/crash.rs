//! `kill -9` under write load: every acknowledged write is there afterwards, and no half transaction.
//!
//! The test starts this test binary again as the process that is killed.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use bytes::Bytes;
use pilothouse_storage::{Embedded, EmbeddedOptions, Lease, Op, RangeRequest, Revision, Storage};
use tokio::task::JoinSet;

use crate::harness::{just, text};

const DIRECTORY: &str = "PILOTHOUSE_TEST_CRASH_DIRECTORY";
const WRITERS: usize = 32;
const ROUNDS: usize = 3;
const ACKNOWLEDGED: usize = 400;

/// Writes for ever, two keys at a time, and says which writes were acknowledged. Only in the process that is to be killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim() {
    let Some(dir) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let storage = Embedded::open(EmbeddedOptions::new(dir)).expect("open");
    let storage = std::sync::Arc::new(storage);
    let round = storage.current_revision().await.expect("revision");
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let storage = storage.clone();
        writers.spawn(async move {
            for n in 0.. {
                let name = format!("{round}-{writer}-{n}");
                let op = |half: &str| Op::Put {
                    key: format!("/{half}/{name}"),
                    value: Bytes::from(name.repeat(1 + n % 50)),
                    lease: Lease::default(),
                };
                let txn = just(vec![op("left"), op("right")]);
                let response = storage.txn(txn).await.expect("txn");
                let line = format!("acknowledged {name} {}\n", response.revision);
                std::io::stdout()
                    .lock()
                    .write_all(line.as_bytes())
                    .expect("tell");
            }
        });
    }
    writers.join_all().await;
}

/// Runs a victim until it has acknowledged enough, kills it, and returns what it acknowledged.
fn kill_one(dir: &Path) -> BTreeMap<String, u64> {
    let mut victim = Command::new(std::env::current_exe().expect("this binary"))
        .args([
            "--exact",
            "crash::victim",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(DIRECTORY, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let mut acknowledged = BTreeMap::new();
    let mut lines = BufReader::new(victim.stdout.take().expect("its output"));
    let mut line = String::new();
    while lines.read_line(&mut line).expect("read") > 0 {
        // A line may be cut by the kill; the harness writes some of its own.
        let words: Vec<&str> = line.split(' ').collect();
        if let (["acknowledged", name, revision], true) = (words.as_slice(), line.ends_with('\n')) {
            let revision = revision.trim_end().parse().expect("a revision");
            acknowledged.insert((*name).to_owned(), revision);
            if acknowledged.len() == ACKNOWLEDGED {
                victim.kill().expect("kill -9");
            }
        }
        line.clear();
    }
    victim.wait().expect("wait");
    assert!(
        acknowledged.len() >= ACKNOWLEDGED,
        "the victim died by itself"
    );
    acknowledged
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_by_kill() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut acknowledged = BTreeMap::new();
    for _ in 0..ROUNDS {
        acknowledged.extend(kill_one(dir.path()));
        let storage =
            Embedded::open(EmbeddedOptions::new(dir.path())).expect("open after the kill");
        let [left, right] = [
            halves(&storage, "/left/").await,
            halves(&storage, "/right/").await,
        ];
        assert_eq!(left, right, "half a transaction");
        for (name, revision) in &acknowledged {
            let (stored, value) = left.get(name).expect("an acknowledged write is lost");
            assert_eq!(stored, revision, "{name}");
            assert!(value.starts_with(name.as_str()), "{name}");
        }
        let mut revisions: Vec<u64> = left.values().map(|(revision, _)| *revision).collect();
        revisions.sort_unstable();
        let current = storage.current_revision().await.expect("revision");
        let expected: Vec<u64> = (2..=current.0).collect();
        assert_eq!(
            revisions, expected,
            "each revision is one whole transaction"
        );
    }
}

async fn halves(storage: &Embedded, prefix: &str) -> BTreeMap<String, (u64, String)> {
    let range = storage
        .range(RangeRequest::prefix(prefix))
        .await
        .expect("range");
    let half = |kv: &pilothouse_storage::KeyValue| {
        let name = kv.key.strip_prefix(prefix).unwrap_or(&kv.key).to_owned();
        let Revision(revision) = kv.mod_revision;
        (name, (revision, text(&kv.value)))
    };
    range.kvs.iter().map(half).collect()
}
