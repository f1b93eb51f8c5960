//! Snapshots of both engines, what becomes of them, and moving from one engine to the other.

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::StreamExt;
use pilothouse_storage::{
    Embedded, EmbeddedOptions, Etcd, EtcdOptions, KeyValue, Lease, Op, RangeRequest, Revision,
    Storage, StorageError, Txn, WatchRequest, embedded, encryption::ROOT, migrate, snapshot,
};
use rand::{RngCore, SeedableRng};
use tempfile::TempDir;

use crate::{
    embedded::HandClock,
    etcd_server::{self, EtcdServer},
    harness::{Watched, just},
};

const ALL: &str = "/registry/";
const BUMP: u64 = 1_000_000;

fn open(dir: &Path) -> Embedded {
    Embedded::open(EmbeddedOptions::new(dir)).expect("open")
}

async fn put(storage: &dyn Storage, key: &str, value: &str, lease: Lease) -> Revision {
    let put = Op::Put {
        key: key.to_owned(),
        value: Bytes::from(value.to_owned()),
        lease,
    };
    storage.txn(just(vec![put])).await.expect("put").revision
}

async fn all(storage: &dyn Storage, at: Option<Revision>) -> Vec<KeyValue> {
    let request = RangeRequest {
        revision: at,
        ..RangeRequest::prefix(ALL)
    };
    storage.range(request).await.expect("range").kvs
}

/// `key=value` of everything.
fn pairs(kvs: &[KeyValue]) -> Vec<String> {
    let pair = |kv: &KeyValue| format!("{}={}", kv.key, String::from_utf8_lossy(&kv.value));
    kvs.iter().map(pair).collect()
}

/// Some objects with a past: changed, deleted, made again, empty, long, with a lease of an hour.
async fn fill(storage: &dyn Storage) -> Lease {
    let lease = storage
        .grant_lease(Duration::from_secs(3600))
        .await
        .expect("lease");
    for round in 0..3 {
        for n in 0..40 {
            let value = format!("{round}-{}", "x".repeat(n * 50));
            put(
                storage,
                &format!("/registry/pods/default/{n:03}"),
                &value,
                Lease(0),
            )
            .await;
        }
    }
    put(storage, "/registry/events/default/e", "soon gone", lease).await;
    put(storage, "/registry/secrets/default/empty", "", Lease(0)).await;
    put(
        storage,
        "/registry/secrets/default/long",
        &"y".repeat(1 << 20),
        Lease(0),
    )
    .await;
    for name in ["000", "001"] {
        let key = format!("/registry/pods/default/{name}");
        storage
            .txn(just(vec![Op::Delete { key }]))
            .await
            .expect("delete");
    }
    put(storage, "/registry/pods/default/001", "again", Lease(0)).await;
    lease
}

async fn save(storage: &dyn Storage, file: &Path) -> snapshot::SnapshotStatus {
    let parts = storage.snapshot().await.expect("snapshot");
    snapshot::write_file(parts, file)
        .await
        .expect("a whole file")
}

/// Reads and watches of the past must be refused, not answered from what is there now.
async fn the_past_is_gone(storage: &dyn Storage, past: Revision) {
    let request = RangeRequest {
        revision: Some(past),
        ..RangeRequest::prefix(ALL)
    };
    let read = storage.range(request).await;
    assert!(
        matches!(read, Err(StorageError::Compacted { .. })),
        "{read:?}"
    );
    match storage.watch(WatchRequest::new(ALL, past)).await {
        Err(StorageError::Compacted { .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(stream) => {
            let told = Watched::from(stream).next().await;
            assert!(
                matches!(told, Err(StorageError::Compacted { .. })),
                "{told:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_restored_directory_holds_what_was_there() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let storage = open(&dir.path().join("old"));
    fill(&storage).await;
    let file = dir.path().join("file.snap");
    let status = save(&storage, &file).await;
    let then = all(&storage, None).await;
    assert_eq!(
        status.revision,
        storage.current_revision().await.expect("revision")
    );
    assert_eq!(status.keys, then.len() as u64);
    assert_eq!(status.size, std::fs::metadata(&file).expect("file").len());
    assert_eq!(snapshot::status(&file).expect("status"), status);
    // what clients saw after the snapshot and is lost
    let lost = put(&storage, "/registry/pods/default/lost", "1", Lease(0)).await;
    drop(storage);

    let new = dir.path().join("new");
    embedded::restore(&file, &new, BUMP).expect("restore");
    let storage = open(&new);
    assert_eq!(all(&storage, None).await, then);
    let revision = storage.current_revision().await.expect("revision");
    assert_eq!(revision, Revision(status.revision.0 + BUMP));
    for past in [Revision(1), status.revision, lost] {
        the_past_is_gone(&storage, past).await;
    }
    let mut watch = Watched::of(&storage, WatchRequest::new(ALL, revision)).await;
    let next = put(&storage, "/registry/pods/default/002", "new", Lease(0)).await;
    assert_eq!(next, Revision(revision.0 + 1));
    assert_eq!(watch.events(1).await[0].kv.mod_revision, next);
    // and once more, after a start
    drop((storage, watch));
    assert_eq!(all(&open(&new), None).await.len(), then.len());
}

#[tokio::test]
async fn leases_run_on_in_a_restored_directory() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let clock = Arc::new(HandClock::default());
    let options = |name: &str| EmbeddedOptions {
        clock: clock.clone(),
        ..EmbeddedOptions::new(dir.path().join(name))
    };
    let storage = Embedded::open(options("old")).expect("open");
    fill(&storage).await;
    let file = dir.path().join("file.snap");
    save(&storage, &file).await;
    drop(storage);
    embedded::restore(&file, &dir.path().join("new"), BUMP).expect("restore");
    let storage = Embedded::open(options("new")).expect("open");
    let event = "/registry/events/default/e";
    let is_there = async || storage.get(event, None).await.expect("get").kv.is_some();
    clock.advance(Duration::from_secs(3599));
    storage.tick().await.expect("tick");
    assert!(is_there().await);
    clock.advance(Duration::from_secs(1));
    storage.tick().await.expect("tick");
    assert!(!is_there().await);
}

/// Every transaction writes two keys alike: a snapshot that shows a difference has torn one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_taken_under_load_is_of_one_moment() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let storage = Arc::new(open(&dir.path().join("old")));
    fill(&*storage).await;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let (storage, stop) = (storage.clone(), stop.clone());
        writers.spawn(async move {
            for n in 0.. {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                let op = |side: &str| Op::Put {
                    key: format!("/registry/pairs/{side}/{writer}-{}", n % 50),
                    value: Bytes::from(n.to_string()),
                    lease: Lease(0),
                };
                let txn = just(vec![op("left"), op("right")]);
                let revision = storage.txn(txn).await.expect("put").revision;
                if n % 20 == 0 {
                    storage.compact(revision).await.expect("compact");
                }
            }
        });
    }
    for round in 0..5 {
        let file = dir.path().join(format!("{round}.snap"));
        let status = save(&*storage, &file).await;
        let new = dir.path().join(format!("new-{round}"));
        embedded::restore(&file, &new, BUMP).expect("restore");
        let kvs = all(&open(&new), None).await;
        let side = |side: &str| -> Vec<(String, Revision)> {
            let prefix = format!("/registry/pairs/{side}/");
            let of = kvs.iter().filter(|kv| kv.key.starts_with(&prefix));
            of.map(|kv| {
                (
                    String::from_utf8_lossy(&kv.value).into_owned(),
                    kv.mod_revision,
                )
            })
            .collect()
        };
        assert_eq!(side("left"), side("right"));
        let newest = kvs.iter().map(|kv| kv.mod_revision).max();
        assert_eq!(
            newest,
            Some(status.revision),
            "something is missing or too new"
        );
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writers.join_all().await;
}

/// What a snapshot has still to read is kept, even if nothing else needs it any more.
#[tokio::test]
async fn a_snapshot_is_whole_also_when_the_disk_is_freed_meanwhile() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let options = EmbeddedOptions {
        slack_bytes: 0,
        ..EmbeddedOptions::new(dir.path().join("old"))
    };
    let storage = Embedded::open(options).expect("open");
    let overwrite = async |round: u64| {
        for n in 0..40 {
            let key = format!("/registry/pods/default/{n:03}");
            let mut chance = rand::rngs::StdRng::seed_from_u64(round * 1000 + n);
            let mut value = vec![0; 512 << 10];
            chance.fill_bytes(&mut value);
            let put = Op::Put {
                key,
                value: value.into(),
                lease: Lease(0),
            };
            let revision = storage.txn(just(vec![put])).await.expect("put").revision;
            storage.compact(revision).await.expect("compact");
        }
        storage.tick().await.expect("tick");
        storage.reclaim().await.expect("reclaim");
    };
    overwrite(0).await;
    let then = all(&storage, None).await;
    let mut parts = storage.snapshot().await.expect("snapshot");
    let first = parts.next().await.expect("a part");
    overwrite(1).await;
    overwrite(2).await;
    let file = dir.path().join("file.snap");
    let parts = futures::stream::iter([first]).chain(parts);
    snapshot::write_file(Box::pin(parts), &file)
        .await
        .expect("a whole file");
    let new = dir.path().join("new");
    embedded::restore(&file, &new, BUMP).expect("restore");
    assert_eq!(all(&open(&new), None).await, then);
    // and without it nothing keeps what is old
    let before = storage.disk_bytes().expect("size");
    storage.reclaim().await.expect("reclaim");
    let after = storage.disk_bytes().expect("size");
    assert!(after + (20 << 20) < before, "{before} bytes, then {after}");
}

#[tokio::test]
async fn what_cannot_be_restored_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let storage = open(&dir.path().join("old"));
    fill(&storage).await;
    let file = dir.path().join("file.snap");
    save(&storage, &file).await;
    let whole = std::fs::read(&file).expect("file");
    let variant = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("write");
        path
    };
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    let occupied = dir.path().join("occupied");
    std::fs::create_dir(&occupied).expect("directory");
    variant("occupied/file", b"");
    let new = dir.path().join("new");
    // the file, where to, how far up, what is said
    for (file, to, bump, said) in [
        (
            variant("cut", &whole[..whole.len() - 1]),
            &new,
            BUMP,
            "cut off",
        ),
        (variant("changed", &changed), &new, BUMP, "was changed"),
        (
            variant("other", b"something else"),
            &new,
            BUMP,
            "neither a snapshot of",
        ),
        (dir.path().join("none"), &new, BUMP, "cannot open"),
        (file.clone(), &occupied, BUMP, "is not empty"),
        (file.clone(), &new, u64::MAX, "there is no revision"),
    ] {
        let error = embedded::restore(&file, to, bump)
            .expect_err(said)
            .to_string();
        assert!(error.contains(said), "{error}");
        assert!(
            !new.exists() && !dir.path().join("new.restoring").exists(),
            "{said}"
        );
    }
    // what an interrupted attempt left is no obstacle
    std::fs::create_dir(dir.path().join("new.restoring")).expect("directory");
    variant("new.restoring/half", b"");
    embedded::restore(&file, &new, BUMP).expect("restore");
    assert!(!new.join("half").exists());
}

#[tokio::test]
async fn a_stream_that_breaks_off_leaves_no_file() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let file = dir.path().join("file.snap");
    let error = StorageError::Unavailable("gone".to_owned());
    let parts = futures::stream::iter([Ok(Bytes::from("pilothouse snapshot 1\n")), Err(error)]);
    assert!(snapshot::write_file(Box::pin(parts), &file).await.is_err());
    let short = futures::stream::iter([Ok(Bytes::from("pilothouse snapshot 1\n"))]);
    assert!(snapshot::write_file(Box::pin(short), &file).await.is_err());
    assert_eq!(std::fs::read_dir(dir.path()).expect("directory").count(), 0);
}

async fn etcd(server: &EtcdServer) -> Arc<Etcd> {
    let options = EtcdOptions::new([&server.endpoint]);
    Arc::new(Etcd::connect(options).await.expect("connect"))
}

fn etcdctl(words: &[&str]) -> String {
    let mut command = Command::new(etcd_server::tool("etcdctl"));
    let output = command
        .env("ETCDCTL_API", "3")
        .args(words)
        .output()
        .expect("etcdctl");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn the_snapshot_of_etcd_is_etcds_own() {
    let (server, dir) = EtcdServer::start();
    let storage = etcd(&server).await;
    fill(&*storage).await;
    let then = all(&*storage, None).await;
    let file = dir.path().join("etcd.snap");
    let status = save(&*storage, &file).await;
    let path = file.display().to_string();
    let theirs = etcdctl(&["snapshot", "status", &path, "--write-out", "fields"]);
    let field = |name: &str| -> u64 {
        let line = theirs.lines().find(|line| line.contains(name)).expect(name);
        let number = line
            .rsplit(' ')
            .next()
            .and_then(|number| number.parse().ok());
        number.expect(&theirs)
    };
    assert_eq!(status.kind, snapshot::SnapshotKind::Etcd);
    assert_eq!(
        u64::from_str_radix(&status.hash, 16).ok(),
        Some(field("Hash")),
        "{theirs}"
    );
    assert_eq!(status.revision.0, field("Revision"), "{theirs}");
    assert_eq!(status.keys, field("Keys"), "{theirs}");
    assert_eq!(status.size, field("Size"), "{theirs}");

    let bytes = std::fs::read(&file).expect("file");
    let mut changed = bytes.clone();
    changed[bytes.len() / 2] ^= 1;
    for wrong in [&bytes[..bytes.len() - 512], &changed] {
        let wrong_file = dir.path().join("wrong.snap");
        std::fs::write(&wrong_file, wrong).expect("write");
        assert!(matches!(
            snapshot::status(&wrong_file),
            Err(StorageError::Corrupt(_))
        ));
    }
    let refused = embedded::restore(&file, &dir.path().join("new"), BUMP);
    assert!(
        refused
            .expect_err("etcd's")
            .to_string()
            .contains("etcdutl snapshot restore")
    );

    let restored = TempDir::new().expect("temporary directory");
    let data = restored.path().join("etcd").display().to_string();
    let peer = "http://127.0.0.1:0";
    etcdctl(&[
        "snapshot",
        "restore",
        &path,
        "--data-dir",
        &data,
        "--name",
        "default",
        "--initial-cluster",
        &format!("default={peer}"),
        "--initial-advertise-peer-urls",
        peer,
    ]);
    let again = EtcdServer::start_in(restored.path());
    assert_eq!(all(&*etcd(&again).await, None).await, then);
}

#[tokio::test]
async fn a_cluster_moves_to_etcd_and_back() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let source = open(&dir.path().join("source"));
    fill(&source).await;
    let then = all(&source, None).await;
    let (server, _dir) = EtcdServer::start();
    let target = etcd(&server).await;
    let moved = migrate::to_storage(&source, target.clone(), ROOT)
        .await
        .expect("migrate");
    assert_eq!(
        (moved.keys, moved.source_changed),
        (then.len() as u64, false)
    );
    let there = all(&*target, None).await;
    assert_eq!(pairs(&there), pairs(&then));
    let highest = source.current_revision().await.expect("revision");
    assert_eq!(moved.from, highest);
    assert!(
        there.iter().all(|kv| kv.mod_revision > highest),
        "a revision went back"
    );
    the_past_is_gone(&*target, highest).await;
    let event = there.iter().find(|kv| kv.lease.0 != 0).expect("the event");
    assert_eq!(&*event.key, "/registry/events/default/e");
    let left = target
        .lease_left(event.lease)
        .await
        .expect("lease")
        .expect("lives");
    assert!(
        left <= Duration::from_secs(3600) && left > Duration::from_secs(3000),
        "{left:?}"
    );

    let again = migrate::to_storage(&source, target.clone(), ROOT).await;
    assert!(
        again
            .expect_err("not empty")
            .to_string()
            .contains("is not empty")
    );

    let back = dir.path().join("back");
    let moved = migrate::to_directory(&*target, ROOT, &back)
        .await
        .expect("migrate");
    let storage = open(&back);
    let here = all(&storage, None).await;
    assert_eq!(pairs(&here), pairs(&then));
    assert!(
        here.iter()
            .zip(&there)
            .all(|(here, there)| here.mod_revision == there.mod_revision)
    );
    assert_eq!(
        storage.current_revision().await.expect("revision"),
        moved.to
    );
    assert!(moved.to > moved.from);
    the_past_is_gone(&storage, moved.from).await;
    let event = here.iter().find(|kv| kv.lease.0 != 0).expect("the event");
    let left = storage
        .lease_left(event.lease)
        .await
        .expect("lease")
        .expect("lives");
    assert!(
        left <= Duration::from_secs(3600) && left > Duration::from_secs(3000),
        "{left:?}"
    );
    storage
        .revoke_lease(event.lease)
        .await
        .expect("the lease holds the key");
    assert_eq!(all(&storage, None).await.len(), then.len() - 1);
    let again = migrate::to_directory(&*target, ROOT, &back).await;
    assert!(
        again
            .expect_err("not empty")
            .to_string()
            .contains("is not empty")
    );
}

#[tokio::test]
async fn values_that_are_bound_to_their_key_do_not_move_under_another_prefix() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let source = open(&dir.path().join("source"));
    put(
        &source,
        "/registry/secrets/default/a",
        "k8s:enc:aesgcm:v1:k:xyz",
        Lease(0),
    )
    .await;
    let target: Arc<dyn Storage> = Arc::new(open(&dir.path().join("target")));
    let refused = migrate::to_storage(&source, target.clone(), "/elsewhere").await;
    let error = refused.expect_err("bound").to_string();
    assert!(error.contains("/registry/secrets/default/a"), "{error}");
    migrate::to_storage(&source, target, ROOT)
        .await
        .expect("the same prefix");
    // without a past there is none to skip
    let txn = Txn::delete_if("/registry/secrets/default/a", Revision(2));
    assert!(source.txn(txn).await.expect("delete").succeeded);
}
