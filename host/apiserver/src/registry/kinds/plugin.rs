//! Plugins, Pilothouse's own kind: which components run, with what configuration, limits and rights.

#[cfg(test)]
mod tests;

use std::path::{Component, Path as FilePath};

use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
    plugin_kind::{MatchRules, Plugin, PluginCandidate, PluginLimits, PluginSource},
};
use serde_json::{Value, json};

use super::{cells, checks, describe};
use crate::registry::{
    printing::Column,
    strategy::{Context, Strategy},
};

/// `sha256:` and so many hexadecimal digits.
const DIGEST_DIGITS: usize = 64;
/// Those at which a failure can be passed over.
const EXTENSION_POINTS: [&str; 8] = [
    "admission/mutate",
    "admission/validate",
    "scheduler/cycle",
    "scheduler/filter",
    "scheduler/post-bind",
    "scheduler/pre-bind",
    "scheduler/reserve",
    "scheduler/score",
];
/// So many digits of a digest are shown.
const SHOWN_DIGITS: usize = 12;

pub(super) struct PluginStrategy;

impl Strategy for PluginStrategy {
    type Object = Plugin;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            storage_prefix: "plugins.pilothouse.dev/plugins".into(),
            ..describe::cluster_scoped("plugins.pilothouse.dev", "v1alpha1", "plugins", "Plugin")
        }
    }

    fn prepare_for_create(&self, _context: &Context, plugin: &mut Plugin) {
        plugin.status = None;
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut Plugin, old: &Plugin) {
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(&self) -> Option<fn(&mut Plugin, &Plugin)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn generation_changed(&self, new: &Plugin, old: &Plugin) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, plugin: &Plugin) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        validate_source(&mut errors, &path.child("source"), &plugin.spec.source);
        if let Some(rules) = &plugin.spec.match_rules {
            validate_rules(&mut errors, &path.child("matchRules"), rules);
        }
        if let Some(limits) = &plugin.spec.limits {
            validate_limits(&mut errors, &path.child("limits"), limits);
        }
        if let Some(limit) = plugin
            .spec
            .revision_history_limit
            .filter(|limit| *limit < 0)
        {
            let path = path.child("revisionHistoryLimit");
            errors.push(FieldError::invalid(&path, limit, checks::NOT_NEGATIVE));
        }
        for (i, policy) in plugin.spec.failure_policies.iter().enumerate() {
            let path = path
                .child("failurePolicies")
                .index(i)
                .child("extensionPoint");
            let before = &plugin.spec.failure_policies[..i];
            if before
                .iter()
                .any(|b| b.extension_point == policy.extension_point)
            {
                let value = policy.extension_point.as_str();
                errors.push(FieldError::duplicate(&path, value));
            } else {
                checks::one_of(
                    &mut errors,
                    &path,
                    &policy.extension_point,
                    &EXTENSION_POINTS,
                );
            }
        }
        if let Some(candidate) = &plugin.spec.candidate {
            validate_candidate(&mut errors, &path.child("candidate"), candidate);
        }
        if let Some(rollback) = &plugin.spec.rollback {
            let path = path.child("rollback");
            for (field, value) in [
                ("failures", rollback.failures),
                ("withinSeconds", rollback.within_seconds),
            ] {
                if let Some(value) = value.filter(|value| *value <= 0) {
                    let path = path.child(field);
                    errors.push(FieldError::invalid(&path, value, checks::POSITIVE));
                }
            }
        }
        for (i, rule) in plugin.spec.capabilities.iter().enumerate() {
            if rule.verbs.is_empty() {
                let path = path.child("capabilities").index(i).child("verbs");
                let why = "verbs must contain at least one value";
                errors.push(FieldError::required(&path, why));
            }
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("State", "Whether it serves."),
            Column::string("Interfaces", "Interfaces that the component exports."),
            Column::string("Digest", "Digest of the component that serves."),
            Column::integer("Calls", "Calls since it was loaded."),
            Column::string("P50", "Half of its calls take at most so long."),
            Column::string("P99", "99 of 100 calls take at most so long."),
            Column::integer("Traps", "Calls that failed since it was loaded."),
            Column::AGE,
            Column::string("Path", "File of the component.").wide(),
        ]
    }

    fn row(&self, plugin: &Plugin, now: jiff::Timestamp) -> Vec<Value> {
        let status = plugin.status.clone().unwrap_or_default();
        vec![
            json!(plugin.metadata.name),
            json!(cells::or_none(&status.state)),
            json!(cells::or_none(&status.interfaces.join(","))),
            json!(cells::or_none(short(&status.digest))),
            json!(status.calls),
            json!(micros(status.p50_micros)),
            json!(micros(status.p99_micros)),
            json!(status.traps),
            json!(cells::since(
                plugin.metadata.creation_timestamp.as_ref(),
                now
            )),
            json!(cells::or_none(&plugin.spec.source.path)),
        ]
    }
}

fn validate_source(errors: &mut ErrorList, path: &Path, source: &PluginSource) {
    let file = source.path.as_str();
    let below = |c: Component<'_>| matches!(c, Component::Normal(_) | Component::CurDir);
    if file.is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
    } else if !FilePath::new(file).components().all(below)
        || FilePath::new(file).file_name().is_none()
    {
        errors.push(FieldError::invalid(
            &path.child("path"),
            file,
            "must be the path of a file below the plugin directory",
        ));
    }
    let digits = source.digest.strip_prefix("sha256:").unwrap_or_default();
    let hexadecimal = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let right = digits.len() == DIGEST_DIGITS && digits.bytes().all(hexadecimal);
    if !source.digest.is_empty() && !right {
        errors.push(FieldError::invalid(
            &path.child("digest"),
            source.digest.as_str(),
            "must be 'sha256:' and 64 lower case hexadecimal digits",
        ));
    }
}

fn validate_candidate(errors: &mut ErrorList, path: &Path, candidate: &PluginCandidate) {
    let source = path.child("source");
    validate_source(errors, &source, &candidate.source);
    let file = FilePath::new(&candidate.source.path);
    let parent = file.parent().unwrap_or(file);
    if !candidate.source.path.is_empty() && parent.components().all(|c| c == Component::CurDir) {
        errors.push(FieldError::invalid(
            &source.child("path"),
            candidate.source.path.as_str(),
            "must be in a subdirectory of the plugin directory: a file right in it is a plugin itself",
        ));
    }
    if let Some(weight) = candidate
        .weight
        .filter(|weight| !(0..=100).contains(weight))
    {
        errors.push(FieldError::invalid(
            &path.child("weight"),
            weight,
            "must be between 0 and 100, inclusive",
        ));
    }
}

fn validate_rules(errors: &mut ErrorList, path: &Path, rules: &MatchRules) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for (i, rule) in rules.rules.iter().enumerate() {
        let path = path.child("rules").index(i);
        for (field, values) in [
            ("operations", &rule.operations),
            ("apiGroups", &rule.api_groups),
            ("apiVersions", &rule.api_versions),
            ("resources", &rule.resources),
        ] {
            if values.as_ref().is_none_or(|v| v.is_empty()) {
                errors.push(FieldError::required(&path.child(field), ""));
            }
        }
        for (i, operation) in rule.operations.iter().flatten().enumerate() {
            let path = path.child("operations").index(i);
            checks::one_of(errors, &path, operation, &OPERATIONS);
        }
    }
    let selector = rules.namespace_selector.as_ref();
    checks::label_selector(errors, &path.child("namespaceSelector"), selector);
    let selector = rules.object_selector.as_ref();
    checks::label_selector(errors, &path.child("objectSelector"), selector);
}

fn validate_limits(errors: &mut ErrorList, path: &Path, limits: &PluginLimits) {
    for (field, limit) in [
        ("timeMs", limits.time_ms),
        ("memoryBytes", limits.memory_bytes),
        ("outputBytes", limits.output_bytes),
        ("hostCalls", limits.host_calls),
        ("writesPerSecond", limits.writes_per_second),
        ("waitMs", limits.wait_ms),
        ("instructions", limits.instructions),
        ("tableElements", limits.table_elements),
        ("instances", limits.instances),
        ("logBytes", limits.log_bytes),
    ] {
        if let Some(limit) = limit.filter(|limit| *limit <= 0) {
            errors.push(FieldError::invalid(
                &path.child(field),
                limit,
                checks::POSITIVE,
            ));
        }
    }
}

/// A digest's first digits.
fn short(digest: &str) -> &str {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.get(..SHOWN_DIGITS).unwrap_or(digits)
}

/// `840µs`, `1.2ms`.
fn micros(micros: i64) -> String {
    match micros {
        0 => cells::NONE.to_owned(),
        ..1000 => format!("{micros}µs"),
        _ => format!("{}.{}ms", micros / 1000, micros % 1000 / 100),
    }
}
