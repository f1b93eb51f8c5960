//! Pod statuses as a kubelet writes them.
//! Source: <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/>

use std::net::Ipv4Addr;

use pilothouse_sdk::objects::{Condition, Time, find_condition};
use serde_json::{Value, json};

use crate::pod::{Container, Pod};

/// The patch that makes a pod run since now.
pub(crate) fn running(
    pod: &Pod,
    pod_address: Ipv4Addr,
    host_address: Ipv4Addr,
    now: Time,
) -> Value {
    let now = now.whole_seconds();
    let state = json!({"running": {"startedAt": now}});
    let ended = || ended(now, now);
    let init = pod
        .spec
        .init_containers
        .iter()
        .map(|container| match is_sidecar(container) {
            true => container_status(pod, container, true, state.clone()),
            false => container_status(pod, container, false, ended()),
        });
    let init: Vec<Value> = init.collect();
    let containers = pod.spec.containers.iter();
    let containers: Vec<Value> = containers
        .map(|container| container_status(pod, container, true, state.clone()))
        .collect();
    let mut patch = patch(
        pod,
        json!({
            "phase": "Running",
            "startTime": now,
            "hostIP": host_address.to_string(),
            "hostIPs": [{"ip": host_address.to_string()}],
            "podIP": pod_address.to_string(),
            "podIPs": [{"ip": pod_address.to_string()}],
            "containerStatuses": containers,
            "conditions": conditions(pod, [
                ("PodReadyToStartContainers", true, ""),
                ("Initialized", true, ""),
                ("Ready", pod.should_be_ready(), if pod.should_be_ready() { "" } else { "ReadinessGatesNotReady" }),
                ("ContainersReady", true, ""),
                ("PodScheduled", true, ""),
            ], now),
        }),
    );
    if !init.is_empty() {
        patch["status"]["initContainerStatuses"] = json!(init);
    }
    patch
}

/// The patch that brings `Ready` to what the readiness gates say.
pub(crate) fn readiness(pod: &Pod, now: Time) -> Value {
    let ready = pod.should_be_ready();
    let reason = if ready { "" } else { "ReadinessGatesNotReady" };
    let conditions = conditions(pod, [("Ready", ready, reason)], now.whole_seconds());
    patch(pod, json!({"conditions": conditions}))
}

/// The patch that ends a pod well.
pub(crate) fn succeeded(pod: &Pod, now: Time) -> Value {
    let now = now.whole_seconds();
    let started = pod.status.start_time.unwrap_or(now);
    let containers = pod.spec.containers.iter();
    let containers: Vec<Value> = containers
        .map(|container| container_status(pod, container, false, ended(started, now)))
        .collect();
    patch(
        pod,
        json!({
            "phase": "Succeeded",
            "containerStatuses": containers,
            "conditions": conditions(pod, [
                ("PodReadyToStartContainers", false, ""),
                ("Initialized", true, "PodCompleted"),
                ("Ready", false, "PodCompleted"),
                ("ContainersReady", false, "PodCompleted"),
            ], now),
        }),
    )
}

/// Bound to the version that was seen, because a merge patch replaces the whole list of conditions.
fn patch(pod: &Pod, mut status: Value) -> Value {
    if pod.metadata.generation > 0 {
        status["observedGeneration"] = json!(pod.metadata.generation);
    }
    json!({
        "metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
        "status": status,
    })
}

/// The pod's conditions with the given ones as of now; one whose status does not change keeps its time.
fn conditions<const N: usize>(
    pod: &Pod,
    own: [(&str, bool, &str); N],
    now: Time,
) -> Vec<Condition> {
    let before = &pod.status.conditions;
    let others = before
        .iter()
        .filter(|condition| own.iter().all(|(kind, ..)| *kind != condition.kind));
    let own = own.iter().map(|(kind, holds, reason)| {
        let status = if *holds { "True" } else { "False" };
        let same = find_condition(before, kind).filter(|condition| condition.status == status);
        Condition {
            kind: (*kind).into(),
            status: status.into(),
            reason: (*reason).into(),
            last_transition_time: same
                .and_then(|condition| condition.last_transition_time)
                .or(Some(now)),
            observed_generation: Some(pod.metadata.generation).filter(|generation| *generation > 0),
            ..Condition::default()
        }
    });
    own.chain(others.cloned()).collect()
}

fn container_status(pod: &Pod, container: &Container, runs: bool, state: Value) -> Value {
    let init_done = !runs
        && pod
            .spec
            .init_containers
            .iter()
            .any(|init| init.name == container.name);
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": format!("simulated://{}", container.image),
        "containerID": format!("simulated://{}/{}", pod.metadata.uid, container.name),
        "ready": runs || init_done,
        "started": runs,
        "restartCount": 0,
        "lastState": {},
        "state": state,
    })
}

fn ended(started: Time, finished: Time) -> Value {
    json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": finished,
    }})
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}
