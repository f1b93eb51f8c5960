use serde_json::{Value, json};

use super::base;
use crate::registry::kinds::{
    pod::PodStrategy,
    testing::{row, with},
};

fn state(name: &str, state: Value) -> Value {
    json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

fn running(name: &str) -> Value {
    with(
        &state(name, json!({"running": {}})),
        &[("/ready", json!(true)), ("/started", json!(true))],
    )
}

/// Ready, Status and Restarts.
fn summary(changes: &[(&str, Value)]) -> [String; 3] {
    let row = row(&PodStrategy, &with(&base(), changes));
    [1, 2, 3].map(|i| row[i].1.as_str().expect("text").to_owned())
}

#[test]
fn the_whole_row() {
    let pod = with(
        &base(),
        &[
            ("/metadata/creationTimestamp", json!("2026-01-02T00:04:05Z")),
            ("/spec/nodeName", json!("n")),
            (
                "/spec/readinessGates",
                json!([{"conditionType": "a"}, {"conditionType": "b"}]),
            ),
            (
                "/status",
                json!({
                    "phase": "Running",
                    "podIPs": [{"ip": "10.0.0.1"}],
                    "conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}],
                    "containerStatuses": [running("nginx")],
                }),
            ),
        ],
    );
    assert_eq!(
        row(&PodStrategy, &pod),
        [
            ("Name", json!("web")),
            ("Ready", json!("1/1")),
            ("Status", json!("Running")),
            ("Restarts", json!("0")),
            ("Age", json!("3h")),
            ("IP", json!("10.0.0.1")),
            ("Node", json!("n")),
            ("Nominated Node", json!("<none>")),
            ("Readiness Gates", json!("1/2")),
        ]
    );
}

#[test]
fn statuses() {
    let init = |statuses: Value| {
        vec![
            (
                "/spec/initContainers",
                json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]),
            ),
            (
                "/status",
                json!({"phase": "Pending", "initContainerStatuses": statuses}),
            ),
        ]
    };
    let containers = |phase: &str, statuses: Value| {
        vec![(
            "/status",
            json!({"phase": phase, "containerStatuses": statuses}),
        )]
    };
    let done = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
    for (changes, expected) in [
        (
            vec![("/status/phase", json!("Pending"))],
            ["0/1", "Pending", "0"],
        ),
        (
            vec![(
                "/status",
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            )],
            ["0/1", "SchedulingGated", "0"],
        ),
        (
            vec![("/status", json!({"phase": "Failed", "reason": "Evicted"}))],
            ["0/1", "Evicted", "0"],
        ),
        (
            init(json!([state("a", json!({"running": {}}))])),
            ["0/1", "Init:0/2", "0"],
        ),
        (
            init(json!([
                state("a", done.clone()),
                state("b", json!({"waiting": {"reason": "PodInitializing"}}))
            ])),
            ["0/1", "Init:1/2", "0"],
        ),
        (
            init(json!([state(
                "a",
                json!({"waiting": {"reason": "ImagePullBackOff"}})
            )])),
            ["0/1", "Init:ImagePullBackOff", "0"],
        ),
        (
            init(json!([state(
                "a",
                json!({"terminated": {"exitCode": 2, "reason": "Error"}})
            )])),
            ["0/1", "Init:Error", "0"],
        ),
        (
            init(json!([state("a", json!({"terminated": {"exitCode": 2}}))])),
            ["0/1", "Init:ExitCode:2", "0"],
        ),
        (
            init(json!([state(
                "a",
                json!({"terminated": {"exitCode": 137, "signal": 9}})
            )])),
            ["0/1", "Init:Signal:9", "0"],
        ),
        (
            containers(
                "Pending",
                json!([state(
                    "nginx",
                    json!({"waiting": {"reason": "ContainerCreating"}})
                )]),
            ),
            ["0/1", "ContainerCreating", "0"],
        ),
        (
            containers(
                "Running",
                json!([state(
                    "nginx",
                    json!({"waiting": {"reason": "CrashLoopBackOff"}})
                )]),
            ),
            ["0/1", "CrashLoopBackOff", "0"],
        ),
        (
            containers("Succeeded", json!([state("nginx", done.clone())])),
            ["0/1", "Completed", "0"],
        ),
        (
            containers(
                "Failed",
                json!([state("nginx", json!({"terminated": {"exitCode": 3}}))]),
            ),
            ["0/1", "ExitCode:3", "0"],
        ),
        (
            containers(
                "Running",
                json!([state("nginx", done.clone()), running("other")]),
            ),
            ["1/1", "NotReady", "0"],
        ),
        (
            vec![
                ("/metadata/deletionTimestamp", json!("2026-01-02T03:00:00Z")),
                (
                    "/status",
                    json!({"phase": "Running", "containerStatuses": [running("nginx")]}),
                ),
            ],
            ["1/1", "Terminating", "0"],
        ),
        (
            vec![
                ("/metadata/deletionTimestamp", json!("2026-01-02T03:00:00Z")),
                (
                    "/status",
                    json!({"phase": "Succeeded", "containerStatuses": [state("nginx", done)]}),
                ),
            ],
            ["0/1", "Completed", "0"],
        ),
        (
            vec![
                ("/metadata/deletionTimestamp", json!("2026-01-02T03:00:00Z")),
                ("/status", json!({"phase": "Running", "reason": "NodeLost"})),
            ],
            ["0/1", "Unknown", "0"],
        ),
    ] {
        assert_eq!(summary(&changes), expected, "{changes:?}");
    }
}

#[test]
fn sidecars_count() {
    let changes = [
        (
            "/spec/initContainers",
            json!([{"name": "proxy", "image": "i", "restartPolicy": "Always"}]),
        ),
        (
            "/status",
            json!({"phase": "Running", "initContainerStatuses": [running("proxy")], "containerStatuses": [running("nginx")]}),
        ),
    ];
    assert_eq!(summary(&changes), ["2/2", "Running", "0"]);
}

#[test]
fn restarts_say_when() {
    let restarted = with(
        &running("nginx"),
        &[
            ("/restartCount", json!(3)),
            (
                "/lastState/terminated",
                json!({"exitCode": 1, "finishedAt": "2026-01-02T02:59:05Z"}),
            ),
        ],
    );
    let changes = [(
        "/status",
        json!({"phase": "Running", "containerStatuses": [restarted]}),
    )];
    assert_eq!(summary(&changes), ["1/1", "Running", "3 (5m ago)"]);
}
