//! One run of one controller in a world of given objects, for a look at it.

use std::sync::Arc;

use super::{ComponentSubject, Fixture, Key, Subject as _, World, keys, samples, subjects};
use crate::{
    controller::Reconciled, error::CallError, manifest::ControllerSettings, revision::Revision,
};

/// A controller and its world.
pub struct SingleRun {
    settings: ControllerSettings,
    world: Arc<World>,
    subject: ComponentSubject,
}

/// What a run did.
#[derive(Debug)]
pub struct Ran {
    /// What it answered.
    pub answer: Reconciled,
    /// What it tried to write: `patch deployments/status default/web {…}`.
    pub writes: Vec<String>,
    /// A call that its capabilities do not allow, in a sentence.
    pub forbidden: Option<String>,
}

impl SingleRun {
    /// `None` if the revision has no controller of this name.
    pub fn new(revision: &Revision, plugin: &str) -> Option<Self> {
        let mut all = subjects(revision).into_iter();
        let (_, settings, world, subject) = all.find(|(entry, ..)| entry.name == plugin)?;
        Some(Self {
            settings: settings.clone(),
            world,
            subject,
        })
    }

    /// The objects that the contract tries it with.
    pub fn samples(&self) -> Vec<Fixture> {
        samples::of(&self.settings)
    }

    /// Empties the world and puts these objects there.
    pub fn set(&self, objects: &[Fixture]) {
        self.world.reset(objects, 0, false);
    }

    /// Every key that its watches derive from these objects.
    pub fn keys(&self, objects: &[Fixture]) -> Vec<Key> {
        let objects = objects.iter().map(|fixture| {
            let Fixture { resource, object } = fixture.clone();
            (resource, object)
        });
        keys::all(&self.settings, &objects.collect::<Vec<_>>())
    }

    /// The revision that is called, whose figures and log are this run's own.
    pub fn revision(&self) -> &Arc<Revision> {
        self.subject.calls.revision()
    }

    /// One reconcile.
    pub async fn reconcile(&self, key: &Key) -> Result<Ran, CallError> {
        self.world.begin(key);
        let answer = self.subject.reconcile(key).await;
        self.world.end(key);
        let forbidden = self.world.take_violation().map(|(_, why)| why);
        let writes = self.world.take_writes();
        Ok(Ran {
            answer: answer?,
            writes,
            forbidden,
        })
    }
}
