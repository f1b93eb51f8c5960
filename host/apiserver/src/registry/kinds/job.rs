//! Jobs. Source: <https://kubernetes.io/docs/concepts/workloads/controllers/job/>

mod conditions;
mod failure_policy;
mod indexes;
mod printing;
pub(super) mod spec;
mod status;
mod success_policy;
#[cfg(test)]
mod tests;
mod update;

use k8s_openapi::api::{
    batch::v1::{Job, JobSpec, JobStatus},
    core::v1::PodTemplateSpec,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::Value;

use super::{checks, describe, fill, pod::template, replicas};
use crate::registry::{
    printing::Column,
    strategy::{Context, Strategy},
};

const INDEXED: &str = "Indexed";
const NON_INDEXED: &str = "NonIndexed";
/// Labels of a Job's pods, with the prefix and as they were called before there was one.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

pub(super) struct JobStrategy;

impl Strategy for JobStrategy {
    type Object = Job;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            categories: describe::all(),
            selectable_fields: describe::texts(&["status.successful=status.succeeded?0"]),
            ..describe::namespaced("batch", "v1", "jobs", "Job")
        }
    }

    fn default(&self, job: &mut Job) {
        let spec = job.spec.get_or_insert_default();
        if spec.completions.is_none() && spec.parallelism.is_none() {
            spec.completions = Some(1);
        }
        fill::pointer(&mut spec.parallelism, 1);
        let limit = match spec.backoff_limit_per_index {
            Some(_) => i32::MAX,
            None => 6,
        };
        fill::pointer(&mut spec.backoff_limit, limit);
        fill::pointer(&mut spec.completion_mode, NON_INDEXED.to_owned());
        fill::pointer(&mut spec.suspend, false);
        fill::pointer(&mut spec.manual_selector, false);
        let replacement = match spec.pod_failure_policy {
            Some(_) => "Failed",
            None => "TerminatingOrFailed",
        };
        fill::pointer(&mut spec.pod_replacement_policy, replacement.to_owned());
        spec::fill_template_defaults(spec);
        let labels = spec.template.metadata.as_ref();
        let labels = labels.and_then(|m| m.labels.clone());
        if job.metadata.labels.as_ref().is_none_or(|l| l.is_empty()) {
            job.metadata.labels = labels.filter(|labels| !labels.is_empty());
        }
    }

    fn prepare_for_create(&self, _context: &Context, job: &mut Job) {
        job.status = Some(JobStatus::default());
        if job.spec.as_ref().and_then(|s| s.manual_selector) != Some(true) {
            generate_selector(job);
        }
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut Job, old: &Job) {
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(&self) -> Option<fn(&mut Job, &Job)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn generation_changed(&self, new: &Job, old: &Job) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, job: &Job) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = JobSpec::default();
        let spec = job.spec.as_ref().unwrap_or(&empty);
        validate_generated_selector(&mut errors, job, spec);
        let path = Path::new("spec");
        spec::validate(&mut errors, &path, spec);
        validate_selector(&mut errors, &path, spec);
        validate_host_names(&mut errors, job, spec);
        errors
    }

    fn validate_update(&self, new: &Job, old: &Job) -> ErrorList {
        update::validate(new, old)
    }

    fn validate_status_update(&self, new: &Job, old: &Job) -> ErrorList {
        status::validate(new, old)
    }

    fn warnings(&self, job: &Job) -> Vec<String> {
        let mut warnings = Vec::new();
        let name = job.metadata.name.as_deref().unwrap_or_default();
        warnings.extend(label_is_better(name));
        warnings.extend(job.spec.as_ref().and_then(spec::too_many_indexes));
        let template = job.spec.as_ref().map(|s| &s.template);
        warnings.extend(template::warnings_of_spec(template));
        warnings
    }

    fn orphans_by_default(&self) -> bool {
        true // as in the first versions of Jobs
    }

    fn columns(&self) -> Vec<Column> {
        printing::columns()
    }

    fn row(&self, job: &Job, now: jiff::Timestamp) -> Vec<Value> {
        printing::row(job, now)
    }
}

/// A warning if pods and hosts cannot be called after an object.
pub(super) fn label_is_better(name: &str) -> Option<String> {
    let complaints = validation::is_dns1123_label(name);
    (!complaints.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
            complaints.join(" ")
        )
    })
}

/// Labels the template with what no other Job has, and selects that.
fn generate_selector(job: &mut Job) {
    let uid = job.metadata.uid.clone().unwrap_or_default();
    let name = job.metadata.name.clone().unwrap_or_default();
    let spec = job.spec.get_or_insert_default();
    let template = spec.template.metadata.get_or_insert_default();
    let labels = template.labels.get_or_insert_default();
    for (keys, value) in [(NAME_LABELS, &name), (UID_LABELS, &uid)] {
        for key in keys {
            // labels that were sent and say something else are refused by validation
            labels
                .entry(key.to_owned())
                .or_insert_with(|| value.clone());
        }
    }
    let selector = spec.selector.get_or_insert_default();
    let selected = selector.match_labels.get_or_insert_default();
    selected.entry(UID_LABELS[0].to_owned()).or_insert(uid);
}

fn validate_generated_selector(errors: &mut ErrorList, job: &Job, spec: &JobSpec) {
    let (Some(selector), false) = (&spec.selector, spec.manual_selector == Some(true)) else {
        return;
    };
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let name = job.metadata.name.as_deref().unwrap_or_default();
    if uid.is_empty() {
        let path = Path::new("metadata").child("uid");
        errors.push(FieldError::required(&path, ""));
    }
    let path = Path::new("spec").child("template").child("metadata");
    let mut expected = std::collections::BTreeMap::new();
    for (keys, value) in [(UID_LABELS, uid), (NAME_LABELS, name)] {
        for key in [keys[1], keys[0]] {
            expected.insert(key.to_owned(), value.to_owned());
            validate_has_label(errors, &path, &spec.template, key, value);
        }
    }
    if !checks::selects(selector, Some(&expected)) {
        errors.push(FieldError::invalid(
            &Path::new("spec").child("selector"),
            replicas::shown(selector),
            "`selector` not auto-generated",
        ));
    }
}

fn validate_has_label(
    errors: &mut ErrorList,
    path: &Path,
    template: &PodTemplateSpec,
    key: &str,
    expected: &str,
) {
    let labels = template.metadata.as_ref().and_then(|m| m.labels.as_ref());
    let path = path.child("labels");
    match labels.and_then(|labels| labels.get(key)) {
        None => errors.push(FieldError::required(
            &path.key(key),
            &format!("must be '{expected}'"),
        )),
        Some(found) if found != expected => errors.push(FieldError::invalid(
            &path.key(key),
            serde_json::json!(labels),
            &format!("must be '{expected}'"),
        )),
        Some(_) => {}
    }
}

fn validate_selector(errors: &mut ErrorList, path: &Path, spec: &JobSpec) {
    let Some(selector) = &spec.selector else {
        errors.push(FieldError::required(&path.child("selector"), ""));
        return;
    };
    checks::label_selector(errors, &path.child("selector"), Some(selector));
    let metadata = spec.template.metadata.as_ref();
    let labels = metadata.and_then(|m| m.labels.as_ref());
    if !template::is_empty(selector) && !checks::selects(selector, labels) {
        let path = path.child("template").child("metadata").child("labels");
        errors.push(FieldError::invalid(
            &path,
            serde_json::json!(labels),
            "`selector` does not match template `labels`",
        ));
    }
}

/// The pods of an indexed Job have host names that end in their index.
fn validate_host_names(errors: &mut ErrorList, job: &Job, spec: &JobSpec) {
    let completions = spec.completions.unwrap_or_default();
    if spec.completion_mode.as_deref() != Some(INDEXED) || completions <= 0 {
        return;
    }
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let longest = format!("{name}-{}", completions - 1);
    if !validation::is_dns1123_label(&longest).is_empty() {
        errors.push(FieldError::invalid(
            &Path::new("metadata").child("name"),
            name,
            &format!("will not able to create pod with invalid DNS label: {longest}"),
        ));
    }
}
