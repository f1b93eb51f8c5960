//! `autoscaling/v1`: CPU utilization as a field, everything else in annotations. It is judged and printed in the form that
//! is kept.

use k8s_openapi::api::autoscaling::{v1::HorizontalPodAutoscaler, v2};
use pilothouse_api::{Kind, ResourceInfo, field::ErrorList};
use serde_json::Value;

use super::{HorizontalPodAutoscalerStrategy, conversion, resource};
use crate::registry::{
    kinds::fill,
    printing::Column,
    strategy::{Context, Conversion, Strategy},
};

pub(in crate::registry::kinds) struct HorizontalPodAutoscalerV1Strategy;

const STORED: HorizontalPodAutoscalerStrategy = HorizontalPodAutoscalerStrategy;

impl Strategy for HorizontalPodAutoscalerV1Strategy {
    type Object = HorizontalPodAutoscaler;

    fn resource(&self) -> ResourceInfo {
        resource("v1")
    }

    fn default(&self, autoscaler: &mut HorizontalPodAutoscaler) {
        fill::pointer(&mut autoscaler.spec.min_replicas, 1);
    }

    fn prepare_for_create(&self, _context: &Context, autoscaler: &mut HorizontalPodAutoscaler) {
        autoscaler.status = None;
        conversion::drop_status(&mut autoscaler.metadata);
    }

    fn prepare_for_update(
        &self,
        _context: &Context,
        new: &mut HorizontalPodAutoscaler,
        old: &HorizontalPodAutoscaler,
    ) {
        new.status = old.status.clone();
        conversion::keep_status(&mut new.metadata, &old.metadata);
    }

    fn prepare_for_status_update(
        &self,
    ) -> Option<fn(&mut HorizontalPodAutoscaler, &HorizontalPodAutoscaler)> {
        Some(|new, old| {
            new.spec = old.spec.clone();
            conversion::keep_spec(&mut new.metadata, &old.metadata);
        })
    }

    fn validate(&self, autoscaler: &HorizontalPodAutoscaler) -> ErrorList {
        stored(autoscaler).map_or_else(ErrorList::new, |stored| STORED.validate(&stored))
    }

    fn validate_status_update(
        &self,
        new: &HorizontalPodAutoscaler,
        old: &HorizontalPodAutoscaler,
    ) -> ErrorList {
        let both = stored(new).zip(stored(old));
        both.map_or_else(ErrorList::new, |(new, old)| {
            STORED.validate_status_update(&new, &old)
        })
    }

    fn conversion(&self) -> Option<Conversion> {
        Some(Conversion {
            to_stored: conversion::to_stored,
            from_stored: conversion::from_stored,
        })
    }

    fn columns(&self) -> Vec<Column> {
        STORED.columns()
    }

    fn row(&self, autoscaler: &HorizontalPodAutoscaler, now: jiff::Timestamp) -> Vec<Value> {
        match stored(autoscaler) {
            Some(stored) => STORED.row(&stored, now),
            None => STORED.row(&v2::HorizontalPodAutoscaler::default(), now),
        }
    }
}

/// The form that is kept; `None` if the annotations cannot be read, which is refused when the object is about to be stored.
fn stored(autoscaler: &HorizontalPodAutoscaler) -> Option<v2::HorizontalPodAutoscaler> {
    let json = conversion::to_stored(&autoscaler.encode()).ok()?;
    Kind::decode(&json).ok()
}
