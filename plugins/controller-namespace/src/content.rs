//! One round of deleting everything in a namespace.
//!
//! Pods go first and everything else waits for them, so that nothing a pod relies on (a NetworkPolicy, say) goes before it.
//! Source: <https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/> and KEP-5080.

use pilothouse_sdk::{
    cluster::{
        Cluster, ClusterExt, DeleteOptions, ListOptions, Propagation, Resource, ServedResource,
        Status,
    },
    objects::ObjectMeta,
};
use serde::Deserialize;

use crate::conditions::Found;

#[derive(Deserialize)]
struct Item {
    metadata: ObjectMeta,
}

/// Deletes what can be deleted and says what was met. What could not be discovered or deleted does not stop the rest.
pub(crate) fn delete_all(cluster: &dyn Cluster, namespace: &str) -> Result<Found, Status> {
    let served = cluster.served_resources()?;
    let mut found = Found::default();
    if !served.failed.is_empty() {
        let groups = served.failed.join(", ");
        let count = served.failed.len();
        found.discovery_failure = Some(format!(
            "Discovery failed for some groups, {count} failing: {groups}"
        ));
    }
    let deletable = served
        .resources
        .iter()
        .filter(|served| served.namespaced && can(served, "delete"));
    let (pods, others): (Vec<_>, Vec<_>) = deletable.partition(|served| is_pods(&served.resource));
    for resources in [pods, others] {
        for resource in resources {
            delete_resource(cluster, namespace, resource, &mut found);
        }
        if !found.remaining.is_empty() {
            break;
        }
    }
    Ok(found)
}

fn delete_resource(
    cluster: &dyn Cluster,
    namespace: &str,
    served: &ServedResource,
    found: &mut Found,
) {
    let result = delete_items(cluster, namespace, served);
    match result {
        Ok(left) => note_remaining(&served.resource, &left, found),
        // It went out of service meanwhile, with all it held.
        Err(refusal) if refusal.is_not_found() => {}
        Err(refusal) => found.failures.push(refusal.to_string()),
    }
}

/// Answers what is still there.
fn delete_items(
    cluster: &dyn Cluster,
    namespace: &str,
    served: &ServedResource,
) -> Result<Vec<Item>, Status> {
    let resource = &served.resource;
    let everything = ListOptions::default();
    // Dependents are deleted by themselves, so nothing needs to be collected on their owners' account.
    let options = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    if !can(served, "list") {
        cluster.delete_collection(resource, namespace, &everything, &options)?;
        return Ok(Vec::new());
    }
    let list = || cluster.list::<Item>(resource, namespace, &everything);
    let items = list()?;
    if items.iter().all(|item| item.metadata.is_deleting()) {
        return Ok(items);
    }
    if can(served, "deletecollection") {
        cluster.delete_collection(resource, namespace, &everything, &options)?;
        return list();
    }
    for item in items.iter().filter(|item| !item.metadata.is_deleting()) {
        match cluster.delete(resource, namespace, &item.metadata.name, &options) {
            Err(refusal) if !refusal.is_not_found() => return Err(refusal),
            _ => {}
        }
    }
    list()
}

fn note_remaining(resource: &Resource, left: &[Item], found: &mut Found) {
    if left.is_empty() {
        return;
    }
    found
        .remaining
        .insert(format!("{}.{}", resource.name, resource.group), left.len());
    for finalizer in left.iter().flat_map(|item| &item.metadata.finalizers) {
        *found.finalizers.entry(finalizer.clone()).or_default() += 1;
    }
}

fn can(served: &ServedResource, verb: &str) -> bool {
    served.verbs.iter().any(|has| has == verb)
}

fn is_pods(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.name == "pods"
}
