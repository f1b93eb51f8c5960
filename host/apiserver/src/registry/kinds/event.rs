//! Events of both groups: `v1`, in whose form they are kept, and `events.k8s.io/v1`, which is stricter and is converted.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/>

mod conversion;
mod printing;
#[cfg(test)]
mod tests;
mod validation;

use k8s_openapi::api::{core, events};
use pilothouse_api::{ResourceInfo, field::ErrorList};
use serde_json::Value;

use super::describe;
use crate::registry::{
    printing::Column,
    strategy::{Conversion, Strategy},
};

/// Events disappear after an hour.
const TTL_SECONDS: u64 = 3600;

/// `v1`.
pub(super) struct EventStrategy;

/// `events.k8s.io/v1`.
pub(super) struct EventsEventStrategy;

impl Strategy for EventStrategy {
    type Object = core::v1::Event;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["ev"]),
            selectable_fields: describe::texts(&[
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "type",
            ]),
            ..describe::namespaced("", "v1", "events", "Event")
        }
    }

    fn validate(&self, event: &core::v1::Event) -> ErrorList {
        validation::validate(event, "reportingComponent")
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn garbage_collected(&self) -> bool {
        false
    }

    fn ttl_seconds(&self, _event: &core::v1::Event) -> Option<u64> {
        Some(TTL_SECONDS)
    }

    fn columns(&self) -> Vec<Column> {
        printing::columns()
    }

    fn row(&self, event: &core::v1::Event, now: jiff::Timestamp) -> Vec<Value> {
        printing::row(event, now)
    }
}

impl Strategy for EventsEventStrategy {
    type Object = events::v1::Event;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["ev"]),
            selectable_fields: describe::texts(&[
                "regarding.kind",
                "regarding.namespace",
                "regarding.name",
                "regarding.uid",
                "regarding.apiVersion",
                "regarding.resourceVersion",
                "regarding.fieldPath",
                "reason",
                "reportingController",
                "type",
            ]),
            ..describe::namespaced("events.k8s.io", "v1", "events", "Event")
        }
    }

    fn validate(&self, event: &events::v1::Event) -> ErrorList {
        validation::validate(&conversion::to_core(event), "reportingController")
    }

    fn validate_create(&self, event: &events::v1::Event) -> ErrorList {
        validation::validate_new(&conversion::to_core(event))
    }

    fn validate_update(&self, new: &events::v1::Event, old: &events::v1::Event) -> ErrorList {
        validation::validate_update(&conversion::to_core(new), &conversion::to_core(old))
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn garbage_collected(&self) -> bool {
        false
    }

    fn ttl_seconds(&self, _event: &events::v1::Event) -> Option<u64> {
        Some(TTL_SECONDS)
    }

    fn conversion(&self) -> Option<Conversion> {
        Some(Conversion {
            to_stored: conversion::to_stored,
            from_stored: conversion::from_stored,
        })
    }

    fn columns(&self) -> Vec<Column> {
        printing::columns()
    }

    fn row(&self, event: &events::v1::Event, now: jiff::Timestamp) -> Vec<Value> {
        printing::row(&conversion::to_core(event), now)
    }
}
