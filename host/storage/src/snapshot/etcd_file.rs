//! What an etcd snapshot holds, as `etcdutl snapshot status` says it: the file is a bbolt database with a SHA-256 behind it.
//!
//! Of bbolt's format only what reading needs: two meta pages, of which the newer valid one counts; a tree of branch and leaf
//! pages; buckets whose value is the root of a tree of their own, or that tree's only page.
//! Source: <https://github.com/etcd-io/bbolt>, `page.go` and `db.go`

use std::{fs::File, os::unix::fs::FileExt};

use sha2::{Digest, Sha256};

use super::{SnapshotKind, SnapshotStatus};
use crate::engine::{Result, Revision, StorageError};

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
const PAGE_HEADER: usize = 16;
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const BUCKET: u32 = 0x01;
/// etcd appends the hash to a file of whole 512-byte blocks.
const HASH_BYTES: u64 = 32;
const BLOCK: u64 = 512;
/// A tree that is deeper is a circle.
const DEEPEST: usize = 64;

/// Reads everything once, and checks the appended hash if there is one.
pub(super) fn status(file: &File) -> Result<SnapshotStatus> {
    let length = file.metadata().map_err(|e| unread(&e))?.len();
    if length % BLOCK == HASH_BYTES {
        check_hash(file, length - HASH_BYTES)?;
    }
    let database = Database::open(file)?;
    let mut counted = Counted::default();
    database.each(database.root, 0, &mut |name, value, is_bucket| {
        if !is_bucket {
            return Err(no_database());
        }
        counted.crc.update(name);
        let is_keys = name == b"key";
        let count = &mut |key: &[u8], value: &[u8], _| {
            counted.crc.update(key);
            counted.crc.update(value);
            counted.keys += 1;
            if is_keys {
                counted.revision = revision(key).unwrap_or(counted.revision);
            }
            Ok(())
        };
        match number(value, 0).ok_or_else(no_database)? {
            0 => database.page(&value[16..], 0, count), // small ones lie within their parent
            root => database.each(root, 0, count),
        }
    })?;
    Ok(SnapshotStatus {
        kind: SnapshotKind::Etcd,
        hash: format!("{:x}", counted.crc.value()),
        revision: Revision(counted.revision),
        keys: counted.keys,
        size: database.pages * database.page_bytes as u64,
    })
}

#[derive(Default)]
struct Counted {
    crc: Crc32c,
    revision: u64,
    keys: u64,
}

/// The main number of a revision, as etcd's keys are.
fn revision(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.first_chunk()?))
}

fn check_hash(file: &File, length: u64) -> Result<()> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < length {
        let part = buffer
            .len()
            .min(usize::try_from(length - at).unwrap_or(usize::MAX));
        read_at(file, &mut buffer[..part], at)?;
        hash.update(&buffer[..part]);
        at += part as u64;
    }
    let mut expected = [0; HASH_BYTES as usize];
    read_at(file, &mut expected, length)?;
    match hash.finalize()[..] == expected {
        true => Ok(()),
        false => Err(StorageError::Corrupt(
            "the snapshot was changed after it was taken: its hash does not match; use another one"
                .to_owned(),
        )),
    }
}

struct Database<'a> {
    file: &'a File,
    page_bytes: usize,
    pages: u64,
    root: u64,
}

/// Key, value, whether it is a bucket.
type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8], bool) -> Result<()>;

impl<'a> Database<'a> {
    fn open(file: &'a File) -> Result<Self> {
        let mut start = vec![0; 4096];
        read_at(file, &mut start, 0)?;
        let first = Meta::read(&start[PAGE_HEADER..]);
        // a first page that was torn does not say how long it is
        let second = |page_bytes: usize| {
            let mut page = vec![0; 4096];
            read_at(file, &mut page, page_bytes as u64).ok()?;
            Meta::read(&page[PAGE_HEADER..])
        };
        let second = match &first {
            Some(first) => second(first.page_bytes),
            None => [4096, 8192, 16384, 65536].into_iter().find_map(second),
        };
        let newest = [first, second]
            .into_iter()
            .flatten()
            .max_by_key(|m| m.transaction);
        let meta = newest.ok_or_else(no_database)?;
        Ok(Self {
            file,
            page_bytes: meta.page_bytes,
            pages: meta.pages,
            root: meta.root,
        })
    }

    /// Visits the tree below a page in the order of keys.
    fn each(&self, page: u64, depth: usize, visit: Visit<'_>) -> Result<()> {
        if page >= self.pages || depth > DEEPEST {
            return Err(no_database());
        }
        let at = page * self.page_bytes as u64;
        let mut bytes = vec![0; self.page_bytes];
        read_at(self.file, &mut bytes, at)?;
        let overflow = u64::from(small(&bytes, 12).ok_or_else(no_database)?);
        if page + overflow >= self.pages {
            return Err(no_database());
        }
        let whole = usize::try_from(overflow).map_err(|_| no_database())? + 1;
        bytes.resize(whole * self.page_bytes, 0);
        read_at(self.file, &mut bytes, at)?;
        self.page(&bytes, depth, visit)
    }

    fn page(&self, bytes: &[u8], depth: usize, visit: Visit<'_>) -> Result<()> {
        let part = |at: usize, length: usize| {
            let part = bytes.get(at..).and_then(|rest| rest.get(..length));
            part.ok_or_else(no_database)
        };
        let half = |at: usize| Ok(u16::from_le_bytes([part(at, 2)?[0], part(at, 2)?[1]]));
        let (flags, count) = (half(8)?, half(10)?);
        for index in 0..usize::from(count) {
            let at = PAGE_HEADER + 16 * index;
            let field = |offset: usize| small(bytes, at + offset).ok_or_else(no_database);
            if flags & BRANCH != 0 {
                let child = number(bytes, at + 8).ok_or_else(no_database)?;
                self.each(child, depth + 1, visit)?;
            } else if flags & LEAF != 0 {
                let start = at + field(4)? as usize;
                let (key, value) = (field(8)? as usize, field(12)? as usize);
                visit(
                    part(start, key)?,
                    part(start + key, value)?,
                    field(0)? & BUCKET != 0,
                )?;
            } else {
                return Err(no_database());
            }
        }
        Ok(())
    }
}

struct Meta {
    page_bytes: usize,
    root: u64,
    pages: u64,
    transaction: u64,
}

impl Meta {
    /// `None` if the page was never finished.
    fn read(bytes: &[u8]) -> Option<Self> {
        const SUMMED: usize = 56;
        let is_meta = small(bytes, 0)? == MAGIC && small(bytes, 4)? == VERSION;
        let sum = bytes
            .get(..SUMMED)?
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3) // FNV-1a
            });
        if !is_meta || sum != number(bytes, SUMMED)? {
            return None;
        }
        let page_bytes = small(bytes, 8)? as usize;
        (512..=1 << 20).contains(&page_bytes).then_some(Self {
            page_bytes,
            root: number(bytes, 16)?,
            pages: number(bytes, 40)?,
            transaction: number(bytes, 48)?,
        })
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn small(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn read_at(file: &File, buffer: &mut [u8], at: u64) -> Result<()> {
    file.read_exact_at(buffer, at)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => no_database(),
            _ => unread(&error),
        })
}

fn unread(error: &std::io::Error) -> StorageError {
    StorageError::Unavailable(format!("cannot read the snapshot: {error}"))
}

fn no_database() -> StorageError {
    StorageError::Corrupt(
        "this is neither a snapshot of Pilothouse nor a whole one of etcd".to_owned(),
    )
}

/// The checksum that etcd prints (Castagnoli).
#[derive(Default)]
struct Crc32c(u32);

impl Crc32c {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let (mut value, mut bit) = (index as u32, 0);
            while bit < 8 {
                value = (value >> 1) ^ (0x82F6_3B78 & (value & 1).wrapping_neg());
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };

    fn update(&mut self, bytes: &[u8]) {
        let step = |crc: u32, byte: &u8| Self::TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
        self.0 = !bytes.iter().fold(!self.0, step);
    }

    fn value(&self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        let mut crc = Crc32c::default();
        crc.update(b"1234");
        crc.update(b"56789");
        assert_eq!(crc.value(), 0xE306_9283); // the check value of its definition
    }

    #[test]
    fn what_is_no_database_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for bytes in [&b""[..], &[0; 10], &[0; 4096], &[0; 8192], &[0xff; 20000]] {
            std::fs::write(&path, bytes).unwrap();
            let refused = status(&File::open(&path).unwrap());
            assert!(
                matches!(refused, Err(StorageError::Corrupt(_))),
                "{refused:?}"
            );
        }
    }
}
