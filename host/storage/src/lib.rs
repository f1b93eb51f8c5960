//! Ordered bytes with etcd's semantics behind one trait, two engines, and the watch cache above them.
//!
//! # Guarantees
//!
//! Each names the tests that hold the engines to it; `tests/guarantees.rs` checks that they exist. *Both* are in the suite that
//! every engine passes (`tests/conformance`); the others are of the embedded engine, on a disk that fails, under `kill -9` and
//! under clocks that are set (`tests/faults`).
//!
//! 1. There is one monotonic revision; every transaction that writes takes exactly one, and none stands for two things, whatever
//!    fails. Both: `transactions::every_write_takes_one_revision`, `transactions::nothing_written_takes_no_revision`;
//!    `kill::nothing_acknowledged_is_lost_by_kill`, `power::nothing_acknowledged_is_lost_when_the_power_fails`.
//! 2. A write is answered only after it is durable: what was acknowledged survives `kill -9`, a power failure that leaves any
//!    sectors of what was not synced, and failed, short and delayed writes. `kill::nothing_acknowledged_is_lost_by_kill`,
//!    `power::nothing_acknowledged_is_lost_when_the_power_fails`, `errors::a_failing_disk_fails_writes_only_and_heals`,
//!    `errors::what_a_failed_sync_left_is_written_anew`, `errors::short_writes_are_finished`.
//! 3. A transaction is there whole or not at all; one that was not answered may be there, once.
//!    Both: `transactions::a_key_written_twice_is_refused_whole`; `kill::nothing_acknowledged_is_lost_by_kill`,
//!    `errors::a_disk_that_fills_up_keeps_what_it_acknowledged`.
//! 4. Revision order is commit order, and every key is linearizable, read from storage or from a watch cache that has caught up.
//!    Both: `concurrency::revision_order_is_commit_order`, `concurrency::a_counter_loses_no_step`; embedded:
//!    `kill::nothing_acknowledged_is_lost_by_kill`, `history::broken_promises_are_found`; several API servers on an etcd whose
//!    members fail: `etcd_reads::reads_are_linearizable_through_watch_caches_too`.
//! 5. A watch sees every change once, in order, without gaps and never half a revision, across restarts too; or it is told
//!    `Compacted`. Both: `watches::past_and_live_join_without_a_gap`, `watches::a_revision_is_never_split`,
//!    `watches::a_slow_watch_misses_nothing`, `concurrency::watches_while_compacting`;
//!    `kill::nothing_acknowledged_is_lost_by_kill`.
//! 6. A read at a revision sees exactly the state after it, or fails with `Compacted`; a list is of one revision.
//!    Both: `reads::reads_at_old_revisions`, `reads::pages_of_one_revision`, `watches::replaying_equals_reading`,
//!    `concurrency::lists_while_compacting`.
//! 7. A slow watch or a slow disk delays no reader, and a watch no writer. Both: `watches::a_slow_watch_misses_nothing`;
//!    `errors::a_slow_disk_delays_no_reader`, `errors::tables_that_cannot_be_written_hang_nobody`.
//! 8. Leases end when they should and not before, over restarts and under clocks that are set. Both: `leases::a_lease_runs_out`;
//!    `durability::leases_run_out_over_a_restart`, `durability::a_clock_set_back_over_a_restart_lengthens_no_lease`,
//!    `clock::a_clock_that_jumps_ends_no_lease`, `clock::a_clock_that_was_set_back_still_ends_leases`.
//! 9. A full disk fails writes with `NoSpace`; reads go on, and writes succeed again once there is space.
//!    `durability::a_full_disk_refuses_writes_only_and_heals`, `errors::a_disk_that_fills_up_keeps_what_it_acknowledged`,
//!    `errors::a_failing_disk_fails_writes_only_and_heals`.
//! 10. Memory is bounded by what is live and by the history that is kept, not by what was written. So is the disk: tables take at
//!     most about twice of what is kept and 32 MiB, three times while they are written anew, and journals 128 MB.
//!     `durability::compaction_bounds_the_disk`, `durability::history_goes_by_age_and_by_size`,
//!     `durability::history_goes_by_its_bytes`; `power::freeing_the_disk_loses_nothing_when_the_power_fails`.
//! 11. A start drops what a crash left unfinished and nothing else. Damage is refused with the file, what about it, and what to
//!     do; found later, it ends writes and not reads; a read-only start changes nothing and shows what can be read.
//!     `durability::a_torn_tail_is_dropped`, `damage::damage_is_refused_with_the_file_and_what_to_do`,
//!     `damage::damage_found_while_serving_ends_writes_only`, `damage::a_read_only_start_needs_no_damage`.
//! 12. Two processes never write the same directory. `durability::a_second_process_is_told_what_to_do`.
//! 13. A snapshot is of one moment, whatever is written meanwhile, and a file that is not whole is restored by nobody. What
//!     clients knew before a restore or a migration is `Compacted` afterwards, and no revision comes back.
//!     `snapshots::a_snapshot_taken_under_load_is_of_one_moment`,
//!     `snapshots::a_snapshot_is_whole_also_when_the_disk_is_freed_meanwhile`, `snapshots::what_cannot_be_restored_leaves_nothing_behind`,
//!     `snapshots::a_restored_directory_holds_what_was_there`, `snapshots::a_cluster_moves_to_etcd_and_back`.
//! 14. A value that cannot be decrypted is told as such and hides none of the others.
//!     `encrypted::one_unreadable_value_does_not_hide_its_neighbours`.

pub mod embedded;
pub mod encryption;
pub mod engine;
pub mod etcd;
mod hub;
pub mod migrate;
pub mod snapshot;
pub mod watch_cache;

pub use embedded::{Embedded, EmbeddedOptions};
pub use encryption::{Encrypted, EncryptionConfig, KeyLayout};
pub use engine::{
    AtRest, BoxFuture, Compare, Event, EventKind, GetResponse, KeyValue, Lease, Op, RangeRequest,
    RangeResponse, Result, Size, SnapshotStream, Storage, StorageError, Txn, TxnResponse,
    WatchBatch, WatchRequest, WatchStream,
};
pub use etcd::{Etcd, EtcdOptions};
pub use pilothouse_api::Revision;
pub use watch_cache::{CacheError, CacheEvent, CacheList, CacheWatch, EventType, WatchCache};
