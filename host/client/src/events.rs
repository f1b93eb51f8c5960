//! Records events (events.k8s.io/v1) without ever holding up the caller.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/>
//!
//! An event is written once; the same again (subject, type, reason, action, note, reporter) within ten minutes becomes
//! `series.count`. One subject gets 25 events at once and one more every five minutes, so that a failing loop does not fill
//! the storage. What a full queue cannot take is dropped and counted.

mod correlator;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use pilothouse_api::{GroupVersionResource, Status};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    client::{Client, PatchType},
    clock::Clock,
};
use correlator::{Correlator, Verdict};

const EVENTS: GroupVersionResource = GroupVersionResource::of("events.k8s.io", "v1", "events");
/// As the API server validates it.
const MAX_NOTE_BYTES: usize = 1024;
const QUEUE: usize = 4096;

/// What an event is about, as `corev1.ObjectReference`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Regarding {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Occurrence {
    regarding: Regarding,
    kind: String,
    reason: String,
    action: String,
    note: String,
    reporter: String,
}

/// A cheap clone; the events of all clones are written by one task, which ends with the last of them.
#[derive(Clone)]
pub struct EventRecorder {
    queue: mpsc::Sender<(Occurrence, u64)>,
    clock: Arc<dyn Clock>,
    dropped: Arc<AtomicU64>,
}

impl EventRecorder {
    /// Writes as the user of `client`; `instance` is `reportingInstance`, such as the host's name. Must be called within a
    /// tokio runtime.
    pub fn new(client: Client, instance: &str, clock: Arc<dyn Clock>) -> Self {
        let (queue, occurrences) = mpsc::channel(QUEUE);
        tokio::spawn(write(client, instance.to_owned(), occurrences));
        Self {
            queue,
            clock,
            dropped: Arc::default(),
        }
    }

    /// Records an event of `reporter` (`default-scheduler`, a plugin's name). `kind` is Normal or Warning.
    pub fn record(
        &self,
        reporter: &str,
        regarding: Regarding,
        kind: &str,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let occurrence = Occurrence {
            regarding,
            kind: kind.to_owned(),
            reason: reason.to_owned(),
            action: if action.is_empty() { reason } else { action }.to_owned(),
            note: cut(note).to_owned(),
            reporter: reporter.to_owned(),
        };
        if self
            .queue
            .try_send((occurrence, self.clock.now_ms()))
            .is_err()
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many events a full queue could not take.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

async fn write(
    client: Client,
    instance: String,
    mut occurrences: mpsc::Receiver<(Occurrence, u64)>,
) {
    let mut correlator = Correlator::default();
    while let Some((occurrence, now_ms)) = occurrences.recv().await {
        let namespace = namespace(&occurrence.regarding).to_owned();
        let written = match correlator.judge(&occurrence, now_ms) {
            Verdict::Drop => continue,
            Verdict::Create { name } => {
                let event = event(&occurrence, &instance, &name, now_ms);
                client
                    .create(&EVENTS, &namespace, event.to_string())
                    .await
                    .map(|_| ())
            }
            Verdict::Series { name, count } => {
                let series =
                    json!({"series": {"count": count, "lastObservedTime": micro_time(now_ms)}});
                client
                    .patch(
                        &EVENTS,
                        &namespace,
                        &name,
                        "",
                        PatchType::Merge,
                        series.to_string(),
                    )
                    .await
                    .map(|_| ())
            }
        };
        if let Err(status) = written {
            failed(&mut correlator, &occurrence, &status);
        }
    }
}

/// An event whose object has expired begins anew next time; any other failure loses this one event only.
fn failed(correlator: &mut Correlator, occurrence: &Occurrence, status: &Status) {
    correlator.forget(occurrence);
    if !status.is_not_found() {
        tracing::debug!(reason = status.reason, "an event was not written: {status}");
    }
}

/// Events about cluster-scoped objects live in `default`.
fn namespace(regarding: &Regarding) -> &str {
    match regarding.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

fn event(occurrence: &Occurrence, instance: &str, name: &str, now_ms: u64) -> Value {
    let regarding = &occurrence.regarding;
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace(regarding)},
        "eventTime": micro_time(now_ms),
        "reportingController": occurrence.reporter,
        "reportingInstance": instance,
        "action": occurrence.action,
        "reason": occurrence.reason,
        "type": occurrence.kind,
        "note": occurrence.note,
        "regarding": {
            "apiVersion": regarding.api_version,
            "kind": regarding.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": regarding.uid,
        },
    })
}

fn micro_time(ms: u64) -> String {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap_or(i64::MAX));
    format!("{:.6}", time.unwrap_or_default())
}

fn cut(note: &str) -> &str {
    if note.len() <= MAX_NOTE_BYTES {
        return note;
    }
    let end = (0..=MAX_NOTE_BYTES)
        .rev()
        .find(|at| note.is_char_boundary(*at));
    &note[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests;
