//! What workloads that keep a number of pods running have in common.

use k8s_openapi::{
    api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    selector,
};
use serde_json::{Value, json};

use super::{cells, checks, pod::template};
use crate::registry::printing::Column;

/// The number of pods, how long they must be ready, and the selector that finds them.
pub(super) fn validate_common(
    errors: &mut ErrorList,
    path: &Path,
    replicas: Option<i32>,
    min_ready_seconds: Option<i32>,
    selector: &LabelSelector,
    kind: &str,
) {
    let number = |value: Option<i32>| value.map(i64::from);
    checks::not_negative(errors, &path.child("replicas"), number(replicas));
    checks::not_negative(
        errors,
        &path.child("minReadySeconds"),
        number(min_ready_seconds),
    );
    let path = path.child("selector");
    checks::label_selector(errors, &path, Some(selector));
    if template::is_empty(selector) {
        let why = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid(&path, shown(selector), &why));
    }
}

/// `spec.selector` is for good.
pub(super) fn validate_selector_kept(
    errors: &mut ErrorList,
    new: Option<LabelSelector>,
    old: Option<LabelSelector>,
) {
    let path = Path::new("spec").child("selector");
    let value = new.as_ref().map_or(Value::Null, shown);
    checks::immutable(errors, &path, new == old, value);
}

/// A selector as it is in JSON.
pub(super) fn shown(selector: &LabelSelector) -> Value {
    let expressions = selector.match_expressions.iter().flatten().map(
        |e| json!({"key": e.key, "operator": e.operator, "values": e.values.as_deref().unwrap_or_default()}),
    );
    let expressions: Vec<Value> = expressions.collect();
    let mut shown = serde_json::Map::new();
    if let Some(labels) = selector.match_labels.as_ref().filter(|l| !l.is_empty()) {
        shown.insert("matchLabels".to_owned(), json!(labels));
    }
    if !expressions.is_empty() {
        shown.insert("matchExpressions".to_owned(), json!(expressions));
    }
    Value::Object(shown)
}

/// A selector in its string form, for `status.selector` of the scale subresource.
pub(super) fn selector_text(selector: Option<&LabelSelector>) -> String {
    let parsed = selector::LabelSelector::from_meta(selector);
    parsed.map_or_else(|_| String::new(), |selector| selector.to_string())
}

/// The counts of a status, which fit each other.
pub(super) struct Counts<'a> {
    pub(super) observed_generation: Option<i64>,
    pub(super) replicas: Option<i32>,
    pub(super) ready: Option<i32>,
    pub(super) available: Option<i32>,
    /// Others that are at most `replicas`, by field.
    pub(super) others: &'a [(&'static str, Option<i32>)],
}

impl Counts<'_> {
    pub(super) fn validate(&self, errors: &mut ErrorList, path: &Path) {
        let path_of = |field: &str| path.child(field);
        checks::not_negative(
            errors,
            &path_of("observedGeneration"),
            self.observed_generation,
        );
        let replicas = self.replicas.unwrap_or_default();
        checks::not_negative(errors, &path_of("replicas"), Some(replicas.into()));
        let counts = [
            ("readyReplicas", self.ready),
            ("availableReplicas", self.available),
        ];
        for (field, count) in self.others.iter().chain(&counts) {
            let count = count.unwrap_or_default();
            checks::not_negative(errors, &path_of(field), Some(count.into()));
            if count > replicas {
                errors.push(FieldError::invalid(
                    &path_of(field),
                    count,
                    "cannot be greater than status.replicas",
                ));
            }
        }
        let available = self.available.unwrap_or_default();
        if available > self.ready.unwrap_or_default() {
            errors.push(FieldError::invalid(
                &path_of("availableReplicas"),
                available,
                "cannot be greater than readyReplicas",
            ));
        }
    }
}

/// How often a hash of a template met another one's name: this number only grows.
pub(super) fn validate_collisions(
    errors: &mut ErrorList,
    path: &Path,
    now: Option<i32>,
    before: Option<i32>,
) {
    let path = path.child("collisionCount");
    checks::not_negative(errors, &path, now.map(i64::from));
    if before.is_some_and(|before| now.is_none_or(|now| now < before)) {
        errors.push(FieldError::invalid(
            &path,
            now.unwrap_or_default(),
            "cannot be decremented",
        ));
    }
}

/// The columns of replica sets and replication controllers.
pub(super) fn columns() -> Vec<Column> {
    let mut columns = vec![
        Column::NAME,
        Column::integer("Desired", "Pods that are wanted."),
        Column::integer("Current", "Pods that exist."),
        Column::integer("Ready", "Pods that are ready."),
        Column::AGE,
    ];
    columns.extend(cells::template_columns());
    columns
}

/// Names and images of a template's containers.
pub(super) fn containers(template: Option<&PodTemplateSpec>) -> (String, String) {
    let spec = template.and_then(|t| t.spec.as_ref());
    cells::containers(spec.map_or(&[], |spec| &spec.containers))
}
