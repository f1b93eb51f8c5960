//! The one thread that writes. It takes every transaction that waits, decides them in order, makes the group durable with one
//! sync, applies it to the index, answers, and publishes.
//!
//! ```text
//! requests ─► draft (decide) ─► disk (one sync) ─► index ─► answers ─► hub (watches)
//! ```
//!
//! Between groups it does what time asks for: ends leases, compacts, and opens the database again after a failed write. What a
//! compaction removes rides along with the next groups; without any it is written by itself. Either way everything is synced
//! before the next is written, on which the recovery from a crash relies.
//! Lock order: `Shared::index`, then the disk's lock. The index is never locked for writing while the disk is written.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    },
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    Shared,
    draft::{Change, Draft},
    index::{Entry, Index},
    leases::Leases,
    reclaim,
    records::WriteSet,
};
use crate::engine::{Lease, Result, Revision, StorageError, Txn, TxnResponse};

/// How often time is looked at.
const TICK: Duration = Duration::from_secs(1);
const GROUP_REQUESTS: usize = 1024;
const GROUP_BYTES: usize = 4 << 20;
/// Changes forgotten between two groups.
const COMPACTION_STEP: usize = 256;
/// How many points in time the history's age is measured by.
const HISTORY_SAMPLES: u64 = 20;

pub(super) type Reply<T> = oneshot::Sender<Result<T>>;

/// What the committer is asked to do.
pub(super) enum Request {
    Txn(Txn, Reply<TxnResponse>),
    Grant(Duration, Reply<Lease>),
    Revoke(Lease, Reply<()>),
    Compact(Revision, Reply<()>),
    /// Do now what time asks for.
    Tick(Reply<()>),
}

pub(super) struct Committer {
    shared: Arc<Shared>,
    requests: Receiver<Request>,
    leases: Leases,
    /// Forgotten by the index, still on disk.
    garbage: Vec<Entry>,
    /// When which revision was current, oldest first, for compaction by age.
    samples: VecDeque<(u64, u64)>,
    next_tick_ms: u64,
    compacting: bool,
}

impl Committer {
    /// `garbage` is what an earlier process had begun to remove.
    pub(super) fn new(
        shared: Arc<Shared>,
        requests: Receiver<Request>,
        leases: Leases,
        garbage: Vec<Entry>,
    ) -> Self {
        Self {
            shared,
            requests,
            leases,
            garbage,
            samples: VecDeque::new(),
            next_tick_ms: 0,
            compacting: true,
        }
    }

    /// Serves until the last sender is gone.
    pub(super) fn run(mut self) {
        let mut left_over = None;
        loop {
            let request = match left_over.take() {
                Some(request) => Some(request),
                None if self.compacting => match self.requests.try_recv() {
                    Ok(request) => Some(request),
                    Err(TryRecvError::Empty) => None,
                    Err(TryRecvError::Disconnected) => return,
                },
                None => match self.requests.recv_timeout(TICK) {
                    Ok(request) => Some(request),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                },
            };
            let idle = request.is_none();
            left_over = request.and_then(|request| self.serve(request));
            if self.shared.now_ms() >= self.next_tick_ms {
                self.log_failure(Self::tick);
            }
            if self.compacting && idle {
                self.log_failure(Self::compact_some);
            }
        }
    }

    /// Serves a request, and with a transaction those that wait behind it. Returns the first that has to be served alone.
    fn serve(&mut self, request: Request) -> Option<Request> {
        match request {
            Request::Txn(txn, reply) => return self.group(txn, reply),
            Request::Grant(ttl, reply) => answer(reply, self.grant(ttl)),
            Request::Revoke(lease, reply) => answer(reply, self.revoke(lease)),
            Request::Compact(revision, reply) => answer(reply, self.compact(revision.0)),
            Request::Tick(reply) => answer(reply, self.tick_fully()),
        }
        None
    }

    fn group(&mut self, txn: Txn, reply: Reply<TxnResponse>) -> Option<Request> {
        let mut answers = Vec::new();
        let mut left_over = None;
        if let Err(error) = self.writable() {
            answer(reply, Err(error));
            return None;
        }
        let shared = self.shared.clone();
        let changes = {
            let index = shared.index.read();
            let mut draft = Draft::new(&index, &shared.disk, &self.leases);
            answers.push((reply, draft.txn(txn)));
            while answers.len() < GROUP_REQUESTS && draft.bytes() < GROUP_BYTES {
                match self.requests.try_recv() {
                    Ok(Request::Txn(txn, reply)) => answers.push((reply, draft.txn(txn))),
                    Ok(other) => {
                        left_over = Some(other);
                        break;
                    }
                    Err(_) => break,
                }
            }
            draft.into_changes()
        };
        let mut set = WriteSet::default();
        let step = match changes.is_empty() {
            true => self.garbage.len(),
            false => self.take_garbage(&mut set, COMPACTION_STEP.max(2 * changes.len())),
        };
        let written = self.write(&changes, set);
        if written.is_ok() {
            self.garbage.truncate(step);
        }
        for (reply, result) in answers {
            answer(reply, written.clone().and(result));
        }
        if written.is_ok() {
            self.publish(&changes);
        }
        left_over
    }

    /// Makes changes durable, then visible. Who watches learns of them by [`Self::publish`].
    fn write(&mut self, changes: &[Change], mut set: WriteSet) -> Result<()> {
        for change in changes {
            change.write(&mut set);
        }
        if let Some(last) = changes.last() {
            set.set_revision(last.version.revision);
        }
        if set.is_empty() {
            return Ok(());
        }
        self.shared.disk.commit(set)?;
        for change in changes {
            self.leases.detach(change.released, &change.key);
            self.leases.attach(change.version.lease, &change.key);
        }
        let mut index = self.shared.index.write();
        index.apply(changes.iter().map(Change::entry));
        Ok(())
    }

    fn publish(&self, changes: &[Change]) {
        let Some(last) = changes.last() else {
            return;
        };
        let events: Vec<_> = changes.iter().map(Change::event).collect();
        let revision = Revision(last.version.revision);
        self.shared.hub.publish(&events, revision);
    }

    /// Whether a write may be tried; heals a database that failed before.
    fn writable(&mut self) -> Result<()> {
        self.shared.disk.check_space()?;
        self.heal()
    }

    fn heal(&mut self) -> Result<()> {
        match self.shared.disk.is_broken() {
            true => self.reopen(),
            false => self.shared.disk.check_writable(),
        }
    }

    /// A failed write may or may not have reached the disk: the disk decides, and watches learn of what turned up.
    fn reopen(&mut self) -> Result<()> {
        let known = self.shared.index.read().revision();
        let loaded = self.shared.disk.reopen()?;
        let (index, garbage) = Index::load(loaded.entries, loaded.revision, loaded.compacted);
        self.leases = Leases::load(
            &loaded.leases,
            loaded.last_lease,
            index.leased(),
            self.shared.now_ms(),
        );
        self.garbage = garbage;
        self.compacting = true;
        let (found, revision) = index.changes("", known, index.revision(), usize::MAX, usize::MAX);
        *self.shared.index.write() = index;
        let events = self.shared.events(found)?;
        self.shared.hub.publish(&events, Revision(revision));
        tracing::info!(
            revision,
            "storage: opened the database again after a failed write"
        );
        Ok(())
    }

    fn grant(&mut self, ttl: Duration) -> Result<Lease> {
        self.writable()?;
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let lease = self.leases.grant(ttl_ms, self.shared.now_ms());
        let mut set = WriteSet::default();
        set.put_lease(&lease);
        if let Err(error) = self.shared.disk.commit(set) {
            self.leases.remove(lease.id);
            return Err(error);
        }
        Ok(Lease(lease.id))
    }

    fn revoke(&mut self, lease: Lease) -> Result<()> {
        let keys = self.leases.keys(lease.0);
        let keys = keys.ok_or(StorageError::LeaseNotFound(lease))?;
        self.writable()?;
        let shared = self.shared.clone();
        let changes = {
            let index = shared.index.read();
            let mut draft = Draft::new(&index, &shared.disk, &self.leases);
            draft.delete_all(&keys);
            draft.into_changes()
        };
        let mut set = WriteSet::default();
        set.remove_lease(lease.0);
        self.write(&changes, set)?;
        self.leases.remove(lease.0);
        self.publish(&changes);
        Ok(())
    }

    /// Refuses reads before `revision` from now on; what they would have seen is removed step by step.
    fn compact(&mut self, revision: u64) -> Result<()> {
        let (current, compacted) = {
            let index = self.shared.index.read();
            (index.revision(), index.compacted())
        };
        if revision > current {
            return Err(StorageError::FutureRevision {
                asked: Revision(revision),
                current: Revision(current),
            });
        }
        if revision <= compacted {
            return Ok(());
        }
        self.heal()?;
        let mut set = WriteSet::default();
        set.set_compacted(revision);
        self.shared.disk.commit(set)?;
        self.shared.index.write().set_compacted(revision);
        self.compacting = true;
        Ok(())
    }

    fn compact_some(&mut self) -> Result<()> {
        let mut set = WriteSet::default();
        let step = self.take_garbage(&mut set, COMPACTION_STEP);
        if !set.is_empty() {
            let removed = self.shared.disk.commit(set);
            self.compacting = removed.is_ok(); // else the next tick goes on
            removed?;
        }
        self.garbage.truncate(step);
        Ok(())
    }

    /// Adds the removal of some garbage to a set, and returns how much will be left once that is durable.
    fn take_garbage(&mut self, set: &mut WriteSet, most: usize) -> usize {
        if self.garbage.is_empty() && self.compacting {
            match self.shared.index.write().forget_some(most) {
                Some(garbage) => self.garbage = garbage,
                None => self.compacting = false,
            }
        }
        let step = self.garbage.len().saturating_sub(most);
        for (key, version) in &self.garbage[step..] {
            set.remove_entry(key, version);
        }
        step
    }

    /// Compacts what is too old or too much, and ends leases that ran out; the former also while the disk is full.
    fn tick(&mut self) -> Result<()> {
        let now_ms = self.shared.now_ms();
        self.next_tick_ms = now_ms + TICK.as_millis() as u64;
        if self.shared.disk.is_read_only() {
            return Ok(());
        }
        if self.shared.disk.is_broken() {
            self.writable()?;
        }
        self.compacting |= !self.garbage.is_empty();
        if let Some(revision) = self.history_to_forget(now_ms) {
            self.compact(revision)?;
        }
        while let Some(id) = self.leases.expired(now_ms) {
            self.revoke(Lease(id))?;
        }
        reclaim::begin(&self.shared);
        Ok(())
    }

    fn tick_fully(&mut self) -> Result<()> {
        self.tick()?;
        while self.compacting {
            self.compact_some()?;
        }
        Ok(())
    }

    /// The revision up to which the history may go, by age and by size.
    fn history_to_forget(&mut self, now_ms: u64) -> Option<u64> {
        let options = &self.shared.options;
        let history_ms = options.history.as_millis() as u64;
        let index = self.shared.index.read();
        let newest = self.samples.back().copied();
        if newest.is_none_or(|(at, _)| now_ms >= at + history_ms / HISTORY_SAMPLES) {
            self.samples.push_back((now_ms, index.revision()));
        }
        let mut by_age = None;
        while let Some((at, revision)) = self.samples.front().copied() {
            if at + history_ms > now_ms {
                break;
            }
            by_age = Some(revision);
            self.samples.pop_front();
        }
        let by_size = index.history_beyond(options.history_events, options.history_bytes);
        by_age.max(by_size).filter(|r| *r > index.compacted())
    }

    fn log_failure(&mut self, step: fn(&mut Self) -> Result<()>) {
        if let Err(error) = step(self) {
            tracing::warn!(%error, "storage: upkeep failed and will be tried again");
        }
    }
}

/// Nobody may be waiting any more.
fn answer<T>(reply: Reply<T>, result: Result<T>) {
    let _unheard = reply.send(result);
}
