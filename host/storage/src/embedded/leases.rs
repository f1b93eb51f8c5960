//! Leases of the embedded engine: who expires when, and which keys hang on whom. Owned by the committer.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::records::StoredLease;

/// All leases that have not ended.
#[derive(Debug, Default)]
pub(super) struct Leases {
    by_id: HashMap<i64, Held>,
    by_expiry: BTreeSet<(u64, i64)>,
    last_id: i64,
}

#[derive(Debug)]
struct Held {
    lease: StoredLease,
    keys: BTreeSet<Arc<str>>,
}

impl Leases {
    /// Leases as they were stored. The time that passed meanwhile counts, but no clock that was set back makes a lease live longer
    /// than its time to live from now on.
    pub(super) fn load<'a>(
        stored: &[StoredLease],
        last_id: i64,
        keys: impl Iterator<Item = (&'a Arc<str>, i64)>,
        now_ms: u64,
    ) -> Self {
        let mut leases = Self {
            last_id,
            ..Self::default()
        };
        for lease in stored {
            leases.add(StoredLease {
                expires_ms: lease.expires_ms.min(now_ms.saturating_add(lease.ttl_ms)),
                ..*lease
            });
        }
        for (key, id) in keys {
            leases.attach(id, key);
        }
        leases
    }

    /// A lease with an identifier never used before, also not by an earlier process.
    pub(super) fn grant(&mut self, ttl_ms: u64, now_ms: u64) -> StoredLease {
        let from_clock = i64::try_from(now_ms << 16).unwrap_or(0);
        let lease = StoredLease {
            id: from_clock.max(self.last_id.wrapping_add(1)).max(1),
            ttl_ms,
            expires_ms: now_ms.saturating_add(ttl_ms),
        };
        self.add(lease);
        lease
    }

    fn add(&mut self, lease: StoredLease) {
        self.last_id = self.last_id.max(lease.id);
        self.by_expiry.insert((lease.expires_ms, lease.id));
        let keys = BTreeSet::new();
        self.by_id.insert(lease.id, Held { lease, keys });
    }

    pub(super) fn contains(&self, id: i64) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(super) fn attach(&mut self, id: i64, key: &Arc<str>) {
        if let Some(held) = self.by_id.get_mut(&id) {
            held.keys.insert(key.clone());
        }
    }

    pub(super) fn detach(&mut self, id: i64, key: &str) {
        if let Some(held) = self.by_id.get_mut(&id) {
            held.keys.remove(key);
        }
    }

    /// The keys of a lease in order, if there is such a lease.
    pub(super) fn keys(&self, id: i64) -> Option<Vec<Arc<str>>> {
        Some(self.by_id.get(&id)?.keys.iter().cloned().collect())
    }

    pub(super) fn remove(&mut self, id: i64) {
        if let Some(held) = self.by_id.remove(&id) {
            self.by_expiry.remove(&(held.lease.expires_ms, id));
        }
    }

    /// A lease that has run out.
    pub(super) fn expired(&self, now_ms: u64) -> Option<i64> {
        let (expires_ms, id) = self.by_expiry.first()?;
        (*expires_ms <= now_ms).then_some(*id)
    }
}
