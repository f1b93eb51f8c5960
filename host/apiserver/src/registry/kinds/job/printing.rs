//! What `kubectl get jobs` shows.

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use serde_json::{Value, json};

use super::conditions::{COMPLETE, FAILED, FAILURE_TARGET, SUSPENDED, holds};
use crate::registry::{
    kinds::{cells, replicas},
    printing::{Column, human_duration},
};

pub(super) fn columns() -> Vec<Column> {
    let mut columns = vec![
        Column::NAME,
        Column::string("Status", "Whether the Job runs, and how it ended."),
        Column::string("Completions", "Pods that succeeded, and how many must."),
        Column::string("Duration", "Time from the start to the end, or to now."),
        Column::AGE,
    ];
    columns.extend(cells::template_columns());
    columns
}

pub(super) fn row(job: &Job, now: jiff::Timestamp) -> Vec<Value> {
    let empty = (JobSpec::default(), JobStatus::default());
    let spec = job.spec.as_ref().unwrap_or(&empty.0);
    let status = job.status.as_ref().unwrap_or(&empty.1);
    let (names, images) = replicas::containers(Some(&spec.template));
    vec![
        json!(job.metadata.name),
        json!(state(job, status)),
        json!(completions(spec, status)),
        json!(duration(status, now)),
        json!(cells::since(job.metadata.creation_timestamp.as_ref(), now)),
        json!(names),
        json!(images),
        json!(
            spec.selector
                .as_ref()
                .map_or_else(|| cells::NONE.to_owned(), cells::selector)
        ),
    ]
}

fn state(job: &Job, status: &JobStatus) -> &'static str {
    let has = |condition| holds(status, condition);
    match job.metadata.deletion_timestamp {
        _ if has(COMPLETE) => COMPLETE,
        _ if has(FAILED) => FAILED,
        Some(_) => "Terminating",
        None if has(SUSPENDED) => SUSPENDED,
        None if has(FAILURE_TARGET) => FAILURE_TARGET,
        None => "Running",
    }
}

fn completions(spec: &JobSpec, status: &JobStatus) -> String {
    let succeeded = status.succeeded.unwrap_or_default();
    match (spec.completions, spec.parallelism.unwrap_or_default()) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(status: &JobStatus, now: jiff::Timestamp) -> String {
    let Some(start) = &status.start_time else {
        return String::new();
    };
    let end = status.completion_time.as_ref().map_or(now, |end| end.0);
    human_duration(end.as_second() - start.0.as_second())
}
