//! Dependents of an object that is being deleted.

use pilothouse_sdk::{
    cluster::{Cluster, ClusterExt, GraphNode, Propagation},
    controller::Error,
    objects::{ObjectMeta, OwnerReference},
};

use crate::{
    judge::FOREGROUND,
    reconcile::{Object, collect_dependent, gone_is_fine, write_references},
};

/// Takes the references to `owner` from everything that has one.
pub(crate) fn orphan(cluster: &dyn Cluster, owner: &GraphNode) -> Result<(), Error> {
    for node in cluster.graph_dependents(&owner.uid) {
        let object = cluster.get_live::<Object>(&node.resource, &node.namespace, &node.name)?;
        let Some(object) = object.filter(|object| object.metadata.uid == node.uid) else {
            continue;
        };
        let meta = &object.metadata;
        let kept = meta
            .owner_references
            .iter()
            .filter(|reference| reference.uid != owner.uid);
        let kept: Vec<OwnerReference> = kept.cloned().collect();
        if kept.len() != meta.owner_references.len() {
            gone_is_fine(write_references(cluster, &node, meta, &kept))?;
        }
    }
    Ok(())
}

/// Has the dependents of an owner in foreground deletion judged. True if none of them blocks the owner any more.
pub(crate) fn delete(cluster: &dyn Cluster, owner: &GraphNode) -> Result<bool, Error> {
    let dependents = cluster.graph_dependents(&owner.uid);
    let blocks = |node: &GraphNode| {
        node.owners
            .iter()
            .any(|reference| reference.uid == owner.uid && reference.block_owner_deletion)
    };
    let none_blocks = !dependents.iter().any(blocks);
    let mut failure = None;
    for node in dependents.iter().filter(|node| !node.deleting) {
        // One that is refused does not keep the others waiting.
        if let Err(error) = collect_dependent(cluster, node) {
            failure = failure.or(Some(error));
        }
    }
    failure.map_or(Ok(none_blocks), Err)
}

/// Whether an object about to be deleted in the foreground has a dependent that is itself in foreground deletion: they may wait
/// for each other in a circle.
pub(crate) fn is_circle(dependents: &[GraphNode], propagation: Propagation) -> bool {
    let waits = |node: &GraphNode| {
        node.deleting
            && node
                .finalizers
                .iter()
                .any(|finalizer| finalizer == FOREGROUND)
    };
    propagation == Propagation::Foreground && dependents.iter().any(waits)
}

/// Lets such an object no longer block its owners, so that the circle opens.
pub(crate) fn unblock_circle(
    cluster: &dyn Cluster,
    node: &GraphNode,
    meta: &ObjectMeta,
    dependents: &[GraphNode],
    propagation: Propagation,
) -> Result<(), Error> {
    if !is_circle(dependents, propagation) {
        return Ok(());
    }
    let unblocked = meta
        .owner_references
        .iter()
        .map(|reference| OwnerReference {
            block_owner_deletion: reference.block_owner_deletion.map(|_| false),
            ..reference.clone()
        });
    let unblocked: Vec<OwnerReference> = unblocked.collect();
    if unblocked != meta.owner_references {
        gone_is_fine(write_references(cluster, node, meta, &unblocked))?;
    }
    Ok(())
}
