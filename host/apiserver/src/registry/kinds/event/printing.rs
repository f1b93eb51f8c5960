//! What `kubectl get events` shows.

use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use crate::registry::{kinds::cells, printing::Column};

pub(super) fn columns() -> Vec<Column> {
    vec![
        Column::string("Last Seen", "Time since it happened last."),
        Column::string("Type", "Normal or Warning."),
        Column::string("Reason", "Why it happened, in one word."),
        Column::string("Object", "What it is about."),
        Column::string("Subobject", "Which part of the object it is about.").wide(),
        Column::string("Source", "Who reports it.").wide(),
        Column::string("Message", "What happened."),
        Column::string("First Seen", "Time since it happened first.").wide(),
        Column::integer("Count", "How often it happened.").wide(),
        Column::NAME.wide(),
    ]
}

pub(super) fn row(event: &Event, now: jiff::Timestamp) -> Vec<Value> {
    let first = match &event.first_timestamp {
        Some(first) => cells::since(Some(first), now),
        None => cells::since_micro(event.event_time.as_ref(), now),
    };
    let (last, count) = match (&event.series, &event.last_timestamp) {
        (Some(series), _) => (
            cells::since_micro(series.last_observed_time.as_ref(), now),
            series.count.unwrap_or_default(),
        ),
        (None, Some(last)) => (
            cells::since(Some(last), now),
            event.count.unwrap_or_default(),
        ),
        (None, None) => (first.clone(), event.count.unwrap_or_default()),
    };
    let count = match (&event.series, count) {
        (None, 0) => 1, // events of the newer version count only when they repeat
        (_, count) => count,
    };
    vec![
        json!(last),
        json!(event.type_.as_deref().unwrap_or_default()),
        json!(event.reason.as_deref().unwrap_or_default()),
        json!(object(event)),
        json!(
            event
                .involved_object
                .field_path
                .as_deref()
                .unwrap_or_default()
        ),
        json!(source(event)),
        json!(event.message.as_deref().unwrap_or_default().trim()),
        json!(first),
        json!(count),
        json!(event.metadata.name),
    ]
}

fn object(event: &Event) -> String {
    let kind = event.involved_object.kind.as_deref().unwrap_or_default();
    let kind = kind.to_lowercase();
    match event.involved_object.name.as_deref().unwrap_or_default() {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

/// Component and host, from the fields of whichever version has them.
fn source(event: &Event) -> String {
    let source = event.source.clone().unwrap_or_default();
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let component = given(source.component).or_else(|| event.reporting_component.clone());
    let instance = given(source.host).or_else(|| given(event.reporting_instance.clone()));
    let component = component.unwrap_or_default();
    match instance {
        Some(instance) => format!("{component}, {instance}"),
        None => component,
    }
}
