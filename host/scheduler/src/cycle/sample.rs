//! How many nodes to look at, and which first.
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/scheduler-perf-tuning/>

use std::collections::BTreeSet;

/// Fewer are never looked at together; below so many nodes in a cluster, all are.
pub(super) const MIN_BATCH: usize = 100;

/// How many feasible nodes are enough. Without a percentage: 50 less one for every 125 nodes, but not under 5.
pub(super) fn nodes_to_find(nodes: usize, percentage: Option<u32>) -> usize {
    let percentage = match percentage {
        Some(given) if given > 0 => given as usize,
        _ => 50usize.saturating_sub(nodes / 125).max(5),
    };
    match nodes <= MIN_BATCH || percentage >= 100 {
        true => nodes,
        false => (nodes * percentage / 100).max(MIN_BATCH),
    }
}

/// The nodes in the order in which they are looked at: beginning where the last pod's sample ended, so that all get their turn.
pub(super) fn rotated(all: &[u32], start: usize, only: Option<&BTreeSet<u32>>) -> Vec<u32> {
    let start = match all.len() {
        0 => 0,
        count => start % count,
    };
    let (before, after) = all.split_at(start);
    let order = after.iter().chain(before).copied();
    match only {
        Some(only) => order.filter(|node| only.contains(node)).collect(),
        None => order.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_clusters_are_sampled() {
        let cases = [
            (0, None, 0),
            (99, None, 99),
            (100, None, 100),
            (101, None, 100),
            (250, None, 120),
            (1_000, None, 420),
            (5_000, None, 500),
            (6_000, None, 300),
            (20_000, None, 1_000),
            (1_000, Some(0), 420),
            (1_000, Some(30), 300),
            (1_000, Some(1), 100),
            (1_000, Some(100), 1_000),
        ];
        for (nodes, percentage, expected) in cases {
            assert_eq!(
                nodes_to_find(nodes, percentage),
                expected,
                "{nodes} {percentage:?}"
            );
        }
    }

    #[test]
    fn the_order_begins_where_the_last_ended() {
        let all = [2, 3, 5, 7];
        assert_eq!(rotated(&all, 0, None), [2, 3, 5, 7]);
        assert_eq!(rotated(&all, 3, None), [7, 2, 3, 5]);
        assert_eq!(rotated(&all, 6, None), [5, 7, 2, 3]);
        assert_eq!(rotated(&[], 6, None), [0; 0]);
        let only = BTreeSet::from([3, 7, 9]);
        assert_eq!(rotated(&all, 3, Some(&only)), [7, 3]);
    }
}
