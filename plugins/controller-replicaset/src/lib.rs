//! The controllers of ReplicaSets and ReplicationControllers: they keep as many pods running as asked.
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/>
//!
//! ```text
//! list owned and matching pods ──► adopt, release ──► too few: create in batches  ──► status
//!                                                 └─► too many: delete by rank ─────┘
//! ```
//!
//! Both kinds follow one logic; [`workload`] holds where they differ.

mod rank;
mod reconcile;
mod slow_start;
mod status;
mod workload;

use reconcile::Replicas;
use workload::Kind;

pilothouse_sdk::export! {
    controller(reconcile): [Replicas(Kind::ReplicaSet), Replicas(Kind::ReplicationController)],
}
