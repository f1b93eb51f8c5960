//! A plugin whose answer does not act: asked after the one that does, on a copy of the same request, and compared with it.

use std::sync::Arc;

use pilothouse_api::{Status, patch::Patch};
use serde_json::Value;

use super::{Answer, Request, Step, call::Pool, step, table::Voice};
use crate::{manifest::Phase, shadow::DifferenceKind};

/// The plugin of a candidate, or of a component in shadow mode.
pub(crate) struct Beside {
    /// `None`: the candidate has no plugin of this name.
    pub(super) voice: Option<Arc<Voice>>,
    /// Of a hundred requests, those that it decides.
    pub(super) weight: u8,
    pub(super) pool: Arc<Pool>,
}

/// What came of a request, as far as two plugins can differ in it.
#[derive(Debug)]
pub(super) enum Came {
    Allowed(Step),
    /// Code and message.
    Refused(u16, String),
    Failed(String),
}

impl Came {
    pub(super) fn of(answer: &Answer<Step>) -> Self {
        match answer {
            Ok(Ok(step)) => Self::Allowed(step.clone()),
            Ok(Err(denial)) => Self::Refused(denial.code, denial.message.clone()),
            Err(error) => Self::Failed(error.to_string()),
        }
    }

    /// In what the other one differs. Two refusals of one code are the same, whatever they say.
    fn differs(&self, other: &Self, request: &Request) -> Option<DifferenceKind> {
        match (self, other) {
            (Self::Failed(_), Self::Failed(_)) => None,
            (Self::Failed(_), _) | (_, Self::Failed(_)) => Some(DifferenceKind::Failure),
            (Self::Refused(one, _), Self::Refused(other, _)) if one == other => None,
            (Self::Allowed(one), Self::Allowed(other)) => {
                if one.tree(request) != other.tree(request) {
                    return Some(DifferenceKind::Object);
                }
                (one.warnings != other.warnings).then_some(DifferenceKind::Warnings)
            }
            _ => Some(DifferenceKind::Decision),
        }
    }

    /// For people: what is new in the object, if anything is.
    fn describe(&self, request: &Request) -> String {
        match self {
            Self::Allowed(step) => {
                let mut text = "allowed".to_owned();
                if step.object.is_some() {
                    let patch = json_patch::diff(&before(request), &step.tree(request));
                    text = format!("{text}, changed: {patch}");
                }
                match step.warnings.as_slice() {
                    [] => text,
                    warnings => format!("{text}, warned: {}", warnings.join("; ")),
                }
            }
            Self::Refused(code, message) => format!("refused, {code}: {message}"),
            Self::Failed(error) => format!("failed: {error}"),
        }
    }
}

impl Step {
    /// The object afterwards.
    fn tree(&self, request: &Request) -> Value {
        let changed = self.object.as_ref();
        changed.map_or_else(
            || before(request),
            |json| serde_json::from_slice(json).unwrap_or_default(),
        )
    }
}

fn before(request: &Request) -> Value {
    let object = request.object.as_deref().unwrap_or_default();
    serde_json::from_slice(object).unwrap_or_default()
}

/// `CREATE pods default/web`.
fn about(request: &Request) -> String {
    let operation = format!("{:?}", request.operation).to_uppercase();
    let resource = match request.subresource.as_str() {
        "" => request.resource.resource.to_string(),
        subresource => format!("{}/{subresource}", request.resource.resource),
    };
    match request.namespace.as_str() {
        "" => format!("{operation} {resource} {}", request.name),
        namespace => format!("{operation} {resource} {namespace}/{}", request.name),
    }
}

impl Beside {
    /// Asks `voice` some time, and compares with what was done. Nobody waits for it.
    pub(super) fn compare(
        &self,
        phase: Phase,
        request: Request,
        voice: Option<&Arc<Voice>>,
        acted: Came,
    ) {
        let Some(shadow) = self.pool.revision().shadow().map(Arc::clone) else {
            return;
        };
        let (voice, noted) = (voice.cloned(), Arc::clone(&shadow));
        shadow.some_time(|| async move {
            // the request may be over by then
            let request = Request {
                deadline: None,
                ..request
            };
            let would = match &voice {
                None => Came::Allowed(Step::default()),
                Some(voice) => Came::of(&ask(voice, phase, &request).await),
            };
            noted.compared();
            if let Some(kind) = acted.differs(&would, &request) {
                let (acted, would) = (acted.describe(&request), would.describe(&request));
                noted.differs(kind, about(&request), &acted, &would);
            }
        });
    }
}

async fn ask(voice: &Voice, phase: Phase, request: &Request) -> Answer<Step> {
    match phase {
        Phase::Mutate => step(voice, request, &mut None, &apply, None).await,
        Phase::Validate => {
            let answer = voice.validate(request).await?;
            Ok(answer.map(Step::warned))
        }
    }
}

fn apply(object: &mut Value, patch: &str) -> Result<(), Status> {
    Patch::json(patch.as_bytes())?.apply_in_place(object, None)
}
