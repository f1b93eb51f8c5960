//! The active admission plugins in their order, with the warm instances of their components.

use std::{collections::HashSet, sync::Arc};

use super::{Request, beside::Beside, call::Pool};
use crate::{
    error::CallError,
    manifest::{AdmissionSettings, FailurePolicy, Phase, PluginEntry},
    registry::{ActiveComponent, weighs},
    revision::Revision,
};

/// One plugin of one revision. Its index was checked when the table was made.
pub(crate) struct Voice {
    pub(super) plugin: u32,
    name: Arc<str>,
    settings: AdmissionSettings,
    /// It must not be called; its failure policy holds.
    quarantined: bool,
    pub(super) pool: Arc<Pool>,
}

/// One plugin: who acts under its name, and who is beside. At least one of the two is there.
pub(crate) struct Member {
    name: Arc<str>,
    order: i32,
    built_in: bool,
    serving: Option<Arc<Voice>>,
    beside: Option<Beside>,
}

/// Who answers a request. A voice is missing where that revision has no plugin for it.
pub(super) enum Turn<'m> {
    Nobody,
    Serving(&'m Voice),
    /// The first acts, the second is compared with it.
    Shadowed(Option<&'m Voice>, Option<&'m Arc<Voice>>, &'m Beside),
    /// The first acts; if it fails, the second does.
    Candidate(Option<&'m Voice>, Option<&'m Voice>),
}

/// In the order of the calls. Immutable.
#[derive(Default)]
pub(crate) struct Table(Vec<Arc<Member>>);

impl Voice {
    fn new(index: usize, entry: &PluginEntry, pool: &Arc<Pool>) -> Option<Self> {
        Some(Self {
            plugin: u32::try_from(index).ok()?,
            name: entry.name.as_str().into(),
            settings: entry.admission.clone()?,
            quarantined: false,
            pool: Arc::clone(pool),
        })
    }

    pub(super) fn settings(&self) -> &AdmissionSettings {
        &self.settings
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

    /// As far as that does not depend on labels.
    fn is_reached(&self, phase: Phase, request: &Request) -> bool {
        let of = &request.resource;
        let chosen = self.pool.revision().settings().match_rules.as_ref();
        self.settings.phases.contains(&phase)
            && self.pool.exports(phase)
            && self.settings.matches(
                request.operation.in_rules(),
                &of.group,
                &of.version,
                &of.resource,
                &request.subresource,
                request.namespaced,
            )
            && chosen.is_none_or(|rules| rules.match_resource(request))
    }

    /// Whether the labels of the objects and of the namespace are among those that its owner narrowed it to.
    fn selects(&self, request: &Request) -> bool {
        let chosen = self.pool.revision().settings().match_rules.as_ref();
        chosen.is_none_or(|rules| rules.select(request))
    }

    fn wants(&self, phase: Phase, request: &Request) -> bool {
        self.is_reached(phase, request) && self.selects(request)
    }
}

impl Member {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What a failure means. One beside never makes a request fail.
    pub(super) fn failure_policy(&self, phase: Phase) -> FailurePolicy {
        let serving = self.serving.as_ref();
        serving.map_or(FailurePolicy::Ignore, |voice| {
            voice.settings.failure_policy_in(phase)
        })
    }

    /// As far as that does not depend on labels.
    fn is_reached(&self, phase: Phase, request: &Request, exempt: bool) -> bool {
        let serving = self.serving.as_ref();
        serving.is_some_and(|voice| voice.is_reached(phase, request))
            || self.beside(exempt).is_some_and(|beside| {
                let voice = beside.voice.as_ref();
                voice.is_some_and(|voice| voice.is_reached(phase, request))
            })
    }

    /// Candidates are users', also those of what ships with the host.
    fn beside(&self, exempt: bool) -> Option<&Beside> {
        self.beside.as_ref().filter(|_| !exempt)
    }

    /// Who answers, labels considered.
    pub(super) fn turn(&self, phase: Phase, request: &Request, exempt: bool) -> Turn<'_> {
        let Some(beside) = self.beside(exempt) else {
            let serving = self.serving.as_deref();
            let selected = serving.filter(|voice| voice.selects(request));
            return selected.map_or(Turn::Nobody, Turn::Serving);
        };
        let serving = self.serving.as_deref();
        let serving = serving.filter(|voice| voice.wants(phase, request));
        let other = beside.voice.as_ref();
        let other = other.filter(|voice| voice.wants(phase, request));
        match (serving, other) {
            (None, None) => Turn::Nobody,
            _ if beside.weight == 0 => Turn::Shadowed(serving, other, beside),
            _ if weighs(beside.weight, &key(request)) => {
                Turn::Candidate(other.map(|voice| &**voice), serving)
            }
            (Some(serving), _) => Turn::Serving(serving),
            (None, _) => Turn::Nobody,
        }
    }
}

/// What all requests about an object have in common; one without a name yet is its own.
fn key(request: &Request) -> [&str; 4] {
    let name = match request.name.as_str() {
        "" => request.uid.as_str(),
        name => name,
    };
    let of = &request.resource;
    [&of.group, &of.resource, &request.namespace, name]
}

impl Table {
    /// A user's plugin that acts takes the place of a built-in one of its name.
    pub(super) fn build(active: &[ActiveComponent], warm: usize, old: &Self) -> Self {
        let pool = |revision: &Arc<Revision>, warm| {
            old.pool_of(revision)
                .unwrap_or_else(|| Arc::new(Pool::new(revision, warm)))
        };
        let mut members = Vec::new();
        for component in active {
            members.extend(members_of(component, warm, &pool));
        }
        members.sort_by(|a, b| {
            let key = |m: &Member| (m.order, Arc::clone(&m.name), m.built_in);
            key(a).cmp(&key(b))
        });
        let acting = members
            .iter()
            .filter(|m| !m.built_in && m.serving.is_some());
        let users: HashSet<Arc<str>> = acting.map(|m| Arc::clone(&m.name)).collect();
        members.retain(|m| !m.built_in || !users.contains(&m.name));
        Self(members.into_iter().map(Arc::new).collect())
    }

    /// Those that a request reaches in a phase, as far as that does not depend on labels; one that is exempt reaches no user's.
    pub(super) fn matching<'t, 'r>(
        &'t self,
        phase: Phase,
        request: &'r Request,
        exempt: bool,
    ) -> impl Iterator<Item = &'t Arc<Member>> + use<'t, 'r> {
        self.0.iter().filter(move |member| {
            (member.built_in || !exempt) && member.is_reached(phase, request, exempt)
        })
    }

    fn pool_of(&self, revision: &Arc<Revision>) -> Option<Arc<Pool>> {
        let pools = self.0.iter().flat_map(|member| {
            let beside = member.beside.as_ref().map(|beside| &beside.pool);
            member.serving.iter().map(|voice| &voice.pool).chain(beside)
        });
        let mut of = pools.filter(|pool| Arc::ptr_eq(pool.revision(), revision));
        of.next().cloned()
    }
}

/// The plugins of a component; those of its candidate stand beside those of the same name.
fn members_of(
    component: &ActiveComponent,
    warm: usize,
    pool: &impl Fn(&Arc<Revision>, usize) -> Arc<Pool>,
) -> Vec<Member> {
    let revision = &component.revision;
    let quarantined = component.quarantined;
    let (serving, beside) = match (component.in_shadow(), &component.candidate) {
        (true, _) => (None, Some((pool(revision, 1), 0))),
        (false, None) => (Some(pool(revision, warm)), None),
        (false, Some(candidate)) => {
            let idle = if candidate.weight == 0 { 1 } else { warm };
            let beside = pool(&candidate.revision, idle);
            (Some(pool(revision, warm)), Some((beside, candidate.weight)))
        }
    };
    let mut members: Vec<Member> = Vec::new();
    for (name, voice) in serving.iter().flat_map(voices) {
        members.push(Member {
            order: voice.settings.order,
            name,
            built_in: component.built_in,
            beside: beside.as_ref().map(|(pool, weight)| Beside {
                voice: None,
                weight: *weight,
                pool: Arc::clone(pool),
            }),
            serving: Some(Arc::new(Voice {
                quarantined,
                ..voice
            })),
        });
    }
    let Some((pool, weight)) = beside.filter(|_| !quarantined) else {
        return members;
    };
    for (name, voice) in voices(&pool) {
        let order = voice.settings.order;
        let beside = Some(Beside {
            voice: Some(Arc::new(voice)),
            weight,
            pool: Arc::clone(&pool),
        });
        match members.iter_mut().find(|member| member.name == name) {
            Some(member) => member.beside = beside,
            None => members.push(Member {
                name,
                order,
                built_in: component.built_in,
                serving: None,
                beside,
            }),
        }
    }
    members
}

fn voices(pool: &Arc<Pool>) -> Vec<(Arc<str>, Voice)> {
    let entries = pool.revision().manifest().plugins.iter().enumerate();
    let voices = entries.filter_map(|(index, entry)| Voice::new(index, entry, pool));
    voices
        .map(|voice| (Arc::clone(&voice.name), voice))
        .collect()
}
