//! What a Job's conditions say.

use k8s_openapi::api::batch::v1::{Job, JobStatus};

pub(super) const COMPLETE: &str = "Complete";
pub(super) const FAILED: &str = "Failed";
pub(super) const FAILURE_TARGET: &str = "FailureTarget";
pub(super) const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub(super) const SUSPENDED: &str = "Suspended";

/// Whether a condition is true.
pub(super) fn holds(status: &JobStatus, condition: &str) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|c| c.type_ == condition && c.status == "True")
}

/// The same of a whole Job.
pub(super) fn is(job: &Job, condition: &str) -> bool {
    job.status
        .as_ref()
        .is_some_and(|status| holds(status, condition))
}

/// Whether the Job has ended, well or not.
pub(super) fn is_finished(job: &Job) -> bool {
    is(job, COMPLETE) || is(job, FAILED)
}
