//! Updates of a Job's status, by whichever controller manages it. What the update does not touch is not judged.
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/job/#delegation-of-managing-a-job-object-to-external-controller>

use std::collections::HashSet;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use pilothouse_api::field::{ErrorList, FieldError, Path};
use serde_json::json;

use super::{
    INDEXED,
    conditions::{COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, is, is_finished},
    indexes,
};
use crate::registry::kinds::{checks, semantic};

pub(super) fn validate(new: &Job, old: &Job) -> ErrorList {
    let empty = (JobSpec::default(), JobStatus::default());
    let judge = Judge {
        new,
        old,
        spec: new.spec.as_ref().unwrap_or(&empty.0),
        status: new.status.as_ref().unwrap_or(&empty.1),
        before: old.status.as_ref().unwrap_or(&empty.1),
        path: Path::new("status"),
    };
    let mut errors = ErrorList::new();
    judge.counts(&mut errors);
    judge.conditions(&mut errors);
    judge.times(&mut errors);
    judge.finished(&mut errors);
    judge.indexes(&mut errors);
    judge.transitions(&mut errors);
    errors
}

struct Judge<'a> {
    new: &'a Job,
    old: &'a Job,
    spec: &'a JobSpec,
    status: &'a JobStatus,
    before: &'a JobStatus,
    path: Path,
}

impl Judge<'_> {
    fn changed(&self, condition: &str) -> bool {
        is(self.new, condition) != is(self.old, condition)
    }

    fn finished_changed(&self) -> bool {
        is_finished(self.new) != is_finished(self.old)
    }

    fn counts(&self, errors: &mut ErrorList) {
        let status = self.status;
        for (field, count) in [
            ("active", status.active),
            ("succeeded", status.succeeded),
            ("failed", status.failed),
            ("ready", status.ready),
            ("terminating", status.terminating),
        ] {
            checks::not_negative(errors, &self.path.child(field), count.map(i64::from));
        }
        let Some(uncounted) = &status.uncounted_terminated_pods else {
            return;
        };
        let path = self.path.child("uncountedTerminatedPods");
        let mut seen = HashSet::new();
        for (field, uids) in [
            ("succeeded", &uncounted.succeeded),
            ("failed", &uncounted.failed),
        ] {
            for (i, uid) in uids.iter().flatten().enumerate() {
                let path = path.child(field).index(i);
                if uid.is_empty() {
                    errors.push(FieldError::invalid(&path, "", "must not be empty"));
                } else if !seen.insert(uid.as_str()) {
                    errors.push(FieldError::duplicate(&path, uid.as_str()));
                }
            }
        }
    }

    /// Which conditions go together.
    fn conditions(&self, errors: &mut ErrorList) {
        let has = |condition: &str| is(self.new, condition);
        let changed = |condition: &str| self.changed(condition);
        let path = self.path.child("conditions");
        let mut refuse = |bad: bool, why: &str| {
            if bad {
                errors.push(checks::invalid(&path, why));
            }
        };
        refuse(
            (changed(COMPLETE) || changed(FAILED)) && has(COMPLETE) && has(FAILED),
            "cannot set Complete=True and Failed=true conditions",
        );
        refuse(
            (changed(COMPLETE) || changed(FAILURE_TARGET)) && has(COMPLETE) && has(FAILURE_TARGET),
            "cannot set Complete=True and FailureTarget=true conditions",
        );
        refuse(
            (changed(FAILED) || changed(FAILURE_TARGET)) && has(FAILED) && !has(FAILURE_TARGET),
            "cannot set Failed=True condition without the FailureTarget=true condition",
        );
        refuse(
            (changed(COMPLETE) || changed(SUCCESS_CRITERIA_MET))
                && has(COMPLETE)
                && !has(SUCCESS_CRITERIA_MET),
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        );
        refuse(
            has(SUCCESS_CRITERIA_MET) && has(FAILED),
            "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        );
        refuse(
            has(SUCCESS_CRITERIA_MET) && has(FAILURE_TARGET),
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        );
        refuse(
            self.spec.success_policy.is_some() && has(COMPLETE) && !has(SUCCESS_CRITERIA_MET),
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        );
    }

    fn times(&self, errors: &mut ErrorList) {
        let (status, before) = (self.status, self.before);
        let started_changed = status.start_time != before.start_time;
        let completed_changed = status.completion_time != before.completion_time;
        let complete = is(self.new, COMPLETE);
        let path = self.path.child("completionTime");
        let value = json!(status.completion_time.as_ref().map(|t| t.0.to_string()));
        if self.changed(COMPLETE) || completed_changed {
            if status.completion_time.is_some() && !complete {
                let why = "cannot set completionTime when there is no Complete=True condition";
                errors.push(FieldError::invalid(&path, value.clone(), why));
            }
            if status.completion_time.is_none() && complete {
                let why = "completionTime is required for Complete jobs";
                errors.push(FieldError::required(&path, why));
            }
        }
        if let (Some(start), Some(end)) = (&status.start_time, &status.completion_time)
            && (started_changed || completed_changed)
            && end.0 < start.0
        {
            let why = "completionTime cannot be set before startTime";
            errors.push(FieldError::invalid(&path, value.clone(), why));
        }
        if let (Some(now), Some(before)) = (&status.completion_time, &before.completion_time)
            && now != before
        {
            let why = "completionTime cannot be mutated";
            errors.push(FieldError::invalid(&path, value, why));
        }
        if started_changed && before.start_time.is_some() && self.spec.suspend != Some(true) {
            errors.push(FieldError::required(
                &self.path.child("startTime"),
                "startTime cannot be removed for unsuspended job",
            ));
        }
    }

    /// A finished Job has no pods left, and has started at some time.
    fn finished(&self, errors: &mut ErrorList) {
        let (status, before) = (self.status, self.before);
        let ended = self.finished_changed();
        let finished = is_finished(self.new);
        let path = |field: &str| self.path.child(field);
        let (active, ready) = (status.active.unwrap_or_default(), status.ready);
        if finished && active > 0 && (ended || status.active != before.active) {
            let why = "active>0 is invalid for finished job";
            errors.push(FieldError::invalid(&path("active"), active, why));
        }
        let started_changed = status.start_time != before.start_time;
        if finished && status.start_time.is_none() && (ended || started_changed) {
            let why = "startTime is required for finished job";
            errors.push(FieldError::required(&path("startTime"), why));
        }
        let uncounted = status.uncounted_terminated_pods.as_ref();
        let uncounted_count = uncounted.map_or(0, |pods| {
            let count = |uids: &Option<Vec<String>>| uids.as_ref().map_or(0, Vec::len);
            count(&pods.succeeded) + count(&pods.failed)
        });
        let uncounted_changed =
            status.uncounted_terminated_pods != before.uncounted_terminated_pods;
        if finished && uncounted_count > 0 && (ended || uncounted_changed) {
            errors.push(FieldError::invalid(
                &path("uncountedTerminatedPods"),
                semantic::value_at(self.new, "/status/uncountedTerminatedPods"),
                "uncountedTerminatedPods needs to be empty for finished job",
            ));
        }
        let terminating = status.terminating.unwrap_or_default();
        let terminating_changed = status.terminating != before.terminating;
        if finished && terminating > 0 && (ended || terminating_changed) {
            let why = "terminating>0 is invalid for finished job";
            errors.push(FieldError::invalid(&path("terminating"), terminating, why));
        }
        if let Some(ready) = ready.filter(|ready| *ready > active)
            && (status.ready != before.ready || status.active != before.active)
        {
            let why = "cannot set more ready pods than active";
            errors.push(FieldError::invalid(&path("ready"), ready, why));
        }
    }

    fn indexes(&self, errors: &mut ErrorList) {
        let (status, before) = (self.status, self.before);
        let completed = status.completed_indexes.as_deref().unwrap_or_default();
        let failed = status.failed_indexes.as_deref();
        let completed_changed =
            completed != before.completed_indexes.as_deref().unwrap_or_default();
        let failed_changed = status.failed_indexes != before.failed_indexes;
        let (completed_path, failed_path) = (
            self.path.child("completedIndexes"),
            self.path.child("failedIndexes"),
        );
        let unreadable = |field: &str, error: String| format!("error parsing {field}: {error}");
        if let Some(completions) = self.spec.completions {
            if completed_changed && let Err(error) = indexes::count(completed, completions) {
                let why = unreadable("completedIndexes", error);
                errors.push(FieldError::invalid(&completed_path, completed, &why));
            }
            if let Some(failed) = failed {
                if failed_changed
                    && self.spec.backoff_limit_per_index.is_some()
                    && let Err(error) = indexes::count(failed, completions)
                {
                    let why = unreadable("failedIndexes", error);
                    errors.push(FieldError::invalid(&failed_path, failed, &why));
                }
                if (failed_changed || completed_changed)
                    && let Some(index) = indexes::overlap(completed, failed, completions)
                {
                    let why =
                        format!("failedIndexes and completedIndexes overlap at index: {index}");
                    errors.push(FieldError::invalid(&failed_path, failed, &why));
                }
            }
        }
        let indexed = self.spec.completion_mode.as_deref() == Some(INDEXED);
        if completed_changed && !completed.is_empty() && !indexed {
            errors.push(FieldError::invalid(
                &completed_path,
                completed,
                "cannot set non-empty completedIndexes when non-indexed completion mode",
            ));
        }
        if let Some(failed) = failed
            && failed_changed
            && self.spec.backoff_limit_per_index.is_none()
        {
            errors.push(FieldError::invalid(
                &failed_path,
                failed,
                "cannot set non-null failedIndexes when backoffLimitPerIndex is null",
            ));
        }
    }

    /// What is over is over.
    fn transitions(&self, errors: &mut ErrorList) {
        let path = self.path.child("conditions");
        for condition in [FAILED, COMPLETE, FAILURE_TARGET] {
            if is(self.old, condition) && !is(self.new, condition) {
                let why = format!("cannot disable the terminal {condition}=True condition");
                errors.push(checks::invalid(&path, &why));
            }
        }
        let fewer = |now: Option<i32>, before: Option<i32>| {
            let now = now.unwrap_or_default();
            (now < before.unwrap_or_default()).then_some(now)
        };
        if let Some(failed) = fewer(self.status.failed, self.before.failed) {
            let why = "cannot decrease the failed counter";
            errors.push(FieldError::invalid(&self.path.child("failed"), failed, why));
        }
        let indexed = self.spec.completion_mode.as_deref() == Some(INDEXED);
        let shrinks = indexed && self.spec.completions == self.spec.parallelism;
        if let Some(succeeded) = fewer(self.status.succeeded, self.before.succeeded)
            && !shrinks
        {
            let why = "cannot decrease the succeeded counter";
            let path = self.path.child("succeeded");
            errors.push(FieldError::invalid(&path, succeeded, why));
        }
        let met = |job: &Job| is(job, SUCCESS_CRITERIA_MET);
        if met(self.old) && !met(self.new) {
            let why = "cannot disable the SuccessCriteriaMet=True condition";
            errors.push(checks::invalid(&path, why));
        }
        if is(self.old, COMPLETE) && !met(self.old) && met(self.new) {
            let why =
                "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            errors.push(checks::invalid(&path, why));
        }
    }
}
