//! etcd's own snapshot, the file that `etcdutl` restores; and what else is asked of etcd to move its data elsewhere.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use etcd_client::Client;

use super::{Shared, errors::CallError, members::Effect};
use crate::engine::{Lease, Result, SnapshotStream, StorageError};

/// The bytes of a snapshot of this moment, from the member in use. Each part must come within the time of a request.
pub(super) async fn take(shared: Arc<Shared>) -> Result<SnapshotStream> {
    let start = |client: Client| async move { client.maintenance_client().snapshot().await };
    let parts = shared.members.call(Effect::Reads, start).await;
    let parts = parts.map_err(CallError::without_context)?;
    let timeout = shared.members.timeout();
    Ok(Box::pin(futures::stream::try_unfold(
        parts,
        move |mut parts| async move {
            let broken = |why: String| {
                StorageError::Unavailable(format!("etcd: the snapshot broke off: {why}"))
            };
            let part = tokio::time::timeout(timeout, parts.message()).await;
            let part = part.map_err(|_| broken(format!("nothing came in {timeout:?}")))?;
            let part = part.map_err(|error| broken(error.to_string()))?;
            Ok(part.map(|part| (Bytes::copy_from_slice(part.blob()), parts)))
        },
    )))
}

/// How long a lease has left; `None` if there is no such lease.
pub(super) async fn lease_left(shared: &Shared, lease: Lease) -> Result<Option<Duration>> {
    let ask =
        |client: Client| async move { client.lease_client().time_to_live(lease.0, None).await };
    let answer = shared.members.call(Effect::Reads, ask).await;
    let seconds = answer.map_err(CallError::without_context)?.ttl();
    Ok(u64::try_from(seconds).ok().map(Duration::from_secs)) // etcd says -1 of those it does not know
}
