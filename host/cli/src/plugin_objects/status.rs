//! From what the registry says of a component to the status of its Plugin object.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use pilothouse_api::plugin_kind::{
    Plugin, PluginCandidateStatus, PluginDifference, PluginShadowStatus,
    PluginStatus as ObjectStatus,
};
use pilothouse_plugin::{
    CandidateStatus, Digest, PluginStatus, Source,
    shadow::{Difference, ShadowFigures},
};

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
        candidate: status.candidate.as_ref().map(candidate),
        shadow: shadow(status).map(shadow_status),
    }
}

fn candidate(candidate: &CandidateStatus) -> PluginCandidateStatus {
    let figures = &candidate.figures;
    PluginCandidateStatus {
        digest: candidate.digest.map(|d| d.to_string()).unwrap_or_default(),
        state: candidate.state.as_str().to_owned(),
        message: candidate.message.clone(),
        weight: candidate.weight.into(),
        calls: figures.calls.cast_signed(),
        traps: figures.traps.values().sum::<u64>().cast_signed(),
        p50_micros: figures.p50_us.round() as i64,
        p99_micros: figures.p99_us.round() as i64,
    }
}

/// Of what does not act: the plugin itself, or its candidate.
fn shadow(status: &PluginStatus) -> Option<&ShadowFigures> {
    let candidate = status.candidate.as_ref();
    let candidate = candidate.filter(|candidate| candidate.weight == 0);
    let beside = candidate.map(|candidate| &candidate.shadow);
    status.shadow.as_ref().or(beside)
}

fn shadow_status(figures: &ShadowFigures) -> PluginShadowStatus {
    PluginShadowStatus {
        compared: figures.compared.cast_signed(),
        dropped: figures.dropped.cast_signed(),
        differences: figures.differences.values().sum::<u64>().cast_signed(),
        samples: figures.samples.iter().map(difference).collect(),
    }
}

fn difference(difference: &Difference) -> PluginDifference {
    let at = i64::try_from(difference.at_ms).unwrap_or_default();
    let at = Timestamp::from_millisecond(at).unwrap_or_default();
    PluginDifference {
        time: second(at).to_string(),
        kind: difference.kind.as_str().to_owned(),
        about: difference.about.clone(),
        acted: difference.acted.clone(),
        shadow: difference.shadow.clone(),
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
