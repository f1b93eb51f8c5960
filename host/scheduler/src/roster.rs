//! Which components schedule, out of those that are active: one that serves alone, one that shares the pods with a candidate, and
//! those that are only compared. What stays the same stays the same component, so that its instances stay warm.

use std::sync::Arc;

use pilothouse_plugin::{
    ActiveComponent, Revision,
    scheduler::{Component, Sandboxed},
};

use crate::{beside::Shadowed, split::Split};

/// What was made of revisions so far.
#[derive(Default)]
pub struct Roster {
    known: Vec<Arc<Sandboxed>>,
    splits: Vec<Pair>,
}

struct Pair {
    serving: Arc<Sandboxed>,
    candidate: Arc<Sandboxed>,
    weight: u8,
    /// `None`: they cannot share.
    split: Option<Arc<Split>>,
}

impl Roster {
    /// Those that decide, and those that are compared with what was decided.
    pub fn of(&mut self, active: &[ActiveComponent]) -> (Vec<Arc<dyn Component>>, Vec<Shadowed>) {
        let mut next = Self::default();
        let (mut deciding, mut shadows) = (Vec::<Arc<dyn Component>>::new(), Vec::new());
        for component in active.iter().filter(|component| !component.quarantined) {
            let own = self.sandboxed(&mut next, &component.revision);
            if component.in_shadow() {
                shadows.extend(own.and_then(|own| shadowed(own, None)));
                continue;
            }
            let candidate = component.candidate.as_ref();
            let candidate = candidate.and_then(|candidate| {
                let sandboxed = self.sandboxed(&mut next, &candidate.revision)?;
                Some((sandboxed, candidate.weight))
            });
            match (own, candidate) {
                (Some(own), Some((candidate, 0))) => {
                    shadows.extend(shadowed(candidate, Some(own.clone())));
                    deciding.push(own);
                }
                (Some(own), Some((candidate, weight))) => {
                    match self.split(&mut next, &own, &candidate, weight) {
                        Some(split) => deciding.push(split),
                        None => deciding.push(own),
                    }
                }
                (Some(own), None) => deciding.push(own),
                (None, Some((candidate, 0))) => shadows.extend(shadowed(candidate, None)),
                (None, _) => {}
            }
        }
        *self = next;
        (deciding, shadows)
    }

    fn sandboxed(&self, next: &mut Self, revision: &Arc<Revision>) -> Option<Arc<Sandboxed>> {
        let mut known = self.known.iter();
        let known = known.find(|known| Arc::ptr_eq(known.revision(), revision));
        let component = match known {
            Some(known) => Arc::clone(known),
            None => Arc::new(Sandboxed::new(revision)?),
        };
        next.known.push(Arc::clone(&component));
        Some(component)
    }

    fn split(
        &self,
        next: &mut Self,
        serving: &Arc<Sandboxed>,
        candidate: &Arc<Sandboxed>,
        weight: u8,
    ) -> Option<Arc<Split>> {
        let known = self.splits.iter().find(|pair| {
            Arc::ptr_eq(&pair.serving, serving)
                && Arc::ptr_eq(&pair.candidate, candidate)
                && pair.weight == weight
        });
        let split = match known {
            Some(known) => known.split.clone(),
            None => {
                let split = Split::new(serving.clone(), candidate.clone(), weight);
                if split.is_none() {
                    let component = &**candidate.revision().component();
                    tracing::warn!(
                        component,
                        "a candidate has other scheduler plugins than the version that serves and decides about no pod"
                    );
                }
                split.map(Arc::new)
            }
        };
        next.splits.push(Pair {
            serving: Arc::clone(serving),
            candidate: Arc::clone(candidate),
            weight,
            split: split.clone(),
        });
        split
    }
}

fn shadowed(shadow: Arc<Sandboxed>, serving: Option<Arc<Sandboxed>>) -> Option<Shadowed> {
    let noted = Arc::clone(shadow.revision().shadow()?);
    Some(Shadowed {
        shadow,
        serving: serving.map(|serving| serving as Arc<dyn Component>),
        noted,
    })
}
