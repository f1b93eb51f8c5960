//! The contract of admission plugins. It is tried with sample requests, with others like them by chance, and with hostile ones; what
//! breaks a clause is made as small as it still does.

mod random;

use std::{fmt::Display, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use pilothouse_api::{
    apply::{self, BuiltIn, type_errors},
    facts,
};
use serde_json::Value;

use super::{Contract, SampleCluster, Violation, chance::Chance, samples};
use crate::{
    admission::{Request, Trial},
    error::CallError,
    manifest::{AdmissionSettings, Phase},
    registry::SmokeContract,
    revision::Revision,
};

const IDEMPOTENT: &str = "mutation-is-idempotent";
const APPLIES: &str = "patches-apply";
const TYPES: &str = "a-patched-object-can-be-read";
const NO_WRITES: &str = "validation-writes-nothing";
const DRY_RUN: &str = "dry-run-has-no-side-effects";
const CAPABILITIES: &str = "stays-within-its-capabilities";
const SAME: &str = "same-answer-again-and-on-a-fresh-instance";
const HOSTILE: &str = "no-trap-on-hostile-input";
const LIMITS: &str = "within-its-limits";

/// All clauses.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdmissionContract;

/// The clauses that are quick to try, before a reload takes effect.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdmissionSmoke;

#[async_trait]
impl Contract for AdmissionContract {
    fn family(&self) -> &'static str {
        "admission"
    }

    fn clauses(&self) -> &'static [&'static str] {
        &[
            IDEMPOTENT,
            APPLIES,
            TYPES,
            NO_WRITES,
            DRY_RUN,
            CAPABILITIES,
            SAME,
            HOSTILE,
            LIMITS,
        ]
    }

    async fn run(&self, revision: &Revision, seed: u64) -> Vec<Violation> {
        let mut violations = Vec::new();
        for mut subject in subjects(revision) {
            subject.ordinary(usize::MAX).await;
            subject.overreaching();
            subject.hostile(usize::MAX).await;
            subject.by_chance(seed).await;
            for found in subject.found.clone() {
                violations.push(subject.smallest(found).await);
            }
        }
        violations
    }
}

#[async_trait]
impl SmokeContract for AdmissionSmoke {
    fn family(&self) -> &'static str {
        "admission"
    }

    async fn check(&self, revision: &Revision) -> Result<(), String> {
        for mut subject in subjects(revision) {
            subject.ordinary(2).await;
            subject.hostile(6).await;
            if let Some(found) = subject.found.first() {
                return Err(found.violation.to_string());
            }
        }
        Ok(())
    }
}

/// Requests that chance adds to the samples.
const BY_CHANCE: usize = 40;

/// A broken clause and what broke it.
#[derive(Clone)]
struct Found {
    violation: Violation,
    request: Request,
    /// Attempts to make the request smaller; few where each takes as long as a limit allows.
    attempts: usize,
}

/// One plugin on trial.
struct Subject {
    name: String,
    plugin: u32,
    settings: AdmissionSettings,
    cluster: Arc<SampleCluster>,
    revision: Arc<Revision>,
    found: Vec<Found>,
}

fn subjects(revision: &Revision) -> Vec<Subject> {
    let plugins = revision.manifest().plugins.iter().zip(0..);
    plugins
        .filter_map(|(entry, plugin)| {
            let cluster = SampleCluster::new();
            Some(Subject {
                name: entry.name.clone(),
                plugin,
                settings: entry.admission.clone()?,
                revision: Arc::new(revision.isolated(cluster.clone())),
                cluster,
                found: Vec::new(),
            })
        })
        .collect()
}

impl Subject {
    /// Each clause is reported once; the first case is enough to find the fault.
    fn broken(&mut self, clause: &'static str, request: &Request, why: impl Display) {
        if self.has_broken(clause) {
            return;
        }
        let operation = request.operation;
        let resource = &request.resource.resource;
        self.found.push(Found {
            violation: Violation {
                plugin: self.name.clone(),
                clause,
                why: format!("{operation:?} of {resource}: {why}"),
            },
            request: request.clone(),
            attempts: random::ATTEMPTS,
        });
    }

    /// The same for a call that failed.
    fn broken_by(
        &mut self,
        clause: &'static str,
        request: &Request,
        what: &str,
        error: &CallError,
    ) {
        if self.has_broken(clause) {
            return;
        }
        self.broken(clause, request, format_args!("{what}{error}"));
        if let (CallError::Limit { .. }, Some(found)) = (error, self.found.last_mut()) {
            found.attempts = random::FEW_ATTEMPTS;
        }
    }

    fn has_broken(&self, clause: &'static str) -> bool {
        self.found.iter().any(|f| f.violation.clause == clause)
    }

    /// Requests like the samples, but for their objects.
    async fn by_chance(&mut self, seed: u64) {
        let samples = samples::ordinary(&self.settings);
        let mut chance = Chance::new(seed);
        for turn in 0..BY_CHANCE {
            let Some(sample) = samples.get(chance.below(samples.len())) else {
                return;
            };
            let Some(object) = object_of(sample) else {
                continue;
            };
            let hostile = turn % 2 == 1;
            let object = match hostile {
                true => random::unlike(&object, &mut chance),
                false => random::alike(&object, &mut chance),
            };
            let request = with_object(sample, &object);
            match hostile {
                true => {
                    self.survives(&format!("what seed {seed} made"), &request)
                        .await
                }
                false => self.behaves(&request).await,
            }
        }
    }

    /// The violation with the smallest object that still brings it about.
    async fn smallest(&self, found: Found) -> Violation {
        let Found {
            mut violation,
            mut request,
            mut attempts,
        } = found;
        let clause = violation.clause;
        let Some(mut object) = object_of(&request) else {
            return violation;
        };
        let mut candidates: Vec<Value> = random::smaller(&object).collect();
        candidates.reverse();
        while let Some(smaller) = candidates.pop().filter(|_| attempts > 0) {
            attempts -= 1;
            let tried = with_object(&request, &smaller);
            if let Some(again) = self.breaks(clause, &tried).await {
                candidates = random::smaller(&smaller).collect();
                candidates.reverse();
                (violation, request, object) = (again, tried, smaller);
            }
        }
        violation.why = format!("{}; the smallest such object: {object}", violation.why);
        violation
    }

    /// The clause, broken again by a request alone.
    async fn breaks(&self, clause: &'static str, request: &Request) -> Option<Violation> {
        let mut alone = Self {
            name: self.name.clone(),
            plugin: self.plugin,
            settings: self.settings.clone(),
            cluster: Arc::clone(&self.cluster),
            revision: Arc::clone(&self.revision),
            found: Vec::new(),
        };
        match clause {
            HOSTILE => alone.survives("a hostile object", request).await,
            _ => alone.behaves(request).await,
        }
        if clause == CAPABILITIES {
            alone.overreaching();
        }
        let mut found = alone.found.into_iter();
        let found = found.find(|found| found.violation.clause == clause)?;
        Some(found.violation)
    }

    fn trial(&self, phase: Phase) -> Option<Trial> {
        let trial = Trial::new(&self.revision, self.plugin, self.settings.object);
        (self.settings.phases.contains(&phase) && trial.exports(phase)).then_some(trial)
    }

    async fn ordinary(&mut self, most: usize) {
        let requests = samples::ordinary(&self.settings);
        for request in requests.into_iter().take(most) {
            self.behaves(&request).await;
        }
    }

    /// What holds of every request that an API server would let through to admission.
    async fn behaves(&mut self, request: &Request) {
        if let Some(mut trial) = self.trial(Phase::Mutate) {
            self.mutates_well(&mut trial, request).await;
        }
        if let Some(mut trial) = self.trial(Phase::Validate) {
            self.validates_well(&mut trial, request).await;
        }
    }

    /// What an ordinary request made it ask for without a capability. No part of the smoke check: an owner may grant less than
    /// the manifest asks for.
    fn overreaching(&mut self) {
        let requests = samples::ordinary(&self.settings);
        if let (Some(why), Some(request)) = (self.cluster.take_refusals().first(), requests.first())
        {
            self.broken(CAPABILITIES, request, why);
        }
    }

    async fn hostile(&mut self, most: usize) {
        for (what, request) in samples::hostile(&self.settings).into_iter().take(most) {
            self.survives(&what, &request).await;
        }
    }

    /// What holds of every request whatever.
    async fn survives(&mut self, what: &str, request: &Request) {
        for phase in [Phase::Mutate, Phase::Validate] {
            let Some(mut trial) = self.trial(phase) else {
                continue;
            };
            let failure = match phase {
                Phase::Mutate => trial.mutate(request).await.err(),
                Phase::Validate => trial.validate(request).await.err(),
            };
            if let Some(error) = failure {
                self.broken_by(HOSTILE, request, &format!("with {what}: "), &error);
            }
        }
    }

    async fn mutates_well(&mut self, trial: &mut Trial, request: &Request) {
        let first = match trial.mutate(request).await {
            Ok(Ok(mutation)) => mutation.json_patch,
            Ok(Err(_)) => return,
            Err(error) => return self.failed(request, &error),
        };
        let mut dry = request.clone();
        dry.dry_run = true;
        self.cluster.take_writes();
        if let Err(error) = trial.mutate(&dry).await {
            self.failed(&dry, &error);
        }
        self.nothing_written(DRY_RUN, &dry);
        if let Ok(Ok(again)) = trial.mutate(request).await
            && again.json_patch != first
        {
            self.broken(
                SAME,
                request,
                "it patches the same object differently a second time",
            );
        }
        if let Some(mut fresh) = self.trial(Phase::Mutate)
            && let Ok(Ok(again)) = fresh.mutate(request).await
            && again.json_patch != first
        {
            self.broken(
                SAME,
                request,
                "two instances patch the same object differently",
            );
        }
        if first.is_empty() {
            return;
        }
        let object = request.object.as_deref().unwrap_or_default();
        let changed = match patched(object, &first) {
            Ok(changed) => changed,
            Err(why) => return self.broken(APPLIES, request, why),
        };
        let before = object_of(request).and_then(|object| wrong_type(request, &object));
        if let Some(why) = wrong_type(request, &changed).filter(|_| before.is_none()) {
            return self.broken(TYPES, request, why);
        }
        let mut second = request.clone();
        second.object = Some(changed.to_string().into());
        match trial.mutate(&second).await {
            Ok(Ok(mutation)) => match patched(changed.to_string().as_bytes(), &mutation.json_patch)
            {
                Ok(again) if again == changed => {}
                Ok(_) => self.broken(IDEMPOTENT, request, "it changes its own output"),
                Err(why) => self.broken(APPLIES, request, why),
            },
            Ok(Err(denial)) => {
                let why = format!("it refuses its own output: {}", denial.message);
                self.broken(IDEMPOTENT, request, why);
            }
            Err(error) => self.failed(&second, &error),
        }
    }

    async fn validates_well(&mut self, trial: &mut Trial, request: &Request) {
        self.cluster.take_writes();
        let first = match trial.validate(request).await {
            Ok(answer) => answer.map_err(|denial| denial.message),
            Err(error) => return self.failed(request, &error),
        };
        self.nothing_written(NO_WRITES, request);
        if let Some(mut fresh) = self.trial(Phase::Validate)
            && let Ok(again) = fresh.validate(request).await
            && again.map_err(|denial| denial.message) != first
        {
            self.broken(
                SAME,
                request,
                "two instances judge the same request differently",
            );
        }
    }

    fn nothing_written(&mut self, clause: &'static str, request: &Request) {
        if let Some(write) = self.cluster.take_writes().first() {
            self.broken(
                clause,
                request,
                format_args!("it wrote to the cluster: {write}"),
            );
        }
    }

    /// An ordinary request must neither trap nor exceed a limit.
    fn failed(&mut self, request: &Request, error: &CallError) {
        self.broken_by(LIMITS, request, "", error);
    }
}

/// The object that a request is about, if it is one; large ones are not worth making smaller.
fn object_of(request: &Request) -> Option<Value> {
    const LARGE: usize = 64 << 10;
    let json = request.object.as_ref().or(request.old_object.as_ref())?;
    let object: Value = serde_json::from_slice(json)
        .ok()
        .filter(|_| json.len() <= LARGE)?;
    object.is_object().then_some(object)
}

/// The same request about another object.
fn with_object(request: &Request, object: &Value) -> Request {
    let json = Bytes::from(object.to_string());
    let mut request = request.clone();
    for place in [&mut request.object, &mut request.old_object] {
        if place.is_some() {
            *place = Some(json.clone());
        }
    }
    request
}

/// What in an object is not of the type that its kind has there; what the kind does not know is no matter here.
fn wrong_type(request: &Request, object: &Value) -> Option<String> {
    let schema = BuiltIn::kind(facts::by_kind(&request.kind)?);
    let json = object.to_string();
    let value = apply::Value::parse(json.as_bytes()).ok()?;
    let errors = type_errors(schema, &value, true);
    let unknown = |error: &String| error.ends_with("not declared in schema");
    errors.into_iter().find(|error| !unknown(error))
}

/// The patched object; an empty patch changes nothing.
fn patched(object: &[u8], patch: &str) -> Result<Value, String> {
    let mut tree: Value = serde_json::from_slice(object).map_err(|error| error.to_string())?;
    if !patch.is_empty() {
        let patch: json_patch::Patch =
            serde_json::from_str(patch).map_err(|error| format!("it is no JSON patch: {error}"))?;
        json_patch::patch(&mut tree, &patch).map_err(|error| error.to_string())?;
    }
    Ok(tree)
}
