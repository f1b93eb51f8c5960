//! A recorded call, made again.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{RecordedCall, Tape};
use crate::{
    admission::{Request, Trial, written_mutation, written_validation},
    controller::{ControllerCalls, written_run},
    manifest::{ObjectNeed, PluginEntry},
    revision::Revision,
};

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// As [`RecordedCall::answer`].
    pub answer: Value,
    /// What it asked of the host that was not asked when the call was recorded, so that nobody knows the answer.
    pub unheard: Vec<String>,
    /// What had been asked then and was not asked now.
    pub not_asked: Vec<String>,
}

/// Why a call cannot be made again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("the component has no plugin {0}")]
    NoPlugin(String),
    #[error("calls of {0} cannot be replayed")]
    Interface(String),
    #[error("the record is damaged: {0}")]
    Damaged(String),
}

impl Replayed {
    /// Whether the plugin did what it did then. What it read counts only as far as it matters to the answer; what it wrote counts.
    pub fn is_same(&self, call: &RecordedCall) -> bool {
        let reads = |ask: &String| {
            let verb = ask.split(' ').next().unwrap_or_default();
            matches!(
                verb,
                "get" | "get-live" | "list" | "list-owned" | "now" | "monotonic"
            )
        };
        self.answer == call.answer && self.unheard.is_empty() && self.not_asked.iter().all(reads)
    }
}

/// Makes the call of a fresh instance, which is told what the recorded one was told. `revision` is loaded with the configuration
/// that it shall have.
pub async fn replay(revision: &Revision, call: &RecordedCall) -> Result<Replayed, ReplayError> {
    let named = |entry: &PluginEntry| entry.name == call.plugin;
    let plugins = &revision.manifest().plugins;
    let place = plugins.iter().position(named);
    let place = place.ok_or_else(|| ReplayError::NoPlugin(call.plugin.clone()))?;
    let plugin = u32::try_from(place).unwrap_or_default();
    let tape = Arc::new(Tape::of(call.asked.clone()));
    let revision = Arc::new(revision.on_tape(&tape));
    let answer = match call.interface.as_str() {
        phase @ ("admission/mutate" | "admission/validate") => {
            let request = Request::from_review(&call.input).map_err(ReplayError::Damaged)?;
            let settings = plugins[place].admission.as_ref();
            let need = settings.map_or(ObjectNeed::Full, |settings| settings.object);
            let mut trial = Trial::new(&revision, plugin, need);
            match phase {
                "admission/mutate" => written_mutation(&request, &trial.mutate(&request).await),
                _ => written_validation(&request, &trial.validate(&request).await),
            }
        }
        "controller/reconcile" => {
            let text = |field: &str| call.input[field].as_str().unwrap_or_default();
            let calls = ControllerCalls::new(revision);
            let ran = calls.reconcile(plugin, text("namespace"), text("name"));
            written_run(&ran.await)
        }
        other => return Err(ReplayError::Interface(other.to_owned())),
    };
    Ok(Replayed {
        answer,
        unheard: tape.unheard(),
        not_asked: tape.take().into_iter().map(|asked| asked.ask).collect(),
    })
}

/// How a failed call is written down.
pub(crate) fn failed(error: &crate::error::CallError) -> Value {
    json!({ "error": error.to_string() })
}
