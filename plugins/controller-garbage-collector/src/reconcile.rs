//! The reconcile of one uid.

use pilothouse_sdk::{
    cluster::{Cluster, ClusterExt, DeleteOptions, GraphNode, Owner, OwnerState, Status},
    controller::{Context, Entry, Error, Key, Outcome, Reconciler},
    json,
    objects::{ObjectMeta, OwnerReference},
};
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    dependents,
    judge::{FOREGROUND, ORPHAN, Verdict, judge},
};

/// The controller. Keys are uids of the owner graph.
pub(crate) struct GarbageCollector;

/// The metadata of any object.
#[derive(Deserialize)]
pub(crate) struct Object {
    pub(crate) metadata: ObjectMeta,
}

impl Reconciler for GarbageCollector {
    fn entry(&self) -> Entry {
        Entry::new("garbage-collector-controller")
            .graph()
            .workers(20)
            .may(&["get", "list", "watch", "patch", "delete"], "*", &["*"])
    }

    fn reconcile(&self, context: &Context<'_>, key: &Key) -> Result<Outcome, Error> {
        let cluster = context.cluster;
        let Some(node) = cluster.graph_node(&key.name) else {
            // Gone, or only known from references: its dependents have keys of their own.
            return Ok(Outcome::Done);
        };
        match live(cluster, &node)? {
            Some(object) if object.metadata.is_deleting() => {
                finish_deletion(cluster, &node, &object.metadata)?
            }
            Some(object) => collect(cluster, &node, &object.metadata)?,
            None => {}
        }
        Ok(Outcome::Done)
    }
}

/// The object itself, unless another has its name meanwhile.
fn live(cluster: &dyn Cluster, node: &GraphNode) -> Result<Option<Object>, Status> {
    let object = cluster.get_live::<Object>(&node.resource, &node.namespace, &node.name)?;
    Ok(object.filter(|object| object.metadata.uid == node.uid))
}

/// Deletes the object, or drops references, as its owners demand.
pub(crate) fn collect(
    cluster: &dyn Cluster,
    node: &GraphNode,
    meta: &ObjectMeta,
) -> Result<(), Error> {
    if meta.owner_references.is_empty() {
        return Ok(());
    }
    let mut owners = Vec::new();
    for reference in &meta.owner_references {
        match cluster.resolve_owner(&meta.namespace, &owner(reference)) {
            Ok(state) => owners.push((reference.uid.clone(), state)),
            // A reference that can never be followed keeps its object; trying again would change nothing.
            Err(refusal) if refusal.reason == "BadRequest" => {
                owners.push((reference.uid.clone(), OwnerState::Solid));
            }
            Err(refusal) => return Err(refusal.into()),
        }
    }
    let dependents = cluster.graph_dependents(&node.uid);
    match judge(&owners, !dependents.is_empty(), &meta.finalizers) {
        Verdict::Keep => Ok(()),
        Verdict::DropReferences(gone) => {
            let kept = meta
                .owner_references
                .iter()
                .filter(|reference| !gone.contains(&reference.uid));
            let kept: Vec<_> = kept.cloned().collect();
            Ok(gone_is_fine(write_references(cluster, node, meta, &kept))?)
        }
        Verdict::Delete(propagation) => {
            dependents::unblock_circle(cluster, node, meta, &dependents, propagation)?;
            let options = DeleteOptions {
                propagation: Some(propagation),
                uid: Some(meta.uid.clone()),
                // Only with the owners that were judged; a circle that was unblocked has a later version.
                resource_version: Some(meta.resource_version.clone())
                    .filter(|_| !dependents::is_circle(&dependents, propagation)),
                ..DeleteOptions::default()
            };
            let deleted = cluster.delete(&node.resource, &node.namespace, &node.name, &options);
            Ok(gone_is_fine(deleted)?)
        }
    }
}

/// What a finalizer of ours asks for while its object is being deleted.
fn finish_deletion(
    cluster: &dyn Cluster,
    node: &GraphNode,
    meta: &ObjectMeta,
) -> Result<(), Error> {
    let has = |finalizer: &str| meta.finalizers.iter().any(|has| has == finalizer);
    if has(ORPHAN) {
        dependents::orphan(cluster, node)?;
        remove_finalizer(cluster, node, meta, ORPHAN)?;
    } else if has(FOREGROUND) && dependents::delete(cluster, node)? {
        remove_finalizer(cluster, node, meta, FOREGROUND)?;
    }
    Ok(())
}

fn remove_finalizer(
    cluster: &dyn Cluster,
    node: &GraphNode,
    meta: &ObjectMeta,
    finalizer: &str,
) -> Result<(), Error> {
    let left: Vec<_> = meta
        .finalizers
        .iter()
        .filter(|has| *has != finalizer)
        .collect();
    let patch = json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "finalizers": left,
    }});
    let written =
        cluster.merge_patch::<IgnoredAny>(&node.resource, &node.namespace, &node.name, &patch);
    Ok(gone_is_fine(written.map(drop))?)
}

/// Replaces the owner references of the object as it was read.
pub(crate) fn write_references(
    cluster: &dyn Cluster,
    node: &GraphNode,
    meta: &ObjectMeta,
    references: &[OwnerReference],
) -> Result<(), Status> {
    let patch = json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "ownerReferences": references,
    }});
    cluster
        .merge_patch::<IgnoredAny>(&node.resource, &node.namespace, &node.name, &patch)
        .map(drop)
}

pub(crate) fn gone_is_fine(result: Result<(), Status>) -> Result<(), Status> {
    match result {
        Err(refusal) if refusal.is_not_found() => Ok(()),
        other => other,
    }
}

/// Reads the object of a dependent, and judges it as if its key had come up.
pub(crate) fn collect_dependent(cluster: &dyn Cluster, node: &GraphNode) -> Result<(), Error> {
    match live(cluster, node)? {
        Some(object) if !object.metadata.is_deleting() => collect(cluster, node, &object.metadata),
        _ => Ok(()),
    }
}

fn owner(reference: &OwnerReference) -> Owner {
    Owner {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        uid: reference.uid.clone(),
        controller: reference.controller == Some(true),
        block_owner_deletion: reference.block_owner_deletion == Some(true),
    }
}

#[cfg(test)]
mod tests;
