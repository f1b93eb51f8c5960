//! The garbage collector: deletes what no owner keeps any more, and carries out foreground and orphaning deletions.
//! Source: <https://kubernetes.io/docs/concepts/architecture/garbage-collection/>
//!
//! The host keeps the graph of owner references and says at which uids to look; what follows is decided here.
//!
//! ```text
//! being deleted, finalizer orphan ─────────────► take our reference from each dependent, then the finalizer
//! being deleted, finalizer foregroundDeletion ─► delete the dependents; when none blocks, take the finalizer
//! owners: some solid ──────────────────────────► drop references to absent and waiting ones
//!         none solid, some waiting, dependents ─► delete in the foreground
//!         none solid ──────────────────────────► delete
//! ```
//!
//! Invariants: an object is deleted only as it was when its owners were judged (uid and version); an owner that could not be
//! read counts as present.

mod dependents;
mod judge;
mod reconcile;

use reconcile::GarbageCollector;

pilothouse_sdk::export! {
    controller(reconcile): [GarbageCollector],
}
