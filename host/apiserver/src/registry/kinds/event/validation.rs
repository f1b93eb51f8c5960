//! Rules of events: few for `v1`, more for those that `events.k8s.io/v1` makes.

use k8s_openapi::api::core::v1::{Event, EventSource};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::{Value, json};

use crate::registry::kinds::checks;

const SHORT_MAX: usize = 128;
const MESSAGE_MAX: usize = 1024;
const OTHER_NAMESPACE: &str = "does not match event.namespace";

/// What holds in both versions. `controller_field` is what the reporting controller's field is called in the version asked in.
pub(super) fn validate(event: &Event, controller_field: &str) -> ErrorList {
    let mut errors = ErrorList::new();
    let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
    let of_object = event
        .involved_object
        .namespace
        .as_deref()
        .unwrap_or_default();
    let timed = event.event_time.is_some();
    let fits = match (of_object, timed) {
        ("", false) => matches!(namespace, "" | "default"),
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (of_object, false) => of_object == namespace,
        (_, true) => true,
    };
    if !fits {
        errors.push(FieldError::invalid(
            &Path::new("involvedObject").child("namespace"),
            of_object,
            OTHER_NAMESPACE,
        ));
    }
    if timed {
        validate_timed(&mut errors, event, controller_field);
    }
    errors
}

/// Events with a time were made by those who know the newer version.
fn validate_timed(errors: &mut ErrorList, event: &Event, controller_field: &str) {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let controller = text(&event.reporting_component);
    let path = Path::new(controller_field);
    checks::required(errors, &path, &controller);
    let complaints = validation::is_label_key(&controller);
    checks::invalid_each(errors, &path, &controller, complaints);
    for (field, value, required, max) in [
        (
            "reportingInstance",
            text(&event.reporting_instance),
            true,
            SHORT_MAX,
        ),
        ("action", text(&event.action), true, SHORT_MAX),
        ("reason", text(&event.reason), true, SHORT_MAX),
        ("message", text(&event.message), false, MESSAGE_MAX),
    ] {
        let path = Path::new(field);
        if required {
            checks::required(errors, &path, &value);
        }
        if value.len() > max {
            let why = format!("can have at most {max} characters");
            errors.push(FieldError::invalid(&path, "", &why));
        }
    }
}

/// What a new event of the newer version needs, and the older version's fields that it may not use.
pub(super) fn validate_new(event: &Event) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_series(&mut errors, event);
    if event.event_time.is_none() {
        errors.push(FieldError::required(&Path::new("eventTime"), ""));
    }
    let kind = event.type_.as_deref().unwrap_or_default();
    if !matches!(kind, "Normal" | "Warning") {
        let why = format!("has invalid value: {kind}");
        errors.push(FieldError::invalid(&Path::new("type"), "", &why));
    }
    let source = event.source.as_ref();
    let set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    for (field, set) in [
        ("firstTimestamp", event.first_timestamp.is_some()),
        ("lastTimestamp", event.last_timestamp.is_some()),
        ("count", event.count.unwrap_or_default() != 0),
        (
            "source",
            source.is_some_and(|s| set(&s.component) || set(&s.host)),
        ),
    ] {
        if set {
            errors.push(FieldError::invalid(
                &Path::new(field),
                "",
                "needs to be unset",
            ));
        }
    }
    errors
}

/// Only the series of an event of the newer version may change.
pub(super) fn validate_update(new: &Event, old: &Event) -> ErrorList {
    let mut errors = ErrorList::new();
    if new.series != old.series {
        validate_series(&mut errors, new);
    }
    let empty = EventSource::default();
    let source = |event: &Event| event.source.as_ref().unwrap_or(&empty).clone();
    let same_text = |a: &Option<String>, b: &Option<String>| {
        a.clone().unwrap_or_default() == b.clone().unwrap_or_default()
    };
    let object = |event: &Event| json!({"kind": event.involved_object.kind, "namespace": event.involved_object.namespace, "name": event.involved_object.name});
    let kept: [(&str, bool, Value); 12] = [
        (
            "involvedObject",
            new.involved_object == old.involved_object,
            object(new),
        ),
        (
            "reason",
            same_text(&new.reason, &old.reason),
            json!(new.reason),
        ),
        (
            "message",
            same_text(&new.message, &old.message),
            json!(new.message),
        ),
        ("source", source(new) == source(old), json!({})),
        (
            "firstTimestamp",
            new.first_timestamp == old.first_timestamp,
            json!(null),
        ),
        (
            "lastTimestamp",
            new.last_timestamp == old.last_timestamp,
            json!(null),
        ),
        (
            "count",
            new.count.unwrap_or_default() == old.count.unwrap_or_default(),
            json!(new.count),
        ),
        ("type", same_text(&new.type_, &old.type_), json!(new.type_)),
        ("eventTime", new.event_time == old.event_time, json!(null)),
        (
            "action",
            same_text(&new.action, &old.action),
            json!(new.action),
        ),
        (
            "reportingController",
            same_text(&new.reporting_component, &old.reporting_component),
            json!(new.reporting_component),
        ),
        (
            "reportingInstance",
            same_text(&new.reporting_instance, &old.reporting_instance),
            json!(new.reporting_instance),
        ),
    ];
    for (field, same, value) in kept {
        checks::immutable(&mut errors, &Path::new(field), same, value);
    }
    errors
}

fn validate_series(errors: &mut ErrorList, event: &Event) {
    let Some(series) = &event.series else { return };
    let path = Path::new("series");
    if series.count.unwrap_or_default() < 2 {
        errors.push(FieldError::invalid(
            &path.child("count"),
            "",
            "should be at least 2",
        ));
    }
    if series.last_observed_time.is_none() {
        errors.push(FieldError::required(&path.child("lastObservedTime"), ""));
    }
}
