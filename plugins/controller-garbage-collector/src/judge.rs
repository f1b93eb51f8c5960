//! What follows from how an object's owners stand. No I/O.

use pilothouse_sdk::cluster::{OwnerState, Propagation};

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

/// What to do about an object that is not being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    /// Keep it and drop the references to these uids.
    DropReferences(Vec<String>),
    Delete(Propagation),
}

/// Judges by the owners' uids and states, whether it has dependents, and its finalizers.
pub(crate) fn judge(
    owners: &[(String, OwnerState)],
    has_dependents: bool,
    finalizers: &[String],
) -> Verdict {
    let any = |state: OwnerState| owners.iter().any(|(_, has)| *has == state);
    if owners.is_empty() {
        return Verdict::Keep;
    }
    if any(OwnerState::Solid) {
        let gone = owners
            .iter()
            .filter(|(_, state)| *state != OwnerState::Solid);
        let gone: Vec<String> = gone.map(|(uid, _)| uid.clone()).collect();
        return match gone.is_empty() {
            true => Verdict::Keep,
            false => Verdict::DropReferences(gone),
        };
    }
    let has = |finalizer: &str| finalizers.iter().any(|has| has == finalizer);
    Verdict::Delete(match () {
        () if any(OwnerState::Waiting) && has_dependents => Propagation::Foreground,
        () if has(ORPHAN) => Propagation::Orphan,
        () if has(FOREGROUND) => Propagation::Foreground,
        () => Propagation::Background,
    })
}

#[cfg(test)]
mod tests {
    use OwnerState::{Absent, Solid, Waiting};

    use super::*;

    #[test]
    fn every_combination() {
        let dropped = |uids: &[&str]| {
            Verdict::DropReferences(uids.iter().map(|uid| (*uid).to_owned()).collect())
        };
        let cases: &[(&[OwnerState], bool, &[&str], Verdict)] = &[
            (&[], true, &[], Verdict::Keep),
            (&[Solid], true, &[], Verdict::Keep),
            (&[Solid, Absent, Waiting], true, &[], dropped(&["1", "2"])),
            (
                &[Absent],
                false,
                &[],
                Verdict::Delete(Propagation::Background),
            ),
            (
                &[Absent],
                true,
                &[],
                Verdict::Delete(Propagation::Background),
            ),
            (
                &[Absent],
                true,
                &[ORPHAN],
                Verdict::Delete(Propagation::Orphan),
            ),
            (
                &[Absent],
                true,
                &[FOREGROUND],
                Verdict::Delete(Propagation::Foreground),
            ),
            (
                &[Absent, Waiting],
                true,
                &[],
                Verdict::Delete(Propagation::Foreground),
            ),
            (
                &[Waiting],
                false,
                &[],
                Verdict::Delete(Propagation::Background),
            ),
            (
                &[Waiting],
                true,
                &[ORPHAN],
                Verdict::Delete(Propagation::Foreground),
            ),
        ];
        for (states, has_dependents, finalizers, expected) in cases {
            let owners: Vec<_> = states
                .iter()
                .enumerate()
                .map(|(uid, state)| (uid.to_string(), *state))
                .collect();
            let finalizers: Vec<_> = finalizers
                .iter()
                .map(|finalizer| (*finalizer).to_owned())
                .collect();
            assert_eq!(
                judge(&owners, *has_dependents, &finalizers),
                *expected,
                "{states:?} {has_dependents} {finalizers:?}"
            );
        }
    }
}
