//! Owners known not to exist, so that many dependents of one cost one read. Safe to remember: a uid is never used again.

use std::collections::{HashSet, VecDeque};

use pilothouse_plugin::cluster::GraphOwner;

const REMEMBERED: usize = 4096;

#[derive(Default)]
pub(super) struct AbsentOwners {
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl AbsentOwners {
    /// Nobody has this uid any more.
    pub(super) fn add_uid(&mut self, uid: &str) {
        self.remember(uid.to_owned());
    }

    /// The reference leads nowhere, seen from this namespace.
    pub(super) fn add(&mut self, namespace: &str, owner: &GraphOwner) {
        self.remember(reference(namespace, owner));
    }

    pub(super) fn contains(&self, namespace: &str, owner: &GraphOwner) -> bool {
        self.known.contains(&owner.uid) || self.known.contains(&reference(namespace, owner))
    }

    fn remember(&mut self, key: String) {
        if !self.known.insert(key.clone()) {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// All coordinates: the same uid under another name or from another namespace is another question.
fn reference(namespace: &str, owner: &GraphOwner) -> String {
    let GraphOwner {
        api_version,
        kind,
        name,
        uid,
        ..
    } = owner;
    format!("{uid}/{namespace}/{api_version}/{kind}/{name}")
}
