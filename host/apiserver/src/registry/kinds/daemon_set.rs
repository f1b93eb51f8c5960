//! DaemonSets. Source: <https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/>

#[cfg(test)]
mod tests;

use k8s_openapi::{
    api::apps::v1::{
        DaemonSet, DaemonSetSpec, DaemonSetStatus, DaemonSetUpdateStrategy, RollingUpdateDaemonSet,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{cells, checks, describe, fill, int_or_percent, pod::template, replicas};
use crate::registry::{
    printing::Column,
    strategy::{Context, Strategy},
};

const ROLLING_UPDATE: &str = "RollingUpdate";
const ON_DELETE: &str = "OnDelete";
/// Counts the changes of the template; the field of older versions lives on as an annotation.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) struct DaemonSetStrategy;

impl Strategy for DaemonSetStrategy {
    type Object = DaemonSet;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["ds"]),
            categories: describe::all(),
            ..describe::namespaced("apps", "v1", "daemonsets", "DaemonSet")
        }
    }

    fn default(&self, set: &mut DaemonSet) {
        let spec = set.spec.get_or_insert_default();
        let strategy = spec.update_strategy.get_or_insert_default();
        fill::text(&mut strategy.type_, ROLLING_UPDATE);
        if strategy.type_.as_deref() == Some(ROLLING_UPDATE) {
            let rolling = strategy.rolling_update.get_or_insert_default();
            fill::pointer(&mut rolling.max_unavailable, IntOrString::Int(1));
            fill::pointer(&mut rolling.max_surge, IntOrString::Int(0));
        }
        fill::pointer(&mut spec.revision_history_limit, 10);
        template::fill_defaults(&mut spec.template);
    }

    fn prepare_for_create(&self, _context: &Context, set: &mut DaemonSet) {
        set.status = Some(DaemonSetStatus::default());
        let generation = template_generation(set).max(1);
        set_template_generation(set, generation);
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut DaemonSet, old: &DaemonSet) {
        new.status = old.status.clone();
        let template = |set: &DaemonSet| set.spec.as_ref().map(|s| s.template.clone());
        let changed = template(new) != template(old);
        set_template_generation(new, template_generation(old) + i64::from(changed));
    }

    fn prepare_for_status_update(&self) -> Option<fn(&mut DaemonSet, &DaemonSet)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn generation_changed(&self, new: &DaemonSet, old: &DaemonSet) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, set: &DaemonSet) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = DaemonSetSpec::default();
        let spec = set.spec.as_ref().unwrap_or(&empty);
        let path = Path::new("spec");
        let (limit, none) = (spec.revision_history_limit, None);
        replicas::validate_common(
            &mut errors,
            &path,
            none,
            spec.min_ready_seconds,
            &spec.selector,
            "daemonset",
        );
        template::validate_of_replicas(
            &mut errors,
            &path.child("template"),
            &spec.template,
            &spec.selector,
            "DaemonSet",
        );
        let strategy = spec.update_strategy.clone().unwrap_or_default();
        validate_strategy(&mut errors, &path.child("updateStrategy"), &strategy);
        let limit_path = path.child("revisionHistoryLimit");
        checks::not_negative(&mut errors, &limit_path, limit.map(i64::from));
        errors
    }

    fn validate_update(&self, new: &DaemonSet, old: &DaemonSet) -> ErrorList {
        let mut errors = ErrorList::new();
        let selector = |d: &DaemonSet| d.spec.as_ref().map(|s| s.selector.clone());
        replicas::validate_selector_kept(&mut errors, selector(new), selector(old));
        errors
    }

    fn validate_status_update(&self, new: &DaemonSet, old: &DaemonSet) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("status");
        let empty = DaemonSetStatus::default();
        let status = new.status.as_ref().unwrap_or(&empty);
        let optional = |count: Option<i32>| i64::from(count.unwrap_or_default());
        for (field, count) in [
            (
                "currentNumberScheduled",
                status.current_number_scheduled.into(),
            ),
            ("numberMisscheduled", status.number_misscheduled.into()),
            (
                "desiredNumberScheduled",
                status.desired_number_scheduled.into(),
            ),
            ("numberReady", status.number_ready.into()),
            (
                "observedGeneration",
                status.observed_generation.unwrap_or_default(),
            ),
            (
                "updatedNumberScheduled",
                optional(status.updated_number_scheduled),
            ),
            ("numberAvailable", optional(status.number_available)),
            ("numberUnavailable", optional(status.number_unavailable)),
        ] {
            checks::not_negative(&mut errors, &path.child(field), Some(count));
        }
        let before = old.status.as_ref().and_then(|s| s.collision_count);
        replicas::validate_collisions(&mut errors, &path, status.collision_count, before);
        errors
    }

    fn warnings(&self, set: &DaemonSet) -> Vec<String> {
        template::warnings_of_spec(set.spec.as_ref().map(|s| &s.template))
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![
            Column::NAME,
            Column::integer("Desired", "Nodes that should run the pod."),
            Column::integer("Current", "Nodes that run it and should."),
            Column::integer("Ready", "Nodes where it is ready."),
            Column::integer(
                "Up-to-date",
                "Nodes whose pod is made from the current template.",
            ),
            Column::integer(
                "Available",
                "Nodes where it has been ready for long enough.",
            ),
            Column::string("Node Selector", "Labels of the nodes that should run it."),
            Column::AGE,
        ];
        columns.extend(cells::template_columns());
        columns
    }

    fn row(&self, set: &DaemonSet, now: jiff::Timestamp) -> Vec<Value> {
        let empty = (DaemonSetSpec::default(), DaemonSetStatus::default());
        let spec = set.spec.as_ref().unwrap_or(&empty.0);
        let status = set.status.as_ref().unwrap_or(&empty.1);
        let node_selector = spec.template.spec.as_ref();
        let node_selector = node_selector.and_then(|s| s.node_selector.as_ref());
        let (names, images) = replicas::containers(Some(&spec.template));
        vec![
            json!(set.metadata.name),
            json!(status.desired_number_scheduled),
            json!(status.current_number_scheduled),
            json!(status.number_ready),
            json!(status.updated_number_scheduled.unwrap_or_default()),
            json!(status.number_available.unwrap_or_default()),
            json!(cells::labels(node_selector)),
            json!(cells::since(set.metadata.creation_timestamp.as_ref(), now)),
            json!(names),
            json!(images),
            json!(cells::selector(&spec.selector)),
        ]
    }
}

fn template_generation(set: &DaemonSet) -> i64 {
    let annotations = set.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(TEMPLATE_GENERATION));
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn set_template_generation(set: &mut DaemonSet, generation: i64) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.to_string());
}

fn validate_strategy(errors: &mut ErrorList, path: &Path, strategy: &DaemonSetUpdateStrategy) {
    let rolling_path = path.child("rollingUpdate");
    match (strategy.type_.as_deref(), &strategy.rolling_update) {
        (Some(ON_DELETE), _) => {}
        (Some(ROLLING_UPDATE), None) => errors.push(FieldError::required(&rolling_path, "")),
        (Some(ROLLING_UPDATE), Some(rolling)) => {
            validate_rolling_update(errors, &rolling_path, rolling);
        }
        (other, _) => errors.push(FieldError::not_supported(
            path,
            json!({"Type": other.unwrap_or_default(), "RollingUpdate": null}),
            &[ROLLING_UPDATE, ON_DELETE],
        )),
    }
}

/// Either old pods go before new ones come, or new ones come before old ones go.
fn validate_rolling_update(errors: &mut ErrorList, path: &Path, rolling: &RollingUpdateDaemonSet) {
    let zero = IntOrString::Int(0);
    let unavailable = rolling.max_unavailable.as_ref().unwrap_or(&zero);
    let surge = rolling.max_surge.as_ref().unwrap_or(&zero);
    let (unavailable_path, surge_path) = (path.child("maxUnavailable"), path.child("maxSurge"));
    int_or_percent::validate(errors, &unavailable_path, unavailable);
    int_or_percent::validate(errors, &surge_path, surge);
    int_or_percent::validate_at_most_all(errors, &unavailable_path, unavailable);
    int_or_percent::validate_at_most_all(errors, &surge_path, surge);
    match (
        int_or_percent::is_zero(unavailable),
        int_or_percent::is_zero(surge),
    ) {
        (false, false) => errors.push(FieldError::invalid(
            &surge_path,
            int_or_percent::shown(surge),
            "may not be set when maxUnavailable is non-zero",
        )),
        (true, true) => errors.push(FieldError::required(
            &unavailable_path,
            "cannot be 0 when maxSurge is 0",
        )),
        _ => {}
    }
}
