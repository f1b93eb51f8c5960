//! What is damaged on disk: which file, what about it, and what to do.
//!
//! At every start the journals, the lists of tables and the tables of the index are read whole and compared with their checksums.
//! The tables of values are only looked for: they are read when something in them cannot be, and before a read-only start.
//!
//! A tree of the database is a folder: `current` names the list in force (number u64, its XXH3-128, a zero byte), `v<number>` is
//! that list, an archive whose section `tables` has levels (u8), their runs (u8), their tables (u32): number u64, a zero byte,
//! XXH3-128 of the file, 8 bytes. The tables lie in `tables/<number>`.

use std::{
    collections::HashSet,
    fmt,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::Xxh3Default;

use super::journal::{Journal, journals};
use crate::engine::StorageError;

/// What the file `version` holds: the database's format.
const MARK: &[u8] = b"FJL\x03";

/// One damaged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) file: PathBuf,
    what: String,
}

impl Damage {
    pub(super) fn new(file: &Path, what: impl Into<String>) -> Self {
        Self {
            file: file.to_path_buf(),
            what: what.into(),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.what)
    }
}

/// The error that tells an operator all there is to know, and how to go on.
pub(super) fn refusal(damages: &[Damage]) -> StorageError {
    let files: Vec<String> = damages.iter().map(Damage::to_string).collect();
    StorageError::Corrupt(format!(
        "{}. Nothing was removed. Check the disk, then restore a snapshot into a new data directory (`pilothouse snapshot restore`), \
         or start with --storage-read-only to read and save what is left",
        files.join("; ")
    ))
}

/// Removes the unfinished write of a crash, and reports everything that no crash leaves. A database that was not `made` whole yet
/// has nothing to lose: what a crash left of its making is removed.
pub(super) fn recover(database: &Path, made: bool) -> io::Result<Vec<Damage>> {
    if !made && is_blank(database)? {
        if database.try_exists()? {
            fs::remove_dir_all(database)?;
        }
        return Ok(Vec::new());
    }
    if !has_mark(database)? {
        let what = "it is missing or wrong, but there was a database";
        return Ok(vec![Damage::new(&database.join("version"), what)]);
    }
    let mut damages = Vec::new();
    let journals = journals(database)?;
    for (i, path) in journals.iter().enumerate() {
        let newest = i + 1 == journals.len();
        let journal = Journal::read(path)?;
        match journal.damage(newest) {
            Some(damage) => damages.push(damage),
            None if journal.is_torn() => journal.cut()?,
            None => {}
        }
    }
    for tree in trees(database)? {
        match tree.list_damage()? {
            Some(damage) => damages.push(damage),
            None => damages.extend(tree.table_damage(!tree.holds_values())?),
        }
    }
    Ok(damages)
}

fn has_mark(database: &Path) -> io::Result<bool> {
    match fs::read(database.join("version")) {
        Ok(mark) => Ok(mark == MARK),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Whether nothing was ever written: neither a journal nor a table has anything in it.
fn is_blank(database: &Path) -> io::Result<bool> {
    if !database.try_exists()? {
        return Ok(true);
    }
    for journal in journals(database)? {
        if !Journal::read(&journal)?.is_empty() {
            return Ok(false);
        }
    }
    for keyspace in ["1", "2"] {
        let tables = database.join("keyspaces").join(keyspace).join("tables");
        if tables.try_exists()? && fs::read_dir(tables)?.next().is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads every table and reports those that are not as they were written. The database may be open.
pub(super) fn read_tables(database: &Path) -> io::Result<Vec<Damage>> {
    let mut damages = Vec::new();
    for tree in trees(database)? {
        if let Some(damage) = tree.list_damage()? {
            damages.push(damage);
            continue;
        }
        let mut found = tree.table_damage(true)?;
        if !found.is_empty() {
            let listed = tree.tables()?; // what a compaction replaced meanwhile is gone and was not damaged
            found.retain(|damage| listed.iter().any(|(path, _)| *path == damage.file));
        }
        damages.extend(found);
    }
    Ok(damages)
}

/// A folder of tables with their list.
pub(super) struct Tree {
    folder: PathBuf,
}

/// A line of a list: the table's number, its checksum, and what follows.
struct Listed {
    number: u64,
    checksum: u128,
    rest: [u8; 8],
}

/// Levels, their runs, their tables.
type Levels = Vec<Vec<Vec<Listed>>>;

fn trees(database: &Path) -> io::Result<Vec<Tree>> {
    let mut trees = Vec::new();
    for folder in fs::read_dir(database.join("keyspaces"))? {
        let folder = folder?.path();
        if folder.join("current").try_exists()? {
            trees.push(Tree { folder });
        }
    }
    trees.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(trees)
}

impl Tree {
    pub(super) fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
        }
    }

    /// The number of the list in force and what its checksum should be.
    fn current(&self) -> io::Result<Option<(u64, u128)>> {
        let current = fs::read(self.folder.join("current"))?;
        let mut rest = &current[..];
        Ok(read_current(&mut rest))
    }

    fn list(&self, number: u64) -> PathBuf {
        self.folder.join(format!("v{number}"))
    }

    fn list_damage(&self) -> io::Result<Option<Damage>> {
        let Some((number, checksum)) = self.current()? else {
            let current = self.folder.join("current");
            return Ok(Some(Damage::new(&current, "it is too short")));
        };
        let list = self.list(number);
        let what = match hash(&list) {
            Ok(found) if found == checksum => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.moved_on(number)? => {
                return self.list_damage();
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => "it is missing",
            Err(e) => return Err(e),
            Ok(_) => "its checksum does not match",
        };
        let what = format!("{what}; it lists the tables of stored objects");
        Ok(Some(Damage::new(&list, what)))
    }

    /// The tables with their checksums. The list may be replaced at any time.
    fn tables(&self) -> io::Result<Vec<(PathBuf, u128)>> {
        let levels = loop {
            let Some((number, _)) = self.current()? else {
                return Ok(Vec::new());
            };
            match read_levels(&self.list(number)) {
                Err(e) if e.kind() == io::ErrorKind::NotFound && self.moved_on(number)? => {}
                levels => break levels?,
            }
        };
        let path = |listed: &Listed| self.folder.join("tables").join(listed.number.to_string());
        let tables = levels.iter().flatten().flatten();
        Ok(tables
            .map(|listed| (path(listed), listed.checksum))
            .collect())
    }

    /// The tables that are not there, and if they are `read`, those that are not as they were written.
    fn table_damage(&self, read: bool) -> io::Result<Vec<Damage>> {
        let mut damages = Vec::new();
        for (path, checksum) in self.tables()? {
            if read || !path.try_exists()? {
                damages.extend(table_damage(&path, checksum)?);
            }
        }
        Ok(damages)
    }

    /// The values are the second keyspace that is made.
    fn holds_values(&self) -> bool {
        self.folder.ends_with("2")
    }

    fn moved_on(&self, number: u64) -> io::Result<bool> {
        Ok(self.current()?.is_some_and(|(now, _)| now != number))
    }

    /// The list in force without some of its tables, and its number.
    pub(super) fn list_without(&self, without: &HashSet<&Path>) -> io::Result<(Vec<u8>, u64)> {
        let (number, _) = self.current()?.ok_or(io::ErrorKind::InvalidData)?;
        let list = self.list(number);
        let mut levels = read_levels(&list)?;
        for level in &mut levels {
            for run in &mut *level {
                let table = |n: u64| self.folder.join("tables").join(n.to_string());
                run.retain(|listed| !without.contains(&*table(listed.number)));
            }
            level.retain(|run| !run.is_empty());
        }
        let archive = sfa::Reader::new(&list).map_err(io::Error::other)?;
        let bytes = fs::read(&list)?;
        let mut writer = sfa::Writer::from_writer(io::Cursor::new(Vec::new()));
        for section in archive.toc().iter() {
            writer.start(section.name())?;
            let (from, length) = (section.pos() as usize, section.len() as usize);
            match section.name() {
                b"tables" => writer.write_all(&write_levels(&levels))?,
                _ => writer.write_all(bytes.get(from..from + length).unwrap_or_default())?,
            }
        }
        let written = writer.into_inner().map_err(io::Error::other)?;
        Ok((written.into_inner(), number))
    }
}

fn read_current(bytes: &mut &[u8]) -> Option<(u64, u128)> {
    let number = u64::from_le_bytes(take(bytes)?);
    Some((number, u128::from_le_bytes(take(bytes)?)))
}

fn read_levels(list: &Path) -> io::Result<Levels> {
    let bytes = fs::read(list)?;
    let archive =
        sfa::Reader::from_reader(&mut io::Cursor::new(&bytes)).map_err(io::Error::other)?;
    let section = archive.toc().section(b"tables");
    let section = section.ok_or(io::ErrorKind::InvalidData)?;
    let from = section.pos() as usize;
    let mut section = bytes.get(from..from + section.len() as usize);
    let levels = section.as_mut().and_then(parse_levels);
    Ok(levels.ok_or(io::ErrorKind::InvalidData)?)
}

fn parse_levels(bytes: &mut &[u8]) -> Option<Levels> {
    let table = |bytes: &mut &[u8]| {
        let number = u64::from_le_bytes(take(bytes)?);
        let [_kind] = take(bytes)?;
        let checksum = u128::from_le_bytes(take(bytes)?);
        let rest = take(bytes)?;
        Some(Listed {
            number,
            checksum,
            rest,
        })
    };
    let run = |bytes: &mut &[u8]| {
        let tables = u32::from_le_bytes(take(bytes)?);
        (0..tables)
            .map(|_| table(bytes))
            .collect::<Option<Vec<_>>>()
    };
    let level = |bytes: &mut &[u8]| {
        let runs = u8::from_le_bytes(take(bytes)?);
        (0..runs).map(|_| run(bytes)).collect::<Option<Vec<_>>>()
    };
    let levels = u8::from_le_bytes(take(bytes)?);
    (0..levels).map(|_| level(bytes)).collect()
}

fn write_levels(levels: &Levels) -> Vec<u8> {
    let mut bytes = vec![levels.len() as u8];
    for level in levels {
        bytes.push(level.len() as u8);
        for run in level {
            bytes.extend((run.len() as u32).to_le_bytes());
            for listed in run {
                bytes.extend(listed.number.to_le_bytes());
                bytes.push(0);
                bytes.extend(listed.checksum.to_le_bytes());
                bytes.extend(listed.rest);
            }
        }
    }
    bytes
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

fn table_damage(path: &Path, checksum: u128) -> io::Result<Option<Damage>> {
    let what = match hash(path) {
        Ok(found) if found == checksum => return Ok(None),
        Ok(_) => "its checksum does not match".to_owned(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => "it is missing".to_owned(),
        Err(e) => format!("it cannot be read: {e}"),
    };
    let what = format!("{what}; it holds stored objects or their index");
    Ok(Some(Damage::new(path, what)))
}

/// The XXH3-128 of a file.
pub(super) fn hash(path: &Path) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let mut hasher = Xxh3Default::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.digest128()),
            n => hasher.update(&buffer[..n]),
        }
    }
}
