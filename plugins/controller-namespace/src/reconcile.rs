//! The reconcile of one namespace.
//!
//! ```text
//! Active ──delete──► Terminating: delete content ──something left──► wait, again
//!                                      └──nothing left──► remove our finalizer ──► gone
//! ```

use pilothouse_sdk::{
    Value,
    cluster::{Cluster, ClusterExt, resources::NAMESPACES},
    controller::{Context, Entry, Error, Key, ObjectExt, Outcome, Reconciler, Watch},
    json,
    objects::{Condition, ObjectMeta, Time, null_as_default},
};
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    conditions::{self, Found},
    content,
};

/// The finalizer in `spec.finalizers` that stands for this controller.
const FINALIZER: &str = "kubernetes";

/// Bounds of the wait between two rounds, which grows with the time that the deletion has taken.
const SHORTEST_WAIT_MS: u64 = 200;
const LONGEST_WAIT_MS: u64 = 15_000;

/// The controller.
pub(crate) struct Namespaces;

#[derive(Deserialize)]
struct Namespace {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(default, deserialize_with = "null_as_default")]
    finalizers: Vec<String>,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    phase: String,
    #[serde(default, deserialize_with = "null_as_default")]
    conditions: Vec<Condition>,
}

impl Reconciler for Namespaces {
    fn entry(&self) -> Entry {
        Entry::new("namespace-controller")
            .watch(Watch::own(&NAMESPACES))
            .workers(10)
            .may(&["get", "list", "watch"], "", &["namespaces"])
            .may(&["patch"], "", &["namespaces/status"])
            .may(&["update"], "", &["namespaces/finalize"])
            .may(&["list", "delete", "deletecollection"], "*", &["*"])
    }

    fn reconcile(&self, context: &Context<'_>, key: &Key) -> Result<Outcome, Error> {
        let cluster = context.cluster;
        let cached = cluster.get::<Namespace>(&NAMESPACES, "", &key.name)?;
        if cached.is_none_or(|namespace| !namespace.metadata.is_deleting()) {
            return Ok(Outcome::Done);
        }
        // Content is deleted for good, so not on the word of a cache.
        let Some(live) = cluster.get_live::<Value>(&NAMESPACES, "", &key.name)? else {
            return Ok(Outcome::Done);
        };
        let namespace = Namespace::deserialize(&live)?;
        let Some(deletion) = namespace.metadata.deletion_timestamp else {
            return Ok(Outcome::Done);
        };
        if !namespace
            .spec
            .finalizers
            .iter()
            .any(|finalizer| finalizer == FINALIZER)
        {
            return Ok(Outcome::Done);
        }
        let now = Time::from_ms(cluster.now_ms());
        let found = content::delete_all(cluster, &key.name)?;
        write_conditions(cluster, &namespace, &found, now)?;
        if found.is_empty() {
            finalize(cluster, live)?;
            return Ok(Outcome::Done);
        }
        if let Some(failure) = found
            .failures
            .into_iter()
            .next()
            .or(found.discovery_failure)
        {
            return Err(Error::other(failure));
        }
        let wait_ms = now.ms_since(deletion) / 4;
        Ok(Outcome::RequeueAfterMs(
            wait_ms.clamp(SHORTEST_WAIT_MS, LONGEST_WAIT_MS),
        ))
    }
}

fn write_conditions(
    cluster: &dyn Cluster,
    namespace: &Namespace,
    found: &Found,
    now: Time,
) -> Result<(), Error> {
    let before = &namespace.status.conditions;
    let conditions = conditions::after(before, found, now);
    if conditions == *before && namespace.status.phase == "Terminating" {
        return Ok(());
    }
    let patch = json!({
        "metadata": {"uid": namespace.metadata.uid},
        "status": {"phase": "Terminating", "conditions": conditions},
    });
    let name = &namespace.metadata.name;
    match cluster.merge_patch_status::<IgnoredAny>(&NAMESPACES, "", name, &patch) {
        Err(refusal) if !refusal.is_not_found() => Err(refusal.into()),
        _ => Ok(()),
    }
}

/// Takes our finalizer away. The version is left out: only the finalizers count here, and another's must not be lost, so they
/// are what the live read showed.
fn finalize(cluster: &dyn Cluster, mut namespace: Value) -> Result<(), Error> {
    let name = namespace.name().to_owned();
    if let Some(finalizers) = namespace["spec"]["finalizers"].as_array_mut() {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    if let Some(metadata) = namespace["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    let body = serde_json::to_vec(&namespace)?;
    match cluster.update_subresource_raw(&NAMESPACES, "", &name, "finalize", &body) {
        Err(refusal) if !refusal.is_not_found() => Err(refusal.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
