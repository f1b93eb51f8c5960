//! Which revision of which component is active. Two ways lead here: those that ship with the host, and a user's, from the watched
//! directory or a Plugin object; a user's takes the place of one that ships under the same name.
//!
//! ```text
//!            compile → check exports → read manifest → smoke contract → warm ──► swap ──► the old one drains
//!   put ──►  any failure: what was active goes on serving, the conditions say why
//!            ┌──────────────────────── trap storm ────────────────────────────┐
//!            ▼                                                                │
//!   a previous revision: it is active again (rolled back)                  Serving
//!   none: Quarantined, back after a growing pause ─────────────────────────►──┘
//! ```
//!
//! Invariants: consumers see a whole new [`Active`] or the whole old one; a call ends on the revision that it began on, which is
//! kept by its users until then; a quarantined component stays listed, so that a policy that must not be missed still refuses.
//!
//! Beside what is active there may be a candidate (`registry/candidate.rs`), of which the same holds.
//!
//! Loads of different names run side by side. A removal ends nothing that runs, but what it loads is not taken over any more.
//!
//! Lock order: a slot's `loading` (async, held over a load), then `slots`, then `disabled`; nothing is awaited under the two.

mod bounds;
mod candidate;
mod contract;
mod directory;
mod history;
mod metrics;
mod refusals;
mod slot;
mod status;
mod storm;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Weak},
};

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    cluster::{Cluster, NoCluster},
    engine::Engine,
    error::LoadError,
    revision::{Digest, Home, Mode, Revision, Serial, Settings, compile},
    shadow::Shadow,
    stats::Distribution,
};

pub use bounds::Bounds;
pub use candidate::{Candidate, CandidateState, CandidateStatus, weighs};
pub use contract::SmokeContract;
pub use directory::{PluginDirectory, component_name};
pub use history::{History, PastRevision};
pub use metrics::PluginMetrics;
pub use status::{Condition, ConditionType, PluginState, PluginStatus};
pub use storm::StormPolicy;

use candidate::{Beside, Wanted};
use slot::Slot;
use storm::Storm;

/// Where a component came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It ships with the host.
    BuiltIn,
    /// A file of the watched directory.
    File(PathBuf),
    /// A Plugin object, by its name.
    Object(String),
}

/// What is known of a component's settings before its owner is heard.
pub type RememberedSettings = Arc<dyn Fn(&str) -> Option<Settings> + Send + Sync>;

/// How to build a [`PluginRegistry`].
pub struct RegistryConfig {
    pub engine: Engine,
    /// What plugins reach through `pilothouse:host/cluster`.
    pub cluster: Arc<dyn Cluster>,
    /// Where the versions of users' components that were active are kept; `None`: nowhere.
    pub state_dir: Option<PathBuf>,
    pub storm: StormPolicy,
    pub bounds: Bounds,
    /// The settings that a user's component had when it served last, by its name.
    pub remembered: RememberedSettings,
    /// Checked before a revision is swapped in.
    pub contracts: Vec<Arc<dyn SmokeContract>>,
}

impl RegistryConfig {
    /// No cluster, no state on disk, the smoke contracts of admission, controllers and scheduler.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            cluster: Arc::new(NoCluster),
            state_dir: None,
            storm: StormPolicy::default(),
            bounds: Bounds::default(),
            remembered: Arc::new(|_| None),
            contracts: vec![
                Arc::new(crate::contract::AdmissionSmoke),
                Arc::new(crate::contract::ControllerSmoke),
                Arc::new(crate::contract::SchedulerSmoke),
            ],
        }
    }
}

/// One active component.
#[derive(Clone, Debug)]
pub struct ActiveComponent {
    pub revision: Arc<Revision>,
    pub built_in: bool,
    /// It trapped too often and has no earlier revision: it must not be called, its failure policies hold.
    pub quarantined: bool,
    /// A version beside it.
    pub candidate: Option<Candidate>,
}

impl ActiveComponent {
    /// Its answers are not done.
    pub fn in_shadow(&self) -> bool {
        self.revision.settings().mode == Mode::Shadow
    }
}

/// All active components in the order of their names. Immutable; a change makes a new one.
pub type Active = Arc<[ActiveComponent]>;

/// The registry; cheap to clone.
#[derive(Clone)]
pub struct PluginRegistry(Arc<Inner>);

struct Inner {
    engine: Engine,
    cluster: Arc<dyn Cluster>,
    history: Option<History>,
    disabled: Mutex<BTreeSet<String>>,
    storm: StormPolicy,
    bounds: Bounds,
    remembered: RememberedSettings,
    contracts: Vec<Arc<dyn SmokeContract>>,
    slots: Mutex<BTreeMap<Arc<str>, Slot>>,
    active: watch::Sender<Active>,
}

impl PluginRegistry {
    /// An empty registry. Fails if the state directory cannot be made.
    pub fn new(config: RegistryConfig) -> std::io::Result<Self> {
        let history = config.state_dir.map(History::open).transpose()?;
        Ok(Self(Arc::new(Inner {
            engine: config.engine,
            cluster: config.cluster,
            history,
            disabled: Mutex::default(),
            storm: config.storm,
            bounds: config.bounds,
            remembered: config.remembered,
            contracts: config.contracts,
            slots: Mutex::default(),
            active: watch::Sender::new(Arc::new([])),
        })))
    }

    /// Loads what ships with the host, all at once, and makes it active together. The answer names those that failed.
    pub async fn add_built_ins(&self, built_ins: &[(&str, &[u8])]) -> Vec<(String, LoadError)> {
        let loads = built_ins.iter().map(|(name, wasm)| async move {
            let outcome = self.add_built_in(name, wasm, Settings::default()).await;
            outcome.err().map(|error| ((*name).to_owned(), error))
        });
        join_all(loads).await.into_iter().flatten().collect()
    }

    /// Loads one component that ships with the host, or loads it again with other settings.
    pub async fn add_built_in(
        &self,
        name: &str,
        wasm: &[u8],
        settings: Settings,
    ) -> Result<(), LoadError> {
        self.load(name, wasm, Source::BuiltIn, settings).await
    }

    /// Loads a user's component and makes it active under `name`. If anything fails, what was active goes on serving, or the
    /// last good version of an earlier run comes back; the error is also in the conditions. The same bytes with the same
    /// settings are not loaded again, nor tried again for a while after they were refused.
    pub async fn put(
        &self,
        name: &str,
        wasm: &[u8],
        source: Source,
        settings: Settings,
    ) -> Result<(), LoadError> {
        let outcome = self
            .load(name, wasm, source.clone(), settings.clone())
            .await;
        match &outcome {
            Ok(()) => {
                if let Some(history) = &self.0.history {
                    let limit = settings.revision_history_limit;
                    let kept = history.keep(name, wasm, limit).await;
                    self.0.with_slot(name, |slot| slot.history = kept);
                }
            }
            Err(LoadError::Removed) => {}
            Err(_) => self.fall_back(name, source, settings).await,
        }
        outcome
    }

    /// Loads a version beside the one that serves, in place of the one before it; with a `weight` (percent) of 0 its answers do
    /// not act. The same again changes nothing. What serves is the same whatever comes of it; an error is also in the status.
    pub async fn put_candidate(
        &self,
        name: &str,
        wasm: &[u8],
        settings: Settings,
        weight: u8,
    ) -> Result<(), LoadError> {
        let mode = match weight {
            0 => Mode::Shadow,
            _ => Mode::Enforce,
        };
        let wanted = Wanted {
            digest: Some(Digest::of(wasm)),
            settings: Settings {
                mode,
                ..self.0.bounds.apply(settings)
            },
            weight,
        };
        let (loading, tenure) = self.0.with_slot(name, |slot| {
            (Arc::clone(&slot.loading), Arc::clone(&slot.tenure))
        });
        let _one_at_a_time = loading.lock().await;
        let home = self.0.with_tenant(name, &tenure, |slot| {
            let new = slot.candidate.as_ref().is_none_or(|c| c.wanted != wanted);
            new.then(|| slot.home.clone())
        })?;
        let Some(home) = home else {
            return Ok(());
        };
        let home = self.home_in(mode, home.clone().beside(), &home);
        let tried = self
            .trial(&home, Digest::of(wasm), wasm, &wanted.settings)
            .await;
        let fits = tried.and_then(|revision| {
            let check = |slot: &mut Slot| slot.can_replace(&revision);
            self.0.with_tenant(name, &tenure, check)??;
            Ok(revision)
        });
        let outcome = fits.as_ref().map(|_| ()).map_err(Clone::clone);
        match &outcome {
            Ok(()) => tracing::info!(component = name, weight, "a candidate takes part"),
            Err(error) => tracing::warn!(component = name, %error, "a candidate was not loaded"),
        }
        let storm = Storm::new(wanted.settings.storm.unwrap_or(self.0.storm));
        self.0.with_tenant(name, &tenure, |slot| {
            slot.candidate = Some(Beside::new(wanted, home, fits, storm));
        })?;
        self.0.publish();
        outcome
    }

    /// Records that a candidate could not be read at all.
    pub fn candidate_unreadable(
        &self,
        name: &str,
        settings: Settings,
        weight: u8,
        error: LoadError,
    ) {
        let wanted = Wanted {
            digest: None,
            settings,
            weight,
        };
        let storm = Storm::new(self.0.storm);
        self.0.with_slot(name, |slot| {
            slot.candidate = Some(Beside::new(
                wanted,
                slot.home.clone().beside(),
                Err(error),
                storm,
            ));
        });
        self.0.publish();
    }

    /// Takes the version beside the one that serves away; answers whether there was one.
    pub fn remove_candidate(&self, name: &str) -> bool {
        let removed = {
            let mut slots = self.0.slots.lock();
            let slot = slots.get_mut(name);
            slot.is_some_and(|slot| slot.candidate.take().is_some())
        };
        if removed {
            self.0.publish();
        }
        removed
    }

    /// Takes a user's component away; one that ships under the same name is active again. Answers whether there was one.
    pub async fn remove(&self, name: &str) -> bool {
        if let Some(history) = &self.0.history {
            history.forget(name).await;
        }
        let removed = {
            let mut slots = self.0.slots.lock();
            let removed = slots.get_mut(name).is_some_and(Slot::remove_user);
            if slots.get(name).is_some_and(Slot::is_empty) {
                slots.remove(name);
            }
            removed
        };
        self.0.publish();
        removed
    }

    /// Says which components must not be called, whatever their source: the owner's emergency brake. All others may.
    pub fn disable_only(&self, names: BTreeSet<String>) {
        let changed = {
            let mut disabled = self.0.disabled.lock();
            let changed = *disabled != names;
            *disabled = names;
            changed
        };
        if changed {
            self.0.publish();
        }
    }

    /// Records that a source could not be read at all.
    pub fn unreadable(&self, name: &str, source: Source, error: LoadError) {
        self.0.with_slot(name, |slot| slot.failed(&source, &error));
    }

    /// The settings of a user's component that is active, or that it had when it served last.
    pub fn user_settings(&self, name: &str) -> Option<Settings> {
        let of_user = {
            let slots = self.0.slots.lock();
            let slot = slots.get(name).filter(|slot| slot.has_user_revision());
            slot.and_then(Slot::settings)
        };
        of_user.or_else(|| (self.0.remembered)(name))
    }

    /// The settings of what is loaded under a name: the user's component, else the one that ships with the host.
    pub fn settings(&self, name: &str) -> Option<Settings> {
        self.0.slots.lock().get(name).and_then(Slot::settings)
    }

    /// The active components now.
    pub fn active(&self) -> Active {
        self.0.active.borrow().clone()
    }

    /// The active components and every change of them. A receiver sees the newest; changes in between may be skipped.
    pub fn subscribe(&self) -> watch::Receiver<Active> {
        self.0.active.subscribe()
    }

    /// What `pilothouse plugin list` and the status of Plugin objects show.
    pub fn status(&self) -> Vec<PluginStatus> {
        let slots = self.0.slots.lock();
        let known = slots.iter().filter(|(_, slot)| !slot.is_empty()); // not what is only being loaded
        let disabled = self.0.disabled.lock();
        let status =
            |(name, slot): (&Arc<str>, &Slot)| slot.status(name, disabled.contains(&**name));
        known.map(status).collect()
    }

    /// How long the calls of each component took, and what share of their callers' time.
    pub(crate) fn durations(&self) -> Vec<(Arc<str>, Distribution, Distribution)> {
        let slots = self.0.slots.lock();
        let known = slots.iter().filter(|(_, slot)| !slot.is_empty());
        known
            .map(|(name, slot)| {
                let stats = &slot.home.stats;
                (Arc::clone(name), stats.latencies(), stats.shares())
            })
            .collect()
    }

    /// Lets quarantined components serve again whose pause is over. Called about every second by who runs the registry.
    pub fn release_quarantined(&self) {
        let now = self.0.engine.clock().monotonic();
        let mut released = false;
        for slot in self.0.slots.lock().values_mut() {
            released |= slot.release(now);
        }
        if released {
            self.0.publish();
        }
    }

    /// The engine, for loading components outside of the registry.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The settings that a component from there gets if these are asked for.
    pub fn within_bounds(&self, source: &Source, settings: Settings) -> Settings {
        match source {
            Source::BuiltIn => settings.of_a_built_in(),
            _ => self.0.bounds.apply(settings),
        }
    }

    async fn load(
        &self,
        name: &str,
        wasm: &[u8],
        source: Source,
        settings: Settings,
    ) -> Result<(), LoadError> {
        let settings = self.within_bounds(&source, settings);
        let (loading, tenure) = self.0.with_slot(name, |slot| {
            (Arc::clone(&slot.loading), Arc::clone(&slot.tenure))
        });
        let _one_at_a_time = loading.lock().await;
        let digest = Digest::of(wasm);
        let home = self.0.with_tenant(name, &tenure, |slot| {
            let same = slot.serves(&source, digest, &settings);
            if same {
                slot.wanted_serves();
            }
            (!same).then(|| slot.home.clone())
        })?;
        let Some(home) = home else {
            self.0.publish(); // a failed attempt in between is over
            return Ok(());
        };
        let lately = |slot: &mut Slot| {
            let error = slot.refused_lately(digest, &settings)?;
            slot.failed(&source, &error);
            Some(error)
        };
        if let Some(error) = self.0.with_tenant(name, &tenure, lately)? {
            self.0.publish();
            return Err(error);
        }
        let home = self.home_in(settings.mode, home.clone(), &home);
        let tried = self.trial(&home, digest, wasm, &settings).await;
        let fits = |revision: Revision| {
            if source != Source::BuiltIn {
                let check = |slot: &mut Slot| slot.can_replace(&revision);
                self.0.with_tenant(name, &tenure, check)??;
            }
            Ok(revision)
        };
        match tried.and_then(fits) {
            Ok(revision) => {
                let revision = Arc::new(revision);
                self.0
                    .with_tenant(name, &tenure, |slot| slot.swap(&source, revision))?;
                self.0.publish();
                tracing::info!(component = name, %digest, "a plugin is active");
                Ok(())
            }
            Err(error) => {
                tracing::warn!(component = name, %error, "a plugin was not loaded");
                self.0.with_tenant(name, &tenure, |slot| {
                    slot.failed(&source, &error);
                    slot.refuse(digest, settings, error.clone());
                })?;
                self.0.publish();
                Err(error)
            }
        }
    }

    /// What a revision of this mode uses; `component` is what is counted of all of them.
    fn home_in(&self, mode: Mode, home: Home, component: &Home) -> Home {
        match mode {
            Mode::Enforce => home,
            Mode::Shadow => {
                let clock = self.0.engine.clock();
                let shadow = Shadow::new(&home.component, clock, &component.stats);
                home.in_shadow(Arc::new(shadow))
            }
        }
    }

    /// Compiles, checks and tries a revision out, without anybody seeing it.
    async fn trial(
        &self,
        home: &Home,
        digest: Digest,
        wasm: &[u8],
        settings: &Settings,
    ) -> Result<Revision, LoadError> {
        let engine = &self.0.engine;
        let compiled = compile(engine, &settings.limits, wasm).await?;
        let revision = Revision::start(engine, home, digest, compiled, settings.clone()).await?;
        for contract in &self.0.contracts {
            contract::check(contract.as_ref(), &revision).await?;
        }
        Ok(revision)
    }

    /// After a failed load at a start: the last good version of an earlier run, if nothing of the user's is active.
    async fn fall_back(&self, name: &str, source: Source, settings: Settings) {
        let Some(history) = &self.0.history else {
            return;
        };
        if self.0.with_slot(name, |slot| slot.has_user_revision()) {
            return;
        }
        let why = self.0.with_slot(name, |slot| slot.failure());
        for wasm in history.versions(name, None).await {
            let (source, settings) = (source.clone(), settings.clone());
            if self.load(name, &wasm, source, settings).await.is_ok() {
                self.0.with_slot(name, |slot| slot.degraded(why));
                return;
            }
        }
    }

    /// After a storm of what has no earlier revision in this process: the newest version of an earlier one that can be loaded.
    async fn roll_back(&self, name: &str, failing: &Arc<Revision>) {
        let Some(history) = &self.0.history else {
            return;
        };
        let settings = failing.settings();
        let slot = self.0.with_slot(name, |slot| {
            let (loading, tenure) = (Arc::clone(&slot.loading), Arc::clone(&slot.tenure));
            (loading, tenure, slot.home.clone())
        });
        let (loading, tenure, home) = slot;
        let _one_at_a_time = loading.lock().await;
        for wasm in history.versions(name, Some(failing.digest())).await {
            let home = self.home_in(settings.mode, home.clone(), &home);
            let digest = Digest::of(&wasm);
            let Ok(revision) = self.trial(&home, digest, &wasm, settings).await else {
                continue;
            };
            let back = |slot: &mut Slot| slot.back_to(failing.serial(), Arc::new(revision));
            if self.0.with_tenant(name, &tenure, back).unwrap_or_default() {
                tracing::warn!(component = name, %digest, "a plugin was rolled back to a version that was kept");
                self.0.publish();
            }
            return;
        }
    }
}

impl Inner {
    fn new_slot(self: &Arc<Self>, name: &str) -> Slot {
        let name: Arc<str> = name.into();
        let (registry, component): (Weak<Self>, _) = (Arc::downgrade(self), Arc::clone(&name));
        let trapped = move |serial| {
            if let Some(registry) = registry.upgrade() {
                registry.trapped(&component, serial);
            }
        };
        let home = Home::new(&name, Arc::clone(&self.cluster)).on_trap(Arc::new(trapped));
        Slot::new(home, Arc::clone(self.engine.clock()), self.storm)
    }

    fn with_slot<T>(self: &Arc<Self>, name: &str, f: impl FnOnce(&mut Slot) -> T) -> T {
        let mut slots = self.slots.lock();
        f(slots
            .entry(name.into())
            .or_insert_with(|| self.new_slot(name)))
    }

    /// The slot, unless what was in it was removed since `tenure` was seen.
    fn with_tenant<T>(
        &self,
        name: &str,
        tenure: &Arc<()>,
        f: impl FnOnce(&mut Slot) -> T,
    ) -> Result<T, LoadError> {
        let mut slots = self.slots.lock();
        let slot = slots.get_mut(name);
        match slot.filter(|slot| Arc::ptr_eq(&slot.tenure, tenure)) {
            Some(slot) => Ok(f(slot)),
            None => Err(LoadError::Removed),
        }
    }

    /// A call of this revision failed by its own fault.
    fn trapped(self: &Arc<Self>, component: &str, serial: Serial) {
        let storm = {
            let mut slots = self.slots.lock();
            slots
                .get_mut(component)
                .is_some_and(|slot| slot.trapped(serial))
        };
        if storm {
            tracing::warn!(component, "a plugin failed too often and was taken out");
            self.publish();
            self.roll_back(component, serial);
        }
    }

    /// Looks for an earlier version of what has been quarantined, if it is a user's.
    fn roll_back(self: &Arc<Self>, component: &str, serial: Serial) {
        let failing = {
            let slots = self.slots.lock();
            slots
                .get(component)
                .and_then(|slot| slot.quarantined(serial))
        };
        let (Some(failing), Ok(runtime)) = (failing, tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (registry, component) = (PluginRegistry(Arc::clone(self)), component.to_owned());
        runtime.spawn(async move { registry.roll_back(&component, &failing).await });
    }

    fn publish(&self) {
        let slots = self.slots.lock();
        let disabled = self.disabled.lock();
        let enabled = slots
            .iter()
            .filter(|(name, _)| !disabled.contains(&***name));
        let active: Active = enabled.filter_map(|(_, slot)| slot.active()).collect();
        self.active.send_replace(active);
    }
}
