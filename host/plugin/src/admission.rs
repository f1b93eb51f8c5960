//! Admission plugins: the ordered table of those that are active, and the two passes over it.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/>
//!
//! Invariants: a pass uses one table from beginning to end, so a reload in between changes nothing for it; mutating plugins run
//! one after the other, each on what the one before made; validating plugins all see the same object. One deadline covers a
//! pass: each call gets what is left of it. An answer that does not act (shadow mode, a candidate) is never waited for.

mod beside;
mod bindings;
mod call;
mod exempt;
mod match_rules;
mod outcome;
mod request;
mod review;
mod table;
mod trial;

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use pilothouse_api::Status;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::{
    error::CallError,
    manifest::{FailurePolicy, ObjectNeed, Phase},
    record::RecordedCall,
    registry::{Active, ActiveComponent},
};

pub use bindings::MutateAnswer;
pub use exempt::Exempt;
pub use match_rules::MatchRules;
pub use outcome::Denial;
pub use request::{Operation, Request, User};
pub use review::response;
pub(crate) use review::{written_mutation, written_validation};
pub use trial::Trial;

use beside::Came;
use table::{Member, Table, Turn, Voice};

/// The active admission plugins.
pub struct AdmissionPlugins {
    table: ArcSwap<Table>,
    /// Of all families.
    active: ArcSwap<Active>,
    /// Warm instances kept of each component.
    warm: usize,
    exempt: Exempt,
}

/// What the mutating pass did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mutation {
    /// The object as it is now; `None`: unchanged.
    pub object: Option<Bytes>,
    pub warnings: Vec<String>,
}

/// Applies a JSON patch (RFC 6902) to an object: `(object, patch)`.
pub type ApplyPatch<'a> = &'a (dyn Fn(&mut Value, &str) -> Result<(), Status> + Sync);

/// Says why an object cannot be read as what it should be.
pub type Readable<'a> = &'a (dyn Fn(&[u8]) -> Result<(), Status> + Sync);

/// One plugin's answer to one call, for contracts.
pub type Answer<T> = Result<Result<T, Denial>, CallError>;

impl AdmissionPlugins {
    /// No plugins yet. Some instances of each component are kept warm for each core: a call that waits for the host leaves the
    /// core to the next request.
    pub fn new() -> Self {
        const EACH_CORE: usize = 4;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            table: ArcSwap::from_pointee(Table::default()),
            active: ArcSwap::from_pointee(Arc::new([])),
            warm: cores * EACH_CORE,
            exempt: Exempt::default(),
        }
    }

    /// The same, where users' plugins do not see what is exempt.
    pub fn exempting(self, exempt: Exempt) -> Self {
        Self { exempt, ..self }
    }

    /// Takes over the active revisions; those that were there already keep their warm instances.
    pub fn set(&self, active: &[ActiveComponent]) {
        let old = self.table.load();
        self.active.store(Arc::new(active.into()));
        self.table
            .store(Arc::new(Table::build(active, self.warm, &old)));
    }

    /// Follows a registry until it goes away; begins with what is active now.
    pub async fn follow(&self, mut active: watch::Receiver<Active>) {
        loop {
            let now = active.borrow_and_update().clone();
            self.set(&now);
            if active.changed().await.is_err() {
                return;
            }
        }
    }

    /// The calls of a component of any family from now on; `None` if it is not active.
    pub fn record_calls(&self, component: &str) -> Option<mpsc::Receiver<RecordedCall>> {
        let active = self.active.load();
        let named = |c: &&ActiveComponent| &**c.revision.component() == component;
        let found = active.iter().find(named)?;
        Some(found.revision.recorder().listen())
    }

    /// Whether any plugin may want a request of this kind in this phase, whose objects are not filled in yet; what nobody wants
    /// need not be encoded.
    pub fn wants(&self, phase: Phase, request: &Request) -> bool {
        let table = self.table.load();
        let built_in_only = self.exempt.covers(request);
        table
            .matching(phase, request, built_in_only)
            .next()
            .is_some()
    }

    /// The mutating pass. A denial is a whole `Status`; a failing plugin follows its failure policy, as does one whose patch
    /// does not apply. With `readable` each is held to what it makes, which costs a decoding each.
    pub async fn mutate(
        &self,
        mut request: Request,
        apply: ApplyPatch<'_>,
        readable: Option<Readable<'_>>,
    ) -> Result<Mutation, Status> {
        const PHASE: Phase = Phase::Mutate;
        let table = self.table.load_full();
        let exempt = self.exempt.covers(&request);
        let mut done = Mutation::default();
        let mut tree = None; // of the object, once one of them changes it
        for member in table.matching(PHASE, &request, exempt).collect::<Vec<_>>() {
            let answer = match member.turn(PHASE, &request, exempt) {
                Turn::Nobody => continue,
                Turn::Serving(voice) => step(voice, &request, &mut tree, apply, readable).await,
                Turn::Candidate(candidate, serving) => {
                    let answer = step_of(candidate, &request, &mut tree, apply, readable).await;
                    match stands(member, answer) {
                        Some(answer) => answer,
                        None => step_of(serving, &request, &mut tree, apply, readable).await,
                    }
                }
                Turn::Shadowed(serving, other, beside) => {
                    let answer = step_of(serving, &request, &mut tree, apply, readable).await;
                    beside.compare(PHASE, request.clone(), other, Came::of(&answer));
                    answer
                }
            };
            let Some(step) = judge(member, PHASE, &request, answer)? else {
                continue;
            };
            done.warnings.extend(step.warnings);
            if let Some(object) = step.object {
                request.object = Some(object.clone());
                done.object = Some(object);
            }
        }
        Ok(done)
    }

    /// The validating pass; the answer is the warnings. Waits overlap; the first denial in the plugins' order counts.
    pub async fn validate(&self, request: &Request) -> Result<Vec<String>, Status> {
        let table = self.table.load_full();
        let exempt = self.exempt.covers(request);
        let matching = table.matching(Phase::Validate, request, exempt);
        let members: Vec<&Arc<Member>> = matching.collect();
        let answers = futures::future::join_all(
            members
                .iter()
                .map(|member| validated(member, request, exempt)),
        );
        let mut warnings = Vec::new();
        for (member, answer) in members.iter().zip(answers.await) {
            let step = judge(member, Phase::Validate, request, answer)?;
            warnings.extend(step.unwrap_or_default().warnings);
        }
        Ok(warnings)
    }
}

/// What one plugin made of a request that it lets pass.
#[derive(Clone, Debug, Default)]
struct Step {
    /// `None`: unchanged.
    object: Option<Bytes>,
    warnings: Vec<String>,
}

impl Step {
    fn warned(warnings: Vec<String>) -> Self {
        Self {
            object: None,
            warnings,
        }
    }
}

/// Calls a mutating plugin and applies its patch; `tree` is what the object was parsed to, if it was.
async fn step(
    voice: &Voice,
    request: &Request,
    tree: &mut Option<Value>,
    apply: ApplyPatch<'_>,
    readable: Option<Readable<'_>>,
) -> Answer<Step> {
    let mutation = match voice.mutate(request).await? {
        Ok(mutation) => mutation,
        Err(denial) => return Ok(Err(denial)),
    };
    let unpatched = request.object.as_ref();
    let Some(unpatched) = unpatched.filter(|_| !mutation.json_patch.is_empty()) else {
        return Ok(Ok(Step::warned(mutation.warnings)));
    };
    let made = patched(tree, unpatched, &mutation.json_patch, apply);
    let made = made.and_then(|object| {
        readable.map_or(Ok(()), |readable| readable(&object))?;
        Ok(object)
    });
    match made {
        Ok(object) => Ok(Ok(Step {
            object: Some(object),
            warnings: mutation.warnings,
        })),
        Err(why) => {
            *tree = None; // half patched
            Err(voice.bad_answer(&why.message))
        }
    }
}

/// The same; nobody lets everything pass.
async fn step_of(
    voice: Option<&Voice>,
    request: &Request,
    tree: &mut Option<Value>,
    apply: ApplyPatch<'_>,
    readable: Option<Readable<'_>>,
) -> Answer<Step> {
    match voice {
        Some(voice) => step(voice, request, tree, apply, readable).await,
        None => Ok(Ok(Step::default())),
    }
}

async fn validated(member: &Member, request: &Request, exempt: bool) -> Answer<Step> {
    const PHASE: Phase = Phase::Validate;
    let by = async |voice: Option<&Voice>| match voice {
        Some(voice) => Ok(voice.validate(request).await?.map(Step::warned)),
        None => Ok(Ok(Step::default())),
    };
    match member.turn(PHASE, request, exempt) {
        Turn::Nobody => Ok(Ok(Step::default())),
        Turn::Serving(voice) => by(Some(voice)).await,
        Turn::Candidate(candidate, serving) => match stands(member, by(candidate).await) {
            Some(answer) => answer,
            None => by(serving).await,
        },
        Turn::Shadowed(serving, other, beside) => {
            let answer = by(serving).await;
            beside.compare(PHASE, request.clone(), other, Came::of(&answer));
            answer
        }
    }
}

/// The answer of a candidate; `None` if it failed, so that what serves is asked.
fn stands(member: &Member, answer: Answer<Step>) -> Option<Answer<Step>> {
    match answer {
        Err(error) => {
            let name = member.name();
            tracing::warn!(plugin = %name, %error, "a candidate failed; the version that serves answers");
            None
        }
        answer => Some(answer),
    }
}

impl Default for AdmissionPlugins {
    fn default() -> Self {
        Self::new()
    }
}

/// The object with a patch; `tree` is what it was parsed to, if it was.
fn patched(
    tree: &mut Option<Value>,
    object: &Bytes,
    patch: &str,
    apply: ApplyPatch<'_>,
) -> Result<Bytes, Status> {
    let tree = match tree {
        Some(tree) => tree,
        none => none.insert(serde_json::from_slice(object).map_err(Status::internal)?),
    };
    apply(tree, patch)?;
    let json = serde_json::to_vec(tree).map_err(Status::internal)?;
    Ok(json.into())
}

/// The value; `None` if the plugin failed and the request goes on without it.
fn judge<T>(
    member: &Member,
    phase: Phase,
    request: &Request,
    answer: Answer<T>,
) -> Result<Option<T>, Status> {
    match answer {
        Ok(Ok(value)) => Ok(Some(value)),
        Ok(Err(denial)) => Err(denial.into_status(request)),
        Err(error) => {
            let name = member.name();
            match member.failure_policy(phase) {
                FailurePolicy::Fail => {
                    let failed = format!("failed calling admission plugin {name:?}: {error}");
                    Err(Status::internal(failed))
                }
                FailurePolicy::Ignore => {
                    tracing::warn!(plugin = %name, %error, "an admission plugin failed; the request goes on");
                    Ok(None)
                }
            }
        }
    }
}

/// What a plugin gets to see of the objects.
fn shown(object: Option<&Bytes>, need: ObjectNeed) -> Option<&[u8]> {
    match need {
        ObjectNeed::Full => object.map(|object| &object[..]),
        ObjectNeed::None => None,
    }
}
