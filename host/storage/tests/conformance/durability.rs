//! What the embedded engine keeps: over restarts, crashes, damage and a full disk; and what it forgets in time.

use std::{
    io::{Seek, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt;
use pilothouse_storage::{
    Embedded, EmbeddedOptions, Lease, Op, Revision, Storage, StorageError, Txn, WatchRequest,
};

use crate::{
    embedded::HandClock,
    harness::{PATIENCE, just, text},
};

fn open(dir: &Path) -> Embedded {
    Embedded::open(EmbeddedOptions::new(dir)).expect("open")
}

fn op(key: &str, value: impl Into<Bytes>, lease: Lease) -> Op {
    Op::Put {
        key: key.to_owned(),
        value: value.into(),
        lease,
    }
}

async fn put(storage: &Embedded, key: &str, value: impl Into<Bytes>) -> Revision {
    let txn = just(vec![op(key, value, Lease::default())]);
    storage.txn(txn).await.expect("put").revision
}

async fn value(storage: &Embedded, key: &str, at: Option<Revision>) -> Option<String> {
    let response = storage.get(key, at).await.expect("get");
    response.kv.map(|kv| text(&kv.value))
}

#[tokio::test]
async fn a_restart_keeps_values_history_and_leases() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let storage = open(dir.path());
    let lease = storage
        .grant_lease(Duration::from_secs(3600))
        .await
        .expect("grant");
    let first = put(&storage, "/a", "1").await;
    let leased = just(vec![op("/leased", "1", lease)]);
    storage.txn(leased).await.expect("put");
    let second = put(&storage, "/a", "2").await;
    let deleted = storage
        .txn(just(vec![Op::Delete { key: "/a".into() }]))
        .await
        .expect("delete");
    drop(storage);

    let storage = open(dir.path());
    assert_eq!(
        storage.current_revision().await.expect("revision"),
        deleted.revision
    );
    assert_eq!(
        value(&storage, "/a", Some(first)).await.as_deref(),
        Some("1")
    );
    assert_eq!(
        value(&storage, "/a", Some(second)).await.as_deref(),
        Some("2")
    );
    assert_eq!(value(&storage, "/a", None).await, None);
    let mut watch = storage
        .watch(WatchRequest::new("/a", first))
        .await
        .expect("watch");
    let batch = tokio::time::timeout(PATIENCE, watch.next())
        .await
        .expect("in time");
    assert_eq!(batch.expect("open").expect("batch").events.len(), 2);
    storage
        .revoke_lease(lease)
        .await
        .expect("the lease is known");
    assert_eq!(value(&storage, "/leased", None).await, None);
}

#[tokio::test]
async fn a_second_process_is_told_what_to_do() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let _first = open(dir.path());
    let error = Embedded::open(EmbeddedOptions::new(dir.path()))
        .err()
        .expect("refused");
    let StorageError::Unavailable(message) = error else {
        panic!("expected Unavailable, got {error:?}");
    };
    assert!(
        message.contains("stop that process or choose another directory"),
        "{message}"
    );
    assert!(
        message.contains(&dir.path().display().to_string()),
        "{message}"
    );
}

/// The newest journal and where its written part ends.
pub(crate) fn journal_end(dir: &Path) -> (PathBuf, u64) {
    let files = std::fs::read_dir(dir.join("db")).expect("read the directory");
    let mut journals: Vec<PathBuf> = files
        .map(|file| file.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "jnl"))
        .collect();
    journals.sort();
    let newest = journals.pop().expect("a journal");
    let bytes = std::fs::read(&newest).expect("read");
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
    (newest, end as u64)
}

fn overwrite(file: &mut std::fs::File, at: u64, length: usize) {
    file.seek(std::io::SeekFrom::Start(at)).expect("seek");
    file.write_all(&vec![0; length]).expect("write");
}

/// What a power failure may leave of the last write.
#[tokio::test]
async fn a_torn_tail_is_dropped() {
    type Tear = fn(&mut std::fs::File, u64);
    let tears: [(&str, Tear); 4] = [
        ("cut", |file, end| file.set_len(end - 5).expect("cut")),
        ("cut early", |file, end| {
            file.set_len(end - 3000).expect("cut")
        }),
        ("zeros", |file, end| overwrite(file, end - 2500, 2500)),
        ("hole", |file, end| overwrite(file, end - 2500, 1100)),
    ];
    for (name, tear) in tears {
        let dir = tempfile::tempdir().expect("temporary directory");
        let storage = open(dir.path());
        let kept = put(&storage, "/kept", "1").await;
        put(&storage, "/torn", vec![b'x'; 4000]).await;
        drop(storage);
        let (journal, end) = journal_end(dir.path());
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .open(journal)
            .expect("open");
        tear(&mut file, end);
        drop(file);

        let storage = Embedded::open(EmbeddedOptions::new(dir.path())).expect(name);
        assert_eq!(
            value(&storage, "/kept", None).await.as_deref(),
            Some("1"),
            "{name}"
        );
        assert_eq!(value(&storage, "/torn", None).await, None, "{name}");
        assert_eq!(
            storage.current_revision().await.expect("revision"),
            kept,
            "{name}"
        );
        let next = put(&storage, "/next", "1").await;
        assert_eq!(next.0, kept.0 + 1, "{name}");
        drop(storage);
        let storage = open(dir.path());
        assert_eq!(
            value(&storage, "/next", None).await.as_deref(),
            Some("1"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_full_disk_refuses_writes_only_and_heals() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let free = Arc::new(AtomicU64::new(u64::MAX));
    let shown = free.clone();
    let options = EmbeddedOptions {
        free_space: Arc::new(move |_| Ok(shown.load(Ordering::Relaxed))),
        ..EmbeddedOptions::new(dir.path())
    };
    let storage = Embedded::open(options).expect("open");
    let revision = put(&storage, "/a", "1").await;
    free.store(1 << 20, Ordering::Relaxed);
    let write = || just(vec![op("/a", "2", Lease::default())]);
    let error = storage.txn(write()).await.expect_err("full");
    assert!(matches!(error, StorageError::NoSpace(_)), "{error:?}");
    let health = storage.health().await;
    assert!(
        matches!(health, Err(StorageError::NoSpace(_))),
        "{health:?}"
    );
    assert_eq!(value(&storage, "/a", None).await.as_deref(), Some("1"));
    assert_eq!(
        storage.current_revision().await.expect("revision"),
        revision
    );
    storage
        .compact(revision)
        .await
        .expect("what frees space is allowed");

    free.store(u64::MAX, Ordering::Relaxed);
    storage.txn(write()).await.expect("space again");
    storage.health().await.expect("healthy again");
}

#[tokio::test]
async fn history_goes_by_age_and_by_size() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let clock = Arc::new(HandClock::default());
    let options = EmbeddedOptions {
        clock: clock.clone(),
        history_events: 50,
        ..EmbeddedOptions::new(dir.path())
    };
    let storage = Embedded::open(options).expect("open");
    let first = put(&storage, "/a", "1").await;
    storage.tick().await.expect("tick");
    let second = put(&storage, "/a", "2").await;
    clock.advance(Duration::from_secs(299));
    storage.tick().await.expect("tick");
    assert_eq!(
        value(&storage, "/a", Some(first)).await.as_deref(),
        Some("1")
    );
    clock.advance(Duration::from_secs(300));
    storage.tick().await.expect("tick");
    let old = storage.get("/a", Some(first)).await;
    assert!(
        matches!(old, Err(StorageError::Compacted { .. })),
        "{old:?}"
    );
    assert_eq!(value(&storage, "/a", None).await.as_deref(), Some("2"));

    for i in 0..100 {
        put(&storage, &format!("/b/{i}"), "x").await;
    }
    storage.tick().await.expect("tick");
    let young = storage.get("/a", Some(Revision(second.0 + 10))).await;
    assert!(
        matches!(young, Err(StorageError::Compacted { .. })),
        "{young:?}"
    );
    let kept = storage
        .get("/b/0", Some(Revision(second.0 + 60)))
        .await
        .expect("kept");
    assert!(kept.kv.is_some());
}

#[tokio::test]
async fn history_goes_by_its_bytes() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let options = EmbeddedOptions {
        history_bytes: 1 << 20,
        ..EmbeddedOptions::new(dir.path())
    };
    let storage = Embedded::open(options.clone()).expect("open");
    let mut written = Vec::new();
    for _ in 0..20 {
        written.push(put(&storage, "/large", vec![b'x'; 100_000]).await);
    }
    storage.tick().await.expect("tick");
    let kept = async |storage: &Embedded| {
        let mut kept = Vec::new();
        for revision in &written {
            match storage.get("/large", Some(*revision)).await {
                Ok(_) => kept.push(*revision),
                Err(StorageError::Compacted { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        kept
    };
    // Ten values are within the limit; what the oldest of them replaced can be read as well.
    assert_eq!(kept(&storage).await, written[9..]);
    drop(storage);
    let storage = Embedded::open(options).expect("open");
    storage.tick().await.expect("tick");
    assert_eq!(kept(&storage).await, written[9..], "after a restart");
}

#[tokio::test]
async fn leases_run_out_over_a_restart() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let clock = Arc::new(HandClock::default());
    let options = EmbeddedOptions {
        clock: clock.clone(),
        ..EmbeddedOptions::new(dir.path())
    };
    let storage = Embedded::open(options.clone()).expect("open");
    let lease = storage
        .grant_lease(Duration::from_secs(10))
        .await
        .expect("grant");
    storage
        .txn(just(vec![op("/leased", "1", lease)]))
        .await
        .expect("put");
    drop(storage);
    clock.advance(Duration::from_secs(5));
    let storage = Embedded::open(options.clone()).expect("open");
    storage.tick().await.expect("tick");
    assert_eq!(value(&storage, "/leased", None).await.as_deref(), Some("1"));
    drop(storage);
    clock.advance(Duration::from_secs(5));
    let storage = Embedded::open(options).expect("open");
    storage.tick().await.expect("tick");
    assert_eq!(value(&storage, "/leased", None).await, None);
}

/// A time of day that was set back must not keep what should go.
#[tokio::test]
async fn a_clock_set_back_over_a_restart_lengthens_no_lease() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let at = |time: Duration| {
        let clock = HandClock::default();
        clock.advance(time);
        Arc::new(clock)
    };
    let options = |clock: &Arc<HandClock>| EmbeddedOptions {
        clock: clock.clone(),
        ..EmbeddedOptions::new(dir.path())
    };
    let day = Duration::from_secs(24 * 3600);
    let ttl = Duration::from_secs(10);
    let storage = Embedded::open(options(&at(day))).expect("open");
    let first = storage.grant_lease(ttl).await.expect("grant");
    storage
        .txn(just(vec![op("/leased", "1", first)]))
        .await
        .expect("put");
    drop(storage);
    let clock = at(Duration::ZERO);
    let storage = Embedded::open(options(&clock)).expect("open");
    let second = storage.grant_lease(ttl).await.expect("grant");
    assert!(second.0 > first.0, "an identifier came twice");
    storage.tick().await.expect("tick");
    assert_eq!(value(&storage, "/leased", None).await.as_deref(), Some("1"));
    clock.advance(ttl);
    storage.tick().await.expect("tick");
    assert_eq!(value(&storage, "/leased", None).await, None);
}

/// Hardly compressible, so that bounds mean something.
fn noise(seed: usize, bytes: usize) -> Vec<u8> {
    let mut state = seed as u64 + 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(next).collect()
}

/// Bytes that files below a folder take, of those whose path has a part.
fn on_disk(folder: &Path, part: &str) -> u64 {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).expect("read the directory") {
        let path = entry.expect("entry").path();
        match std::fs::metadata(&path) {
            Ok(file) if file.is_dir() => bytes += on_disk(&path, part),
            Ok(file) if path.to_string_lossy().contains(part) => bytes += file.blocks() * 512,
            _ => {} // not it, or gone meanwhile
        }
    }
    bytes
}

/// A few keys again and again, and others once in a while: what is on disk does not grow with what was written.
#[tokio::test]
async fn compaction_bounds_the_disk() {
    const KEYS: usize = 50;
    const ROUNDS: usize = 60;
    const BYTES: usize = 32 << 10;
    /// What is not a table yet.
    const BUFFERS: u64 = 10 << 20;
    const JOURNALS: u64 = 128 << 20;
    let dir = tempfile::tempdir().expect("temporary directory");
    let options = EmbeddedOptions {
        slack_bytes: 1 << 20,
        ..EmbeddedOptions::new(dir.path())
    };
    let storage = Embedded::open(options.clone()).expect("open");
    let again = |round: usize, key: usize| (format!("/k/{key}"), noise(round * KEYS + key, BYTES));
    let once = |round: usize| {
        (
            format!("/once/{round}"),
            noise(usize::MAX / 2 + round, BYTES),
        )
    };
    for round in 0..ROUNDS {
        let pairs = (0..KEYS).map(|key| again(round, key)).chain([once(round)]);
        let ops = pairs.map(|(key, value)| op(&key, value, Lease::default()));
        let response = storage.txn(just(ops.collect())).await.expect("put");
        storage.compact(response.revision).await.expect("compact");
        storage.tick().await.expect("tick");
    }
    storage.reclaim().await.expect("reclaim");
    put(&storage, "/k/0", again(ROUNDS - 1, 0).1).await;
    storage.tick().await.expect("tick");
    let live = ((KEYS + ROUNDS) * BYTES) as u64;
    let written = (ROUNDS * (KEYS + 1) * BYTES) as u64;
    let bound = 2 * live + options.slack_bytes + BUFFERS;
    assert!(bound < written / 3, "the bound says nothing");
    let check = async |storage: &Embedded| {
        let pairs = (0..KEYS).map(|key| again(ROUNDS - 1, key));
        for (key, value) in pairs.chain((0..ROUNDS).map(once)) {
            let found = storage.get(&key, None).await.expect("get").kv;
            assert!(found.is_some_and(|kv| kv.value == value), "{key}");
        }
        let tables = on_disk(dir.path(), "/tables/");
        assert!(tables <= bound, "{tables} bytes in tables after {written}");
        let all = on_disk(dir.path(), "/");
        assert!(all <= bound + JOURNALS, "{all} bytes after {written}");
    };
    check(&storage).await;
    drop(storage);
    check(&Embedded::open(options).expect("open")).await;
}

#[tokio::test]
async fn a_transaction_of_reads_writes_nothing() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let storage = open(dir.path());
    put(&storage, "/a", "1").await;
    let (_, before) = journal_end(dir.path());
    let read = Txn::put_if("/a", Revision(0), Bytes::new(), Lease::default());
    assert!(!storage.txn(read).await.expect("txn").succeeded);
    assert_eq!(journal_end(dir.path()).1, before);
}
