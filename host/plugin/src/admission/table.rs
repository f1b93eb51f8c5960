//! The active admission plugins in their order, with the warm instances of their components.

use std::{collections::HashSet, sync::Arc};

use super::{Request, call::Pool};
use crate::{
    manifest::{AdmissionSettings, Phase},
    revision::Revision,
};

/// One plugin of one component. Its index was checked when the table was made.
pub(crate) struct Member {
    pub(super) plugin: u32,
    name: Arc<str>,
    settings: AdmissionSettings,
    built_in: bool,
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
}

impl Table {
    /// `revisions` with whether they ship with the host. A user's plugin takes the place of a built-in one of its name.
    pub(super) fn build(revisions: &[(Arc<Revision>, bool)], warm: usize, old: &Self) -> Self {
        let mut members = Vec::new();
        for (revision, built_in) in revisions {
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

    /// Those that a request reaches in a phase.
    pub(super) fn matching<'a>(
        &'a self,
        phase: Phase,
        request: &Request,
    ) -> impl Iterator<Item = &'a Arc<Member>> {
        let operation = request.operation.in_rules();
        let resource = request.resource.clone();
        let subresource = request.subresource.clone();
        let (namespaced, built_in_only) = (request.namespaced, request.built_in_only);
        self.0.iter().filter(move |member| {
            (member.built_in || !built_in_only)
                && member.settings.phases.contains(&phase)
                && member.pool.exports(phase)
                && member.settings.matches(
                    operation,
                    &resource.group,
                    &resource.version,
                    &resource.resource,
                    &subresource,
                    namespaced,
                )
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
