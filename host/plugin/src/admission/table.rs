//! The active admission plugins in their order, with the warm instances of their components.

use std::{collections::HashSet, sync::Arc};

use super::{MatchRules, Request, call::Pool};
use crate::{
    error::CallError,
    manifest::{AdmissionSettings, Phase},
    registry::ActiveComponent,
    revision::Revision,
};

/// One plugin of one component. Its index was checked when the table was made.
pub(crate) struct Member {
    pub(super) plugin: u32,
    name: Arc<str>,
    settings: AdmissionSettings,
    built_in: bool,
    /// It must not be called; its failure policy holds.
    quarantined: bool,
    pub(super) pool: Arc<Pool>,
}

/// In the order of the calls. Immutable.
#[derive(Default)]
pub(crate) struct Table(Vec<Arc<Member>>);

impl Member {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn settings(&self) -> &AdmissionSettings {
        &self.settings
    }

    /// Whether the labels of the objects and of the namespace are among those that its owner narrowed it to.
    pub(super) fn selects(&self, request: &Request) -> bool {
        let chosen = self.match_rules();
        chosen.is_none_or(|rules| rules.select(request))
    }

    fn match_rules(&self) -> Option<&MatchRules> {
        self.pool.revision().settings().match_rules.as_ref()
    }

    /// Its last answer is of no use.
    pub(super) fn bad_answer(&self, why: &str) -> CallError {
        self.pool.revision().bad_answer(self.plugin, why)
    }

    /// Whether it can be called.
    pub(super) fn available(&self) -> Result<(), CallError> {
        match self.quarantined {
            false => Ok(()),
            true => Err(CallError::Unavailable {
                plugin: Arc::clone(&self.name),
                why: "it failed too often and is not called for a while".to_owned(),
            }),
        }
    }
}

impl Table {
    /// A user's plugin takes the place of a built-in one of its name.
    pub(super) fn build(active: &[ActiveComponent], warm: usize, old: &Self) -> Self {
        let mut members = Vec::new();
        for ActiveComponent {
            revision,
            built_in,
            quarantined,
        } in active
        {
            let pool = old
                .pool_of(revision)
                .unwrap_or_else(|| Arc::new(Pool::new(revision, warm)));
            for (index, entry) in revision.manifest().plugins.iter().enumerate() {
                let (Some(settings), Ok(plugin)) = (&entry.admission, u32::try_from(index)) else {
                    continue;
                };
                members.push(Arc::new(Member {
                    plugin,
                    name: entry.name.as_str().into(),
                    settings: settings.clone(),
                    built_in: *built_in,
                    quarantined: *quarantined,
                    pool: Arc::clone(&pool),
                }));
            }
        }
        members.sort_by(|a, b| {
            let key = |m: &Member| (m.settings.order, Arc::clone(&m.name), m.built_in);
            key(a).cmp(&key(b))
        });
        let users: HashSet<Arc<str>> = members
            .iter()
            .filter(|m| !m.built_in)
            .map(|m| Arc::clone(&m.name))
            .collect();
        members.retain(|m| !m.built_in || !users.contains(&m.name));
        Self(members)
    }

    /// Those that a request reaches in a phase, as far as that does not depend on labels.
    pub(super) fn matching<'t, 'r>(
        &'t self,
        phase: Phase,
        request: &'r Request,
    ) -> impl Iterator<Item = &'t Arc<Member>> + use<'t, 'r> {
        let operation = request.operation.in_rules();
        let of = &request.resource;
        self.0.iter().filter(move |member| {
            (member.built_in || !request.built_in_only)
                && member.settings.phases.contains(&phase)
                && member.pool.exports(phase)
                && member.settings.matches(
                    operation,
                    &of.group,
                    &of.version,
                    &of.resource,
                    &request.subresource,
                    request.namespaced,
                )
                && member
                    .match_rules()
                    .is_none_or(|rules| rules.match_resource(request))
        })
    }

    fn pool_of(&self, revision: &Arc<Revision>) -> Option<Arc<Pool>> {
        let member = self
            .0
            .iter()
            .find(|m| Arc::ptr_eq(m.pool.revision(), revision))?;
        Some(Arc::clone(&member.pool))
    }
}
