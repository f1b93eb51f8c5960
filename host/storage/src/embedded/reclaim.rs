//! Gives back the disk of what compaction has forgotten.
//!
//! Values lie in the order of their revisions and are never removed one by one: a removal is so small that the database, which
//! merges tables by their sizes, hardly ever brings it to the table that it is about (a million updates of 20 MB left 1.8 GB).
//! Instead, once more than twice of what is kept lies on the disk, everything is found out that is still kept; tables without any
//! of it are dropped unread, and if that is not enough all are written anew without the rest. Of the index, whose records lie in
//! the order of their keys, the latter alone.
//!
//! Invariants:
//! 1. Dropped is only what the index does not know and what is not newer than its revision when that was read.
//! 2. A snapshot that is being taken sees values that the index has forgotten meanwhile: nothing is dropped unless none is being
//!    taken until all that is kept is known. Later ones need nothing that is not.
//! 3. The database is not closed before this has ended; closing ends it soon.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use fjall::{
    AbstractTree, Keyspace, LsmError, Slice,
    compaction::filter::{
        CompactionFilter, CompactionFilterResult, Context, Factory, ItemAccessor, Verdict,
    },
};
use parking_lot::{Mutex, RwLock};

use super::{
    Shared,
    disk::{Open, database_error},
    records,
};
use crate::engine::{Result, StorageError};

/// The index has this part of the slack.
const INDEX_SHARE: u64 = 4;
/// Keys of the index looked at under one lock.
const EXAMINE: usize = 2048;
/// After a failure, or if it was of no use, it is not tried again before so many ticks.
const PAUSE_TICKS: u64 = 60;

/// What is kept of the values up to a revision.
#[derive(Debug, Default)]
struct Kept {
    upto: u64,
    /// Revision and sub, in order.
    values: Vec<(u64, u32)>,
}

impl Kept {
    /// Whether anything from one value's key to another's is kept.
    fn has(&self, first: &[u8], last: &[u8]) -> bool {
        let (Some(first), Some(last)) = (
            records::read_value_key(first),
            records::read_value_key(last),
        ) else {
            return true;
        };
        let next = self.values.get(self.before(first));
        last.0 > self.upto || next.is_some_and(|next| *next <= last)
    }

    /// How many are kept before a value.
    fn before(&self, value: (u64, u32)) -> usize {
        self.values.partition_point(|kept| *kept < value)
    }
}

/// What the filters of the database's merges go by.
#[derive(Default)]
struct Guide {
    /// Without it everything is kept.
    kept: RwLock<Option<Arc<Kept>>>,
    closing: AtomicBool,
}

/// Frees the disk, in a thread of its own.
#[derive(Default)]
pub(super) struct Reclaimer {
    guide: Arc<Guide>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Held by whoever frees the disk.
    working: Mutex<()>,
    /// Tables are written anew: the database's own thread may have to wait for that, and with it what is to be flushed.
    merging: AtomicBool,
    /// Ticks until it may be tried again.
    pause: AtomicU64,
    /// Where the database was when tables were dropped. Their files go when it turns to another buffer after a further write.
    dropped_at: Mutex<Option<u64>>,
}

impl Reclaimer {
    /// The filter of a keyspace's merges.
    pub(super) fn filter(&self, keyspace: &str) -> Arc<dyn Factory> {
        Arc::new(Filters {
            guide: self.guide.clone(),
            values: keyspace == "values",
        })
    }

    pub(super) fn is_merging(&self) -> bool {
        self.merging.load(Ordering::Acquire)
    }

    /// Ends what is under way and waits for its end. Until [`Self::go_on`] nothing is begun.
    pub(super) fn stop(&self) {
        self.guide.closing.store(true, Ordering::Release);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("storage: the thread that frees the disk panicked");
        }
        drop(self.working.lock());
    }

    pub(super) fn go_on(&self) {
        self.guide.closing.store(false, Ordering::Release);
    }

    fn is_stopped(&self) -> bool {
        self.guide.closing.load(Ordering::Acquire)
    }
}

/// Frees the disk if it is worth it and nobody does already. Called with every tick.
pub(super) fn begin(shared: &Arc<Shared>) {
    let reclaimer = shared.disk.reclaimer();
    if let Err(error) = shared.remove_dropped() {
        tracing::warn!(%error, "storage: tables that are not needed any more could not be removed");
    }
    let paused = |ticks: u64| ticks.checked_sub(1);
    let relaxed = Ordering::Relaxed;
    if reclaimer
        .pause
        .fetch_update(relaxed, relaxed, paused)
        .is_ok()
    {
        return;
    }
    let mut thread = reclaimer.thread.lock();
    let busy = thread.as_ref().is_some_and(|thread| !thread.is_finished());
    if busy || reclaimer.is_stopped() || !shared.is_wasteful() {
        return;
    }
    let shared = shared.clone();
    let builder = std::thread::Builder::new().name("storage-reclaim".to_owned());
    let started = builder.spawn(move || {
        if let Err(error) = shared.reclaim() {
            tracing::warn!(%error, "storage: freeing the disk failed and will be tried again");
        }
        if shared.is_wasteful() {
            let pause = &shared.disk.reclaimer().pause;
            pause.store(PAUSE_TICKS, Ordering::Relaxed);
        }
    });
    match started {
        Ok(started) => *thread = Some(started),
        Err(error) => tracing::warn!(%error, "storage: cannot start a thread"),
    }
}

impl Shared {
    /// Whether more lies on the disk than has to.
    fn is_wasteful(&self) -> bool {
        let (index, values) = self.limits();
        let over =
            |open: &Open| Ok(open.index.disk_space() > index || open.values.disk_space() > values);
        !self.disk.is_read_only() && self.disk.with(over).unwrap_or(false)
    }

    /// How many bytes the tables of the index and of the values may have.
    fn limits(&self) -> (u64, u64) {
        let kept = self.index.read().kept_bytes();
        let slack = self.options.slack_bytes;
        let index = 2 * kept.index + slack / INDEX_SHARE;
        (index, 2 * kept.values + slack - slack / INDEX_SHARE)
    }

    /// Frees what is worth it, and returns when that is done.
    pub(super) fn reclaim(&self) -> Result<()> {
        let reclaimer = self.disk.reclaimer();
        let _working = reclaimer.working.lock();
        if reclaimer.is_stopped() {
            return Ok(());
        }
        let keyspaces = |open: &Open| Ok((open.index.clone(), open.values.clone()));
        let (index, values) = self.disk.with(keyspaces)?;
        let (index_limit, values_limit) = self.limits();
        if values.disk_space() > values_limit
            && let Some(kept) = self.kept()
        {
            self.drop_tables(&values, &kept)?;
            if values.disk_space() > values_limit {
                *reclaimer.guide.kept.write() = Some(Arc::new(kept));
                let merged = self.merge(&values);
                *reclaimer.guide.kept.write() = None;
                merged?;
            }
            self.note_dropped();
        }
        if index.disk_space() > index_limit {
            self.merge(&index)?;
            self.note_dropped();
        }
        Ok(())
    }

    fn note_dropped(&self) {
        let now = |open: &Open| Ok(open.database.visible_seqno());
        *self.disk.reclaimer().dropped_at.lock() = self.disk.with(now).ok();
    }

    /// See [`Reclaimer::dropped_at`].
    fn remove_dropped(&self) -> Result<()> {
        let mut dropped_at = self.disk.reclaimer().dropped_at.lock();
        let Some(then) = *dropped_at else {
            return Ok(());
        };
        self.disk.with(|open| {
            if open.database.visible_seqno() > then {
                *dropped_at = None;
                let turned = open.index.rotate_memtable();
                turned.map_err(|error| self.failed(error))?;
            }
            Ok(())
        })
    }

    /// Everything that is kept, unless a snapshot is being taken.
    fn kept(&self) -> Option<Kept> {
        let last = |open: &Open| Ok(open.snapshots.lock().last_if_none_is_open());
        let before = self.disk.with(last).ok()??;
        let mut kept = Kept {
            upto: self.index.read().revision(),
            values: Vec::new(),
        };
        let mut next = Some(Arc::from(""));
        while let Some(start) = next {
            let index = self.index.read();
            next = index.values_from(&start, EXAMINE, &mut kept.values);
        }
        kept.values.sort_unstable();
        (self.disk.with(last).ok()? == Some(before)).then_some(kept)
    }

    /// Drops the tables that have nothing that is kept.
    fn drop_tables(&self, values: &Keyspace, kept: &Kept) -> Result<()> {
        let version = values.tree.current_version();
        // neighbours without anything between them that is kept go together
        let mut dead: BTreeMap<usize, (Slice, Slice)> = BTreeMap::new();
        for table in version.iter_tables() {
            let range = &table.metadata.key_range;
            let (first, last) = (range.min().clone(), range.max().clone());
            if let (false, Some(value)) = (kept.has(&first, &last), records::read_value_key(&first))
            {
                let together = dead.entry(kept.before(value));
                let together = together.or_insert_with(|| (first.clone(), last.clone()));
                together.0 = first.min(together.0.clone());
                together.1 = last.max(together.1.clone());
            }
        }
        drop(version);
        for (first, last) in dead.into_values() {
            if self.disk.reclaimer().is_stopped() {
                return Ok(());
            }
            let dropped = values.tree.drop_range(first..=last);
            dropped.map_err(|error| self.failed(error.into()))?;
        }
        Ok(())
    }

    /// Writes all tables of a keyspace anew.
    fn merge(&self, keyspace: &Keyspace) -> Result<()> {
        let reclaimer = self.disk.reclaimer();
        self.disk.check_room(keyspace.disk_space())?;
        reclaimer.merging.store(true, Ordering::Release);
        let merged = keyspace.major_compact();
        reclaimer.merging.store(false, Ordering::Release);
        match merged {
            Err(_) if reclaimer.is_stopped() => Ok(()),
            merged => merged.map_err(|error| self.failed(error)),
        }
    }

    fn failed(&self, error: fjall::Error) -> StorageError {
        let error = database_error(&error);
        if matches!(error, StorageError::Corrupt(_)) {
            self.disk.found_damage(&error);
        }
        error
    }
}

/// Makes the filters of one keyspace.
struct Filters {
    guide: Arc<Guide>,
    values: bool,
}

impl std::panic::RefUnwindSafe for Filters {}

impl Factory for Filters {
    fn name(&self) -> &str {
        "what is kept"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        let kept = self.guide.kept.read().clone();
        Box::new(Filter {
            guide: self.guide.clone(),
            kept: kept.filter(|_| self.values),
        })
    }
}

struct Filter {
    guide: Arc<Guide>,
    kept: Option<Arc<Kept>>,
}

impl CompactionFilter for Filter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> CompactionFilterResult {
        if self.guide.closing.load(Ordering::Relaxed) {
            let closing = std::io::ErrorKind::Interrupted;
            return Err(LsmError::Io(closing.into()));
        }
        Ok(match &self.kept {
            Some(kept) if !kept.has(item.key(), item.key()) => Verdict::Destroy,
            _ => Verdict::Keep,
        })
    }
}
