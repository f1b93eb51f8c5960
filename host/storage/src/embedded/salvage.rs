//! What can still be read of a damaged database, for a read-only start.
//!
//! The database itself is not touched: it may lie on a disk that takes no writes, and what is left of it may be all there is. A
//! copy is made in the directory for temporary files, of links to the tables and of the whole entries of the journals, and that
//! copy is opened. A table that prevents this is left out. Of the objects, those are shown whose index record and value can be
//! read; the others are named in the log.

use std::{
    collections::HashSet,
    fs::{self, DirBuilder},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use fjall::Keyspace;

use super::{
    damage::{self, Damage, Tree},
    disk::{Open, database_error, io_error},
    index::Index,
    journal::{Journal, journals},
    records::{Loaded, read_record},
};
use crate::engine::{Result, StorageError};

/// How many lost objects are named one by one.
const NAMED: usize = 20;
/// Where Kubernetes' keys begin.
const FIRST_KEY: &[u8] = b"k/registry/ ";
/// What follows the key in a record of the index: a zero, a revision, a sub.
const SUFFIX: usize = 13;

/// The copy; dropping it removes it.
pub(super) struct Salvage {
    dir: PathBuf,
}

impl Drop for Salvage {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::warn!(%error, dir = %self.dir.display(), "storage: a temporary copy could not be removed");
        }
    }
}

/// Opens what can be read of a database.
pub(super) fn open(database: &Path) -> Result<(Open, Loaded)> {
    if !database.join("version").exists() {
        return Err(StorageError::Unavailable(format!(
            "there is no database in {} to read from",
            database.display()
        )));
    }
    let damages = find_damage(database).map_err(|e| io_error(&e, "read the data directory"))?;
    for damage in &damages {
        tracing::error!(%damage, "storage: damaged");
    }
    let damaged: HashSet<&Path> = damages.iter().map(|damage| &*damage.file).collect();
    let open = open_copy(database, &HashSet::new()).or_else(|_| open_copy(database, &damaged));
    let open = open.map_err(|error| match damages.is_empty() {
        true => error,
        false => damage::refusal(&damages),
    })?;
    let loaded = load(&open);
    Ok((open, loaded))
}

fn find_damage(database: &Path) -> io::Result<Vec<Damage>> {
    let mut damages = damage::read_tables(database)?;
    for path in journals(database)? {
        damages.extend(Journal::read(&path)?.damage(true));
    }
    Ok(damages)
}

fn open_copy(database: &Path, without: &HashSet<&Path>) -> Result<Open> {
    let copy = copy(database, without).map_err(|e| io_error(&e, "copy the journals"))?;
    let dir = copy.dir.clone();
    Open::copy(&dir, copy).map_err(|e| database_error(&e))
}

fn copy(database: &Path, without: &HashSet<&Path>) -> io::Result<Salvage> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("pilothouse-read-only-{}-{number}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    DirBuilder::new().mode(0o700).create(&dir)?;
    let copy = Salvage { dir };
    fs::copy(database.join("version"), copy.dir.join("version"))?;
    fs::write(copy.dir.join("lock"), [])?;
    for path in journals(database)? {
        let readable = Journal::read(&path)?.readable();
        fs::write(in_copy(&copy.dir, &path), readable)?;
    }
    for tree in fs::read_dir(database.join("keyspaces"))? {
        let tree = tree?.path();
        let target = copy
            .dir
            .join("keyspaces")
            .join(tree.file_name().unwrap_or_default());
        fs::create_dir_all(&target)?;
        copy_tree(&tree, &target, without)?;
    }
    Ok(copy)
}

fn in_copy(dir: &Path, file: &Path) -> PathBuf {
    dir.join(file.file_name().unwrap_or_default())
}

fn copy_tree(from: &Path, to: &Path, without: &HashSet<&Path>) -> io::Result<()> {
    for part in fs::read_dir(from)? {
        let part = part?.path();
        if part.is_dir() {
            fs::create_dir(in_copy(to, &part))?;
            for file in fs::read_dir(&part)? {
                let file = file?.path();
                symlink(
                    fs::canonicalize(&file)?,
                    in_copy(&in_copy(to, &part), &file),
                )?;
            }
        } else {
            fs::copy(&part, in_copy(to, &part))?;
        }
    }
    let tree = Tree::at(from);
    if without.iter().any(|file| file.starts_with(from)) {
        let (list, number) = tree.list_without(without)?;
        let path = to.join(format!("v{number}"));
        fs::write(&path, list)?;
        let mut current = number.to_le_bytes().to_vec();
        current.extend(damage::hash(&path)?.to_le_bytes());
        current.push(0);
        fs::File::create(to.join("current"))?.write_all(&current)?;
    }
    Ok(())
}

/// The live objects that can be read. Their past is gone: it may have gaps.
fn load(open: &Open) -> Loaded {
    let mut loaded = read_index(&open.index);
    let newest = loaded
        .entries
        .iter()
        .map(|(_, version)| version.revision)
        .max();
    loaded.revision = loaded.revision.max(newest.unwrap_or(0));
    loaded.compacted = loaded.revision;
    let entries = std::mem::take(&mut loaded.entries);
    let (index, _) = Index::load(entries, loaded.revision, loaded.compacted);
    let mut lost = 0;
    for (key, version) in index.live() {
        match open.value(&version) {
            Ok(Some(_)) => loaded.entries.push((key, version)),
            Ok(None) | Err(_) => {
                lost += 1;
                if lost <= NAMED {
                    tracing::error!(%key, revision = version.revision, "storage: an object cannot be read");
                }
            }
        }
    }
    tracing::warn!(
        readable = loaded.entries.len(),
        lost,
        revision = loaded.revision,
        "storage: started read-only"
    );
    loaded
}

/// Reads the index around its unreadable parts.
fn read_index(index: &Keyspace) -> Loaded {
    let mut loaded = Loaded::default();
    let mut last = Vec::new();
    let mut from = Vec::new();
    loop {
        let failed = read_from(index, &from, &mut last, &mut loaded);
        if !failed {
            return loaded;
        }
        let Some(next) = next_readable(index, &last) else {
            tracing::error!(after = %shown(&last), "storage: the rest of the index cannot be read");
            return loaded;
        };
        tracing::error!(
            after = %shown(&last),
            before = %shown(&next),
            "storage: a part of the index cannot be read; objects between these names are missing"
        );
        from = next;
        last.clone_from(&from);
    }
}

/// Reads until the end or an error; returns whether it was an error.
fn read_from(index: &Keyspace, from: &[u8], last: &mut Vec<u8>, loaded: &mut Loaded) -> bool {
    for item in index.range(from..) {
        let Ok((key, value)) = item.into_inner() else {
            return true;
        };
        last.clear();
        last.extend_from_slice(&key);
        if read_record(&key, &value, loaded).is_none() {
            tracing::error!(key = %shown(&key), "storage: a record of the index makes no sense");
        }
    }
    false
}

/// The first place after an unreadable part, found by trying the names that could follow `last`, the nearest first.
fn next_readable(index: &Keyspace, last: &[u8]) -> Option<Vec<u8>> {
    let last = match last {
        [] => FIRST_KEY,
        [b'k', ..] => &last[..last.len().saturating_sub(SUFFIX).max(1)],
        other => other,
    };
    for length in (1..=last.len()).rev() {
        let (byte, parent) = last[..length].split_last()?;
        for sibling in byte.checked_add(1)?..=u8::MAX {
            let next = [parent, &[sibling]].concat();
            let mut items = index.range(next.clone()..);
            if items.next().is_none_or(|item| item.into_inner().is_ok()) {
                return Some(next);
            }
        }
    }
    None
}

fn shown(key: &[u8]) -> String {
    let key = key.strip_prefix(b"k").unwrap_or(key);
    String::from_utf8_lossy(key.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
}
