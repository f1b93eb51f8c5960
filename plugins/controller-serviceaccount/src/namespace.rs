//! What both controllers read of a namespace.

use pilothouse_sdk::{
    cluster::{Cluster, ClusterExt, Status, resources::NAMESPACES},
    controller::Error,
    objects::ObjectMeta,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Namespace {
    metadata: ObjectMeta,
}

/// Whether the namespace exists and is not being deleted.
pub(crate) fn is_active(cluster: &dyn Cluster, name: &str) -> Result<bool, Error> {
    let namespace = cluster.get::<Namespace>(&NAMESPACES, "", name)?;
    Ok(namespace.is_some_and(|namespace| !namespace.metadata.is_deleting()))
}

/// Whether a create was in vain without being wrong: somebody was faster, or the namespace has gone meanwhile.
pub(crate) fn is_harmless(refusal: &Status) -> bool {
    refusal.is_already_exists()
        || refusal.is_not_found()
        || (refusal.is_forbidden() && refusal.message.contains("because it is being terminated"))
}
