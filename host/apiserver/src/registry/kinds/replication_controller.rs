//! ReplicationControllers.
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller/>

use k8s_openapi::{
    api::core::v1::{
        PodTemplateSpec, ReplicationController, ReplicationControllerSpec,
        ReplicationControllerStatus,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{cells, checks, describe, fill, pod::template, replicas};
use crate::registry::{
    printing::Column,
    strategy::{Context, Scale, Strategy},
};

type Spec = ReplicationControllerSpec;

pub(super) struct ReplicationControllerStrategy;

impl Strategy for ReplicationControllerStrategy {
    type Object = ReplicationController;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["rc"]),
            categories: describe::all(),
            selectable_fields: describe::texts(&["status.replicas"]),
            storage_prefix: "controllers".into(),
            ..describe::namespaced("", "v1", "replicationcontrollers", "ReplicationController")
        }
    }

    fn default(&self, controller: &mut ReplicationController) {
        let spec = controller.spec.get_or_insert_default();
        fill::pointer(&mut spec.replicas, 1);
        let pods = spec.template.get_or_insert_default();
        template::fill_defaults(pods);
        let labels = pods.metadata.as_ref().and_then(|m| m.labels.clone());
        let Some(labels) = labels.filter(|labels| !labels.is_empty()) else {
            return;
        };
        if spec.selector.as_ref().is_none_or(|s| s.is_empty()) {
            spec.selector = Some(labels.clone());
        }
        if controller
            .metadata
            .labels
            .as_ref()
            .is_none_or(|l| l.is_empty())
        {
            controller.metadata.labels = Some(labels);
        }
    }

    fn prepare_for_create(&self, _context: &Context, controller: &mut ReplicationController) {
        controller.status = Some(ReplicationControllerStatus::default());
    }

    fn prepare_for_update(
        &self,
        _context: &Context,
        new: &mut ReplicationController,
        old: &ReplicationController,
    ) {
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(
        &self,
    ) -> Option<fn(&mut ReplicationController, &ReplicationController)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn generation_changed(
        &self,
        new: &ReplicationController,
        old: &ReplicationController,
    ) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, controller: &ReplicationController) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = (Spec::default(), PodTemplateSpec::default());
        let spec = controller.spec.as_ref().unwrap_or(&empty.0);
        let path = Path::new("spec");
        let number = |value: Option<i32>| value.map(i64::from);
        checks::not_negative(
            &mut errors,
            &path.child("minReadySeconds"),
            number(spec.min_ready_seconds),
        );
        checks::not_negative(&mut errors, &path.child("replicas"), number(spec.replicas));
        if spec.selector.as_ref().is_none_or(|s| s.is_empty()) {
            errors.push(FieldError::required(&path.child("selector"), ""));
        }
        let pods = spec.template.as_ref().unwrap_or(&empty.1);
        template::validate_of_replicas(
            &mut errors,
            &path.child("template"),
            pods,
            &selector(spec),
            "ReplicationController",
        );
        errors
    }

    fn validate_status_update(
        &self,
        new: &ReplicationController,
        _old: &ReplicationController,
    ) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = ReplicationControllerStatus::default();
        let status = new.status.as_ref().unwrap_or(&empty);
        replicas::Counts {
            observed_generation: status.observed_generation,
            replicas: Some(status.replicas),
            ready: status.ready_replicas,
            available: status.available_replicas,
            others: &[("fullyLabeledReplicas", status.fully_labeled_replicas)],
        }
        .validate(&mut errors, &Path::new("status"));
        errors
    }

    fn orphans_by_default(&self) -> bool {
        true
    }

    fn warnings(&self, controller: &ReplicationController) -> Vec<String> {
        template::warnings_of_spec(controller.spec.as_ref().and_then(|s| s.template.as_ref()))
    }

    fn scale(&self) -> Option<Scale<ReplicationController>> {
        Some(Scale {
            replicas: |rc| {
                rc.spec
                    .as_ref()
                    .and_then(|s| s.replicas)
                    .unwrap_or_default()
            },
            set_replicas: |rc, n| rc.spec.get_or_insert_default().replicas = Some(n),
            status_replicas: |rc| rc.status.as_ref().map_or(0, |s| s.replicas),
            selector: |rc| {
                let selector = rc.spec.as_ref().map(selector).unwrap_or_default();
                replicas::selector_text(Some(&selector))
            },
        })
    }

    fn columns(&self) -> Vec<Column> {
        replicas::columns()
    }

    fn row(&self, controller: &ReplicationController, now: jiff::Timestamp) -> Vec<Value> {
        let empty = (Spec::default(), ReplicationControllerStatus::default());
        let spec = controller.spec.as_ref().unwrap_or(&empty.0);
        let status = controller.status.as_ref().unwrap_or(&empty.1);
        let (names, images) = replicas::containers(spec.template.as_ref());
        vec![
            json!(controller.metadata.name),
            json!(spec.replicas.unwrap_or_default()),
            json!(status.replicas),
            json!(status.ready_replicas.unwrap_or_default()),
            json!(cells::since(
                controller.metadata.creation_timestamp.as_ref(),
                now
            )),
            json!(names),
            json!(images),
            json!(cells::labels(spec.selector.as_ref())),
        ]
    }
}

/// The map of labels as a selector.
fn selector(spec: &Spec) -> LabelSelector {
    LabelSelector {
        match_labels: spec.selector.clone(),
        match_expressions: None,
    }
}
