//! What a component was refused for lately: the same bytes with the same settings are not tried again at once, since a trial
//! costs time and says the same.

use std::time::Duration;

use crate::{
    error::LoadError,
    revision::{Digest, Settings},
};

const FIRST_PAUSE: Duration = Duration::from_secs(10);
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// The last refusal of one component.
#[derive(Default)]
pub(super) struct Refusals(Option<Refusal>);

struct Refusal {
    digest: Digest,
    settings: Settings,
    error: LoadError,
    until: Duration,
    pause: Duration,
}

impl Refusals {
    /// The error that a new trial would most likely have, while it is too early for one.
    pub(super) fn recall(
        &self,
        digest: Digest,
        settings: &Settings,
        now: Duration,
    ) -> Option<LoadError> {
        let refusal = self.0.as_ref()?;
        (refusal.is_of(digest, settings) && now < refusal.until).then(|| refusal.error.clone())
    }

    /// Notes a refusal; each of the same doubles the pause.
    pub(super) fn note(
        &mut self,
        digest: Digest,
        settings: Settings,
        error: LoadError,
        now: Duration,
    ) {
        let before = self.0.take();
        let before = before.filter(|refusal| refusal.is_of(digest, &settings));
        let pause = before.map_or(FIRST_PAUSE, |refusal| (refusal.pause * 2).min(MAX_PAUSE));
        self.0 = Some(Refusal {
            digest,
            settings,
            error,
            until: now + pause,
            pause,
        });
    }
}

impl Refusal {
    fn is_of(&self, digest: Digest, settings: &Settings) -> bool {
        self.digest == digest && self.settings == *settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Grant;

    #[test]
    fn the_same_is_recalled_for_a_growing_while_and_nothing_else_is() {
        let at = Duration::from_secs;
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let plain = Settings::default();
        let narrowed = Settings {
            granted: Grant::Nothing,
            ..Settings::default()
        };
        let mut refusals = Refusals::default();
        refusals.note(one, plain.clone(), LoadError::NoManifest, at(0));
        for (what, digest, settings, now, recalled) in [
            ("at once", one, &plain, 1, true),
            ("other bytes", other, &plain, 1, false),
            ("other settings", one, &narrowed, 1, false),
            ("after the pause", one, &plain, 10, false),
        ] {
            let error = refusals.recall(digest, settings, at(now));
            assert_eq!(error.is_some(), recalled, "{what}");
        }
        refusals.note(one, plain.clone(), LoadError::NoManifest, at(10));
        assert!(refusals.recall(one, &plain, at(29)).is_some());
        assert!(refusals.recall(one, &plain, at(30)).is_none());
    }
}
