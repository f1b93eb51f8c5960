//! Deployments. Source: <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/>

#[cfg(test)]
mod tests;

use k8s_openapi::{
    api::apps::v1::{
        Deployment, DeploymentSpec, DeploymentStatus, DeploymentStrategy as UpdateStrategy,
        RollingUpdateDeployment,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use pilothouse_api::{
    ResourceInfo,
    apply::Scope,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{cells, checks, describe, fill, int_or_percent, pod::template, replicas};
use crate::registry::{
    printing::Column,
    strategy::{Context, Scale, Strategy},
};

const ROLLING_UPDATE: &str = "RollingUpdate";
const RECREATE: &str = "Recreate";

pub(super) struct DeploymentStrategy;

impl Strategy for DeploymentStrategy {
    type Object = Deployment;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["deploy"]),
            categories: describe::all(),
            ..describe::namespaced("apps", "v1", "deployments", "Deployment")
        }
    }

    fn default(&self, deployment: &mut Deployment) {
        let spec = deployment.spec.get_or_insert_default();
        fill::pointer(&mut spec.replicas, 1);
        fill::pointer(&mut spec.revision_history_limit, 10);
        fill::pointer(&mut spec.progress_deadline_seconds, 600);
        let strategy = spec.strategy.get_or_insert_default();
        fill::text(&mut strategy.type_, ROLLING_UPDATE);
        if strategy.type_.as_deref() == Some(ROLLING_UPDATE) {
            let rolling = strategy.rolling_update.get_or_insert_default();
            let quarter = || IntOrString::String("25%".to_owned());
            rolling.max_unavailable.get_or_insert_with(quarter);
            rolling.max_surge.get_or_insert_with(quarter);
        }
        template::fill_defaults(&mut spec.template);
    }

    fn prepare_for_create(&self, _context: &Context, deployment: &mut Deployment) {
        deployment.status = Some(DeploymentStatus::default());
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut Deployment, old: &Deployment) {
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(&self) -> Option<fn(&mut Deployment, &Deployment)> {
        Some(|new, old| {
            new.spec = old.spec.clone();
            new.metadata.labels = old.metadata.labels.clone();
        })
    }

    fn owned_scope(&self, subresource: &str) -> Option<Scope> {
        const STATUS: Scope = Scope::Without(&[&["spec"], &["metadata", "labels"]]);
        (subresource == "status").then_some(STATUS)
    }

    fn generation_changed(&self, new: &Deployment, old: &Deployment) -> Option<bool> {
        Some(new.spec != old.spec || new.metadata.annotations != old.metadata.annotations)
    }

    fn validate(&self, deployment: &Deployment) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = DeploymentSpec::default();
        let spec = deployment.spec.as_ref().unwrap_or(&empty);
        validate_spec(&mut errors, &Path::new("spec"), spec);
        errors
    }

    fn validate_update(&self, new: &Deployment, old: &Deployment) -> ErrorList {
        let mut errors = ErrorList::new();
        let selector = |d: &Deployment| d.spec.as_ref().map(|s| s.selector.clone());
        replicas::validate_selector_kept(&mut errors, selector(new), selector(old));
        errors
    }

    fn validate_status_update(&self, new: &Deployment, old: &Deployment) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = DeploymentStatus::default();
        let status = new.status.as_ref().unwrap_or(&empty);
        let path = Path::new("status");
        replicas::Counts {
            observed_generation: status.observed_generation,
            replicas: status.replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            others: &[("updatedReplicas", status.updated_replicas)],
        }
        .validate(&mut errors, &path);
        let unavailable = status.unavailable_replicas.map(i64::from);
        checks::not_negative(&mut errors, &path.child("unavailableReplicas"), unavailable);
        let before = old.status.as_ref().and_then(|s| s.collision_count);
        replicas::validate_collisions(&mut errors, &path, status.collision_count, before);
        errors
    }

    fn warnings(&self, deployment: &Deployment) -> Vec<String> {
        template::warnings_of_spec(deployment.spec.as_ref().map(|s| &s.template))
    }

    fn scale(&self) -> Option<Scale<Deployment>> {
        Some(Scale {
            replicas: |d| d.spec.as_ref().and_then(|s| s.replicas).unwrap_or_default(),
            set_replicas: |d, n| d.spec.get_or_insert_default().replicas = Some(n),
            status_replicas: |d| {
                let status = d.status.as_ref();
                status.and_then(|s| s.replicas).unwrap_or_default()
            },
            selector: |d| replicas::selector_text(d.spec.as_ref().map(|s| &s.selector)),
        })
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![
            Column::NAME,
            Column::string("Ready", "Pods that are ready, and how many are wanted."),
            Column::integer("Up-to-date", "Pods made from the current template."),
            Column::integer("Available", "Pods that have been ready for long enough."),
            Column::AGE,
        ];
        columns.extend(cells::template_columns());
        columns
    }

    fn row(&self, deployment: &Deployment, now: jiff::Timestamp) -> Vec<Value> {
        let empty = (DeploymentSpec::default(), DeploymentStatus::default());
        let spec = deployment.spec.as_ref().unwrap_or(&empty.0);
        let status = deployment.status.as_ref().unwrap_or(&empty.1);
        let ready = status.ready_replicas.unwrap_or_default();
        let wanted = spec.replicas.unwrap_or_default();
        let (names, images) = replicas::containers(Some(&spec.template));
        vec![
            json!(deployment.metadata.name),
            json!(format!("{ready}/{wanted}")),
            json!(status.updated_replicas.unwrap_or_default()),
            json!(status.available_replicas.unwrap_or_default()),
            json!(cells::since(
                deployment.metadata.creation_timestamp.as_ref(),
                now
            )),
            json!(names),
            json!(images),
            json!(cells::selector(&spec.selector)),
        ]
    }
}

fn validate_spec(errors: &mut ErrorList, path: &Path, spec: &DeploymentSpec) {
    replicas::validate_common(
        errors,
        path,
        spec.replicas,
        spec.min_ready_seconds,
        &spec.selector,
        "deployment",
    );
    template::validate_of_replicas(
        errors,
        &path.child("template"),
        &spec.template,
        &spec.selector,
        "ReplicaSet",
    );
    if let Some(strategy) = &spec.strategy {
        validate_strategy(errors, &path.child("strategy"), strategy);
    }
    let limit = spec.revision_history_limit.map(i64::from);
    checks::not_negative(errors, &path.child("revisionHistoryLimit"), limit);
    if let Some(deadline) = spec.progress_deadline_seconds {
        let path = path.child("progressDeadlineSeconds");
        checks::not_negative(errors, &path, Some(deadline.into()));
        if deadline <= spec.min_ready_seconds.unwrap_or_default() {
            errors.push(FieldError::invalid(
                &path,
                deadline,
                "must be greater than minReadySeconds",
            ));
        }
    }
}

fn validate_strategy(errors: &mut ErrorList, path: &Path, strategy: &UpdateStrategy) {
    let rolling_path = path.child("rollingUpdate");
    match (strategy.type_.as_deref(), &strategy.rolling_update) {
        (Some(RECREATE), None) => {}
        (Some(RECREATE), Some(_)) => errors.push(FieldError::forbidden(
            &rolling_path,
            "may not be specified when strategy `type` is 'Recreate'",
        )),
        (Some(ROLLING_UPDATE), Some(rolling)) => {
            validate_rolling_update(errors, &rolling_path, rolling);
        }
        (Some(ROLLING_UPDATE), None) => errors.push(FieldError::required(
            &rolling_path,
            "this should be defaulted and never be nil",
        )),
        (other, _) => errors.push(FieldError::not_supported(
            path,
            json!({"Type": other, "RollingUpdate": null}),
            &[RECREATE, ROLLING_UPDATE],
        )),
    }
}

fn validate_rolling_update(errors: &mut ErrorList, path: &Path, rolling: &RollingUpdateDeployment) {
    let unavailable_path = path.child("maxUnavailable");
    let zero = IntOrString::Int(0);
    let unavailable = rolling.max_unavailable.as_ref().unwrap_or(&zero);
    let surge = rolling.max_surge.as_ref().unwrap_or(&zero);
    int_or_percent::validate(errors, &unavailable_path, unavailable);
    int_or_percent::validate(errors, &path.child("maxSurge"), surge);
    if int_or_percent::is_zero(unavailable) && int_or_percent::is_zero(surge) {
        errors.push(FieldError::invalid(
            &unavailable_path,
            int_or_percent::shown(unavailable),
            "may not be 0 when `maxSurge` is 0",
        ));
    }
    int_or_percent::validate_at_most_all(errors, &unavailable_path, unavailable);
}
