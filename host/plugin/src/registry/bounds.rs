//! What the operator of the host allows to components that do not ship with it, whatever their owners ask for.

use crate::{capability::Grant, limits::Limits, revision::Settings};

/// The operator's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// No component has higher limits.
    pub maxima: Limits,
    /// What a component may do whose Plugin object grants nothing in so many words, such as a file that was just dropped in.
    pub grant: Grant,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            maxima: Limits::NONE,
            grant: Grant::AsNeeded,
        }
    }
}

impl Bounds {
    pub(super) fn apply(&self, settings: Settings) -> Settings {
        Settings {
            limits: settings.limits.at_most(&self.maxima),
            granted: match settings.granted {
                Grant::Asked => self.grant.clone(),
                granted => granted,
            },
            ..settings
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_stays_below_the_operators_maxima() {
        let bounds = Bounds {
            maxima: Limits {
                time_ms: 100,
                instructions: Some(1_000),
                ..Limits::NONE
            },
            ..Bounds::default()
        };
        let asked = Settings {
            limits: Limits {
                time_ms: 5_000,
                host_calls: 3,
                ..Limits::default()
            },
            ..Settings::default()
        };
        let given = bounds.apply(asked.clone());
        assert_eq!(given.limits.time_ms, 100);
        assert_eq!(given.limits.host_calls, 3);
        assert_eq!(given.limits.instructions, Some(1_000));
        assert_eq!(given.granted, Grant::AsNeeded);
        assert_eq!(bounds.apply(given.clone()), given);
    }

    #[test]
    fn what_an_owner_grants_stands() {
        let granted = Grant::Rules(Vec::new());
        let asked = Settings {
            granted: granted.clone(),
            ..Settings::default()
        };
        assert_eq!(Bounds::default().apply(asked).granted, granted);
    }
}
