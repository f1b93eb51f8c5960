use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    create_errors, created, defaulted, json, row, status_errors, update_errors, with,
};

fn base() -> Value {
    json!({
        "metadata": {"name": "pi", "uid": "u1"},
        "spec": {"template": {
            "metadata": {"labels": {"app": "pi"}},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "perl:5"}],
            },
        }},
    })
}

/// As it is stored.
fn stored(changes: &[(&str, Value)]) -> Value {
    json(&created(&JobStrategy, &with(&base(), changes)))
}

#[test]
fn defaults() {
    let filled = stored(&[]);
    let spec = &filled["spec"];
    for (field, expected) in [
        ("completions", json!(1)),
        ("parallelism", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("manualSelector", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
        (
            "selector",
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}}),
        ),
    ] {
        assert_eq!(spec[field], expected, "{field}");
    }
    assert_eq!(
        spec["template"]["metadata"]["labels"],
        json!({
            "app": "pi",
            "batch.kubernetes.io/controller-uid": "u1",
            "batch.kubernetes.io/job-name": "pi",
            "controller-uid": "u1",
            "job-name": "pi",
        })
    );
    assert_eq!(
        filled["metadata"]["labels"],
        json!({"app": "pi"}),
        "what was sent, before labels were added"
    );
    let many = stored(&[("/spec/parallelism", json!(3))]);
    assert_eq!(many["spec"]["completions"], Value::Null);
    let rule =
        json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]});
    let indexed = stored(&[
        ("/spec/completionMode", json!("Indexed")),
        ("/spec/completions", json!(3)),
        ("/spec/backoffLimitPerIndex", json!(1)),
        ("/spec/podFailurePolicy", rule),
    ]);
    let spec = &indexed["spec"];
    assert_eq!(spec["backoffLimit"], i32::MAX);
    assert_eq!(spec["podReplacementPolicy"], "Failed");
    let pattern = &spec["podFailurePolicy"]["rules"][0]["onPodConditions"][0];
    assert_eq!(pattern["status"], "True");
}

#[test]
fn validation() {
    let restart = "/spec/template/spec/restartPolicy";
    let policy = "/spec/podFailurePolicy";
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![(restart, json!(null))],
            vec![
                "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
            ],
        ),
        (
            vec![
                ("/spec/parallelism", json!(-1)),
                ("/spec/ttlSecondsAfterFinished", json!(-2)),
            ],
            vec![
                "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
                "spec.ttlSecondsAfterFinished: Invalid value: -2: must be greater than or equal to 0",
            ],
        ),
        (
            vec![("/spec/completionMode", json!("Random"))],
            vec![
                "spec.completionMode: Unsupported value: \"Random\": supported values: \"NonIndexed\", \"Indexed\"",
            ],
        ),
        (
            vec![
                ("/spec/completionMode", json!("Indexed")),
                ("/spec/parallelism", json!(100_001)),
            ],
            vec![
                "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
                "spec.completions: Required value: when completion mode is Indexed",
            ],
        ),
        (
            vec![("/spec/maxFailedIndexes", json!(1))],
            vec![
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
            ],
        ),
        (
            vec![("/spec/managedBy", json!("me"))],
            vec![
                "spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            ],
        ),
        (vec![("/spec/managedBy", json!("acme.io/jobs"))], vec![]),
        (
            vec![("/spec/podReplacementPolicy", json!("Never"))],
            vec![
                "spec.podReplacementPolicy: Unsupported value: \"Never\": supported values: \"Failed\", \"TerminatingOrFailed\"",
            ],
        ),
        (
            vec![
                (restart, json!("OnFailure")),
                (
                    policy,
                    json!({"rules": [{"action": "", "onExitCodes": {"operator": "In", "containerName": "x", "values": [3, 0, 3]}}]}),
                ),
            ],
            vec![
                "spec.podFailurePolicy.rules[0].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
                "spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: \"x\": must be one of the container or initContainer names in the pod template",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 3",
                "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered",
                "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified",
            ],
        ),
        (
            vec![(policy, json!({"rules": [{"action": "FailIndex"}]}))],
            vec![
                "spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
                "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
            ],
        ),
        (
            vec![(
                "/spec/successPolicy",
                json!({"rules": [{"succeededCount": 1}]}),
            )],
            vec![
                "spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededCount\":1,\"SucceededIndexes\":null}]}: requires indexed completion mode",
            ],
        ),
        (
            vec![
                ("/spec/completionMode", json!("Indexed")),
                ("/spec/completions", json!(3)),
                (
                    "/spec/successPolicy",
                    json!({"rules": [{}, {"succeededIndexes": "0,5"}, {"succeededIndexes": "0-1", "succeededCount": 3}]}),
                ),
            ],
            vec![
                "spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
                "spec.successPolicy.rules[1].succeededIndexes: Invalid value: \"0,5\": error parsing succeededIndexes: too large index: \"5\"",
                "spec.successPolicy.rules[2].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)",
            ],
        ),
        (
            vec![("/spec/manualSelector", json!(true))],
            vec!["spec.selector: Required value"],
        ),
        (
            vec![
                ("/spec/manualSelector", json!(true)),
                ("/spec/selector", json!({"matchLabels": {"app": "other"}})),
            ],
            vec![
                "spec.template.metadata.labels: Invalid value: {\"app\":\"pi\"}: `selector` does not match template `labels`",
            ],
        ),
        (
            vec![("/spec/template/metadata/labels/job-name", json!("other"))],
            vec![
                "spec.template.metadata.labels[job-name]: Invalid value: {\"app\":\"pi\",\"batch.kubernetes.io/controller-uid\":\"u1\",\"batch.kubernetes.io/job-name\":\"pi\",\"controller-uid\":\"u1\",\"job-name\":\"other\"}: must be 'pi'",
            ],
        ),
        (
            vec![
                ("/metadata/name", json!("a".repeat(62))),
                ("/spec/completionMode", json!("Indexed")),
                ("/spec/completions", json!(11)),
            ],
            vec![
                "metadata.name: Invalid value: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\": will not able to create pod with invalid DNS label: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-10",
            ],
        ),
    ] {
        let job = with(&base(), &changes);
        assert_eq!(create_errors(&JobStrategy, &job), expected, "{changes:?}");
    }
}

#[test]
fn updates() {
    let image = "/spec/template/spec/containers/0/image";
    let indexed = [
        ("/spec/completionMode", json!("Indexed")),
        ("/spec/completions", json!(3)),
        ("/spec/parallelism", json!(3)),
    ];
    let suspended = [("/spec/suspend", json!(true))];
    let immutable = |field: &str, value: &str| {
        format!("spec.{field}: Invalid value: {value}: field is immutable")
    };
    for (before, changes, expected) in [
        (&[][..], vec![("/spec/parallelism", json!(5))], vec![]),
        (&[], vec![("/spec/suspend", json!(true))], vec![]),
        (&[], vec![("/spec/activeDeadlineSeconds", json!(5))], vec![]),
        (
            &[],
            vec![("/spec/completions", json!(5))],
            vec![immutable("completions", "5")],
        ),
        (
            &indexed,
            vec![
                ("/spec/completions", json!(5)),
                ("/spec/parallelism", json!(5)),
            ],
            vec![],
        ),
        (
            &indexed,
            vec![("/spec/completions", json!(5))],
            vec!["spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism".to_owned()],
        ),
        (
            &[],
            vec![("/spec/managedBy", json!("acme.io/jobs"))],
            vec![immutable("managedBy", "\"acme.io/jobs\"")],
        ),
        (
            &suspended,
            vec![
                (
                    "/spec/template/spec/nodeSelector",
                    json!({"disk": "ssd"}),
                ),
                (
                    "/spec/template/spec/containers/0/resources",
                    json!({"requests": {"cpu": "1"}}),
                ),
            ],
            vec![],
        ),
    ] {
        let old = stored(before);
        let new = with(&old, &changes);
        assert_eq!(
            update_errors(&JobStrategy, &old, &new),
            expected,
            "{changes:?}"
        );
    }
    for before in [&[][..], &suspended] {
        let old = stored(before);
        let new = with(&old, &[(image, json!("perl:6"))]);
        let errors = update_errors(&JobStrategy, &old, &new);
        assert_eq!(errors.len(), 1);
        assert!(
            errors[0].starts_with("spec.template: Invalid value: {")
                && errors[0].ends_with(": field is immutable"),
            "{errors:?}"
        );
    }
}

#[test]
fn status() {
    let condition = |name: &str| json!({"type": name, "status": "True"});
    let start = "2026-01-02T03:00:00Z";
    let started = json!({"startTime": start, "active": 1});
    let complete = json!({
        "startTime": start,
        "completionTime": "2026-01-02T03:01:00Z",
        "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    });
    for (before, after, expected) in [
        (started.clone(), complete.clone(), vec![]),
        (
            started.clone(),
            with(
                &complete,
                &[("/completionTime", json!(null)), ("/active", json!(1))],
            ),
            vec![
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
            ],
        ),
        (
            started.clone(),
            with(&complete, &[("/conditions/0", condition("Failed"))]),
            vec![
                "status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions",
                "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
                "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            ],
        ),
        (
            complete.clone(),
            started.clone(),
            vec![
                "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
                "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
                "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            ],
        ),
        (
            started.clone(),
            json!({"active": 1, "ready": 2, "completedIndexes": "0"}),
            vec![
                "status.startTime: Required value: startTime cannot be removed for unsuspended job",
                "status.ready: Invalid value: 2: cannot set more ready pods than active",
                "status.completedIndexes: Invalid value: \"0\": cannot set non-empty completedIndexes when non-indexed completion mode",
            ],
        ),
        (
            started.clone(),
            with(
                &started,
                &[(
                    "/uncountedTerminatedPods",
                    json!({"succeeded": ["a", ""], "failed": ["a"]}),
                )],
            ),
            vec![
                "status.uncountedTerminatedPods.succeeded[1]: Invalid value: \"\": must not be empty",
                "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
            ],
        ),
    ] {
        let old = with(&stored(&[]), &[("/status", before)]);
        let new = with(&stored(&[]), &[("/status", after.clone())]);
        assert_eq!(status_errors(&JobStrategy, &old, &new), expected, "{after}");
    }
}

#[test]
fn a_selector_is_never_generated_twice() {
    let once = stored(&[]);
    let twice = defaulted(&JobStrategy, &once);
    assert_eq!(json(&twice), once);
}

#[test]
fn rows() {
    let started = "2026-01-02T03:04:00Z";
    for (changes, expected) in [
        (vec![], ["Running", "0/1", "", "<unknown>"]),
        (
            vec![
                ("/status/startTime", json!(started)),
                ("/status/succeeded", json!(1)),
                ("/spec/completions", json!(null)),
                ("/spec/parallelism", json!(3)),
            ],
            ["Running", "1/1 of 3", "5s", "<unknown>"],
        ),
        (
            vec![
                ("/status/startTime", json!(started)),
                ("/status/completionTime", json!("2026-01-02T03:04:03Z")),
                ("/status/succeeded", json!(1)),
                (
                    "/status/conditions",
                    json!([{"type": "Complete", "status": "True"}]),
                ),
            ],
            ["Complete", "1/1", "3s", "<unknown>"],
        ),
        (
            vec![("/metadata/deletionTimestamp", json!(started))],
            ["Terminating", "0/1", "", "<unknown>"],
        ),
    ] {
        let cells = row(&JobStrategy, &with(&stored(&[]), &changes));
        let values: Vec<Value> = cells.into_iter().map(|(_, value)| value).collect();
        assert_eq!(
            values[1..5],
            expected.map(|text| json!(text)),
            "{changes:?}"
        );
        assert_eq!(
            values[5..],
            [
                json!("main"),
                json!("perl:5"),
                json!("batch.kubernetes.io/controller-uid=u1")
            ]
        );
    }
}
