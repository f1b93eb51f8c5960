//! Claiming children by selector: adopting orphans that match, releasing owned ones that no longer do.
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#how-a-replicaset-works>
//!
//! Invariants: another controller's child is never touched; an owner that is being deleted adopts and releases nothing;
//! adoption rechecks the owner by a live read, because a cached one may be of a deleted owner whose name lives on.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{Error, Selector};
use crate::{
    cluster::{Cluster, ClusterExt, Resource, Status},
    objects::{ObjectMeta, OwnerReference, Pod},
};

/// A view with metadata.
pub trait HasMeta {
    fn meta(&self) -> &ObjectMeta;
}

impl HasMeta for Pod {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// An owner and what it owns.
pub struct Owning<'a> {
    pub cluster: &'a dyn Cluster,
    pub owner: &'a ObjectMeta,
    pub owner_resource: &'a Resource,
    pub owner_kind: &'a str,
    pub child_resource: &'a Resource,
    pub selector: &'a Selector,
}

/// What may become of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Owned and selected.
    Keep,
    /// Selected, owned by nobody.
    Adopt,
    /// Owned, no longer selected.
    Release,
    /// Another's, or neither owned nor selected, or it is being deleted.
    Leave,
}

impl Owning<'_> {
    /// The children this owner has, of all in its namespace: adopts and releases as needed and returns those it keeps,
    /// with the adopted ones as they are after adoption. `eligible` may refuse adoption (of a finished pod, say).
    pub fn claim<T: HasMeta + DeserializeOwned>(
        &self,
        children: Vec<T>,
        eligible: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>, Error> {
        let mut claimed = Vec::new();
        let mut may_adopt = None;
        for child in children {
            match self.judge(child.meta()) {
                Claim::Keep => claimed.push(child),
                Claim::Release => {
                    self.release(child.meta())?;
                }
                Claim::Adopt if eligible(&child) => {
                    if may_adopt.is_none() {
                        may_adopt = Some(self.owner_is_alive()?);
                    }
                    if may_adopt == Some(true) {
                        claimed.extend(self.adopt(child.meta())?);
                    }
                }
                Claim::Adopt | Claim::Leave => {}
            }
        }
        Ok(claimed)
    }

    /// What may become of one child, from what the caller holds alone.
    pub fn judge(&self, child: &ObjectMeta) -> Claim {
        let selected = self.selector.matches(&child.labels);
        match child.controller() {
            Some(owner) if owner.uid != self.owner.uid => Claim::Leave,
            Some(_) if selected => Claim::Keep,
            Some(_) if self.owner.is_deleting() => Claim::Leave,
            Some(_) => Claim::Release,
            None if self.owner.is_deleting() || !selected => Claim::Leave,
            None if child.is_deleting() => Claim::Leave,
            None => Claim::Adopt,
        }
    }

    /// The controller reference for a new child.
    pub fn reference(&self) -> OwnerReference {
        let api_version = self.owner_resource.api_version();
        OwnerReference::controller_to(&api_version, self.owner_kind, self.owner)
    }

    fn owner_is_alive(&self) -> Result<bool, Error> {
        #[derive(Deserialize)]
        struct Owner {
            metadata: ObjectMeta,
        }
        let (namespace, name) = (&self.owner.namespace, &self.owner.name);
        let live: Option<Owner> = self
            .cluster
            .get_live(self.owner_resource, namespace, name)?;
        Ok(live.is_some_and(|live| {
            live.metadata.uid == self.owner.uid && !live.metadata.is_deleting()
        }))
    }

    /// `None` if the child has gone meanwhile.
    fn adopt<T: DeserializeOwned>(&self, child: &ObjectMeta) -> Result<Option<T>, Error> {
        let mut owners = self.other_owners(child);
        owners.push(self.reference());
        Ok(self.write_owners(child, &owners)?)
    }

    fn release(&self, child: &ObjectMeta) -> Result<(), Error> {
        let owners = self.other_owners(child);
        self.write_owners::<Value>(child, &owners)?;
        Ok(())
    }

    fn other_owners(&self, child: &ObjectMeta) -> Vec<OwnerReference> {
        let others = child.owner_references.iter();
        others
            .filter(|owner| owner.uid != self.owner.uid)
            .cloned()
            .collect()
    }

    /// Bound to the version that was judged, so that a change in between is a conflict and is judged anew.
    fn write_owners<T: DeserializeOwned>(
        &self,
        child: &ObjectMeta,
        owners: &[OwnerReference],
    ) -> Result<Option<T>, Status> {
        let patch = json!({"metadata": {
            "uid": child.uid,
            "resourceVersion": child.resource_version,
            "ownerReferences": if owners.is_empty() { Value::Null } else { json!(owners) },
        }});
        let (namespace, name) = (&child.namespace, &child.name);
        match self
            .cluster
            .merge_patch(self.child_resource, namespace, name, &patch)
        {
            Ok(child) => Ok(Some(child)),
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }
}

#[cfg(test)]
mod tests;
