//! Between `events.k8s.io/v1` and `v1`: the same values under other names, so only the outermost names are touched.

use k8s_openapi::api::{core, events};
use pilothouse_api::Status;
use serde_json::value::RawValue;

type Fields = std::collections::BTreeMap<String, Box<RawValue>>;

/// Names in `events.k8s.io/v1` and what they are in `v1`.
const RENAMED: [(&str, &str); 7] = [
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

const CORE: &str = "v1";
const EVENTS: &str = "events.k8s.io/v1";

pub(super) fn to_stored(json: &[u8]) -> Result<Vec<u8>, Status> {
    let mut fields = read(json)?;
    if !fields.contains_key("regarding") {
        fields.insert("regarding".to_owned(), raw("{}")?); // required in v1
    }
    write(fields, CORE, |name| {
        let renamed = RENAMED.iter().find(|(new, _)| *new == name);
        let core_only = RENAMED.iter().any(|(_, old)| *old == name);
        match (renamed, core_only) {
            (Some((_, old)), _) => Some(old),
            (None, true) => None, // a field of v1 is unknown in the other version
            (None, false) => Some(name),
        }
    })
}

pub(super) fn from_stored(json: &[u8]) -> Result<Vec<u8>, Status> {
    write(read(json)?, EVENTS, |name| {
        let renamed = RENAMED.iter().find(|(_, old)| *old == name);
        Some(renamed.map_or(name, |(new, _)| new))
    })
}

fn read(json: &[u8]) -> Result<Fields, Status> {
    serde_json::from_slice(json)
        .map_err(|error| Status::bad_request(format!("event cannot be converted: {error}")))
}

fn raw(json: &str) -> Result<Box<RawValue>, Status> {
    RawValue::from_string(json.to_owned()).map_err(Status::internal)
}

fn write(
    fields: Fields,
    api_version: &str,
    rename: impl Fn(&str) -> Option<&str>,
) -> Result<Vec<u8>, Status> {
    let mut renamed = Fields::new();
    for (name, value) in fields {
        if let Some(name) = rename(&name) {
            renamed.insert(name.to_owned(), value);
        }
    }
    renamed.insert("apiVersion".to_owned(), raw(&format!("{api_version:?}"))?);
    serde_json::to_vec(&renamed).map_err(Status::internal)
}

/// The typed form of the same, for judging and printing.
pub(super) fn to_core(event: &events::v1::Event) -> core::v1::Event {
    core::v1::Event {
        action: event.action.clone(),
        count: event.deprecated_count,
        event_time: event.event_time.clone(),
        first_timestamp: event.deprecated_first_timestamp.clone(),
        involved_object: event.regarding.clone().unwrap_or_default(),
        last_timestamp: event.deprecated_last_timestamp.clone(),
        message: event.note.clone(),
        metadata: event.metadata.clone(),
        reason: event.reason.clone(),
        related: event.related.clone(),
        reporting_component: event.reporting_controller.clone(),
        reporting_instance: event.reporting_instance.clone(),
        series: event.series.as_ref().map(|series| core::v1::EventSeries {
            count: Some(series.count),
            last_observed_time: Some(series.last_observed_time.clone()),
        }),
        source: event.deprecated_source.clone(),
        type_: event.type_.clone(),
    }
}
