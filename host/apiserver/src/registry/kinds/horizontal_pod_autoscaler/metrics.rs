//! What an autoscaler looks at: exactly one source a metric, with a target that fits it.

use k8s_openapi::{
    api::autoscaling::v2::{MetricIdentifier, MetricSpec, MetricTarget},
    apimachinery::pkg::api::resource::Quantity,
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    quantity,
};

use super::validation::{path_segment, validate_reference};
use crate::registry::kinds::{checks, pod::resources};

const TYPES: [&str; 5] = [
    "ContainerResource",
    "External",
    "Object",
    "Pods",
    "Resource",
];
const RAW_OR_UTILIZATION: &str = "must set either a target raw value or a target utilization";
const NOT_BOTH: &str = "may not set both a target raw value and a target utilization";

/// The target of a metric, whatever its source.
pub(super) fn target_mut(metric: &mut MetricSpec) -> Option<&mut MetricTarget> {
    let object = metric.object.as_mut().map(|source| &mut source.target);
    let external = metric.external.as_mut().map(|source| &mut source.target);
    let pods = metric.pods.as_mut().map(|source| &mut source.target);
    let resource = metric.resource.as_mut().map(|source| &mut source.target);
    let container = metric.container_resource.as_mut();
    let container = container.map(|source| &mut source.target);
    object.or(external).or(pods).or(resource).or(container)
}

pub(super) fn validate(errors: &mut ErrorList, path: &Path, metric: &MetricSpec) {
    let type_path = path.child("type");
    if metric.type_.is_empty() {
        let why = "must specify a metric source type";
        errors.push(FieldError::required(&type_path, why));
    }
    checks::one_of(errors, &type_path, &metric.type_, &TYPES);
    let present: Vec<&'static str> = [
        ("object", metric.object.is_some()),
        ("external", metric.external.is_some()),
        ("pods", metric.pods.is_some()),
        ("resource", metric.resource.is_some()),
        ("containerResource", metric.container_resource.is_some()),
    ]
    .into_iter()
    .filter_map(|(field, present)| present.then_some(field))
    .collect();
    if let Some(first) = present.first() {
        validate_source(errors, path, metric, first);
    }
    let expected = match metric.type_.as_str() {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "External" => "external",
        "ContainerResource" => "containerResource",
        _ => return,
    };
    if !present.contains(&expected) {
        errors.push(FieldError::required(
            &path.child(expected),
            "must populate information for the given metric source",
        ));
    }
    if present.len() != 1 {
        for field in present.into_iter().filter(|field| *field != expected) {
            errors.push(FieldError::forbidden(
                &path.child(field),
                "must populate the given metric source only",
            ));
        }
    }
}

/// The first source that is there; others are too many.
fn validate_source(errors: &mut ErrorList, path: &Path, metric: &MetricSpec, field: &str) {
    let path = path.child(field);
    let target_path = path.child("target");
    if let Some(source) = &metric.object {
        let object = &source.described_object;
        validate_reference(errors, &path.child("describedObject"), object);
        validate_identifier(errors, &path.child("metric"), &source.metric);
        validate_target(errors, &target_path, &source.target);
        if source.target.value.is_none() && source.target.average_value.is_none() {
            let why = "must set either a target value or averageValue";
            errors.push(FieldError::required(
                &target_path.child("averageValue"),
                why,
            ));
        }
    } else if let Some(source) = &metric.external {
        validate_identifier(errors, &path.child("metric"), &source.metric);
        validate_target(errors, &target_path, &source.target);
        match (&source.target.value, &source.target.average_value) {
            (None, None) => errors.push(FieldError::required(
                &target_path.child("averageValue"),
                "must set either a target value for metric or a per-pod target",
            )),
            (Some(_), Some(_)) => errors.push(FieldError::forbidden(
                &target_path.child("value"),
                "may not set both a target value for metric and a per-pod target",
            )),
            _ => {}
        }
    } else if let Some(source) = &metric.pods {
        validate_identifier(errors, &path.child("metric"), &source.metric);
        validate_target(errors, &target_path, &source.target);
        if source.target.average_value.is_none() {
            let why = "must specify a positive target averageValue";
            errors.push(FieldError::required(
                &target_path.child("averageValue"),
                why,
            ));
        }
    } else if let Some(source) = &metric.resource {
        if source.name.is_empty() {
            let why = "must specify a resource name";
            errors.push(FieldError::required(&path.child("name"), why));
        }
        validate_utilization(errors, &target_path, &source.target);
    } else if let Some(source) = &metric.container_resource {
        let name_path = path.child("name");
        match source.name.as_str() {
            "" => {
                let why = "must specify a resource name";
                errors.push(FieldError::required(&name_path, why));
            }
            name => resources::validate_container_resource_name(errors, &name_path, name),
        }
        match source.container.as_str() {
            "" => {
                let why = "must specify a container";
                errors.push(FieldError::required(&path.child("container"), why));
            }
            container => checks::dns_label(errors, &path.child("container"), container),
        }
        validate_utilization(errors, &target_path, &source.target);
    }
}

/// Resources are measured as they are or as a part of what was asked for.
fn validate_utilization(errors: &mut ErrorList, path: &Path, target: &MetricTarget) {
    validate_target(errors, path, target);
    match (target.average_utilization, &target.average_value) {
        (None, None) => errors.push(FieldError::required(
            &path.child("averageUtilization"),
            RAW_OR_UTILIZATION,
        )),
        (Some(_), Some(_)) => {
            errors.push(FieldError::forbidden(&path.child("averageValue"), NOT_BOTH));
        }
        _ => {}
    }
}

fn validate_target(errors: &mut ErrorList, path: &Path, target: &MetricTarget) {
    let (type_path, kind) = (path.child("type"), target.type_.as_str());
    if kind.is_empty() {
        let why = "must specify a metric target type";
        errors.push(FieldError::required(&type_path, why));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let why = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(&type_path, kind, why));
    }
    validate_positive(errors, &path.child("value"), target.value.as_ref());
    let average = target.average_value.as_ref();
    validate_positive(errors, &path.child("averageValue"), average);
    if let Some(percent) = target.average_utilization.filter(|percent| *percent < 1) {
        errors.push(FieldError::invalid(
            &path.child("averageUtilization"),
            percent,
            "must be greater than 0",
        ));
    }
}

fn validate_positive(errors: &mut ErrorList, path: &Path, amount: Option<&Quantity>) {
    let Some(amount) = amount else { return };
    let text = amount.0.as_str();
    match quantity::Quantity::parse(text) {
        Ok(amount) if amount > quantity::Quantity::ZERO => {}
        Ok(_) => errors.push(FieldError::invalid(path, text, "must be positive")),
        Err(error) => errors.push(FieldError::invalid(path, text, &error.to_string())),
    }
}

fn validate_identifier(errors: &mut ErrorList, path: &Path, metric: &MetricIdentifier) {
    let path = path.child("name");
    match metric.name.as_str() {
        "" => errors.push(FieldError::required(&path, "must specify a metric name")),
        name => path_segment(errors, &path, name),
    }
}
