//! One plugin called by itself, outside of any chain: for contracts and benchmarks.

use std::sync::Arc;

use super::{
    Answer, Request,
    bindings::mutate,
    call::{Pool, Warm},
};
use crate::{
    error::CallError,
    manifest::{ObjectNeed, Phase},
    revision::Revision,
};

/// A plugin with an instance of its own, which is replaced when it dies.
pub struct Trial {
    pool: Pool,
    plugin: u32,
    need: ObjectNeed,
    warm: Option<Warm>,
}

impl Trial {
    /// `plugin` is the index in the manifest.
    pub fn new(revision: &Arc<Revision>, plugin: u32, need: ObjectNeed) -> Self {
        Self {
            pool: Pool::new(revision, 0),
            plugin,
            need,
            warm: None,
        }
    }

    pub fn exports(&self, phase: Phase) -> bool {
        self.pool.exports(phase)
    }

    pub async fn mutate(&mut self, request: &Request) -> Answer<mutate::Mutation> {
        let (plugin, need) = (self.plugin, self.need);
        self.warm().await?.mutate(plugin, request, need).await
    }

    pub async fn validate(&mut self, request: &Request) -> Answer<Vec<String>> {
        let (plugin, need) = (self.plugin, self.need);
        self.warm().await?.validate(plugin, request, need).await
    }

    /// Forgets the instance: the next call has a fresh one.
    pub fn renew(&mut self) {
        self.warm = None;
    }

    async fn warm(&mut self) -> Result<&mut Warm, CallError> {
        let warm = match self.warm.take().filter(|warm| !warm.is_dead()) {
            Some(warm) => warm,
            None => self.pool.fresh().await?,
        };
        Ok(self.warm.insert(warm))
    }
}
