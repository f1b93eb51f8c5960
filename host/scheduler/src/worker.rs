//! The warm instances of the profile's components, one of each, and their mirrors.
//!
//! Invariants: an instance is used by one call at a time; after a failed call it is dropped and the next use makes a fresh one
//! that is told everything. A mirror is brought to the cache's epoch before a cycle begins and stays there for its length.

use std::sync::Arc;

use pilothouse_plugin::{
    CallError,
    scheduler::{Component, Instance, Need, Needs, PodChange},
};

use crate::{
    cache::{Cache, Delta},
    node::project_assigned,
};

/// How many records go into a mirror in one call, so that filling a large one stays within the limits of a call.
const CHUNK: usize = 2_000;

struct Warm {
    component: Arc<dyn Component>,
    instance: Option<Box<dyn Instance>>,
    epoch: u64,
}

/// Instances by the position of their component in the profile.
#[derive(Default)]
pub(crate) struct Worker {
    warm: Vec<Warm>,
}

impl Worker {
    /// Goes over to other components; instances of those that stay are kept.
    pub(crate) fn set_components(&mut self, components: &[Arc<dyn Component>]) {
        let mut old = std::mem::take(&mut self.warm);
        self.warm = components
            .iter()
            .map(|component| {
                let kept = old
                    .iter()
                    .position(|warm| Arc::ptr_eq(&warm.component, component));
                match kept {
                    Some(at) => old.swap_remove(at),
                    None => Warm {
                        component: Arc::clone(component),
                        instance: None,
                        epoch: 0,
                    },
                }
            })
            .collect();
    }

    /// Makes sure of an instance whose mirror is as new as the cache.
    pub(crate) async fn sync(&mut self, component: usize, cache: &Cache) -> Result<(), CallError> {
        let warm = &mut self.warm[component];
        let result = warm.sync(cache).await;
        if result.is_err() {
            warm.instance = None;
        }
        result
    }

    /// The epoch that every mirror has reached.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.warm
            .iter()
            .filter(|warm| warm.component.needs().is_some() && warm.instance.is_some())
            .map(|warm| warm.epoch)
            .min()
    }

    /// The instance, if there is one.
    pub(crate) fn instance(&mut self, component: usize) -> Option<&mut Box<dyn Instance>> {
        self.warm.get_mut(component)?.instance.as_mut()
    }

    /// The same by component, for what outlives a profile.
    pub(crate) fn instance_of(&mut self, id: &str) -> Option<&mut Box<dyn Instance>> {
        let warm = self
            .warm
            .iter_mut()
            .find(|warm| warm.component.id() == id)?;
        warm.instance.as_mut()
    }

    /// The same by component.
    pub(crate) fn dispose_of(&mut self, id: &str) {
        if let Some(warm) = self.warm.iter_mut().find(|warm| warm.component.id() == id) {
            warm.instance = None;
        }
    }

    /// Drops an instance that failed.
    pub(crate) fn dispose(&mut self, component: usize) {
        if let Some(warm) = self.warm.get_mut(component) {
            warm.instance = None;
        }
    }
}

impl Warm {
    async fn sync(&mut self, cache: &Cache) -> Result<(), CallError> {
        let needs = self.component.needs();
        let (instance, fresh) = match &mut self.instance {
            Some(instance) => (instance, false),
            None => (
                self.instance.insert(self.component.instantiate().await?),
                true,
            ),
        };
        let Some(needs) = needs else {
            return Ok(());
        };
        if !fresh && self.epoch == cache.epoch() {
            return Ok(());
        }
        let delta = match fresh {
            true => cache.everything(),
            false => match cache.delta(self.epoch) {
                Some(delta) => delta,
                None => {
                    *instance = self.component.instantiate().await?;
                    cache.everything()
                }
            },
        };
        apply(instance, cache.epoch(), &delta, needs).await?;
        self.epoch = cache.epoch();
        Ok(())
    }
}

async fn apply(
    instance: &mut Box<dyn Instance>,
    epoch: u64,
    delta: &Delta,
    needs: Needs,
) -> Result<(), CallError> {
    let upserts: Vec<_> = delta
        .upserts
        .iter()
        .map(|(index, node)| node.project(*index, needs))
        .collect();
    let wants_pods = needs.has(Need::Pods);
    let pods: Vec<_> = delta
        .pods
        .iter()
        .filter(|_| wants_pods)
        .map(|(node, added, pod)| PodChange {
            node: *node,
            added: *added,
            pod: project_assigned(pod, needs),
        })
        .collect();
    if upserts.len() + pods.len() <= CHUNK {
        return instance.apply(epoch, &upserts, &delta.removed, &pods).await;
    }
    instance.apply(epoch, &[], &delta.removed, &[]).await?;
    for chunk in upserts.chunks(CHUNK) {
        instance.apply(epoch, chunk, &[], &[]).await?;
    }
    for chunk in pods.chunks(CHUNK) {
        instance.apply(epoch, &[], &[], chunk).await?;
    }
    Ok(())
}
