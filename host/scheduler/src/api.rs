//! What the scheduler asks of the API server besides watching: little, so that tests can stand in for it.

use async_trait::async_trait;
use pilothouse_api::Status;
use serde_json::json;

use crate::{message::truncate, pod::PodInfo};

/// An event about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// `Normal` or `Warning`.
    pub event_type: &'static str,
    pub reason: &'static str,
    pub action: &'static str,
    pub note: String,
}

impl PodEvent {
    /// The pod got a node.
    pub fn scheduled(pod: &PodInfo, node_name: &str) -> Self {
        Self {
            event_type: "Normal",
            reason: "Scheduled",
            action: "Binding",
            note: format!("Successfully assigned {pod} to {node_name}"),
        }
    }

    /// It got none.
    pub fn failed(message: &str) -> Self {
        Self {
            event_type: "Warning",
            reason: "FailedScheduling",
            action: "Scheduling",
            note: truncate(message),
        }
    }
}

/// The API server.
#[async_trait]
pub trait Api: Send + Sync + 'static {
    /// The pod as it is now, not from a cache.
    async fn get_pod(&self, namespace: &str, name: &str) -> Result<PodInfo, Status>;

    /// A strategic merge patch of the pod's status.
    async fn patch_pod_status(
        &self,
        namespace: &str,
        name: &str,
        patch: Vec<u8>,
    ) -> Result<(), Status>;

    /// Writes an event sooner or later; what becomes of it is not the scheduler's business.
    fn record(&self, pod: &PodInfo, event: PodEvent);
}

/// Why a pod was not scheduled this time, to be told to whoever looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// `Unschedulable` or `SchedulerError`.
    pub reason: &'static str,
    pub message: String,
}

impl Report {
    /// Writes the event, and the condition `PodScheduled` unless it says so already.
    pub async fn tell(&self, pod: &PodInfo, api: &dyn Api) {
        api.record(pod, PodEvent::failed(&self.message));
        let says = pod.unscheduled.as_ref();
        if says.is_some_and(|(reason, message)| reason == self.reason && *message == self.message) {
            return;
        }
        let (namespace, name) = (&pod.record.namespace, &pod.record.name);
        let patch = self.condition(&pod.uid);
        match api.patch_pod_status(namespace, name, patch).await {
            Ok(()) => {}
            Err(status) if status.is_not_found() || status.is_conflict() => {} // gone, or another pod by now
            Err(status) => {
                tracing::warn!(%namespace, %name, error = status.message, "the condition PodScheduled was not written");
            }
        }
    }

    /// The patch; it is refused for another pod of the same name.
    pub(crate) fn condition(&self, uid: &str) -> Vec<u8> {
        let patch = json!({
            "metadata": { "uid": uid },
            "status": { "conditions": [{
                "type": "PodScheduled",
                "status": "False",
                "reason": self.reason,
                "message": self.message,
                "lastProbeTime": null,
                "lastTransitionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            }] },
        });
        patch.to_string().into_bytes()
    }
}
