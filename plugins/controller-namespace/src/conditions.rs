//! The conditions of a namespace that is being deleted. Each is always present: `True` names what is in the way.

use std::collections::BTreeMap;

use pilothouse_sdk::objects::{Condition, Time, find_condition};

/// What a round of deletion met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Why discovery is incomplete.
    pub(crate) discovery_failure: Option<String>,
    /// Deletions that were refused.
    pub(crate) failures: Vec<String>,
    /// Objects left, by resource and group: `pods.`, `deployments.apps`.
    pub(crate) remaining: BTreeMap<String, usize>,
    /// Objects left, by finalizer.
    pub(crate) finalizers: BTreeMap<String, usize>,
}

impl Found {
    /// Nothing is left and nothing is unknown.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The namespace's conditions after the round; those of other types stay.
pub(crate) fn after(before: &[Condition], found: &Found, now: Time) -> Vec<Condition> {
    let mut conditions = before.to_vec();
    for (kind, reason, message, ok_reason, ok_message) in [
        (
            "NamespaceDeletionDiscoveryFailure",
            "DiscoveryFailed",
            found.discovery_failure.clone(),
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "GroupVersionParsingFailed",
            None,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "ContentDeletionFailed",
            failures(&found.failures),
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            "SomeResourcesRemain",
            counted("Some resources are remaining", "has", &found.remaining),
            "ContentRemoved",
            "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            "SomeFinalizerRemain",
            counted("Some finalizers are remaining", "in", &found.finalizers),
            "ContentRemoved",
            "All content successfully removed",
        ),
    ] {
        let condition = match message {
            Some(message) => (kind, "True", reason, message),
            None => (kind, "False", ok_reason, ok_message.to_owned()),
        };
        set(&mut conditions, condition, now);
    }
    conditions
}

fn set(
    conditions: &mut Vec<Condition>,
    (kind, status, reason, message): (&str, &str, &str, String),
    now: Time,
) {
    let same = find_condition(conditions, kind).filter(|condition| condition.status == status);
    let since = same.and_then(|condition| condition.last_transition_time);
    let condition = Condition {
        kind: kind.into(),
        status: status.into(),
        reason: reason.into(),
        message,
        last_transition_time: since.or(Some(now.whole_seconds())),
        ..Condition::default()
    };
    match conditions
        .iter_mut()
        .find(|condition| condition.kind == kind)
    {
        Some(present) => *present = condition,
        None => conditions.push(condition),
    }
}

fn failures(failures: &[String]) -> Option<String> {
    let mut sorted = failures.to_vec();
    sorted.sort();
    let count = sorted.len();
    let all = sorted.join(", ");
    (count > 0).then(|| format!("Failed to delete all resource types, {count} remaining: {all}"))
}

fn counted(what: &str, verb: &str, counts: &BTreeMap<String, usize>) -> Option<String> {
    let parts = counts
        .iter()
        .map(|(name, count)| format!("{name} {verb} {count} resource instances"));
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("{what}: {}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_ms(50_000);

    #[test]
    fn every_condition_is_there_and_says_what_is_in_the_way() {
        let found = Found {
            failures: vec!["b".into(), "a".into()],
            remaining: [("pods.".to_owned(), 2), ("deployments.apps".to_owned(), 1)].into(),
            finalizers: [("example.com/hold".to_owned(), 1)].into(),
            ..Found::default()
        };
        let conditions = after(&[], &found, NOW);
        let told: Vec<_> = conditions
            .iter()
            .map(|condition| (&*condition.status, &*condition.reason, &*condition.message))
            .collect();
        assert_eq!(
            told,
            [
                (
                    "False",
                    "ResourcesDiscovered",
                    "All resources successfully discovered"
                ),
                (
                    "False",
                    "ParsedGroupVersions",
                    "All legacy kube types successfully parsed"
                ),
                (
                    "True",
                    "ContentDeletionFailed",
                    "Failed to delete all resource types, 2 remaining: a, b"
                ),
                (
                    "True",
                    "SomeResourcesRemain",
                    "Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances"
                ),
                (
                    "True",
                    "SomeFinalizerRemain",
                    "Some finalizers are remaining: example.com/hold in 1 resource instances"
                ),
            ]
        );
    }

    #[test]
    fn times_move_only_with_the_status() {
        let theirs = Condition {
            kind: "Theirs".into(),
            ..Condition::default()
        };
        let first = after(std::slice::from_ref(&theirs), &Found::default(), NOW);
        assert_eq!(first[0], theirs);
        let later = Time::from_ms(90_000);
        assert_eq!(after(&first, &Found::default(), later), first);
        let found = Found {
            discovery_failure: Some("down".into()),
            ..Found::default()
        };
        let second = after(&first, &found, later);
        assert_eq!(second[1].last_transition_time, Some(later));
        assert_eq!(second[2].last_transition_time, Some(NOW));
    }
}
