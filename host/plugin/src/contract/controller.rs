//! The contract of controllers, as an executable statement. A subject (a component, or native code in tests) is run in a small
//! world of JSON objects with seeded trouble: conflicts, stale caches, lost and repeated events, children that disappear.
//!
//! Clauses: it does not trap; it makes no call outside its capabilities; it converges, to as many objects as without trouble;
//! with nothing changed a second reconcile writes nothing; it changes and deletes only what it owns (for controllers whose
//! manifest maps events by owner).

mod keys;
mod samples;
mod single_run;
mod world;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use super::{Contract, Violation};
use crate::{
    capability::Capabilities,
    cluster::GroupVersionResource,
    controller::{ControllerCalls, Reconciled},
    error::CallError,
    manifest::{ControllerSettings, KeyMap, PluginEntry},
    registry::SmokeContract,
    revision::Revision,
};

pub use keys::Key;
pub use single_run::{Ran, SingleRun};
pub use world::World;

const TRAPS: &str = "does-not-trap";
const CAPABILITIES: &str = "stays-within-its-capabilities";
const CONVERGES: &str = "converges";
const QUIET: &str = "second-reconcile-writes-nothing";
const OWNS: &str = "touches-only-what-it-owns";

/// Seeds of trouble that the whole contract tries.
const TROUBLES: u64 = 11;

/// Runs of one key after which a controller that still writes counts as one that never converges.
const PATIENCE: u32 = 40;

/// What is held to the contract.
#[async_trait]
pub trait Subject: Send + Sync {
    async fn reconcile(&self, key: &Key) -> Result<Reconciled, CallError>;
}

/// One plugin of a component that was loaded with the world as its cluster.
pub struct ComponentSubject {
    pub calls: ControllerCalls,
    pub plugin: u32,
}

#[async_trait]
impl Subject for ComponentSubject {
    async fn reconcile(&self, key: &Key) -> Result<Reconciled, CallError> {
        self.calls
            .reconcile(self.plugin, &key.namespace, &key.name)
            .await
    }
}

/// An object that exists at the beginning.
#[derive(Clone, Debug)]
pub struct Fixture {
    pub resource: GroupVersionResource,
    pub object: Value,
}

/// All clauses, on sample objects of the resources that a controller's `self` watches name.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControllerContract;

/// Before a reload takes effect: each sample is reconciled once, and so is one that is not there. Only traps and limits count.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControllerSmoke;

#[async_trait]
impl Contract for ControllerContract {
    fn family(&self) -> &'static str {
        "controller"
    }

    fn clauses(&self) -> &'static [&'static str] {
        &[TRAPS, CAPABILITIES, CONVERGES, QUIET, OWNS]
    }

    async fn run(&self, revision: &Revision, seed: u64) -> Vec<Violation> {
        let seeds = seed.saturating_add(1)..seed.saturating_add(1 + TROUBLES);
        let mut violations = Vec::new();
        for (entry, settings, world, subject) in subjects(revision) {
            let fixtures = samples::of(settings);
            let verdict = check(
                &entry.name,
                &subject,
                settings,
                &world,
                &fixtures,
                seeds.clone(),
            )
            .await;
            violations.extend(verdict.err());
        }
        violations
    }
}

#[async_trait]
impl SmokeContract for ControllerSmoke {
    fn family(&self) -> &'static str {
        "controller"
    }

    async fn check(&self, revision: &Revision) -> Result<(), String> {
        for (_, settings, world, subject) in subjects(revision) {
            world.reset(&samples::of(settings), 0, false);
            let mut keys = keys::all(settings, &world.objects());
            keys.push(Key::new("default", "not-there"));
            for key in keys {
                world.begin(&key);
                let answer = subject.reconcile(&key).await;
                world.end(&key);
                // a refusal is an answer; only a failed call counts here
                drop(answer.map_err(|error| format!("{TRAPS}: {error}"))?);
            }
        }
        Ok(())
    }
}

/// The controllers of a component, each in a world of its own.
fn subjects(
    revision: &Revision,
) -> Vec<(
    &PluginEntry,
    &ControllerSettings,
    Arc<World>,
    ComponentSubject,
)> {
    let plugins = revision.manifest().plugins.iter().zip(0..);
    plugins
        .filter_map(|(entry, plugin)| {
            let settings = entry.controller.as_ref()?;
            let granted = revision.settings().granted.clone();
            let world = World::new(Capabilities::of(entry, granted));
            let isolated = Arc::new(revision.isolated(world.clone()));
            let calls = ControllerCalls::new(isolated);
            Some((entry, settings, world, ComponentSubject { calls, plugin }))
        })
        .collect()
}

/// Checks every clause, with as many seeds as asked. `world` must be the cluster that the subject uses; it is emptied first.
pub async fn check(
    name: &str,
    subject: &dyn Subject,
    settings: &ControllerSettings,
    world: &Arc<World>,
    fixtures: &[Fixture],
    seeds: std::ops::Range<u64>,
) -> Result<(), Violation> {
    let trial = Trial {
        name,
        subject,
        settings,
        world,
        fixtures,
    };
    let calm = trial.run(0, false).await?;
    for seed in seeds {
        let stormy = trial.run(seed, true).await?;
        if stormy != calm {
            let why = format!("there are {stormy:?} objects after trouble, {calm:?} without");
            return Err(trial.broken(CONVERGES, &why, seed));
        }
    }
    Ok(())
}

struct Trial<'a> {
    name: &'a str,
    subject: &'a dyn Subject,
    settings: &'a ControllerSettings,
    world: &'a Arc<World>,
    fixtures: &'a [Fixture],
}

/// Objects by resource and namespace.
type Census = BTreeMap<String, usize>;

impl Trial<'_> {
    async fn run(&self, seed: u64, trouble: bool) -> Result<Census, Violation> {
        self.world
            .reset(self.fixtures, seed, self.guards_ownership());
        if trouble {
            for _ in 0..6 {
                self.troubled_round(seed).await?;
            }
        }
        self.world.calm_down();
        self.converge(seed).await?;
        self.second_reconcile(seed).await?;
        Ok(self.world.census())
    }

    /// Some keys run, some twice, some not at all; errors are ordinary here.
    async fn troubled_round(&self, seed: u64) -> Result<(), Violation> {
        self.world.make_trouble();
        for key in self.keys() {
            for _ in 0..self.world.chance(3) {
                let _ = self.reconcile(&key, seed).await?;
            }
        }
        Ok(())
    }

    async fn converge(&self, seed: u64) -> Result<(), Violation> {
        let mut last_error = String::new();
        for _ in 0..PATIENCE {
            let before = self.world.writes();
            last_error.clear();
            for key in self.keys() {
                if let Err(message) = self.reconcile(&key, seed).await? {
                    last_error = message;
                }
            }
            if self.world.writes() == before && last_error.is_empty() {
                return Ok(());
            }
        }
        let detail = match last_error.as_str() {
            "" => format!(
                "it still writes after {PATIENCE} rounds: {}",
                self.world.last_writes()
            ),
            error => format!("it still fails after {PATIENCE} rounds: {error}"),
        };
        Err(self.broken(CONVERGES, &detail, seed))
    }

    async fn second_reconcile(&self, seed: u64) -> Result<(), Violation> {
        let before = self.world.attempts();
        for key in self.keys() {
            let _ = self.reconcile(&key, seed).await?;
        }
        if self.world.attempts() == before {
            return Ok(());
        }
        Err(self.broken(QUIET, &self.world.last_writes(), seed))
    }

    async fn reconcile(&self, key: &Key, seed: u64) -> Result<Reconciled, Violation> {
        self.world.begin(key);
        let answer = self.subject.reconcile(key).await;
        self.world.end(key);
        if let Some((clause, detail)) = self.world.take_violation() {
            return Err(self.broken(clause, &detail, seed));
        }
        answer.map_err(|error| self.broken(TRAPS, &error.to_string(), seed))
    }

    /// A seed replays it.
    fn broken(&self, clause: &'static str, why: &str, seed: u64) -> Violation {
        Violation {
            plugin: self.name.to_owned(),
            clause,
            why: format!("{why} (seed {seed})"),
        }
    }

    fn keys(&self) -> Vec<Key> {
        keys::all(self.settings, &self.world.objects())
    }

    fn guards_ownership(&self) -> bool {
        let by_owner = |map: &KeyMap| matches!(map, KeyMap::Owner { .. });
        self.settings
            .watches
            .iter()
            .any(|watch| by_owner(&watch.map))
    }
}

#[cfg(test)]
mod tests;
