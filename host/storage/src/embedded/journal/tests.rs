//! A journal of two entries, bent in every way: what a crash leaves is dropped, everything else is reported.

use super::*;

/// An entry of one put.
fn entry(seqno: u64, value: &[u8]) -> Vec<u8> {
    let mut item = vec![2, 0, 0];
    item.extend(7_u64.to_le_bytes());
    item.extend(3_u16.to_le_bytes());
    item.extend((value.len() as u32).to_le_bytes());
    item.extend((value.len() as u32).to_le_bytes());
    item.extend(b"key");
    item.extend(value);
    let mut entry = vec![1];
    entry.extend(1_u32.to_le_bytes());
    entry.extend(seqno.to_le_bytes());
    entry.extend(&item);
    entry.push(3);
    entry.extend(xxh3_64(&item).to_le_bytes());
    entry.extend(MAGIC);
    entry
}

fn read(bytes: &[u8]) -> Journal {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("0.jnl");
    fs::write(&path, bytes).expect("write");
    Journal::read(&path).expect("read")
}

#[test]
fn what_a_crash_leaves_is_told_from_damage() {
    type Bend = fn(&mut Vec<u8>, usize);
    let cases: [(&str, Bend, &str); 18] = [
        ("nothing", |_, _| {}, "clean"),
        ("preallocated", |j, _| j.resize(1 << 20, 0), "clean"),
        ("cut by a byte", |j, _| j.truncate(j.len() - 1), "torn"),
        ("cut in the value", |j, last| j.truncate(last + 900), "torn"),
        (
            "cut in the first header",
            |j, last| j.truncate(last + 5),
            "torn",
        ),
        (
            "written in part, then zeros",
            |j, last| j[last + 900..].fill(0),
            "torn",
        ),
        (
            "only the first byte",
            |j, last| j[last + 1..].fill(0),
            "torn",
        ),
        (
            "a sector not written",
            |j, last| {
                let at = (last + 600).next_multiple_of(SECTOR);
                j[at..at + SECTOR].fill(0);
            },
            "torn",
        ),
        (
            "the sector of the start not written",
            |j, last| {
                let sector = last.next_multiple_of(SECTOR);
                j[last..sector].fill(0);
            },
            "torn",
        ),
        (
            "a flipped bit in the value",
            |j, last| j[last + 900] ^= 1,
            "damaged",
        ),
        (
            "a flipped bit in the checksum",
            |j, _| {
                let at = j.len() - 8;
                j[at] ^= 1;
            },
            "damaged",
        ),
        (
            "a flipped bit in the end",
            |j, _| {
                let at = j.len() - 3;
                j[at] ^= 1;
            },
            "damaged",
        ),
        (
            "a flipped bit in the start",
            |j, last| j[last] ^= 4,
            "damaged",
        ),
        (
            "a longer value than there is",
            |j, last| j[last + START + 19] = 0x7f,
            "damaged",
        ),
        (
            "more items than there are",
            |j, last| j[last + 1] = 2,
            "damaged",
        ),
        (
            "a flipped bit in an older entry",
            |j, last| j[last - 100] ^= 1,
            "damaged",
        ),
        (
            "an older entry without its start",
            |j, _| j[0] = 0,
            "damaged",
        ),
        (
            "a sector of zeros in an older entry",
            |j, _| j[SECTOR..2 * SECTOR].fill(0),
            "damaged",
        ),
    ];
    for (name, bend, expected) in cases {
        let mut bytes = entry(1, &[b'a'; 2000]);
        let last = bytes.len();
        bytes.extend(entry(2, &[b'b'; 2000]));
        bend(&mut bytes, last);
        let journal = read(&bytes);
        let found = match &journal.tail {
            Tail::Clean => "clean",
            Tail::Torn => "torn",
            Tail::Damaged { .. } => "damaged",
        };
        assert_eq!(found, expected, "{name}: {journal:?}");
        let refused = |newest| journal.damage(newest).is_some();
        assert_eq!(refused(true), expected == "damaged", "{name}");
        assert_eq!(
            refused(false),
            expected != "clean",
            "{name}, not the newest"
        );
    }
}

#[test]
fn what_lies_behind_damage_is_read_too() {
    let [first, second, third] = [1, 2, 3].map(|n| entry(n, &[b'x'; 700]));
    let mut bytes = [first.clone(), second.clone(), third.clone()].concat();
    bytes[first.len() + 300] ^= 1;
    assert_eq!(read(&bytes).readable(), [first.clone(), third].concat());
    assert_eq!(read(&first).readable(), first);
}

#[test]
fn a_cut_journal_is_clean() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("0.jnl");
    let whole = entry(1, b"kept");
    fs::write(&path, [&whole[..], &entry(2, b"torn")[..20]].concat()).expect("write");
    Journal::read(&path).expect("read").cut().expect("cut");
    let journal = Journal::read(&path).expect("read again");
    assert_eq!((journal.tail, journal.bytes), (Tail::Clean, whole));
}
