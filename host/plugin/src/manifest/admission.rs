//! The `admission` section. Rules are those of webhook configurations.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#matching-requests-rules>

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::interfaces::Interface;

/// Which requests an admission plugin sees, and how it takes part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AdmissionSettings {
    /// Any of them must match.
    pub rules: Vec<WebhookRule>,
    #[serde(default)]
    pub object: ObjectNeed,
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// Lower runs first; those that ship use -1000 to -1. Equal ones run in the order of their names.
    #[serde(default)]
    pub order: i32,
    /// The phases that it takes part in, of those whose interface the component exports; absent: all of them.
    #[serde(default = "both_phases")]
    pub phases: Vec<Phase>,
    /// What its owner says of single interfaces, by `admission/mutate` and the like.
    #[serde(skip)]
    pub chosen_policies: ChosenPolicies,
}

/// Failure policies by interface: `admission/validate`, `scheduler/filter`.
pub type ChosenPolicies = BTreeMap<String, FailurePolicy>;

/// A rule as a webhook configuration has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookRule {
    pub operations: Vec<OperationType>,
    /// `""` is the core group, `"*"` any.
    pub api_groups: Vec<String>,
    pub api_versions: Vec<String>,
    /// `pods`, `pods/status`, `*` (no subresources), `pods/*`, `*/status`, `*/*`.
    pub resources: Vec<String>,
    #[serde(default)]
    pub scope: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum OperationType {
    Create,
    Update,
    Delete,
    Connect,
    #[serde(rename = "*")]
    All,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    Cluster,
    Namespaced,
    #[default]
    #[serde(rename = "*")]
    All,
}

/// What the plugin gets of the objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectNeed {
    /// It judges by names alone; nothing is encoded for it.
    None,
    #[default]
    Full,
}

/// What a trap, limit or unavailable plugin means for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailurePolicy {
    /// The request is refused.
    #[default]
    Fail,
    /// The request goes on.
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Mutate,
    Validate,
}

impl Phase {
    /// The interface's name in `pilothouse:admission`.
    pub fn interface(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

fn both_phases() -> Vec<Phase> {
    vec![Phase::Mutate, Phase::Validate]
}

impl AdmissionSettings {
    pub(super) fn check(&self, name: &str, interfaces: &[Interface]) -> Result<(), String> {
        let exported = |phase: &Phase| {
            interfaces
                .iter()
                .any(|i| i.family() == "admission" && i.name == phase.interface())
        };
        if !self.phases.iter().any(exported) {
            return Err(format!(
                "plugin {name} takes part in no phase whose interface the component exports"
            ));
        }
        Ok(())
    }

    /// What a failure in this phase means.
    pub fn failure_policy_in(&self, phase: Phase) -> FailurePolicy {
        let name = match phase {
            Phase::Mutate => "admission/mutate",
            Phase::Validate => "admission/validate",
        };
        let chosen = self.chosen_policies.get(name);
        chosen.copied().unwrap_or(self.failure_policy)
    }

    /// Whether a request reaches the plugin. `namespaced` is the scope of the resource; a Namespace is cluster-scoped.
    pub fn matches(
        &self,
        operation: OperationType,
        group: &str,
        version: &str,
        resource: &str,
        subresource: &str,
        namespaced: bool,
    ) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.matches(operation, group, version, resource, subresource, namespaced))
    }
}

impl WebhookRule {
    /// See [`AdmissionSettings::matches`].
    pub fn matches(
        &self,
        operation: OperationType,
        group: &str,
        version: &str,
        resource: &str,
        subresource: &str,
        namespaced: bool,
    ) -> bool {
        (self.operations.contains(&OperationType::All) || self.operations.contains(&operation))
            && has(&self.api_groups, group)
            && has(&self.api_versions, version)
            && self
                .resources
                .iter()
                .any(|r| covers(r, resource, subresource))
            && match self.scope {
                Scope::All => true,
                Scope::Namespaced => namespaced,
                Scope::Cluster => !namespaced,
            }
    }
}

fn has(list: &[String], word: &str) -> bool {
    list.iter().any(|entry| entry == "*" || entry == word)
}

/// `*` excludes subresources, `*/*` includes them.
fn covers(rule: &str, resource: &str, subresource: &str) -> bool {
    let (of, sub) = rule.split_once('/').unwrap_or((rule, ""));
    (of == "*" || of == resource) && (sub == "*" || sub == subresource)
}
