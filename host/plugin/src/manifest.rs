//! What a component says about itself. wit/README.md describes the fields; unknown ones are refused, so that a typing error or a
//! wish that this version cannot grant is seen at load and not in production.

mod admission;
mod controller;
mod scheduler;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::{capability::Rule, error::LoadError, interfaces::Interface, probe};

pub use admission::{
    AdmissionSettings, ChosenPolicies, FailurePolicy, ObjectNeed, OperationType, Phase, Scope,
    WebhookRule,
};
pub use controller::{ControllerSettings, KeyMap, Watch};
pub use scheduler::{ExtensionPoint, Normalize, SchedulerSettings};

/// The manifest. The position of a plugin is the index by which the host calls it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    pub plugins: Vec<PluginEntry>,
}

/// One plugin of a component: a section for each family that it belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginEntry {
    /// A DNS label, or CamelCase as Kubernetes names its plugins. Its user is `system:plugin:<name>`.
    pub name: String,
    /// What it may do to the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Rule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionSettings>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerSettings>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<SchedulerSettings>,
}

impl PluginEntry {
    /// The families that it has a section for.
    pub fn families(&self) -> impl Iterator<Item = &'static str> {
        let sections = [
            (self.admission.is_some(), "admission"),
            (self.controller.is_some(), "controller"),
            (self.scheduler.is_some(), "scheduler"),
        ];
        sections
            .into_iter()
            .filter_map(|(present, family)| present.then_some(family))
    }
}

const MAX_PLUGINS: usize = 64;
const MAX_NAME: usize = 63;

impl Manifest {
    /// Reads and checks the JSON of `describe` against what the component exports.
    pub fn read(json: &str, interfaces: &[Interface]) -> Result<Self, LoadError> {
        let manifest: Self =
            serde_json::from_str(json).map_err(|error| LoadError::Manifest(error.to_string()))?;
        manifest.check(interfaces).map_err(LoadError::Manifest)?;
        Ok(manifest)
    }

    /// The same with the failure policies that the owner of the component chose for all its plugins: in general, and for single
    /// interfaces.
    pub(crate) fn with_failure_policies(
        mut self,
        general: Option<FailurePolicy>,
        single: &ChosenPolicies,
    ) -> Self {
        for entry in &mut self.plugins {
            if let Some(admission) = &mut entry.admission {
                admission.failure_policy = general.unwrap_or(admission.failure_policy);
                admission.chosen_policies.clone_from(single);
            }
            if let Some(scheduler) = &mut entry.scheduler {
                scheduler.failure_policy = general.unwrap_or(scheduler.failure_policy);
                scheduler.chosen_policies.clone_from(single);
            }
        }
        self
    }

    fn check(&self, interfaces: &[Interface]) -> Result<(), String> {
        if self.plugins.is_empty() || self.plugins.len() > MAX_PLUGINS {
            let count = self.plugins.len();
            return Err(format!(
                "it has {count} plugins; 1 to {MAX_PLUGINS} are possible"
            ));
        }
        let exported = probe::families(interfaces);
        let mut seen = HashSet::new();
        for entry in &self.plugins {
            let name = &entry.name;
            if !valid_name(name) {
                return Err(format!("{name:?} is no valid name of a plugin"));
            }
            if entry.families().next().is_none() {
                return Err(format!("plugin {name} has no section for any family"));
            }
            for family in entry.families() {
                if !exported.contains(family) {
                    return Err(format!(
                        "plugin {name} has a section {family:?}, but the component exports no interface of it"
                    ));
                }
                if !seen.insert((family, name)) {
                    return Err(format!("there are two {family} plugins named {name}"));
                }
            }
            if let Some(settings) = &entry.admission {
                settings.check(name, interfaces)?;
            }
            if let Some(settings) = &entry.scheduler {
                settings.check(name, interfaces)?;
            }
        }
        Ok(())
    }
}

/// Letters, digits, `-` and `.` within; at most 63 characters, as it becomes part of a user name and a label.
fn valid_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let outer = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.len() <= MAX_NAME
        && outer(name.chars().next())
        && outer(name.chars().next_back())
        && name.chars().all(inner)
}

#[cfg(test)]
mod tests;
