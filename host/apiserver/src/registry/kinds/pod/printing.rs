//! What `kubectl get pods` shows. The status is a summary of the phase, the containers' states and the deletion.

use k8s_openapi::{
    api::core::v1::{ContainerState, ContainerStatus, Pod, PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::{Value, json};

use super::resources::is_sidecar;
use crate::registry::{kinds::cells, printing::Column};

pub(super) fn columns() -> Vec<Column> {
    vec![
        Column::NAME,
        Column::string(
            "Ready",
            "Containers that are ready, and how many there are.",
        ),
        Column::string("Status", "What the containers' states amount to."),
        Column::string(
            "Restarts",
            "How often containers were restarted, and when last.",
        ),
        Column::AGE,
        Column::string("IP", "Address of the pod.").wide(),
        Column::string("Node", "Node that the pod runs on.").wide(),
        Column::string(
            "Nominated Node",
            "Node that preemption makes room on for the pod.",
        )
        .wide(),
        Column::string(
            "Readiness Gates",
            "Readiness gates that are true, and how many there are.",
        )
        .wide(),
    ]
}

pub(super) fn row(pod: &Pod, now: jiff::Timestamp) -> Vec<Value> {
    let empty = (PodSpec::default(), PodStatus::default());
    let spec = pod.spec.as_ref().unwrap_or(&empty.0);
    let status = pod.status.as_ref().unwrap_or(&empty.1);
    let summary = Summary::of(pod, spec, status);
    let ip = status.pod_ips.as_deref().and_then(|ips| ips.first());
    vec![
        json!(pod.metadata.name),
        json!(format!("{}/{}", summary.ready, summary.containers)),
        json!(summary.reason),
        json!(summary.restarts(now)),
        json!(cells::since(pod.metadata.creation_timestamp.as_ref(), now)),
        json!(cells::or_none(ip.map_or("", |ip| &ip.ip))),
        json!(cells::or_none(
            spec.node_name.as_deref().unwrap_or_default()
        )),
        json!(cells::or_none(
            status.nominated_node_name.as_deref().unwrap_or_default()
        )),
        json!(readiness_gates(spec, status)),
    ]
}

struct Summary {
    reason: String,
    ready: usize,
    containers: usize,
    restarts: i32,
    last_restart: Option<Time>,
}

impl Summary {
    fn of(pod: &Pod, spec: &PodSpec, status: &PodStatus) -> Self {
        let sidecars = spec
            .init_containers
            .iter()
            .flatten()
            .filter(|c| is_sidecar(c));
        let mut summary = Self {
            reason: first_reason(status),
            ready: 0,
            containers: spec.containers.len() + sidecars.count(),
            restarts: 0,
            last_restart: None,
        };
        let initializing = summary.add_init_containers(spec, status);
        if !initializing || is_true(status, "Initialized") {
            summary.add_containers(spec, status);
        }
        if pod.metadata.deletion_timestamp.is_some() {
            let phase = status.phase.as_deref().unwrap_or_default();
            if status.reason.as_deref() == Some("NodeLost") {
                summary.reason = "Unknown".to_owned();
            } else if phase != "Succeeded" && phase != "Failed" {
                summary.reason = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Looks at the init containers up to the first that is not done; returns whether there is one.
    fn add_init_containers(&mut self, spec: &PodSpec, status: &PodStatus) -> bool {
        let init = spec.init_containers.as_deref().unwrap_or_default();
        let statuses = status.init_container_statuses.iter().flatten();
        for (i, container) in statuses.enumerate() {
            self.count_restarts(container);
            let sidecar = init
                .iter()
                .any(|c| c.name == container.name && is_sidecar(c));
            let state = container.state.clone().unwrap_or_default();
            if state.terminated.as_ref().is_some_and(|t| t.exit_code == 0) {
                continue;
            }
            if sidecar && container.started == Some(true) {
                self.ready += usize::from(container.ready);
                continue;
            }
            self.reason = match ended(&state).or_else(|| waiting(&state, "PodInitializing")) {
                Some(reason) => format!("Init:{reason}"),
                None => format!("Init:{i}/{}", init.len()),
            };
            return true;
        }
        false
    }

    /// Looks at the containers, the first last, so that its reason is the one that is shown.
    fn add_containers(&mut self, spec: &PodSpec, status: &PodStatus) {
        self.restarts = 0;
        self.last_restart = None;
        let init = spec.init_containers.as_deref().unwrap_or_default();
        for container in status.init_container_statuses.iter().flatten() {
            if init
                .iter()
                .any(|c| c.name == container.name && is_sidecar(c))
            {
                self.count_restarts(container);
            }
        }
        let mut running = false;
        for container in status.container_statuses.iter().flatten().rev() {
            self.count_restarts(container);
            let state = container.state.clone().unwrap_or_default();
            if let Some(reason) = waiting(&state, "").or_else(|| ended(&state)) {
                self.reason = reason;
            } else if container.ready && state.running.is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            self.reason = match is_true(status, "Ready") {
                true => "Running".to_owned(),
                false => "NotReady".to_owned(),
            };
        }
    }

    fn count_restarts(&mut self, container: &ContainerStatus) {
        self.restarts += container.restart_count;
        let last = container
            .last_state
            .as_ref()
            .and_then(|s| s.terminated.as_ref());
        let finished = last.and_then(|t| t.finished_at.clone());
        self.last_restart = self.last_restart.take().max(finished);
    }

    fn restarts(&self, now: jiff::Timestamp) -> String {
        match &self.last_restart {
            Some(last) if self.restarts != 0 => {
                format!("{} ({} ago)", self.restarts, cells::since(Some(last), now))
            }
            _ => self.restarts.to_string(),
        }
    }
}

/// The phase, unless the pod's own reason or a gate says more.
fn first_reason(status: &PodStatus) -> String {
    let gated = status
        .conditions
        .iter()
        .flatten()
        .any(|c| c.type_ == "PodScheduled" && c.reason.as_deref() == Some("SchedulingGated"));
    let reason = status.reason.as_deref().unwrap_or_default();
    match (gated, reason) {
        (true, _) => "SchedulingGated".to_owned(),
        (false, "") => status.phase.clone().unwrap_or_default(),
        (false, reason) => reason.to_owned(),
    }
}

fn is_true(status: &PodStatus, condition: &str) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|c| c.type_ == condition && c.status == "True")
}

/// Why a container waits, unless for `ordinary`.
fn waiting(state: &ContainerState, ordinary: &str) -> Option<String> {
    let reason = state.waiting.as_ref()?.reason.clone()?;
    (!reason.is_empty() && reason != ordinary).then_some(reason)
}

/// How a container ended.
fn ended(state: &ContainerState) -> Option<String> {
    let terminated = state.terminated.as_ref()?;
    let reason = terminated.reason.as_deref().unwrap_or_default();
    Some(match (reason, terminated.signal.unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", terminated.exit_code),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    })
}

fn readiness_gates(spec: &PodSpec, status: &PodStatus) -> String {
    let gates = spec.readiness_gates.as_deref().unwrap_or_default();
    if gates.is_empty() {
        return cells::NONE.to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| is_true(status, &gate.condition_type));
    format!("{}/{}", open.count(), gates.len())
}
