//! Compacts etcd's history by age, together with all other API servers on the same etcd, upstream's among them.
//!
//! They agree through one key, `compact_rev_key`, whose version counts intervals: once an interval everybody tries to raise it
//! from the version they know. Whoever succeeds compacts to the revision that was current one interval ago; the others learn
//! the version and wait for the next. Source: Kubernetes, `storage/etcd3/compact.go`.

use std::{sync::Arc, time::Duration};

use etcd_client::{Compare, CompareOp, Txn, TxnOp, TxnOpResponse};

use super::{Shared, convert, errors::CallError, members::Effect};
use crate::engine::{Result, Revision};

/// Outside the prefix, as upstream has it: one etcd has one history.
const KEY: &str = "compact_rev_key";

/// What this process knows of the agreement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Agreed {
    /// The key's version.
    interval: i64,
    /// What was current when that interval began.
    revision: Revision,
}

/// Runs until it is aborted.
pub(super) async fn run(shared: Arc<Shared>, interval: Duration) {
    let mut agreed = Agreed::default();
    loop {
        tokio::time::sleep(interval).await;
        match step(&shared, agreed).await {
            Ok(now) => agreed = now,
            Err(error) => tracing::warn!(%error, "etcd: compaction failed and will be tried again"),
        }
    }
}

async fn step(shared: &Shared, agreed: Agreed) -> Result<Agreed> {
    let txn = Txn::new()
        .when([Compare::version(KEY, CompareOp::Equal, agreed.interval)])
        .and_then([TxnOp::put(KEY, agreed.revision.to_string(), None)])
        .or_else([TxnOp::get(KEY, None)]);
    let commit = |mut kv: etcd_client::KvClient| {
        let txn = txn.clone();
        async move { kv.txn(txn).await }
    };
    // if the answer is lost, the next round finds that the version is another one
    let response = shared.members.kv(Effect::Writes, commit).await;
    let response = response.map_err(CallError::without_context)?;
    let revision = convert::revision(response.header());
    if response.succeeded() {
        if agreed.revision.0 > 0 {
            shared.compact(agreed.revision).await?;
            tracing::debug!(revision = agreed.revision.0, "etcd: compacted");
        }
        return Ok(Agreed {
            interval: agreed.interval + 1,
            revision,
        });
    }
    let version = |response| match response {
        TxnOpResponse::Get(get) => get.kvs().first().map(etcd_client::KeyValue::version),
        _ => None,
    };
    let interval = response.op_responses().into_iter().find_map(version);
    Ok(Agreed {
        interval: interval.unwrap_or(0),
        revision,
    })
}
