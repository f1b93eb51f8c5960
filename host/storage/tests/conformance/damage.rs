//! Damage on disk: the server says which file and what to do, changes nothing, and a read-only start shows what is left.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use pilothouse_storage::{
    Embedded, EmbeddedOptions, Lease, Op, RangeRequest, Storage, StorageError,
};

use crate::{durability::journal_end, harness::just};

/// Enough for tables of both keyspaces.
const OBJECTS_IN_TABLES: usize = 30_000;
/// With some that are in the journal only.
const OBJECTS: usize = OBJECTS_IN_TABLES + 5_000;
const OBJECTS_PER_WRITE: usize = 500;

fn key(n: usize) -> String {
    format!("/registry/configmaps/ns-{}/object-{n:05}", n % 7)
}

fn value(n: usize) -> Bytes {
    let mut state = n as u64 + 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..400).map(|_| next()).collect::<Vec<u8>>().into()
}

/// A database with tables and a journal, closed.
async fn filled() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temporary directory");
    let storage = Embedded::open(EmbeddedOptions::new(dir.path())).expect("open");
    write(&storage, 0..OBJECTS_IN_TABLES).await;
    while [1, 2]
        .map(|keyspace| tables(dir.path(), keyspace).len())
        .contains(&0)
    {
        tokio::task::yield_now().await;
    }
    write(&storage, OBJECTS_IN_TABLES..OBJECTS).await;
    dir
}

async fn write(storage: &Embedded, objects: std::ops::Range<usize>) {
    for first in objects.step_by(OBJECTS_PER_WRITE) {
        let op = |n| Op::Put {
            key: key(n),
            value: value(n),
            lease: Lease::default(),
        };
        let ops = (first..first + OBJECTS_PER_WRITE).map(op).collect();
        storage.txn(just(ops)).await.expect("put");
    }
}

/// The tables of the index (1) and of the values (2).
fn tables(dir: &Path, keyspace: u32) -> Vec<PathBuf> {
    files(&dir.join(format!("db/keyspaces/{keyspace}/tables")))
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("read the directory") {
        let path = entry.expect("entry").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// Every file with its length and a hash of its contents.
fn contents(dir: &Path) -> BTreeMap<PathBuf, (usize, u64)> {
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("read");
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        (path, (bytes.len(), hasher.finish()))
    };
    files(dir).into_iter().map(read).collect()
}

/// The list of the index's tables that is in force.
fn list(dir: &Path) -> PathBuf {
    let folder = dir.join("db/keyspaces/1");
    let current = fs::read(folder.join("current")).expect("read");
    let number = current.first_chunk().copied().expect("a number");
    folder.join(format!("v{}", u64::from_le_bytes(number)))
}

fn flip(path: &Path, at: u64) {
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("open");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 0x10], at).expect("write");
}

fn middle(path: &Path) -> u64 {
    fs::metadata(path).expect("metadata").len() / 2
}

fn open(dir: &Path, read_only: bool) -> Result<Embedded, StorageError> {
    Embedded::open(EmbeddedOptions {
        read_only,
        ..EmbeddedOptions::new(dir)
    })
}

/// What of the objects can be read; every value is the right one.
async fn readable(storage: &Embedded) -> usize {
    let range = storage
        .range(RangeRequest::prefix("/registry/"))
        .await
        .expect("range");
    for kv in &range.kvs {
        let n: usize = kv.key[kv.key.len() - 5..].parse().expect("a number");
        assert_eq!((&*kv.key, &kv.value), (&*key(n), &value(n)));
    }
    range.kvs.len()
}

/// A damaged file: how it is chosen and bent, and how many objects have to be left at a read-only start, if one is possible.
type Damage = (&'static str, fn(&Path) -> PathBuf, Option<usize>);

const REFUSED: [Damage; 7] = [
    (
        "a flipped bit in the journal",
        |dir| {
            let (journal, end) = journal_end(dir);
            flip(&journal, end - 30_000);
            journal
        },
        Some(OBJECTS - OBJECTS_PER_WRITE),
    ),
    (
        "a flipped bit in a table of the index",
        |dir| {
            let table = tables(dir, 1).remove(0);
            flip(&table, middle(&table));
            table
        },
        Some(OBJECTS - 1000),
    ),
    (
        "a table of the index without its end",
        |dir| {
            let table = tables(dir, 1).remove(0);
            let file = fs::File::options().write(true).open(&table).expect("open");
            file.set_len(middle(&table)).expect("cut");
            table
        },
        Some(1000),
    ),
    (
        "a missing table",
        |dir| {
            let table = tables(dir, 2).remove(0);
            fs::remove_file(&table).expect("remove");
            table
        },
        Some(1000),
    ),
    (
        "a flipped bit in a list of tables",
        |dir| {
            let list = list(dir);
            flip(&list, middle(&list));
            list
        },
        None,
    ),
    (
        "a flipped bit in the checksum of a list",
        |dir| {
            let current = dir.join("db/keyspaces/2/current");
            flip(&current, 12);
            current.parent().expect("a folder").to_path_buf()
        },
        Some(OBJECTS),
    ),
    (
        "a missing mark",
        |dir| {
            let mark = dir.join("db/version");
            fs::remove_file(&mark).expect("remove");
            mark
        },
        None,
    ),
];

#[tokio::test]
async fn damage_is_refused_with_the_file_and_what_to_do() {
    let whole = filled().await;
    for (name, damage, left) in REFUSED {
        let dir = tempfile::tempdir().expect("temporary directory");
        copy(whole.path(), dir.path());
        let file = damage(dir.path());
        let before = contents(dir.path());
        let error = open(dir.path(), false).err().expect(name);
        let StorageError::Corrupt(message) = &error else {
            panic!("{name}: expected Corrupt, got {error:?}");
        };
        for part in [
            &*file.display().to_string(),
            "--storage-read-only",
            "snapshot restore",
        ] {
            assert!(message.contains(part), "{name}: {part} is not in {message}");
        }
        assert_eq!(
            contents(dir.path()),
            before,
            "{name}: something was changed"
        );

        let started = open(dir.path(), true);
        match left {
            None => assert!(started.is_err(), "{name}"),
            Some(left) => {
                let storage = started.expect(name);
                let found = readable(&storage).await;
                assert!(found >= left, "{name}: {found} objects are left");
                refuses_writes(&storage).await;
            }
        }
        assert_eq!(
            contents(dir.path()),
            before,
            "{name}: a read-only start changed something"
        );
    }
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).expect("below"));
        fs::create_dir_all(target.parent().expect("a folder")).expect("create");
        fs::copy(&file, target).expect("copy");
    }
}

async fn refuses_writes(storage: &Embedded) {
    let put = Op::Put {
        key: key(0),
        value: Bytes::new(),
        lease: Lease::default(),
    };
    let refusals = [
        storage.txn(just(vec![put])).await.err(),
        storage
            .grant_lease(std::time::Duration::from_secs(1))
            .await
            .err(),
        storage.health().await.err(),
    ];
    for refusal in refusals {
        assert!(
            matches!(refusal, Some(StorageError::ReadOnly(_))),
            "{refusal:?}"
        );
    }
}

/// A value is first read when somebody asks for it.
#[tokio::test]
async fn damage_found_while_serving_ends_writes_only() {
    let dir = filled().await;
    let table = tables(dir.path(), 2).remove(0);
    flip(&table, middle(&table));
    let storage = open(dir.path(), false).expect("values are read when they are asked for");
    let mut failed = Vec::new();
    for n in 0..OBJECTS {
        match storage.get(&key(n), None).await {
            Ok(found) => assert_eq!(found.kv.map(|kv| kv.value), Some(value(n))),
            Err(StorageError::Corrupt(_)) => failed.push(n),
            Err(other) => panic!("{other}"),
        }
    }
    assert!(
        (1..200).contains(&failed.len()),
        "one block is damaged: {failed:?}"
    );
    refuses_writes(&storage).await;
    let named = async {
        loop {
            let error = storage.health().await.expect_err("damaged").to_string();
            if error.contains(&table.display().to_string()) {
                return;
            }
            tokio::task::yield_now().await; // the tables are being read
        }
    };
    tokio::time::timeout(crate::harness::PATIENCE, named)
        .await
        .expect("the file is named");
    drop(storage);

    let storage = open(dir.path(), true).expect("read-only");
    assert_eq!(readable(&storage).await, OBJECTS - failed.len());
}

#[tokio::test]
async fn a_read_only_start_needs_no_damage() {
    let dir = filled().await;
    let before = contents(dir.path());
    let storage = open(dir.path(), true).expect("read-only");
    assert_eq!(readable(&storage).await, OBJECTS);
    refuses_writes(&storage).await;
    let second = open(dir.path(), false).err().expect("in use");
    assert!(matches!(second, StorageError::Unavailable(_)), "{second:?}");
    drop(storage);
    assert_eq!(contents(dir.path()), before);

    let empty = tempfile::tempdir().expect("temporary directory");
    let error = open(empty.path(), true).err().expect("nothing to read");
    assert!(error.to_string().contains("no database"), "{error}");
}
