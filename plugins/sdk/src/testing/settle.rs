//! Runs a reconciler on keys until nothing is left to do, the way the host does: an error is retried, a delay moves the clock.

use serde_json::Value;

use super::FakeCluster;
use crate::controller::{Context, Key, Outcome, Reconciler};

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Reconciles until the last round wrote nothing and asked for nothing.
    pub rounds: u32,
    /// Errors on the way, in order.
    pub errors: Vec<String>,
    /// The delay the last round asked for; the clock was not moved for it.
    pub requeue_after_ms: Option<u64>,
}

/// Reconciles `key` until a round ends well and writes nothing, at most `limit` times; panics if it never does.
pub fn settle(
    reconciler: &dyn Reconciler,
    cluster: &FakeCluster,
    config: &Value,
    key: &Key,
    limit: u32,
) -> Settled {
    let mut errors = Vec::new();
    for rounds in 1..=limit {
        let before = cluster.revision();
        let context = Context { cluster, config };
        match reconciler.reconcile(&context, key) {
            Err(error) => errors.push(error.to_string()),
            Ok(outcome) if cluster.revision() == before => {
                let requeue_after_ms = match outcome {
                    Outcome::Done => None,
                    Outcome::RequeueAfterMs(ms) => Some(ms),
                };
                return Settled {
                    rounds,
                    errors,
                    requeue_after_ms,
                };
            }
            Ok(_) => {}
        }
    }
    panic!("{key:?} still writes after {limit} reconciles: {errors:?}");
}
