//! From what the registry says of a component to the status of its Plugin object.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use pilothouse_api::plugin_kind::{Plugin, PluginStatus as ObjectStatus};
use pilothouse_plugin::{Digest, PluginStatus, Source};

/// The status that the object should have. While what it asks for is being loaded, the generation observed is the one before.
pub(super) fn of(status: &PluginStatus, object: &Plugin, loading: bool) -> ObjectStatus {
    let digest = status.digest.map(|d| d.to_string()).unwrap_or_default();
    let before = object.status.as_ref();
    let loaded_at = match before {
        Some(before) if before.digest == digest => before.loaded_at.clone(),
        _ if digest.is_empty() => String::new(),
        _ => second(Timestamp::now()).to_string(),
    };
    let generation = match loading {
        true => before.map_or(0, |before| before.observed_generation),
        false => object.metadata.generation.unwrap_or_default(),
    };
    let figures = &status.figures;
    ObjectStatus {
        active_revision: digest.clone(),
        digest,
        previous_revision: status
            .previous
            .map(|d: Digest| d.to_string())
            .unwrap_or_default(),
        history: status.history.clone(),
        interfaces: status.interfaces.clone(),
        conditions: status
            .conditions
            .iter()
            .map(|c| condition(c, generation))
            .collect(),
        state: status.state.as_str().to_owned(),
        calls: figures.calls.cast_signed(),
        traps: figures.traps.values().sum::<u64>().cast_signed(),
        p50_micros: figures.p50_us.round() as i64,
        p99_micros: figures.p99_us.round() as i64,
        loaded_at,
        observed_generation: generation,
        plugins: status.plugins.clone(),
        source: source(&status.source).to_owned(),
    }
}

fn source(source: &Source) -> &'static str {
    match source {
        Source::BuiltIn => "BuiltIn",
        Source::File(_) => "Directory",
        Source::Object(_) => "Object",
    }
}

fn condition(condition: &pilothouse_plugin::Condition, generation: i64) -> Condition {
    let changed = i64::try_from(condition.last_transition_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    Condition {
        type_: condition.condition_type.as_str().to_owned(),
        status: if condition.status { "True" } else { "False" }.to_owned(),
        reason: condition.reason.to_owned(),
        message: condition.message.clone(),
        last_transition_time: Time(second(changed.unwrap_or_default())),
        observed_generation: Some(generation),
    }
}

/// Times of the API are whole seconds.
fn second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
