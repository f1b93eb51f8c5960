//! From the spec of a Plugin object to the settings of a component.

use std::path::Path;

use k8s_openapi::api::rbac::v1::PolicyRule;
use pilothouse_api::plugin_kind::{Plugin, PluginLimits};
use pilothouse_plugin::{Digest, Limits, LoadError, Settings, capability::Rule};
use serde_json::Value;

/// What the object asks for.
pub(super) fn of(object: &Plugin) -> Settings {
    let config = &object.spec.config;
    let granted = &object.spec.capabilities;
    Settings {
        config: (!config.is_empty()).then(|| Value::Object(config.clone())),
        limits: limits(object.spec.limits.as_ref()),
        granted: (!granted.is_empty()).then(|| granted.iter().map(rule).collect()),
    }
}

/// The host's defaults where the object says nothing, or nothing sensible.
fn limits(asked: Option<&PluginLimits>) -> Limits {
    let mut limits = Limits::default();
    let Some(asked) = asked else { return limits };
    let positive =
        |value: Option<i64>| value.and_then(|v| u64::try_from(v).ok()).filter(|v| *v > 0);
    if let Some(time_ms) = positive(asked.time_ms) {
        limits.time_ms = time_ms;
    }
    if let Some(bytes) = positive(asked.memory_bytes).and_then(|v| usize::try_from(v).ok()) {
        limits.memory_bytes = bytes;
    }
    if let Some(bytes) = positive(asked.output_bytes).and_then(|v| usize::try_from(v).ok()) {
        limits.output_bytes = bytes;
    }
    if let Some(calls) = positive(asked.host_calls).and_then(|v| u32::try_from(v).ok()) {
        limits.host_calls = calls;
    }
    limits
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
