//! Leases for objects that disappear by themselves. Objects written within a minute share one, as there may be thousands a
//! second; such an object lives up to a minute longer than asked.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use pilothouse_storage::{Lease, Result, Storage};

/// For how many seconds a lease takes new objects.
const REUSE_SECONDS: u64 = 60;

/// The lease in use for each time to live.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    open: Mutex<HashMap<u64, Open>>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    lease: Lease,
    granted: jiff::Timestamp,
}

impl Leases {
    /// A lease that ends in `ttl_seconds` or up to a minute later.
    pub(crate) async fn lease(
        &self,
        storage: &dyn Storage,
        ttl_seconds: u64,
        now: jiff::Timestamp,
    ) -> Result<Lease> {
        let open = self.open.lock().get(&ttl_seconds).copied();
        if let Some(open) = open
            && now.as_second().abs_diff(open.granted.as_second()) < REUSE_SECONDS
        {
            return Ok(open.lease);
        }
        let ttl = Duration::from_secs(ttl_seconds + REUSE_SECONDS);
        let lease = storage.grant_lease(ttl).await?;
        let open = Open {
            lease,
            granted: now,
        };
        self.open.lock().insert(ttl_seconds, open);
        Ok(lease)
    }

    /// Forgets a lease that storage no longer knows.
    pub(crate) fn forget(&self, lease: Lease) {
        self.open.lock().retain(|_, open| open.lease != lease);
    }
}
