//! The graph itself: nodes by uid, linked by owner references. Changes answer with the uids to look at.
//!
//! A node that is only known from references to it is *virtual*: its dependents may be orphans of an absent owner, or their
//! owner has merely not been seen yet, so they are looked at.

use std::collections::{BTreeSet, HashMap, HashSet};

use pilothouse_api::{GroupVersionResource, Header, OwnerReference};
use pilothouse_plugin::cluster::{GraphNode, GraphOwner, GroupVersionResource as OutwardResource};

use super::{FOREGROUND, ORPHAN};

#[derive(Default)]
pub(super) struct Graph {
    nodes: HashMap<String, Node>,
}

#[derive(Default)]
struct Node {
    /// `None`: virtual.
    object: Option<Observed>,
    dependents: BTreeSet<String>,
}

struct Observed {
    resource: GroupVersionResource,
    namespace: String,
    name: String,
    owners: Vec<OwnerReference>,
    finalizers: Vec<String>,
    deleting: bool,
}

impl Observed {
    fn waits_for_dependents(&self) -> bool {
        self.deleting && self.finalizers.iter().any(|f| f == FOREGROUND)
    }

    fn orphans_dependents(&self) -> bool {
        self.deleting && self.finalizers.iter().any(|f| f == ORPHAN)
    }
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<GraphNode> {
        self.outward(uid)
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<GraphNode> {
        let dependents = self.nodes.get(uid).map(|node| &node.dependents);
        let dependents = dependents.into_iter().flatten();
        dependents.filter_map(|uid| self.outward(uid)).collect()
    }

    /// A new or changed object.
    pub(super) fn upsert(
        &mut self,
        resource: &GroupVersionResource,
        header: &Header,
    ) -> Vec<String> {
        let uid = &header.uid;
        let mut look_at = BTreeSet::new();
        let new = Observed {
            resource: resource.clone(),
            namespace: header.namespace.clone(),
            name: header.name.clone(),
            owners: header.owner_references.clone(),
            finalizers: header.finalizers.clone(),
            deleting: header.deletion_timestamp.is_some(),
        };
        let (waits, orphans) = (new.waits_for_dependents(), new.orphans_dependents());
        let old = self
            .nodes
            .entry(uid.clone())
            .or_default()
            .object
            .replace(new);
        let no_owners = Vec::new();
        let old_owners = old.as_ref().map_or(&no_owners, |old| &old.owners);
        if old.is_none() || *old_owners != header.owner_references {
            self.relink(uid, old_owners, &header.owner_references);
            if self.is_suspect(uid) {
                look_at.insert(uid.clone());
            }
            // an owner that waits may have one dependent less that blocks it
            let owners = old_owners.iter().chain(&header.owner_references);
            look_at.extend(self.waiting(owners));
        }
        if waits && !old.as_ref().is_some_and(Observed::waits_for_dependents) {
            look_at.insert(uid.clone());
            look_at.extend(self.nodes[uid].dependents.iter().cloned());
        }
        if orphans && !old.as_ref().is_some_and(Observed::orphans_dependents) {
            look_at.insert(uid.clone());
        }
        look_at.into_iter().collect()
    }

    /// A deleted object.
    pub(super) fn remove(&mut self, uid: &str) -> Vec<String> {
        let Some(node) = self.nodes.get_mut(uid) else {
            return Vec::new();
        };
        let object = node.object.take();
        let mut look_at = node.dependents.clone();
        if let Some(object) = object {
            look_at.extend(self.waiting(object.owners.iter()));
            self.relink(uid, &object.owners, &[]);
        }
        self.drop_if_unused(uid);
        look_at.into_iter().collect()
    }

    /// Everything there is of a resource. What is missing was deleted unseen. As owners may have come and gone unseen too,
    /// dependents of virtual nodes are looked at again.
    pub(super) fn replace(
        &mut self,
        resource: &GroupVersionResource,
        headers: &[&Header],
    ) -> Vec<String> {
        let present: HashSet<&str> = headers.iter().map(|h| h.uid.as_str()).collect();
        let of_resource = |node: &Node| {
            let object = node.object.as_ref();
            object.is_some_and(|object| object.resource == *resource)
        };
        let gone: Vec<String> = self
            .nodes
            .iter()
            .filter(|(uid, node)| of_resource(node) && !present.contains(uid.as_str()))
            .map(|(uid, _)| uid.clone())
            .collect();
        let mut look_at = BTreeSet::new();
        for uid in gone {
            look_at.extend(self.remove(&uid));
        }
        for header in headers {
            look_at.extend(self.upsert(resource, header));
        }
        let virtuals = self.nodes.values().filter(|node| node.object.is_none());
        look_at.extend(virtuals.flat_map(|node| node.dependents.iter().cloned()));
        look_at.into_iter().collect()
    }

    /// Everything that a collector which has seen nothing yet must look at.
    pub(super) fn candidates(&self) -> Vec<String> {
        let mut look_at = BTreeSet::new();
        for (uid, node) in &self.nodes {
            let Some(object) = &node.object else {
                look_at.extend(node.dependents.iter().cloned());
                continue;
            };
            if object.waits_for_dependents() {
                look_at.insert(uid.clone());
                look_at.extend(node.dependents.iter().cloned());
            }
            if object.orphans_dependents() || self.is_suspect(uid) {
                look_at.insert(uid.clone());
            }
        }
        look_at.into_iter().collect()
    }

    fn relink(&mut self, uid: &str, old: &[OwnerReference], new: &[OwnerReference]) {
        for owner in old {
            if let Some(node) = self.nodes.get_mut(&owner.uid) {
                node.dependents.remove(uid);
            }
        }
        for owner in new {
            let node = self.nodes.entry(owner.uid.clone()).or_default();
            node.dependents.insert(uid.to_owned());
        }
        for owner in old {
            self.drop_if_unused(&owner.uid);
        }
    }

    fn drop_if_unused(&mut self, uid: &str) {
        let unused = |node: &Node| node.object.is_none() && node.dependents.is_empty();
        if self.nodes.get(uid).is_some_and(unused) {
            self.nodes.remove(uid);
        }
    }

    /// Whether one of its references leads to a node that is virtual, waits for its dependents, or is not what it says.
    fn is_suspect(&self, uid: &str) -> bool {
        let Some(object) = self.nodes.get(uid).and_then(|node| node.object.as_ref()) else {
            return false;
        };
        object.owners.iter().any(|reference| {
            let owner = self.nodes.get(&reference.uid);
            owner
                .and_then(|node| node.object.as_ref())
                .is_none_or(|owner| {
                    let elsewhere =
                        !owner.namespace.is_empty() && owner.namespace != object.namespace;
                    elsewhere || owner.name != reference.name || owner.waits_for_dependents()
                })
        })
    }

    fn waiting<'a>(&self, owners: impl Iterator<Item = &'a OwnerReference>) -> Vec<String> {
        let waits = |reference: &&OwnerReference| {
            let node = self.nodes.get(&reference.uid);
            node.and_then(|node| node.object.as_ref())
                .is_some_and(Observed::waits_for_dependents)
        };
        owners
            .filter(waits)
            .map(|owner| owner.uid.clone())
            .collect()
    }

    fn outward(&self, uid: &str) -> Option<GraphNode> {
        let object = self.nodes.get(uid)?.object.as_ref()?;
        let owner = |reference: &OwnerReference| GraphOwner {
            api_version: reference.api_version.clone(),
            kind: reference.kind.clone(),
            name: reference.name.clone(),
            uid: reference.uid.clone(),
            controller: reference.controller == Some(true),
            block_owner_deletion: reference.block_owner_deletion == Some(true),
        };
        Some(GraphNode {
            of: OutwardResource {
                group: object.resource.group.clone().into_owned(),
                version: object.resource.version.clone().into_owned(),
                resource: object.resource.resource.clone().into_owned(),
            },
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: uid.to_owned(),
            owners: object.owners.iter().map(owner).collect(),
            finalizers: object.finalizers.clone(),
            deleting: object.deleting,
        })
    }
}

#[cfg(test)]
mod tests;
