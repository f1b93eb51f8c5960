//! From the spec of a Plugin object to the settings of a component.

use std::{path::Path, time::Duration};

use k8s_openapi::{
    api::{admissionregistration::v1::RuleWithOperations, rbac::v1::PolicyRule},
    apimachinery::pkg::apis::meta::v1 as metav1,
};
use pilothouse_api::{
    plugin_kind::{self, Plugin, PluginCandidate, PluginLimits, PluginRollback},
    selector::LabelSelector,
};
use pilothouse_plugin::{
    Digest, Limits, LoadError, Mode, Settings, StormPolicy,
    admission::MatchRules,
    capability::{Grant, Rule},
    manifest::{FailurePolicy, OperationType, Scope, WebhookRule},
};
use serde_json::Value;

/// What the object asks for.
pub(super) fn of(object: &Plugin) -> Settings {
    let config = &object.spec.config;
    let granted = &object.spec.capabilities;
    Settings {
        config: (!config.is_empty()).then(|| Value::Object(config.clone())),
        limits: limits(object.spec.limits.as_ref()),
        granted: match granted.as_slice() {
            [] => Grant::default(),
            rules => Grant::Rules(rules.iter().map(rule).collect()),
        },
        failure_policy: object.spec.failure_policy.map(failure_policy),
        failure_policies: object
            .spec
            .failure_policies
            .iter()
            .map(|of| {
                (
                    of.extension_point.clone(),
                    failure_policy(of.failure_policy),
                )
            })
            .collect(),
        match_rules: object.spec.match_rules.as_ref().map(match_rules),
        mode: match object.spec.mode {
            Some(plugin_kind::PluginMode::Shadow) => Mode::Shadow,
            _ => Mode::Enforce,
        },
        storm: object.spec.rollback.as_ref().map(storm),
        revision_history_limit: object
            .spec
            .revision_history_limit
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(Settings::default().revision_history_limit),
    }
}

fn failure_policy(asked: plugin_kind::FailurePolicy) -> FailurePolicy {
    match asked {
        plugin_kind::FailurePolicy::Fail => FailurePolicy::Fail,
        plugin_kind::FailurePolicy::Ignore => FailurePolicy::Ignore,
    }
}

/// A candidate's: those of the plugin, but for what it says itself.
pub(super) fn of_candidate(object: &Plugin, candidate: &PluginCandidate) -> Settings {
    let settings = of(object);
    let config = &candidate.config;
    Settings {
        config: match config.is_empty() {
            true => settings.config,
            false => Some(Value::Object(config.clone())),
        },
        ..settings
    }
}

/// Percent; what is out of range is the nearest that is in it.
pub(super) fn weight(candidate: &PluginCandidate) -> u8 {
    let weight = candidate.weight.unwrap_or_default().clamp(0, 100);
    u8::try_from(weight).unwrap_or_default()
}

/// The host's defaults where the object says nothing, or nothing sensible.
fn storm(asked: &PluginRollback) -> StormPolicy {
    let positive =
        |value: Option<i32>| value.and_then(|v| u32::try_from(v).ok()).filter(|v| *v > 0);
    let mut policy = StormPolicy::default();
    if let Some(failures) = positive(asked.failures) {
        policy.traps = failures as usize;
    }
    if let Some(seconds) = positive(asked.within_seconds) {
        policy.within = Duration::from_secs(seconds.into());
    }
    policy
}

/// What the API server has validated; a selector that is wrong nevertheless selects nothing.
fn match_rules(asked: &plugin_kind::MatchRules) -> MatchRules {
    let selector = |asked: Option<&metav1::LabelSelector>| match asked {
        None => LabelSelector::everything(),
        selector => LabelSelector::from_meta(selector).unwrap_or_else(|_| LabelSelector::nothing()),
    };
    MatchRules {
        rules: asked.rules.iter().map(webhook_rule).collect(),
        namespace_selector: selector(asked.namespace_selector.as_ref()),
        object_selector: selector(asked.object_selector.as_ref()),
    }
}

fn webhook_rule(asked: &RuleWithOperations) -> WebhookRule {
    let operation = |word: &String| match word.as_str() {
        "CREATE" => Some(OperationType::Create),
        "UPDATE" => Some(OperationType::Update),
        "DELETE" => Some(OperationType::Delete),
        "CONNECT" => Some(OperationType::Connect),
        "*" => Some(OperationType::All),
        _ => None,
    };
    WebhookRule {
        operations: asked
            .operations
            .iter()
            .flatten()
            .filter_map(operation)
            .collect(),
        api_groups: asked.api_groups.clone().unwrap_or_default(),
        api_versions: asked.api_versions.clone().unwrap_or_default(),
        resources: asked.resources.clone().unwrap_or_default(),
        scope: match asked.scope.as_deref() {
            Some("Cluster") => Scope::Cluster,
            Some("Namespaced") => Scope::Namespaced,
            _ => Scope::All,
        },
    }
}

/// The host's defaults where the object says nothing, or nothing sensible.
fn limits(asked: Option<&PluginLimits>) -> Limits {
    let default = Limits::default();
    let Some(asked) = asked else { return default };
    Limits {
        time_ms: positive(asked.time_ms).unwrap_or(default.time_ms),
        wait_ms: positive(asked.wait_ms).unwrap_or(default.wait_ms),
        instructions: positive(asked.instructions),
        memory_bytes: positive(asked.memory_bytes).unwrap_or(default.memory_bytes),
        table_elements: positive(asked.table_elements).unwrap_or(default.table_elements),
        instances: positive(asked.instances).unwrap_or(default.instances),
        output_bytes: positive(asked.output_bytes).unwrap_or(default.output_bytes),
        host_calls: positive(asked.host_calls).unwrap_or(default.host_calls),
        writes_per_second: positive(asked.writes_per_second).unwrap_or(default.writes_per_second),
        log_bytes: positive(asked.log_bytes).unwrap_or(default.log_bytes),
    }
}

fn positive<T: TryFrom<i64>>(value: Option<i64>) -> Option<T> {
    value.filter(|value| *value > 0)?.try_into().ok()
}

fn rule(rule: &PolicyRule) -> Rule {
    Rule {
        verbs: rule.verbs.clone(),
        api_groups: rule.api_groups.clone().unwrap_or_default(),
        resources: rule.resources.clone().unwrap_or_default(),
        resource_names: rule.resource_names.clone().unwrap_or_default(),
    }
}

/// Reads a component; `digest` is what it must have, if anything.
pub(super) async fn read(path: &Path, digest: &str) -> Result<Vec<u8>, LoadError> {
    let wasm = tokio::fs::read(path)
        .await
        .map_err(|error| LoadError::Io(format!("{}: {error}", path.display())))?;
    let found = Digest::of(&wasm).to_string();
    match digest.is_empty() || digest == found {
        true => Ok(wasm),
        false => Err(LoadError::Io(format!(
            "{} has the digest {found}, not {digest} as spec.source.digest says",
            path.display()
        ))),
    }
}
