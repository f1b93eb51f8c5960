//! CronJobs. Source: <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/>

mod schedule;
#[cfg(test)]
mod tests;
mod time_zone;

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, JobSpec};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{
    cells, checks, describe, fill,
    job::{self, spec as job_spec},
    pod::template,
    replicas,
};
use crate::registry::{
    printing::Column,
    strategy::{Context, Strategy},
};

const CONCURRENCY: [&str; 3] = ["Allow", "Forbid", "Replace"];
/// Jobs are called after their CronJob, a dash and the minute, and their pods after them.
const MAX_NAME: usize = 52;

pub(super) struct CronJobStrategy;

impl Strategy for CronJobStrategy {
    type Object = CronJob;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["cj"]),
            categories: describe::all(),
            ..describe::namespaced("batch", "v1", "cronjobs", "CronJob")
        }
    }

    fn default(&self, cron_job: &mut CronJob) {
        let spec = &mut cron_job.spec;
        fill::text(&mut spec.concurrency_policy, "Allow");
        fill::pointer(&mut spec.suspend, false);
        fill::pointer(&mut spec.successful_jobs_history_limit, 3);
        fill::pointer(&mut spec.failed_jobs_history_limit, 1);
        job_spec::fill_template_defaults(spec.job_template.spec.get_or_insert_default());
    }

    fn prepare_for_create(&self, _context: &Context, cron_job: &mut CronJob) {
        cron_job.status = Some(CronJobStatus::default());
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut CronJob, old: &CronJob) {
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(&self) -> Option<fn(&mut CronJob, &CronJob)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn generation_changed(&self, new: &CronJob, old: &CronJob) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, cron_job: &CronJob) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_spec(&mut errors, &Path::new("spec"), &cron_job.spec);
        errors
    }

    fn validate_create(&self, cron_job: &CronJob) -> ErrorList {
        let mut errors = ErrorList::new();
        let (path, spec) = (Path::new("spec"), &cron_job.spec);
        schedule::validate_zone(&mut errors, &path, spec, false);
        validate_time_zone(&mut errors, &path, spec);
        let name = cron_job.metadata.name.as_deref().unwrap_or_default();
        if name.len() > MAX_NAME {
            errors.push(FieldError::invalid(
                &Path::new("metadata").child("name"),
                name,
                "must be no more than 52 characters",
            ));
        }
        errors
    }

    fn validate_update(&self, new: &CronJob, old: &CronJob) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let had_zone = schedule::has_zone(&old.spec.schedule);
        schedule::validate_zone(&mut errors, &path, &new.spec, had_zone);
        if new.spec.time_zone != old.spec.time_zone {
            validate_time_zone(&mut errors, &path, &new.spec);
        }
        errors
    }

    fn warnings(&self, cron_job: &CronJob) -> Vec<String> {
        let name = cron_job.metadata.name.as_deref().unwrap_or_default();
        let mut warnings: Vec<String> = job::label_is_better(name).into_iter().collect();
        if let Some(job) = &cron_job.spec.job_template.spec {
            let path = Path::new("spec").child("jobTemplate").child("spec");
            warnings.extend(template::warnings(&path.child("template"), &job.template));
        }
        if schedule::has_zone(&cron_job.spec.schedule) {
            warnings.push(
                "spec.schedule: TZ or CRON_TZ used in schedule is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                    .to_owned(),
            );
        }
        warnings
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![
            Column::NAME,
            Column::string("Schedule", "When Jobs are made, in cron's form."),
            Column::string("Timezone", "The time zone of the schedule."),
            Column {
                column_type: "boolean",
                ..Column::string("Suspend", "Whether no Jobs are made for now.")
            },
            Column::integer("Active", "Jobs that run."),
            Column::string("Last Schedule", "Time since a Job was due last."),
            Column::AGE,
        ];
        columns.extend(cells::template_columns());
        columns
    }

    fn row(&self, cron_job: &CronJob, now: jiff::Timestamp) -> Vec<Value> {
        let empty = (CronJobStatus::default(), JobSpec::default());
        let spec = &cron_job.spec;
        let status = cron_job.status.as_ref().unwrap_or(&empty.0);
        let job = spec.job_template.spec.as_ref().unwrap_or(&empty.1);
        let (names, images) = replicas::containers(Some(&job.template));
        let selector = job.selector.as_ref().map(cells::selector);
        let last = status.last_schedule_time.as_ref();
        let last = last.map(|time| cells::since(Some(time), now));
        let suspended = match spec.suspend {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        vec![
            json!(cron_job.metadata.name),
            json!(spec.schedule),
            json!(spec.time_zone.as_deref().unwrap_or(cells::NONE)),
            json!(suspended),
            json!(status.active.as_ref().map_or(0, Vec::len)),
            json!(last.as_deref().unwrap_or(cells::NONE)),
            json!(cells::since(
                cron_job.metadata.creation_timestamp.as_ref(),
                now
            )),
            json!(names),
            json!(images),
            json!(selector.as_deref().unwrap_or(cells::NONE)),
        ]
    }
}

fn validate_spec(errors: &mut ErrorList, path: &Path, spec: &CronJobSpec) {
    let schedule_path = path.child("schedule");
    match spec.schedule.as_str() {
        "" => errors.push(FieldError::required(&schedule_path, "")),
        schedule => {
            if let Err(why) = schedule::parse(schedule) {
                errors.push(FieldError::invalid(&schedule_path, schedule, &why));
            }
        }
    }
    let number = |value: Option<i32>| value.map(i64::from);
    for (field, value) in [
        ("startingDeadlineSeconds", spec.starting_deadline_seconds),
        (
            "successfulJobsHistoryLimit",
            number(spec.successful_jobs_history_limit),
        ),
        (
            "failedJobsHistoryLimit",
            number(spec.failed_jobs_history_limit),
        ),
    ] {
        checks::not_negative(errors, &path.child(field), value);
    }
    let policy = spec.concurrency_policy.as_deref();
    let policy_path = path.child("concurrencyPolicy");
    checks::required_one_of(errors, &policy_path, policy, &CONCURRENCY);
    let empty = JobSpec::default();
    let job = spec.job_template.spec.as_ref().unwrap_or(&empty);
    let path = path.child("jobTemplate").child("spec");
    job_spec::validate(errors, &path, job);
    if let Some(selector) = &job.selector {
        errors.push(FieldError::invalid(
            &path.child("selector"),
            replicas::shown(selector),
            "`selector` will be auto-generated",
        ));
    }
    if job.manual_selector == Some(true) {
        let path = path.child("manualSelector");
        errors.push(FieldError::not_supported(&path, true, &["nil", "false"]));
    }
}

fn validate_time_zone(errors: &mut ErrorList, path: &Path, spec: &CronJobSpec) {
    if let Some(zone) = &spec.time_zone {
        let path = path.child("timeZone");
        for why in time_zone::complaints(zone) {
            errors.push(FieldError::invalid(&path, zone.as_str(), &why));
        }
    }
}
