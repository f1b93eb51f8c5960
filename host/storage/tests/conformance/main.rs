//! One suite that every storage engine passes. A bug found in one engine becomes a case for all.

mod concurrency;
mod damage;
mod durability;
mod embedded;
mod encrypted;
mod etcd;
mod etcd_cluster;
mod etcd_faults;
mod etcd_reads;
mod etcd_server;
mod harness;
mod history;
mod leases;
#[allow(
    dead_code,
    reason = "what watches of etcd see is checked in history.rs"
)]
#[path = "../shared/linearizability.rs"]
mod linearizability;
mod loopback;
mod reads;
mod snapshots;
mod transactions;
mod watches;

use harness::{Case, Engine};

/// Runs every case on an engine of its own, in keys of its own.
pub(crate) async fn conformance(make: &dyn Fn() -> Box<dyn Engine>) {
    macro_rules! run {
        ($($module:ident: $($case:ident),+;)+) => {$($({
            let name = stringify!($case);
            eprintln!("case {}::{name}", stringify!($module));
            let case = Case::new(make(), name);
            let run = $module::$case(case);
            tokio::time::timeout(harness::PATIENCE, run).await.expect(name);
        })+)+};
    }
    run! {
        transactions: every_write_takes_one_revision, nothing_written_takes_no_revision, revisions_and_versions_of_a_key,
            put_if_creates_changes_and_refuses, delete_if_deletes_and_refuses, all_compares_must_hold,
            steps_share_a_revision_and_see_each_other, a_key_written_twice_is_refused_whole, any_bytes_are_kept, an_empty_key_is_refused;
        reads: reads_at_old_revisions, zero_reads_the_present, the_future_is_refused, pages_of_one_revision,
            a_limit_of_exactly_all_has_no_more, keys_only_leaves_values_out, prefixes_do_not_leak, keys_are_ordered_by_bytes,
            compaction_refuses_the_past_only, a_compacted_store_goes_on;
        watches: the_past_with_previous_pairs, previous_pairs_live, past_and_live_join_without_a_gap, only_the_prefix,
            a_revision_is_never_split, a_watch_may_start_in_the_future, progress_follows_other_keys,
            progress_waits_for_its_revision, a_compacted_past_cannot_be_watched, a_slow_watch_misses_nothing,
            replaying_equals_reading;
        leases: revoking_deletes_the_keys_at_once, a_lease_runs_out, a_key_follows_its_last_put,
            an_unknown_lease_refuses_the_whole_transaction;
        concurrency: a_counter_loses_no_step, revision_order_is_commit_order, lists_while_compacting, watches_while_compacting;
    }
}
