use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    create_errors, created, json, object, row, update_errors, with,
};

fn base() -> Value {
    json!({
        "metadata": {"name": "report"},
        "spec": {
            "schedule": "*/5 * * * *",
            "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "OnFailure",
                "containers": [{"name": "main", "image": "report:1"}],
            }}}},
        },
    })
}

#[test]
fn defaults() {
    let filled = json(&created(&CronJobStrategy, &base()));
    let spec = &filled["spec"];
    assert_eq!(spec["concurrencyPolicy"], "Allow");
    assert_eq!(spec["suspend"], false);
    assert_eq!(spec["successfulJobsHistoryLimit"], 3);
    assert_eq!(spec["failedJobsHistoryLimit"], 1);
    let job = &spec["jobTemplate"]["spec"];
    assert_eq!(
        job["template"]["spec"]["schedulerName"],
        "default-scheduler"
    );
    assert_eq!(
        job["backoffLimit"],
        Value::Null,
        "Jobs have their own defaults"
    );
    assert_eq!(filled["status"], json!({}));
}

#[test]
fn validation() {
    for (changes, expected) in [
        (vec![], vec![]),
        (vec![("/spec/timeZone", json!("Europe/Paris"))], vec![]),
        (
            vec![("/spec/schedule", json!(""))],
            vec!["spec.schedule: Required value"],
        ),
        (
            vec![("/spec/schedule", json!("every day"))],
            vec![
                "spec.schedule: Invalid value: \"every day\": expected exactly 5 fields, found 2: [every day]",
            ],
        ),
        (
            vec![("/spec/schedule", json!("TZ=UTC 0 0 * * *"))],
            vec![
                "spec.schedule: Invalid value: \"TZ=UTC 0 0 * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            ],
        ),
        (
            vec![("/spec/timeZone", json!("Moon/Sea"))],
            vec!["spec.timeZone: Invalid value: \"Moon/Sea\": unknown time zone Moon/Sea"],
        ),
        (
            vec![
                ("/spec/concurrencyPolicy", json!("Maybe")),
                ("/spec/startingDeadlineSeconds", json!(-1)),
                ("/spec/failedJobsHistoryLimit", json!(-2)),
            ],
            vec![
                "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.failedJobsHistoryLimit: Invalid value: -2: must be greater than or equal to 0",
                "spec.concurrencyPolicy: Unsupported value: \"Maybe\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
            ],
        ),
        (
            vec![
                (
                    "/spec/jobTemplate/spec/selector",
                    json!({"matchLabels": {"a": "b"}}),
                ),
                ("/spec/jobTemplate/spec/manualSelector", json!(true)),
                ("/spec/jobTemplate/spec/backoffLimit", json!(-1)),
            ],
            vec![
                "spec.jobTemplate.spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
                "spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be auto-generated",
                "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"",
            ],
        ),
        (
            vec![("/metadata/name", json!("a".repeat(53)))],
            vec![
                "metadata.name: Invalid value: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\": must be no more than 52 characters",
            ],
        ),
    ] {
        let cron_job = with(&base(), &changes);
        assert_eq!(
            create_errors(&CronJobStrategy, &cron_job),
            expected,
            "{changes:?}"
        );
    }
}

#[test]
fn updates() {
    let zoned = with(&base(), &[("/spec/schedule", json!("TZ=UTC 0 0 * * *"))]);
    let suspended = |base: &Value| with(base, &[("/spec/suspend", json!(true))]);
    assert_eq!(
        update_errors(&CronJobStrategy, &zoned, &suspended(&zoned)),
        [""; 0],
        "what had a zone in its schedule keeps it"
    );
    let both = with(&zoned, &[("/spec/timeZone", json!("UTC"))]);
    assert_eq!(
        update_errors(&CronJobStrategy, &zoned, &both),
        [
            "spec.schedule: Invalid value: \"TZ=UTC 0 0 * * *\": cannot use both timeZone field and TZ or CRON_TZ in schedule"
        ]
    );
    let (new, old) = (object(&suspended(&base())), object::<CronJob>(&base()));
    assert_eq!(CronJobStrategy.generation_changed(&new, &old), Some(true));
}

#[test]
fn rows() {
    let cron_job = with(
        &base(),
        &[
            ("/spec/suspend", json!(true)),
            (
                "/status",
                json!({"active": [{"name": "report-1"}], "lastScheduleTime": "2026-01-02T03:00:05Z"}),
            ),
        ],
    );
    assert_eq!(
        row(&CronJobStrategy, &cron_job),
        [
            ("Name", json!("report")),
            ("Schedule", json!("*/5 * * * *")),
            ("Timezone", json!("<none>")),
            ("Suspend", json!("True")),
            ("Active", json!(1)),
            ("Last Schedule", json!("4m")),
            ("Age", json!("<unknown>")),
            ("Containers", json!("main")),
            ("Images", json!("report:1")),
            ("Selector", json!("<none>")),
        ]
    );
}
