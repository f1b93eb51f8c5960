//! Revisions: which rollout a ReplicaSet stands for, kept in annotations that `kubectl rollout` reads.

use std::collections::BTreeMap;

use crate::{bounds::Bounds, objects::ReplicaSet};

pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// A Deployment's annotations that its ReplicaSets do not get.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

/// The history of revisions is cut at the front to stay below so many characters.
const LONGEST_HISTORY: usize = 2000;

type Annotations = BTreeMap<String, String>;

/// The revision, 0 if there is none; none if it is no number.
pub(crate) fn revision(annotations: &Annotations) -> Option<i64> {
    annotations
        .get(REVISION)
        .map_or(Some(0), |text| text.parse().ok())
}

/// The highest revision.
pub(crate) fn max_revision(replica_sets: &[ReplicaSet]) -> i64 {
    replica_sets
        .iter()
        .filter_map(|set| revision(&set.metadata.annotations))
        .max()
        .unwrap_or(0)
        .max(0)
}

/// The annotations that the newest ReplicaSet should have, given those it has.
pub(crate) fn for_new_replica_set(
    deployment: &Annotations,
    replica_set: &Annotations,
    new_revision: i64,
) -> Annotations {
    let mut annotations = replica_set.clone();
    let copied = deployment
        .iter()
        .filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    annotations.extend(copied.map(|(key, value)| (key.clone(), value.clone())));
    let Some(old_revision) = revision(replica_set) else {
        return annotations;
    };
    if old_revision >= new_revision {
        return annotations;
    }
    annotations.insert(REVISION.into(), new_revision.to_string());
    // It was the newest before: a rollback to it. The revision it had is remembered.
    if let Some(old) = replica_set.get(REVISION) {
        let history = annotations.get(REVISION_HISTORY).map_or("", String::as_str);
        let history = appended(history, old);
        annotations.insert(REVISION_HISTORY.into(), history);
    }
    annotations
}

fn appended(history: &str, revision: &str) -> String {
    let mut revisions: Vec<&str> = history
        .split(',')
        .filter(|revision| !revision.is_empty())
        .collect();
    revisions.push(revision);
    let mut length = revisions
        .iter()
        .map(|revision| revision.len() + 1)
        .sum::<usize>()
        - 1;
    let mut start = 0;
    while length > LONGEST_HISTORY && start + 1 < revisions.len() {
        length -= revisions[start].len() + 1;
        start += 1;
    }
    revisions[start..].join(",")
}

/// Records for what size of the Deployment a ReplicaSet was scaled.
pub(crate) fn set_replicas(annotations: &mut Annotations, bounds: Bounds) {
    annotations.insert(DESIRED_REPLICAS.into(), bounds.replicas.to_string());
    annotations.insert(MAX_REPLICAS.into(), bounds.max_replicas().to_string());
}

/// The Deployment's size when the ReplicaSet was last scaled.
pub(crate) fn desired_replicas(annotations: &Annotations) -> Option<i32> {
    annotations.get(DESIRED_REPLICAS)?.parse().ok()
}

/// The Deployment's size with surge when the ReplicaSet was last scaled.
pub(crate) fn max_replicas(annotations: &Annotations) -> Option<i32> {
    annotations.get(MAX_REPLICAS)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> Annotations {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_rollback_takes_the_next_revision_and_remembers_the_old_one() {
        let deployment = annotations(&[
            ("kubernetes.io/change-cause", "undo"),
            (REVISION, "7"),
            ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
        ]);
        let first = for_new_replica_set(&deployment, &Annotations::new(), 1);
        assert_eq!(
            first,
            annotations(&[("kubernetes.io/change-cause", "undo"), (REVISION, "1")])
        );
        let back = for_new_replica_set(&deployment, &first, 3);
        assert_eq!((&*back[REVISION], &*back[REVISION_HISTORY]), ("3", "1"));
        let again = for_new_replica_set(&deployment, &back, 5);
        assert_eq!((&*again[REVISION], &*again[REVISION_HISTORY]), ("5", "1,3"));
        assert_eq!(for_new_replica_set(&deployment, &again, 5), again);
        assert_eq!(for_new_replica_set(&deployment, &again, 2), again);
    }

    #[test]
    fn a_revision_that_is_no_number_is_left_alone() {
        let strange = annotations(&[(REVISION, "first")]);
        assert_eq!(
            for_new_replica_set(&Annotations::new(), &strange, 2),
            strange
        );
    }

    #[test]
    fn revisions_compare_as_numbers() {
        let nine = annotations(&[(REVISION, "9")]);
        assert_eq!(
            for_new_replica_set(&Annotations::new(), &nine, 10)[REVISION],
            "10"
        );
    }

    #[test]
    fn a_long_history_loses_its_beginning() {
        let history = vec!["123456789"; 200].join(",");
        let longer = appended(&history, "1000000000");
        assert!(longer.len() <= LONGEST_HISTORY && longer.ends_with(",1000000000"));
        assert!(longer.len() > LONGEST_HISTORY - 10);
    }
}
