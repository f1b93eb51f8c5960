//! The database's journals, judged before `fjall` reads them.
//!
//! `fjall` cuts a journal at the first bytes that it cannot parse, whatever follows them. After a crash that is right, on a
//! damaged disk it would drop acknowledged writes without a word. So every journal is read here first, and what follows its last
//! whole entry is one of:
//!
//! ```text
//! nothing, or zeros ─────────────────────────────► clean
//! the start of one entry, then nothing or zeros ─► torn: the process or the machine ended during the write
//! one entry with a sector that was never written ► torn: the machine ended during the sync
//! anything else ─────────────────────────────────► damaged
//! ```
//!
//! The engine syncs each entry before it writes the next, so that at most one is unfinished, and nobody was told that it is
//! durable. Only the newest journal may be torn: the others were synced before the next one was made.
//!
//! The format is `fjall` 3's: an entry is a start (tag 1, item count u32, sequence number u64), items (tag 2, type, compression,
//! keyspace u64, key length u16, value length u32, stored length u32, key, value) and an end (tag 3, checksum u64, 4 bytes).
//! The checksum is the XXH3 of all items.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    ops::Range,
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::xxh3_64;

use super::damage::Damage;

const SECTOR: usize = 512;
const START: usize = 13;
const ITEM: usize = 21;
const END: usize = 13;
const MAGIC: [u8; 4] = *b"FJL\x03";

/// What follows the last whole entry of a journal.
#[derive(Debug, PartialEq, Eq)]
enum Tail {
    Clean,
    /// An entry that was never acknowledged.
    Torn,
    Damaged {
        at: usize,
        why: &'static str,
    },
}

/// A journal that has been read.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Where the whole entries end.
    end: usize,
    tail: Tail,
}

impl Journal {
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let bytes = read_data(path)?;
        let mut end = 0;
        while let Ok(next) = whole_entry(&bytes, end) {
            end = next;
        }
        Ok(Self {
            path: path.to_path_buf(),
            tail: judge(&bytes, end),
            bytes,
            end,
        })
    }

    /// Whether nothing was ever written to it.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.iter().all(|b| *b == 0)
    }

    pub(super) fn is_torn(&self) -> bool {
        self.tail == Tail::Torn
    }

    /// Removes what a crash left behind the last whole entry.
    pub(super) fn cut(&self) -> io::Result<()> {
        let file = fs::OpenOptions::new().write(true).open(&self.path)?;
        file.set_len(self.end as u64)?;
        file.sync_all()?;
        tracing::warn!(
            journal = %self.path.display(),
            at = self.end,
            "storage: dropped an unfinished write that a crash left behind; it was never acknowledged"
        );
        Ok(())
    }

    /// Every whole entry, those behind damage too.
    pub(super) fn readable(&self) -> Vec<u8> {
        let mut readable = self.bytes[..self.end].to_vec();
        let mut at = self.end;
        while let Some(marker) = find(&self.bytes, at, &MAGIC) {
            at = marker + MAGIC.len();
            while let Ok(next) = whole_entry(&self.bytes, at) {
                readable.extend(&self.bytes[at..next]);
                at = next;
            }
        }
        readable
    }

    /// What is wrong with the journal, if the engine has to stop because of it.
    pub(super) fn damage(&self, newest: bool) -> Option<Damage> {
        let (at, why) = match self.tail {
            Tail::Clean => return None,
            Tail::Torn if newest => return None,
            Tail::Torn => (self.end, "it ends in the middle of a write"),
            Tail::Damaged { at, why } => (at, why),
        };
        let what = format!(
            "{why} at byte {at}; {} bytes from byte {} on belong to writes that may have been acknowledged",
            data_end(&self.bytes) - self.end,
            self.end
        );
        Some(Damage::new(&self.path, what))
    }
}

/// The journals of a database, oldest first.
pub(super) fn journals(database: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    for file in fs::read_dir(database)? {
        let path = file?.path();
        if path.extension().is_none_or(|e| e != "jnl") {
            continue;
        }
        let number = path.file_stem().and_then(|s| s.to_str()?.parse().ok());
        found.extend(number.map(|number| (number, path)));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Writes the newest journal anew. After a failed sync the system may hold bytes that it will never write: what is read of the
/// journal is then not what a power failure leaves. A copy whose sync succeeds is.
pub(super) fn rewrite_newest(database: &Path) -> io::Result<()> {
    let Some(path) = journals(database)?.pop() else {
        return Ok(());
    };
    let copy = path.with_extension("copy");
    fs::write(&copy, read_data(&path)?)?;
    File::open(&copy)?.sync_all()?;
    fs::rename(&copy, &path)?;
    File::open(database)?.sync_all()
}

/// The file up to its last data; journals are made 64 MB long, and what was never written takes no space.
fn read_data(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    while let Some(data) = next_data(&file, bytes.len() as u64)? {
        bytes.resize(usize::try_from(data.start).map_err(io::Error::other)?, 0);
        file.seek(SeekFrom::Start(data.start))?;
        let length = data.end - data.start;
        if (&file).take(length).read_to_end(&mut bytes)? == 0 {
            break;
        }
    }
    Ok(bytes)
}

fn next_data(file: &File, from: u64) -> io::Result<Option<Range<u64>>> {
    use rustix::{
        fs::SeekFrom::{Data, Hole},
        io::Errno,
    };
    let start = match rustix::fs::seek(file, Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    Ok(Some(start..rustix::fs::seek(file, Hole(start))?))
}

/// Where a whole entry ends, or where it stops making sense and why.
fn whole_entry(bytes: &[u8], start: usize) -> Result<usize, (usize, &'static str)> {
    let cut = (bytes.len(), "a write is cut off");
    let tag = |at: usize, tag: u8| match bytes.get(at) {
        Some(found) if *found == tag => Ok(()),
        Some(_) => Err((at, "an unreadable record")),
        None => Err(cut),
    };
    tag(start, 1)?;
    let items: &[u8; 4] = chunk(bytes, start + 1).ok_or(cut)?;
    let mut at = start + START;
    for _ in 0..u32::from_le_bytes(*items) {
        tag(at, 2)?;
        let key = chunk(bytes, at + 11).ok_or(cut)?;
        let value = chunk(bytes, at + 17).ok_or(cut)?;
        at += ITEM + usize::from(u16::from_le_bytes(*key)) + u32::from_le_bytes(*value) as usize;
    }
    tag(at, 3)?;
    let checksum = chunk(bytes, at + 1).ok_or(cut)?;
    for (i, expected) in MAGIC.into_iter().enumerate() {
        tag(at + 9 + i, expected)?;
    }
    match xxh3_64(&bytes[start + START..at]) == u64::from_le_bytes(*checksum) {
        true => Ok(at + END),
        false => Err((start, "a checksum that does not match its write")),
    }
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

/// What the bytes from `start` on are, where no whole entry begins.
fn judge(bytes: &[u8], start: usize) -> Tail {
    let end = data_end(bytes);
    if end <= start {
        return Tail::Clean;
    }
    let Err((at, why)) = whole_entry(bytes, start) else {
        return Tail::Clean;
    };
    // Several entries cannot be unfinished at once.
    let markers = end_markers(&bytes[start..end]);
    let ended = markers.last() == Some(&(end - start));
    let followed = markers.len() > usize::from(ended);
    let cut = !ended && bytes[at..].iter().all(|b| *b == 0);
    match !followed && (cut || has_unwritten_sector(bytes, start..end)) {
        true => Tail::Torn,
        false => Tail::Damaged { at, why },
    }
}

/// Where the last byte that is not zero ends.
fn data_end(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1)
}

/// Where the entries end, as far as their end markers can be read.
fn end_markers(bytes: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = find(bytes, from, &MAGIC) {
        from = at + MAGIC.len();
        if at >= 9 && bytes[at - 9] == 3 {
            found.push(from);
        }
    }
    found
}

/// Whether a sector holds nothing of an entry: the one in which it begins, or one that it fills.
fn has_unwritten_sector(bytes: &[u8], range: Range<usize>) -> bool {
    let mut start = range.start;
    loop {
        let end = (start + 1).next_multiple_of(SECTOR);
        match bytes.get(start..end).filter(|_| end <= range.end) {
            None => return false,
            Some(sector) if sector.iter().all(|b| *b == 0) => return true,
            Some(_) => start = end,
        }
    }
}

fn find(bytes: &[u8], from: usize, needle: &[u8]) -> Option<usize> {
    let at = memchr::memmem::find(bytes.get(from..)?, needle)?;
    Some(from + at)
}

#[cfg(test)]
mod tests;
