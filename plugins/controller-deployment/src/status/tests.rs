use super::*;

const NOW: Time = Time::from_ms(1_000_000_000);

fn deployment(spec: Value, status: Value) -> Deployment {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    serde_json::from_value(json!({
        "metadata": {"name": "web", "generation": 2, "uid": "u"}, "spec": spec, "status": status,
    }))
    .unwrap()
}

fn replica_set(wanted: i32, running: i32, available: i32) -> ReplicaSet {
    serde_json::from_value(json!({
        "metadata": {"name": "web-1"},
        "spec": {"replicas": wanted},
        "status": {"replicas": running, "readyReplicas": available, "availableReplicas": available},
    }))
    .unwrap()
}

fn progressing(status: &str, reason: &str, seconds_ago: u64) -> Condition {
    condition(
        PROGRESSING,
        status,
        reason,
        "before".into(),
        Time::from_ms(NOW.ms() - seconds_ago * 1000),
    )
}

fn reason_of<'a>(status: &'a DeploymentStatus, kind: &str) -> &'a str {
    find_condition(&status.conditions, kind).map_or("", |condition| &condition.reason)
}

#[test]
fn a_condition_keeps_what_did_not_change() {
    let mut conditions = vec![progressing("True", "A", 50)];
    set_condition(
        &mut conditions,
        condition(PROGRESSING, "True", "A", "other".into(), NOW),
    );
    assert_eq!(conditions[0].message, "before");
    set_condition(
        &mut conditions,
        condition(PROGRESSING, "True", "B", "other".into(), NOW),
    );
    let transition = conditions[0].last_transition_time.unwrap();
    assert_eq!(
        (
            transition.ms_since(Time::default()),
            conditions[0].last_update_time
        ),
        (999_950_000, Some(NOW))
    );
    set_condition(
        &mut conditions,
        condition(PROGRESSING, "False", "B", "other".into(), NOW),
    );
    assert_eq!(conditions[0].last_transition_time, Some(NOW));
}

#[test]
fn progress_is_judged_step_by_step() {
    let spec = || json!({"replicas": 2, "progressDeadlineSeconds": 60});
    let before =
        json!({"replicas": 2, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1});
    let web = deployment(spec(), before);
    let judge = |new: &ReplicaSet, old: &[ReplicaSet], conditions: Vec<Condition>| {
        rollout(&web, Some(new), old, conditions, NOW)
    };
    // More new pods than before.
    let status = judge(
        &replica_set(2, 2, 1),
        &[],
        vec![progressing("True", NEW_REPLICA_SET_CREATED, 90)],
    );
    assert_eq!(reason_of(&status, PROGRESSING), REPLICA_SET_UPDATED);
    // Nothing moved within the deadline, then after it.
    let stuck = replica_set(2, 1, 1);
    let old = [replica_set(1, 1, 0)];
    let status = judge(
        &stuck,
        &old,
        vec![progressing("True", NEW_REPLICA_SET_CREATED, 60)],
    );
    assert_eq!(reason_of(&status, PROGRESSING), NEW_REPLICA_SET_CREATED);
    let status = judge(
        &stuck,
        &old,
        vec![progressing("True", NEW_REPLICA_SET_CREATED, 61)],
    );
    assert_eq!(reason_of(&status, PROGRESSING), PROGRESS_DEADLINE_EXCEEDED);
    assert_eq!(
        find_condition(&status.conditions, PROGRESSING)
            .unwrap()
            .status,
        "False"
    );
    // Progress after the deadline takes it back.
    let status = judge(
        &replica_set(2, 2, 1),
        &[],
        vec![progressing("False", PROGRESS_DEADLINE_EXCEEDED, 5)],
    );
    assert_eq!(reason_of(&status, PROGRESSING), REPLICA_SET_UPDATED);
    // Complete.
    let status = judge(
        &replica_set(2, 2, 2),
        &[],
        vec![progressing("True", REPLICA_SET_UPDATED, 5)],
    );
    let done = find_condition(&status.conditions, PROGRESSING).unwrap();
    assert_eq!(
        (&*done.reason, &*done.message),
        (
            NEW_REPLICA_SET_AVAILABLE,
            "ReplicaSet \"web-1\" has successfully progressed."
        )
    );
    // A finished rollout is not judged again when pods fail later.
    let status = judge(
        &replica_set(2, 2, 0),
        &[],
        vec![progressing("True", NEW_REPLICA_SET_AVAILABLE, 900)],
    );
    assert_eq!(reason_of(&status, PROGRESSING), NEW_REPLICA_SET_AVAILABLE);
}

#[test]
fn without_a_deadline_nothing_is_said_about_progress() {
    for deadline in [Value::Null, json!(i32::MAX)] {
        let web = deployment(
            json!({"replicas": 1, "progressDeadlineSeconds": deadline}),
            json!({}),
        );
        let status = rollout(
            &web,
            None,
            &[],
            vec![progressing("True", NEW_REPLICA_SET_CREATED, 5)],
            NOW,
        );
        assert_eq!(reason_of(&status, PROGRESSING), "");
        assert_eq!(progress_check_ms(&web, &status, NOW), None);
    }
}

#[test]
fn availability_follows_the_bounds() {
    let rolling = json!({"rollingUpdate": {"maxUnavailable": 1}});
    let web = deployment(json!({"replicas": 3, "strategy": rolling}), json!({}));
    for (available, expected) in [(3, "True"), (2, "True"), (1, "False")] {
        let status = counted(&web, Some(&replica_set(3, 3, available)), &[], vec![], NOW);
        assert_eq!(
            find_condition(&status.conditions, AVAILABLE)
                .unwrap()
                .status,
            expected,
            "{available}"
        );
        assert_eq!(status.unavailable_replicas, 3 - available);
    }
}

#[test]
fn the_deadline_is_looked_at_in_time() {
    let web = deployment(
        json!({"replicas": 1, "progressDeadlineSeconds": 60}),
        json!({}),
    );
    let status = |reason: &str, seconds_ago| DeploymentStatus {
        conditions: vec![progressing("True", reason, seconds_ago)],
        ..Default::default()
    };
    assert_eq!(
        progress_check_ms(&web, &status(REPLICA_SET_UPDATED, 20), NOW),
        Some(41_000)
    );
    assert_eq!(
        progress_check_ms(&web, &status(REPLICA_SET_UPDATED, 90), NOW),
        Some(1_000)
    );
    assert_eq!(
        progress_check_ms(&web, &status(PROGRESS_DEADLINE_EXCEEDED, 90), NOW),
        None
    );
    assert_eq!(
        progress_check_ms(&web, &status(NEW_REPLICA_SET_AVAILABLE, 90), NOW),
        None
    );
}

#[test]
fn a_failure_of_a_replica_set_is_carried_upwards() {
    let web = deployment(json!({"replicas": 1}), json!({}));
    let mut failing = replica_set(1, 0, 0);
    let mut failure = condition(REPLICA_FAILURE, "True", "FailedCreate", "quota".into(), NOW);
    failure.last_update_time = None;
    failing.status.conditions = vec![failure];
    let status = rollout(&web, Some(&failing), &[], vec![], NOW);
    let carried = find_condition(&status.conditions, REPLICA_FAILURE)
        .unwrap()
        .clone();
    assert_eq!(
        (&*carried.message, carried.last_update_time),
        ("quota", Some(NOW))
    );
    let status = rollout(&web, Some(&replica_set(1, 1, 0)), &[], vec![carried], NOW);
    assert_eq!(reason_of(&status, REPLICA_FAILURE), "");
}
