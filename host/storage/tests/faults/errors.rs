//! A disk that refuses, shortens, delays and fills up: writes fail with what it was, reads go on, and it heals.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use pilothouse_storage::{
    Embedded, EmbeddedOptions, Lease, Result, Revision, Storage, StorageError, TxnResponse,
    WatchRequest, WatchStream,
};

use crate::{
    client::{just, put},
    disk::{
        Call::{self, Sync, Write},
        Disk, Fault, Rule,
    },
};

const JOURNAL: &str = ".jnl";
const ANY: &str = "/";

/// An engine on a disk that obeys, with a watch of everything.
struct Bench {
    disk: Disk,
    storage: Arc<Embedded>,
    watch: WatchStream,
    written: u64,
    dir: tempfile::TempDir,
}

impl Bench {
    async fn new() -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let disk = Disk::at(dir.path());
        let storage = Arc::new(Embedded::open(EmbeddedOptions::new(dir.path())).expect("open"));
        let watch = storage
            .watch(WatchRequest::new("/", Revision(0)))
            .await
            .expect("watch");
        let mut bench = Self {
            disk,
            storage,
            watch,
            written: 0,
            dir,
        };
        bench.put("/before").await.expect("the disk is fine");
        bench
    }

    async fn put(&mut self, key: &str) -> Result<TxnResponse> {
        self.put_bytes(key, 3000).await
    }

    async fn put_bytes(&mut self, key: &str, bytes: usize) -> Result<TxnResponse> {
        let op = put(key, vec![b'x'; bytes], Lease::default());
        let response = self.storage.txn(just(op)).await;
        self.written += u64::from(response.is_ok());
        response
    }

    async fn has(&self, key: &str) -> bool {
        self.storage
            .get(key, None)
            .await
            .expect("reads go on")
            .kv
            .is_some()
    }

    /// What the watch saw until now, which must be every revision once.
    async fn watched(&mut self) -> Vec<String> {
        let current = self.storage.current_revision().await.expect("revision");
        let mut seen = Vec::new();
        while seen.len() as u64 + 1 < current.0 {
            let batch = self
                .watch
                .next()
                .await
                .expect("the watch goes on")
                .expect("the watch goes on");
            for event in batch.events {
                assert_eq!(event.kv.mod_revision.0, seen.len() as u64 + 2);
                seen.push(event.kv.key.to_string());
            }
        }
        seen
    }

    /// Closes and opens, on an ordinary disk.
    fn reopened(self) -> (Embedded, tempfile::TempDir) {
        let Self {
            disk,
            storage,
            watch,
            dir,
            ..
        } = self;
        drop((watch, disk, storage));
        (
            Embedded::open(EmbeddedOptions::new(dir.path())).expect("open again"),
            dir,
        )
    }
}

fn rule(call: Call, file: &'static str, fault: Fault) -> Rule {
    Rule {
        call,
        file,
        after: 0,
        times: usize::MAX,
        fault,
    }
}

/// Each fault in the journal, while it lasts and afterwards.
#[tokio::test]
async fn a_failing_disk_fails_writes_only_and_heals() {
    let cases = [
        (
            "write error",
            rule(Write, ANY, Fault::Error(libc::EIO)),
            "unavailable",
        ),
        (
            "fsync error",
            rule(Sync, ANY, Fault::Error(libc::EIO)),
            "unavailable",
        ),
        (
            "no space",
            rule(Write, ANY, Fault::Error(libc::ENOSPC)),
            "no space left",
        ),
        (
            "quota",
            rule(Write, ANY, Fault::Error(libc::EDQUOT)),
            "no space left",
        ),
        (
            "file too large",
            rule(Write, ANY, Fault::Error(libc::EFBIG)),
            "no space left",
        ),
    ];
    for (name, rule, says) in cases {
        let mut bench = Bench::new().await;
        bench.disk.obey(&[rule]);
        for attempt in 0..3 {
            let error = bench.put("/during").await.expect_err(name);
            let unknown = matches!(error, StorageError::OutcomeUnknown(_));
            assert_eq!(unknown, attempt == 0 && says == "unavailable", "{name}");
            let error = error.to_string();
            assert!(
                unknown || error.contains(says),
                "{name}, attempt {attempt}: {error}"
            );
            let health = bench.storage.health().await.expect_err(name).to_string();
            assert!(health.contains(says), "{name}: {health}");
            assert!(bench.has("/before").await, "{name}");
            bench.storage.tick().await.expect_err(name);
        }
        bench.disk.obey(&[]);
        bench.storage.tick().await.expect(name);
        bench.storage.health().await.expect(name);
        bench.put("/after").await.expect(name);
        // A write that failed may be there, once.
        let watched = bench.watched().await;
        let kept = if bench.has("/during").await { 1 } else { 0 };
        let count = |key: &str| watched.iter().filter(|seen| *seen == key).count();
        assert_eq!(
            (count("/before"), count("/during"), count("/after")),
            (1, kept, 1),
            "{name}"
        );
        let (storage, _dir) = bench.reopened();
        for key in ["/before", "/after"] {
            let found = storage.get(key, None).await.expect(name);
            assert!(found.kv.is_some(), "{name}: {key} is lost");
        }
    }
}

/// A failed sync leaves bytes in memory that the system will not write again: the journal must not go on with them.
#[tokio::test]
async fn what_a_failed_sync_left_is_written_anew() {
    let mut bench = Bench::new().await;
    bench.disk.obey(&[Rule {
        times: 1,
        ..rule(Sync, JOURNAL, Fault::Error(libc::EIO))
    }]);
    bench.put("/during").await.expect_err("the sync failed");
    bench.put("/after").await.expect("the disk is fine again");
    // Only what was synced without an error is sure to be there when the power fails.
    bench.disk.fail_power_in(1);
    bench.put("/power").await.expect_err("the power failed");
    for chance in 0..20 {
        use rand::SeedableRng;
        let survivors = tempfile::tempdir().expect("temporary directory");
        let mut chance = rand::rngs::StdRng::seed_from_u64(chance);
        bench.disk.survivors(survivors.path(), &mut chance);
        let storage = Embedded::open(EmbeddedOptions::new(survivors.path())).expect("open");
        for key in ["/before", "/after"] {
            assert!(
                storage.get(key, None).await.expect("get").kv.is_some(),
                "{key} is lost"
            );
        }
    }
}

#[tokio::test]
async fn short_writes_are_finished() {
    let mut bench = Bench::new().await;
    bench.disk.obey(&[rule(Write, ANY, Fault::Short(100))]);
    for n in 0..50 {
        bench.put(&format!("/{n}")).await.expect("it takes longer");
    }
    assert_eq!(bench.watched().await.len(), 51);
    let (storage, _dir) = bench.reopened();
    assert_eq!(
        storage.current_revision().await.expect("revision"),
        Revision(52)
    );
}

/// A disk that takes long delays writers, and nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_disk_delays_no_reader() {
    let bench = Bench::new().await;
    bench.disk.obey(&[rule(Sync, JOURNAL, Fault::Hold)]);
    let storage = bench.storage.clone();
    let slow = put("/slow", "1", Lease::default());
    let writing = tokio::spawn(async move { storage.txn(just(slow)).await });
    while !bench.disk.holds() {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        assert!(bench.has("/before").await);
    }
    assert!(!writing.is_finished(), "the reads waited for the write");
    bench.disk.obey(&[]);
    writing.await.expect("no panic").expect("it was only slow");
}

/// Really full, at any byte: the write that meets the end may be there or not, every other answer is kept.
#[tokio::test]
async fn a_disk_that_fills_up_keeps_what_it_acknowledged() {
    for free in [0, 1, 100, 3000, 4000, 10_000, 50_000] {
        let mut bench = Bench::new().await;
        bench.disk.set_free(Some(free));
        let mut refused = 0;
        for n in 0..40 {
            match bench.put(&format!("/{n}")).await {
                Ok(_) => {}
                Err(StorageError::NoSpace(_)) => refused += 1,
                Err(other) => panic!("{free} bytes: {other}"),
            }
            assert!(bench.has("/before").await, "{free} bytes");
        }
        assert!(refused > 10, "{free} bytes: {refused} writes were refused");
        bench.disk.set_free(None);
        bench.put("/healed").await.expect("there is space again");
        let (current, written) = (bench.watched().await.len() as u64, bench.written);
        assert!(
            (written..=written + 1).contains(&current),
            "{free} bytes: {written} written, {current} there"
        );
        let (storage, _dir) = bench.reopened();
        assert!(
            storage
                .get("/healed", None)
                .await
                .expect("get")
                .kv
                .is_some()
        );
    }
}

/// The tables are written by threads of the database: if they cannot, writes have to fail and not to hang.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_cannot_be_written_hang_nobody() {
    for fault in [Fault::Error(libc::ENOSPC), Fault::Error(libc::EIO)] {
        let mut bench = Bench::new().await;
        bench.disk.obey(&[rule(Write, "/tables/", fault)]);
        let mut failures = 0;
        for n in 0..60 {
            // Enough for several tables.
            let key = format!("/large/{n}");
            let written = bench.put_bytes(&key, 1 << 20);
            let written = tokio::time::timeout(Duration::from_secs(600), written).await;
            failures += usize::from(written.expect("a write hangs").is_err());
            assert!(bench.has("/before").await);
        }
        assert!(failures > 0, "the fault was never met");
        bench.disk.obey(&[]);
        while bench.put("/healed").await.is_err() {
            bench.storage.tick().await.ok(); // what was begun before may still fail
        }
        let watched = bench.watched().await;
        assert!(watched.len() as u64 >= bench.written);
        let (storage, _dir) = bench.reopened();
        let current = storage.current_revision().await.expect("revision");
        assert_eq!(current.0, watched.len() as u64 + 1);
    }
}
