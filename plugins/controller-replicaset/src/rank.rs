//! Which pods to delete first when there are too many.
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#scaling-a-replicaset>
//!
//! In order: not assigned to a node; Pending, then Unknown; not ready; lower deletion cost; on a node with more of the related
//! pods; ready for a shorter time; more restarts; younger. Ages are compared by their order of magnitude (powers of two), so
//! that neither the youngest nor the oldest are always hit; within a magnitude the uid decides, which is as good as chance.

use std::{cmp::Ordering, collections::BTreeMap};

use pilothouse_sdk::objects::{Pod, Time};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Takes the `count` pods out of `pods` that should go first. `related` are the pods that count for crowding, usually those of
/// every ReplicaSet of the same Deployment.
pub(crate) fn pods_to_delete(
    mut pods: Vec<Pod>,
    related: &[Pod],
    count: usize,
    now: Time,
) -> Vec<Pod> {
    if count < pods.len() {
        let mut crowd: BTreeMap<&str, usize> = BTreeMap::new();
        for pod in related.iter().filter(|pod| pod.is_active()) {
            *crowd.entry(&pod.spec.node_name).or_default() += 1;
        }
        let rank = |pod: &Pod| crowd.get(pod.spec.node_name.as_str()).copied().unwrap_or(0);
        pods.sort_by(|a, b| compare(a, rank(a), b, rank(b), now));
        pods.truncate(count);
    }
    pods
}

/// `Less` means: delete first.
fn compare(a: &Pod, crowd_a: usize, b: &Pod, crowd_b: usize, now: Time) -> Ordering {
    let assigned = |pod: &Pod| !pod.spec.node_name.is_empty();
    assigned(a)
        .cmp(&assigned(b))
        .then_with(|| phase_rank(a).cmp(&phase_rank(b)))
        .then_with(|| a.is_ready().cmp(&b.is_ready()))
        .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
        .then_with(|| crowd_b.cmp(&crowd_a))
        .then_with(|| {
            if a.is_ready() {
                by_age(a, a.ready_since(), b, b.ready_since(), now)
            } else {
                Ordering::Equal
            }
        })
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| {
            by_age(
                a,
                a.metadata.creation_timestamp,
                b,
                b.metadata.creation_timestamp,
                now,
            )
        })
}

/// The later one first, by magnitude of age; one without a time before all.
fn by_age(a: &Pod, since_a: Option<Time>, b: &Pod, since_b: Option<Time>, now: Time) -> Ordering {
    match (since_a, since_b) {
        (a, b) if a == b => Ordering::Equal,
        (None, _) => Ordering::Less,
        (_, None) => Ordering::Greater,
        (Some(since_a), Some(since_b)) => magnitude(since_a, now)
            .cmp(&magnitude(since_b, now))
            .then_with(|| a.metadata.uid.cmp(&b.metadata.uid)),
    }
}

/// The power of two of the age; -1 for none.
fn magnitude(since: Time, now: Time) -> i64 {
    now.ms_since(since).checked_ilog2().map_or(-1, i64::from)
}

fn phase_rank(pod: &Pod) -> u8 {
    match pod.status.phase.as_str() {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

fn restarts(pod: &Pod) -> i32 {
    pod.status
        .container_statuses
        .iter()
        .map(|container| container.restart_count)
        .max()
        .unwrap_or(0)
}

/// A cost that is no plain 32-bit number counts as 0.
fn deletion_cost(pod: &Pod) -> i32 {
    let text = pod
        .metadata
        .annotations
        .get(DELETION_COST)
        .map_or("", String::as_str);
    text.parse()
        .ok()
        .filter(|cost: &i32| cost.to_string() == text)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::objects::{Condition, ContainerStatus};

    use super::*;

    const NOW: Time = Time::from_ms(100_000_000);

    fn seconds_ago(seconds: u64) -> Option<Time> {
        Some(Time::from_ms(NOW.ms() - seconds * 1000))
    }

    /// Running, ready and old on node `a`.
    fn settled(name: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = name.into();
        pod.metadata.uid = name.into();
        pod.metadata.creation_timestamp = seconds_ago(50_000);
        pod.spec.node_name = "a".into();
        pod.status.phase = "Running".into();
        pod.status.conditions = vec![Condition {
            kind: "Ready".into(),
            status: "True".into(),
            last_transition_time: seconds_ago(40_000),
            ..Default::default()
        }];
        pod
    }

    fn with(name: &str, change: impl FnOnce(&mut Pod)) -> Pod {
        let mut pod = settled(name);
        change(&mut pod);
        pod
    }

    fn unready(pod: &mut Pod) {
        pod.status.conditions.clear();
    }

    /// Both orders of the pair give the same victim.
    fn first_of(victim: Pod, survivor: Pod, related: &[Pod]) {
        for pods in [
            vec![victim.clone(), survivor.clone()],
            vec![survivor, victim.clone()],
        ] {
            let deleted = pods_to_delete(pods, related, 1, NOW);
            assert_eq!(deleted, std::slice::from_ref(&victim));
        }
    }

    #[test]
    fn each_criterion_goes_before_the_next() {
        let cost = |pod: &mut Pod, text: &str| {
            pod.metadata
                .annotations
                .insert(DELETION_COST.into(), text.into());
        };
        let restarted = |pod: &mut Pod| {
            pod.status.container_statuses = vec![
                ContainerStatus { restart_count: 0 },
                ContainerStatus { restart_count: 4 },
            ];
        };
        first_of(
            with("x", |pod| pod.spec.node_name.clear()),
            with("y", |pod| pod.status.phase = "Pending".into()),
            &[],
        );
        first_of(
            with("x", |pod| pod.status.phase = "Pending".into()),
            with("y", |pod| pod.status.phase = "Unknown".into()),
            &[],
        );
        first_of(
            with("x", |pod| pod.status.phase = "Unknown".into()),
            with("y", unready),
            &[],
        );
        first_of(with("x", unready), with("y", |pod| cost(pod, "-5")), &[]);
        first_of(
            with("x", |pod| cost(pod, "-5")),
            with("y", |pod| pod.spec.node_name = "b".into()),
            &[with("r", |pod| pod.spec.node_name = "b".into())],
        );
        first_of(
            with("x", |pod| pod.spec.node_name = "b".into()),
            with("y", |pod| {
                pod.status.conditions[0].last_transition_time = seconds_ago(1)
            }),
            &[with("r", |pod| pod.spec.node_name = "b".into())],
        );
        first_of(
            with("x", |pod| {
                pod.status.conditions[0].last_transition_time = seconds_ago(1)
            }),
            with("y", restarted),
            &[],
        );
        first_of(
            with("x", restarted),
            with("y", |pod| pod.metadata.creation_timestamp = seconds_ago(1)),
            &[],
        );
        first_of(
            with("x", |pod| pod.metadata.creation_timestamp = seconds_ago(1)),
            settled("y"),
            &[],
        );
    }

    #[test]
    fn a_strange_cost_is_no_cost() {
        for text in ["", "+7", "007", "1e3", "many", "4294967296"] {
            let pod = with("x", |pod| {
                pod.metadata
                    .annotations
                    .insert(DELETION_COST.into(), text.into());
            });
            assert_eq!(deletion_cost(&pod), 0, "{text}");
        }
        let pod = with("x", |pod| {
            pod.metadata
                .annotations
                .insert(DELETION_COST.into(), "-2147483648".into());
        });
        assert_eq!(deletion_cost(&pod), i32::MIN);
    }

    #[test]
    fn ages_of_one_magnitude_go_by_uid() {
        let older = with("a", |pod| {
            pod.metadata.creation_timestamp = seconds_ago(40_000)
        });
        let younger = with("b", |pod| {
            pod.metadata.creation_timestamp = seconds_ago(39_000)
        });
        first_of(older, younger, &[]);
    }

    #[test]
    fn finished_and_terminating_pods_do_not_crowd() {
        let finished = with("r", |pod| {
            pod.spec.node_name = "b".into();
            pod.status.phase = "Succeeded".into();
        });
        let lonely = with("x", |pod| pod.spec.node_name = "a".into());
        let related = [finished, lonely.clone()];
        first_of(
            lonely,
            with("y", |pod| pod.spec.node_name = "b".into()),
            &related,
        );
    }

    #[test]
    fn all_go_without_ranking() {
        assert_eq!(
            pods_to_delete(vec![settled("b"), settled("a")], &[], 2, NOW).len(),
            2
        );
    }
}
