//! Whether etcd can serve: its version, its alarms, its size beside its quota.

use etcd_client::{GetOptions, KvClient, StatusResponse};

use super::{
    Shared,
    errors::CallError,
    members::{Effect, Members},
};
use crate::engine::{Result, Size, StorageError};

/// The first release of each minor version whose progress answers never overtake events (etcd-io/etcd#15220).
const FIRST_RELIABLE: [(u64, u64, u64); 2] = [(3, 4, 25), (3, 5, 8)];

/// Whether the progress of this etcd's watches can be believed.
pub(super) async fn has_progress(members: &Members) -> Result<bool> {
    let status = status(members).await?;
    Ok(is_reliable(status.version()))
}

async fn status(members: &Members) -> Result<StatusResponse> {
    let status =
        |client: etcd_client::Client| async move { client.maintenance_client().status().await };
    let status = members.call(Effect::Reads, status).await;
    status.map_err(CallError::without_context)
}

impl Shared {
    /// Reads what is watched later, which would be refused for ever if this is.
    pub(super) async fn check_access(&self) -> Result<()> {
        self.current_revision().await?;
        if self.has_progress {
            return Ok(());
        }
        let read = |mut kv: KvClient| async move {
            let one = GetOptions::new().with_all_keys().with_limit(1);
            kv.get("", Some(one.with_keys_only())).await
        };
        let response = self.members.kv(Effect::Reads, read).await;
        match response.map_err(CallError::without_context) {
            Ok(_) => Ok(()),
            Err(StorageError::Unavailable(why)) if why.contains("permission denied") => {
                Err(StorageError::Unavailable(format!(
                    "{why}: before etcd 3.4.25 and 3.5.8 all keys are watched, and the user must be allowed to read them"
                )))
            }
            Err(error) => Err(error),
        }
    }

    /// A linearizable read, and no alarm anywhere in the cluster.
    pub(super) async fn health(&self) -> Result<()> {
        self.current_revision().await?;
        let status = status(&self.members).await?;
        let alarms = status.errors().join("; ");
        match () {
            () if alarms.is_empty() => Ok(()),
            () if alarms.contains("CORRUPT") => {
                Err(StorageError::Corrupt(format!("etcd: {alarms}")))
            }
            () if alarms.contains("NOSPACE") => Err(StorageError::NoSpace(format!(
                "etcd: {alarms}: compact, defragment and disarm the alarm, or raise --quota-backend-bytes"
            ))),
            () => Err(StorageError::Unavailable(format!("etcd: {alarms}"))),
        }
    }

    /// What the member in use takes on disk.
    pub(super) async fn size(&self) -> Result<Size> {
        let status = status(&self.members).await?;
        let number = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
        Ok(Size {
            on_disk: number(status.db_size()),
            in_use: number(status.raft_used_db_size()),
            quota: Some(number(status.db_size_quota())).filter(|bytes| *bytes > 0),
            alarms: status.errors().to_vec(),
        })
    }
}

/// Whether a version is one of those, a later patch of one, or a later minor. What cannot be read is believed to be new.
fn is_reliable(version: &str) -> bool {
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    let mut numbers = numbers.split('.').map(str::parse::<u64>);
    let (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return true;
    };
    let same_minor = FIRST_RELIABLE
        .iter()
        .find(|first| (first.0, first.1) == (major, minor));
    match same_minor {
        Some(first) => patch >= first.2,
        None => (major, minor) > (3, 5),
    }
}

#[cfg(test)]
mod tests {
    use super::is_reliable;

    #[test]
    fn progress_that_may_overtake_events_is_not_believed() {
        // the version, whether its progress can be believed
        let cases = [
            ("3.3.27", false),
            ("3.4.24", false),
            ("3.4.25", true),
            ("3.5.7", false),
            ("3.5.8", true),
            ("3.5.21", true),
            ("3.6.0-rc.1", true),
            ("3.6.4", true),
            ("4.0.0", true),
            ("unknown", true),
        ];
        for (version, expected) in cases {
            assert_eq!(is_reliable(version), expected, "{version}");
        }
    }
}
