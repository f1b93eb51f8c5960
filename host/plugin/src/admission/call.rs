//! Calls of admission plugins on warm instances: taken from the component's pool or made, and given back unless they died.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    Answer, Request, Trial,
    bindings::{mutate, validate},
    request::Extra,
    review::{written_mutation, written_validation},
    table::Voice,
};
use crate::{
    error::CallError,
    instance::{Call, PluginInstance},
    manifest::{ObjectNeed, Phase},
    record::Recording,
    revision::Revision,
};

/// The instances of one revision that wait for calls. Last given back is first taken, so that idle ones stay cold.
pub(crate) struct Pool {
    revision: Arc<Revision>,
    mutate: Option<mutate::GuestIndices>,
    validate: Option<validate::GuestIndices>,
    idle: Mutex<Vec<Warm>>,
    max_idle: usize,
}

/// An instance with its typed exports.
pub(crate) struct Warm {
    instance: PluginInstance,
    mutate: Option<mutate::Guest>,
    validate: Option<validate::Guest>,
}

impl Pool {
    pub(super) fn new(revision: &Arc<Revision>, max_idle: usize) -> Self {
        let pre = revision.instance_pre();
        Self {
            mutate: mutate::GuestIndices::new(pre).ok(),
            validate: validate::GuestIndices::new(pre).ok(),
            revision: Arc::clone(revision),
            idle: Mutex::default(),
            max_idle,
        }
    }

    pub(super) fn revision(&self) -> &Arc<Revision> {
        &self.revision
    }

    pub(super) fn exports(&self, phase: Phase) -> bool {
        match phase {
            Phase::Mutate => self.mutate.is_some(),
            Phase::Validate => self.validate.is_some(),
        }
    }

    async fn take(&self) -> Result<Warm, CallError> {
        let idle = self.idle.lock().pop();
        match idle {
            Some(warm) => Ok(warm),
            None => self.fresh().await,
        }
    }

    /// A new instance, which is not given back by itself.
    pub(super) async fn fresh(&self) -> Result<Warm, CallError> {
        let mut instance = self.revision.instantiate().await?;
        let (store, exports) = instance.parts();
        let mutate = self
            .mutate
            .as_ref()
            .map(|i| i.load(&mut *store, exports))
            .transpose();
        let validate = self
            .validate
            .as_ref()
            .map(|i| i.load(&mut *store, exports))
            .transpose();
        match (mutate, validate) {
            (Ok(mutate), Ok(validate)) => Ok(Warm {
                instance,
                mutate,
                validate,
            }),
            (Err(error), _) | (_, Err(error)) => Err(CallError::Unavailable {
                plugin: Arc::clone(self.revision.component()),
                why: format!("{error:#}"),
            }),
        }
    }

    fn give_back(&self, warm: Warm) {
        if warm.instance.is_dead() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() < self.max_idle {
            idle.push(warm);
        }
    }
}

impl Voice {
    pub(super) async fn mutate(&self, request: &Request) -> Answer<mutate::Mutation> {
        self.available()?;
        if let Some(recording) = Recording::of(self.pool.revision()) {
            let mut trial = Trial::new(&recording.revision, self.plugin, self.settings().object);
            let answer = trial.mutate(request).await;
            let written = written_mutation(request, &answer);
            let input = request.to_review();
            recording.end(self.plugin, "admission/mutate", input, written);
            return answer;
        }
        let mut warm = self.pool.take().await?;
        let answer = warm
            .mutate(self.plugin, request, self.settings().object)
            .await;
        self.pool.give_back(warm);
        answer
    }

    pub(super) async fn validate(&self, request: &Request) -> Answer<Vec<String>> {
        self.available()?;
        if let Some(recording) = Recording::of(self.pool.revision()) {
            let mut trial = Trial::new(&recording.revision, self.plugin, self.settings().object);
            let answer = trial.validate(request).await;
            let written = written_validation(request, &answer);
            let input = request.to_review();
            recording.end(self.plugin, "admission/validate", input, written);
            return answer;
        }
        let mut warm = self.pool.take().await?;
        let answer = warm
            .validate(self.plugin, request, self.settings().object)
            .await;
        self.pool.give_back(warm);
        answer
    }
}

/// The guest's arguments borrow from pieces that must outlive the call.
macro_rules! call {
    ($warm:ident, $guest:ident, $function:ident, $interface:literal, $plugin:ident, $request:ident, $need:ident) => {{
        let Some(guest) = &$warm.$guest else {
            return Err(CallError::Unavailable {
                plugin: "?".into(),
                why: concat!("it does not export ", $interface).to_owned(),
            });
        };
        let groups: Vec<&str> = $request.user.groups.iter().map(String::as_str).collect();
        let extra = Extra::of(&$request.user);
        let extra = extra.borrowed();
        let outward = $request.outward($need, &groups, &extra);
        let (store, running) = $warm.instance.enter(Call {
            plugin: $plugin,
            interface: $interface,
            deadline: $request.deadline,
        })?;
        let outcome = running.wait(guest.$function(store, $plugin, outward)).await;
        $warm.instance.leave(running, outcome)
    }};
}

impl Warm {
    pub(super) fn is_dead(&self) -> bool {
        self.instance.is_dead()
    }

    pub(crate) async fn mutate(
        &mut self,
        plugin: u32,
        request: &Request,
        need: ObjectNeed,
    ) -> Answer<mutate::Mutation> {
        call!(
            self,
            mutate,
            call_mutate,
            "admission/mutate",
            plugin,
            request,
            need
        )
    }

    pub(crate) async fn validate(
        &mut self,
        plugin: u32,
        request: &Request,
        need: ObjectNeed,
    ) -> Answer<Vec<String>> {
        let answer: Answer<validate::Approval> = call!(
            self,
            validate,
            call_validate,
            "admission/validate",
            plugin,
            request,
            need
        );
        answer.map(|judged| judged.map(|approval| approval.warnings))
    }
}
