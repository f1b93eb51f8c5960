//! One plugin and one input: what `plugin run` shows once and `plugin bench` measures often. One file for each family.

mod admission;
mod controller;
mod documents;
mod scheduler;

use std::sync::Arc;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use pilothouse_plugin::{Engine, Revision, Settings, cluster::NoCluster};
use serde_json::Value;

use crate::flags::TrialFlags;

pub(super) use documents::Documents;

/// A plugin with its input, which may be called any number of times.
#[async_trait]
pub(super) trait Trial: Send {
    fn plugin(&self) -> &str;

    /// `admission/mutate`.
    fn interface(&self) -> &'static str;

    /// What is called; its figures and its log are this trial's own.
    fn revision(&self) -> &Revision;

    /// One call, and the answer as people read it.
    async fn call(&mut self) -> Result<Value>;

    /// The next call has a fresh instance.
    fn renew(&mut self);
}

/// A component that was loaded to be tried, and how.
pub(super) struct Bench {
    revision: Arc<Revision>,
    only: Option<String>,
    plugin: Option<String>,
    documents: Documents,
}

impl Bench {
    pub(super) async fn load(
        engine: &Engine,
        flags: &TrialFlags,
        settings: Settings,
        name: &str,
        wasm: &[u8],
    ) -> Result<Self> {
        let revision = Revision::load(engine, name, wasm, settings, Arc::new(NoCluster)).await?;
        Ok(Self {
            revision: Arc::new(revision),
            only: flags.interface.clone(),
            plugin: flags.plugin.clone(),
            documents: Documents::read(flags)?,
        })
    }

    /// Every plugin and interface that the input reaches; an error that says why if there is none.
    pub(super) fn trials(&self) -> Result<Vec<Box<dyn Trial>>> {
        let mut trials = Vec::new();
        let mut out_of_reach = Vec::new();
        let plugins = self.revision.manifest().plugins.iter().zip(0..);
        for (entry, index) in plugins {
            if self.plugin.as_ref().is_some_and(|only| *only != entry.name) {
                continue;
            }
            for family in entry.families() {
                let made = match family {
                    "admission" => admission::trials(&self.revision, index, &self.documents),
                    "scheduler" => scheduler::trials(&self.revision, index, &self.documents),
                    _ => controller::trials(&self.revision, index, &self.documents),
                };
                match made {
                    Ok(made) => trials.extend(made),
                    Err(why) => out_of_reach.push(format!("{}: {why:#}", entry.name)),
                }
            }
        }
        if let Some(only) = &self.only {
            trials.retain(|trial| {
                let interface = trial.interface();
                interface == only || interface.split('/').next() == Some(only)
            });
        }
        if trials.is_empty() && out_of_reach.is_empty() {
            let exported: Vec<String> = self
                .revision
                .interfaces()
                .iter()
                .map(ToString::to_string)
                .collect();
            out_of_reach.push(format!(
                "no plugin and interface is left to call; the component exports {}",
                exported.join(", ")
            ));
        }
        ensure!(!trials.is_empty(), "{}", out_of_reach.join("\n"));
        Ok(trials)
    }
}
