//! Real calls, written down so that they can be made again of another version: what was asked of the plugin, what it asked of the
//! host and was told, what it answered.
//!
//! A call that is recorded has a fresh instance of its own, so that nothing but what is written down can have decided it; a
//! replay has one too. Whoever records pays for that and for a few parses, nobody else.

mod replay;
mod tape;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::revision::Revision;

pub(crate) use replay::failed;
pub use replay::{ReplayError, Replayed, replay};
pub(crate) use tape::Tape;

/// Calls that wait for who writes them down; more are lost, and counted.
const WAITING: usize = 1024;

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedCall {
    pub component: String,
    /// Of the version that answered.
    pub digest: String,
    pub plugin: String,
    /// `admission/mutate`.
    pub interface: String,
    /// What the plugin was configured with.
    pub config: Value,
    /// Admission: the AdmissionReview; controllers: the key as `namespace` and `name`.
    pub input: Value,
    /// In its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Asked>,
    /// Admission: the response of the review; controllers: `done`, `requeueAfterMs` or `failed`. A call that failed has `error`.
    pub answer: Value,
}

/// What the plugin asked of the host, and what it was told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// `get pods.v1 default/web`; writes with what they write.
    pub ask: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub answer: Value,
    /// A refusal: `code`, `reason`, `message`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub status: Value,
}

/// Who wants to know of the calls of a component.
#[derive(Debug, Default)]
pub struct Recorder {
    on: AtomicBool,
    listeners: Mutex<Vec<mpsc::Sender<RecordedCall>>>,
    lost: AtomicU64,
}

impl Recorder {
    /// Every call from now on, until the receiver is dropped.
    pub fn listen(&self) -> mpsc::Receiver<RecordedCall> {
        let (sender, receiver) = mpsc::channel(WAITING);
        self.listeners.lock().push(sender);
        self.on.store(true, Relaxed);
        receiver
    }

    /// Calls that were not handed on because a listener was too slow.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    fn hand_on(&self, call: &RecordedCall) {
        let mut listeners = self.listeners.lock();
        listeners.retain(|listener| match listener.try_send(call.clone()) {
            Err(mpsc::error::TrySendError::Closed(_)) => false,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Relaxed);
                true
            }
            Ok(()) => true,
        });
        self.on.store(!listeners.is_empty(), Relaxed);
    }
}

/// A call that is being recorded: the same revision, with a tape between it and the host.
pub(crate) struct Recording {
    pub(crate) revision: Arc<Revision>,
    tape: Arc<Tape>,
}

impl Recording {
    /// `None` if nobody listens.
    pub(crate) fn of(revision: &Revision) -> Option<Self> {
        if !revision.recorder().is_on() {
            return None;
        }
        let tape = Arc::new(Tape::over(
            Arc::clone(revision.cluster()),
            Arc::clone(revision.clock()),
        ));
        Some(Self {
            revision: Arc::new(revision.on_tape(&tape)),
            tape,
        })
    }

    /// Hands on what was recorded.
    pub(crate) fn end(self, plugin: u32, interface: &str, input: Value, answer: Value) {
        let revision = &self.revision;
        let config = revision.settings().config.clone();
        revision.recorder().hand_on(&RecordedCall {
            component: revision.component().to_string(),
            digest: revision.digest().to_string(),
            plugin: revision.plugin_name(plugin).to_string(),
            interface: interface.to_owned(),
            config: config.unwrap_or_default(),
            input,
            asked: self.tape.take(),
            answer,
        });
    }
}
