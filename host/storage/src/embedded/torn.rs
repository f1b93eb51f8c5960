//! Drops the last journal entry if a power failure tore it.
//!
//! `fjall` drops an entry that ends too early, but reports one whose checksum does not match as damage. A disk that lost power
//! may have written the end of an entry and not its middle; what it did not write reads as zeros, in whole sectors. Such an
//! entry was never acknowledged, because its sync did not return. Anything else is real damage and stays untouched.
//!
//! The format is `fjall` 3's: an entry is a start (tag 1, item count u32, sequence number u64), items (tag 2, type, compression,
//! keyspace u64, key length u16, value length u32, stored length u32, key, value) and an end (tag 3, checksum u64, 4 bytes).

use std::{
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};

const SECTOR: usize = 512;
const START: usize = 13;
const ITEM: usize = 21;
const END: usize = 13;

/// Cuts the torn entry off the newest journal. Returns whether there was one.
pub(super) fn drop_torn_entry(database: &Path) -> io::Result<bool> {
    let Some(path) = newest_journal(database)? else {
        return Ok(false);
    };
    let bytes = fs::read(&path)?;
    let Some(entry) = last_entry(&bytes).filter(|entry| is_torn(&bytes, entry)) else {
        return Ok(false);
    };
    let file = fs::OpenOptions::new().write(true).open(&path)?;
    file.set_len(entry.start as u64)?;
    file.sync_all()?;
    tracing::warn!(
        journal = %path.display(),
        bytes = entry.len(),
        "storage: dropped an unfinished write that a power failure left behind"
    );
    Ok(true)
}

fn newest_journal(database: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest: Option<(u64, PathBuf)> = None;
    for file in fs::read_dir(database)? {
        let path = file?.path();
        if path.extension().is_none_or(|e| e != "jnl") {
            continue;
        }
        let number = path.file_stem().and_then(|s| s.to_str()?.parse().ok());
        if let Some(number) = number
            && newest.as_ref().is_none_or(|(n, _)| *n < number)
        {
            newest = Some((number, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// The last whole entry, if nothing but zeros follows.
fn last_entry(bytes: &[u8]) -> Option<Range<usize>> {
    let mut at = 0;
    let mut last = None;
    while let Some(end) = entry_end(bytes, at) {
        last = Some(at..end);
        at = end;
    }
    last.filter(|_| bytes[at..].iter().all(|b| *b == 0))
}

fn entry_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    expect_tag(bytes, at, 1)?;
    let items = u32::from_le_bytes(*bytes.get(at + 1..)?.first_chunk()?);
    at += START;
    for _ in 0..items {
        expect_tag(bytes, at, 2)?;
        let key = u16::from_le_bytes(*bytes.get(at + 11..)?.first_chunk()?);
        let value = u32::from_le_bytes(*bytes.get(at + 17..)?.first_chunk()?);
        at += ITEM + usize::from(key) + value as usize;
    }
    expect_tag(bytes, at, 3)?;
    Some(at + END).filter(|end| *end <= bytes.len())
}

fn expect_tag(bytes: &[u8], at: usize, tag: u8) -> Option<()> {
    (bytes.get(at) == Some(&tag)).then_some(())
}

/// Whether a whole sector of the entry was never written.
fn is_torn(bytes: &[u8], entry: &Range<usize>) -> bool {
    let first = entry.start.next_multiple_of(SECTOR);
    (first..entry.end)
        .step_by(SECTOR)
        .filter_map(|at| bytes[..entry.end].get(at..at + SECTOR))
        .any(|sector| sector.iter().all(|b| *b == 0))
}
