//! One name of the registry: what ships under it, what the user put there, and how both fare.

use std::{sync::Arc, time::Duration};

use super::{
    ActiveComponent, Source,
    candidate::{Beside, Candidate},
    refusals::Refusals,
    status::{Condition, ConditionType, Conditions, PluginState, PluginStatus},
    storm::{Storm, StormPolicy},
};
use crate::{
    clock::Clock,
    error::LoadError,
    revision::{Digest, Home, Mode, Revision, Serial, Settings},
};

/// How far a load came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Up to and with the manifest.
    Compile,
    Contract,
}

impl Step {
    /// Where an error comes from.
    fn of(error: &LoadError) -> Self {
        match error {
            LoadError::Contract { .. } => Self::Contract,
            _ => Self::Compile,
        }
    }
}

pub(super) struct Slot {
    pub(super) home: Home,
    /// Held over a load, so that loads of one name come one after the other.
    pub(super) loading: Arc<tokio::sync::Mutex<()>>,
    /// Another one after each removal: what began to load before it is not wanted any more.
    pub(super) tenure: Arc<()>,
    clock: Arc<dyn Clock>,
    built_in: Option<Arc<Revision>>,
    user: Option<User>,
    conditions: Conditions,
    storm: Storm,
    /// For revisions whose settings say nothing else.
    storm_policy: StormPolicy,
    /// The version beside the active one.
    pub(super) candidate: Option<Beside>,
    quarantined_until: Option<Duration>,
    /// Digests of the user's versions that are kept on disk, what is active first.
    pub(super) history: Vec<String>,
    refusals: Refusals,
}

/// A user's component. Without `active` it could not be loaded yet.
struct User {
    source: Source,
    active: Option<Arc<Revision>>,
    previous: Option<Arc<Revision>>,
    rolled_back: bool,
}

impl Slot {
    pub(super) fn new(home: Home, clock: Arc<dyn Clock>, storm: StormPolicy) -> Self {
        Self {
            home,
            loading: Arc::default(),
            tenure: Arc::default(),
            conditions: Conditions::new(Arc::clone(&clock)),
            clock,
            built_in: None,
            user: None,
            storm: Storm::new(storm),
            storm_policy: storm,
            candidate: None,
            quarantined_until: None,
            history: Vec::new(),
            refusals: Refusals::default(),
        }
    }

    /// Why this very thing was refused a short while ago.
    pub(super) fn refused_lately(&self, digest: Digest, settings: &Settings) -> Option<LoadError> {
        let now = self.clock.monotonic();
        self.refusals.recall(digest, settings, now)
    }

    /// A trial refused it.
    pub(super) fn refuse(&mut self, digest: Digest, settings: Settings, error: LoadError) {
        let now = self.clock.monotonic();
        self.refusals.note(digest, settings, error, now);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.built_in.is_none() && self.user.is_none()
    }

    pub(super) fn has_user_revision(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.active.is_some())
    }

    fn revision(&self) -> Option<&Arc<Revision>> {
        let user = self.user.as_ref().and_then(|user| user.active.as_ref());
        user.or(self.built_in.as_ref())
    }

    pub(super) fn settings(&self) -> Option<Settings> {
        let revision = self.revision()?;
        Some(revision.settings().clone())
    }

    pub(super) fn active(&self) -> Option<ActiveComponent> {
        let quarantined = self.quarantined_until.is_some();
        let candidate = self.candidate.as_ref().filter(|_| !quarantined);
        let user = self.user.as_ref().and_then(|user| user.active.as_ref());
        if let (Some(shadow), Some(built_in)) = (user, &self.built_in)
            && shadow.settings().mode == Mode::Shadow
        {
            // what does not act leaves its work to what ships with the host
            return Some(ActiveComponent {
                revision: Arc::clone(built_in),
                built_in: true,
                quarantined: false,
                candidate: (!quarantined).then(|| Candidate {
                    revision: Arc::clone(shadow),
                    weight: 0,
                }),
            });
        }
        Some(ActiveComponent {
            candidate: candidate.and_then(Beside::active),
            revision: Arc::clone(self.revision()?),
            built_in: !self.has_user_revision(),
            quarantined,
        })
    }

    /// Whether this very thing is active for this source already.
    pub(super) fn serves(&self, source: &Source, digest: Digest, settings: &Settings) -> bool {
        let held = match source {
            Source::BuiltIn => self.built_in.as_ref(),
            source => self
                .user
                .as_ref()
                .filter(|user| user.source == *source)
                .and_then(|user| user.active.as_ref()),
        };
        held.is_some_and(|held| held.digest() == digest && held.settings() == settings)
    }

    /// Whether a user's revision can take the place of what ships under the name: it does all of its work, maybe otherwise.
    pub(super) fn can_replace(&self, new: &Revision) -> Result<(), LoadError> {
        let built_in = self.built_in.iter().flat_map(|old| old.interfaces());
        let mut lacks = built_in.filter(|old| !new.exports(old.family(), &old.name));
        lacks.next().map_or(Ok(()), |lacks| {
            let lacks = lacks.to_string();
            Err(LoadError::NoReplacement { lacks })
        })
    }

    /// A checked revision becomes active.
    pub(super) fn swap(&mut self, source: &Source, revision: Arc<Revision>) {
        self.storm
            .follow(revision.settings().storm.unwrap_or(self.storm_policy));
        match source {
            Source::BuiltIn => self.built_in = Some(revision),
            source => {
                let previous = self.user.take().and_then(|user| user.active);
                if previous.is_some() {
                    self.home.stats.reload();
                }
                // never from a mode into another: its owner has said which
                let mode = revision.settings().mode;
                self.user = Some(User {
                    source: source.clone(),
                    active: Some(revision),
                    previous: previous.filter(|previous| previous.settings().mode == mode),
                    rolled_back: false,
                });
            }
        }
        self.storm.forget();
        self.quarantined_until = None;
        self.conditions
            .set(ConditionType::Compiled, true, "Compiled", String::new());
        self.contract_passed();
        self.conditions
            .set(ConditionType::Ready, true, "Serving", String::new());
        self.conditions
            .set(ConditionType::Degraded, false, "AsWanted", String::new());
    }

    /// A load failed; what is active stays.
    pub(super) fn failed(&mut self, source: &Source, error: &LoadError) {
        if matches!(error, LoadError::RolledBack(_)) {
            return; // the conditions say so already
        }
        if *source != Source::BuiltIn {
            let user = self.user.get_or_insert_with(|| User {
                source: source.clone(),
                active: None,
                previous: None,
                rolled_back: false,
            });
            user.source = source.clone();
        }
        let message = error.to_string();
        match Step::of(error) {
            Step::Compile => {
                self.conditions
                    .set(ConditionType::Compiled, false, "NotLoaded", message.clone())
            }
            Step::Contract => {
                self.conditions
                    .set(ConditionType::Compiled, true, "Compiled", String::new());
                self.conditions.set(
                    ConditionType::ContractPassed,
                    false,
                    "Broken",
                    message.clone(),
                );
            }
        }
        match self.revision() {
            Some(_) => self.degraded(message),
            None => self
                .conditions
                .set(ConditionType::Ready, false, "NotLoaded", message),
        }
    }

    /// What the last failed load said.
    pub(super) fn failure(&self) -> String {
        self.conditions.first_failure()
    }

    /// What is wanted serves already; a failed attempt in between is over.
    pub(super) fn wanted_serves(&mut self) {
        self.conditions
            .set(ConditionType::Compiled, true, "Compiled", String::new());
        self.contract_passed();
        self.conditions
            .set(ConditionType::Degraded, false, "AsWanted", String::new());
    }

    fn contract_passed(&mut self) {
        let message =
            "of the contract, what is quick to try; `pilothouse plugin test` runs all of it";
        self.conditions.set(
            ConditionType::ContractPassed,
            true,
            "SmokePassed",
            message.to_owned(),
        );
    }

    /// Something older than what is wanted serves.
    pub(super) fn degraded(&mut self, why: String) {
        let message = format!("an earlier version goes on serving: {why}");
        self.conditions
            .set(ConditionType::Degraded, true, "EarlierVersion", message);
    }

    /// Takes the user's component away.
    pub(super) fn remove_user(&mut self) -> bool {
        let removed = self.user.take().is_some();
        self.tenure = Arc::default();
        self.candidate = None;
        if removed {
            self.storm.forget();
            self.quarantined_until = None;
            self.history.clear();
            self.conditions.clear();
            if self.built_in.is_some() {
                self.conditions
                    .set(ConditionType::Ready, true, "Serving", String::new());
            }
        }
        removed
    }

    /// Counts a failure of the active revision. Answers whether that was a storm, and the slot changed.
    pub(super) fn trapped(&mut self, serial: Serial) -> bool {
        let now = self.clock.monotonic();
        if let Some(candidate) = self.candidate.as_mut().filter(|c| c.is(serial)) {
            return candidate.trapped(now);
        }
        let Some(failing) = self
            .revision()
            .filter(|revision| revision.serial() == serial)
        else {
            return false;
        };
        let (digest, settings) = (failing.digest(), failing.settings().clone());
        if self.quarantined_until.is_some() || !self.storm.strike(now) {
            return false;
        }
        let often = self.storm.describe();
        if let Some(user) = &mut self.user
            && let Some(previous) = user.previous.take()
        {
            user.active = Some(previous);
            user.rolled_back = true;
            self.storm.forget();
            self.refuse(digest, settings, LoadError::RolledBack(often.clone()));
            let message = format!("{digest} failed {often} and was rolled back");
            self.conditions
                .set(ConditionType::Degraded, true, "RolledBack", message);
        } else {
            let pause = self.storm.next_pause();
            self.quarantined_until = Some(now + pause);
            let message = format!(
                "it failed {often} and is not called for {} s",
                pause.as_secs()
            );
            self.conditions
                .set(ConditionType::Ready, false, "Quarantined", message.clone());
            self.conditions
                .set(ConditionType::Degraded, true, "Quarantined", message);
        }
        true
    }

    /// The user's revision with this number, if it is the one that was quarantined and the one that is wanted: what was rolled
    /// back to has nothing to fall back on but what failed before it.
    pub(super) fn quarantined(&self, serial: Serial) -> Option<Arc<Revision>> {
        let user = self.user.as_ref().filter(|user| !user.rolled_back)?;
        let active = user.active.as_ref()?;
        let it = self.quarantined_until.is_some() && active.serial() == serial;
        it.then(|| Arc::clone(active))
    }

    /// Puts an earlier version in the place of the one that was quarantined, if that is still there. Answers whether it was.
    pub(super) fn back_to(&mut self, failing: Serial, earlier: Arc<Revision>) -> bool {
        let Some(failed) = self.quarantined(failing) else {
            return false;
        };
        if let Some(user) = &mut self.user {
            user.active = Some(earlier);
            user.rolled_back = true;
        }
        self.storm.forget();
        self.quarantined_until = None;
        let often = self.storm.describe();
        let message = format!("{} failed {often} and was rolled back", failed.digest());
        self.refuse(
            failed.digest(),
            failed.settings().clone(),
            LoadError::RolledBack(often),
        );
        self.conditions
            .set(ConditionType::Ready, true, "Serving", String::new());
        self.conditions
            .set(ConditionType::Degraded, true, "RolledBack", message);
        true
    }

    /// Ends a quarantine whose time is over.
    pub(super) fn release(&mut self, now: Duration) -> bool {
        if self.quarantined_until.is_none_or(|until| now < until) {
            return false;
        }
        self.quarantined_until = None;
        self.storm.try_again(now);
        self.conditions
            .set(ConditionType::Ready, true, "OnProbation", String::new());
        self.conditions
            .set(ConditionType::Degraded, false, "OnProbation", String::new());
        true
    }

    pub(super) fn status(&self, name: &Arc<str>, disabled: bool) -> PluginStatus {
        let revision = self.revision();
        let rolled_back = self.user.as_ref().is_some_and(|user| user.rolled_back);
        let state = match (revision, self.quarantined_until) {
            _ if disabled => PluginState::Disabled,
            (None, _) => PluginState::Failed,
            (_, Some(_)) => PluginState::Quarantined,
            _ if rolled_back => PluginState::RolledBack,
            _ if self.conditions.is(ConditionType::Degraded) => PluginState::Degraded,
            (Some(revision), _) if revision.settings().mode == Mode::Shadow => PluginState::Shadow,
            _ => PluginState::Serving,
        };
        let user = self.user.as_ref();
        PluginStatus {
            name: Arc::clone(name),
            source: user.map_or(Source::BuiltIn, |user| user.source.clone()),
            built_in: !self.has_user_revision() && self.built_in.is_some(),
            state,
            digest: revision.map(|revision| revision.digest()),
            previous: user
                .and_then(|user| user.previous.as_ref())
                .map(|revision| revision.digest()),
            interfaces: revision.map_or_else(Vec::new, |r| {
                r.interfaces().iter().map(ToString::to_string).collect()
            }),
            plugins: revision.map_or_else(Vec::new, |r| {
                r.manifest()
                    .plugins
                    .iter()
                    .map(|entry| entry.name.clone())
                    .collect()
            }),
            history: self.history.clone(),
            conditions: self.conditions.list().cloned().collect::<Vec<Condition>>(),
            figures: self.home.stats.figures(),
            shadow: revision
                .and_then(|r| r.shadow())
                .map(|shadow| shadow.figures()),
            candidate: self.candidate.as_ref().map(Beside::status),
        }
    }
}
