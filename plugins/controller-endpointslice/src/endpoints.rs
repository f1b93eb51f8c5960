//! The controller of Endpoints, for clients that do not read EndpointSlices yet.

use pilothouse_sdk::{
    Value,
    cluster::{
        Cluster, ClusterExt, DeleteOptions, ListOptions,
        resources::{ENDPOINTS, PODS, SERVICES},
    },
    controller::{Context, Entry, Error, Key, Outcome, Reconciler, Watch},
    json,
    objects::{ObjectMeta, null_as_default},
};
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    backend::{self, LAST_CHANGE},
    objects::{Pod, Service, map_patch, without_nulls},
    subsets::{self, Subset},
};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The controller. Keys are Services, whose Endpoints have the same name.
pub(crate) struct Endpoints;

#[derive(Deserialize)]
struct Present {
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "null_as_default")]
    subsets: Vec<Subset>,
}

impl Reconciler for Endpoints {
    fn entry(&self) -> Entry {
        Entry::new("endpoints-controller")
            .watch(Watch::own(&SERVICES))
            .watch(Watch::selected_by(&PODS, "spec.selector"))
            .watch(Watch::cached(&ENDPOINTS))
            .may(&["get", "list", "watch"], "", &["services", "pods"])
            .may(
                &["get", "list", "watch", "create", "patch", "delete"],
                "",
                &["endpoints"],
            )
    }

    fn reconcile(&self, context: &Context<'_>, key: &Key) -> Result<Outcome, Error> {
        let cluster = context.cluster;
        match cluster.get::<Service>(&SERVICES, &key.namespace, &key.name)? {
            Some(service) if service.is_selecting() => write(cluster, &service)?,
            Some(_) => {} // written by the user
            None => delete(cluster, key)?,
        }
        Ok(Outcome::Done)
    }
}

/// A Service's Endpoints have no owner reference; they go when the Service is gone.
fn delete(cluster: &dyn Cluster, key: &Key) -> Result<(), Error> {
    if cluster
        .get::<IgnoredAny>(&ENDPOINTS, &key.namespace, &key.name)?
        .is_none()
    {
        return Ok(());
    }
    match cluster.delete(
        &ENDPOINTS,
        &key.namespace,
        &key.name,
        &DeleteOptions::default(),
    ) {
        Err(refusal) if !refusal.is_not_found() => Err(refusal.into()),
        _ => Ok(()),
    }
}

fn write(cluster: &dyn Cluster, service: &Service) -> Result<(), Error> {
    let meta = &service.metadata;
    let selector = ListOptions::labels(service.selector().to_string());
    let pods: Vec<Pod> = cluster.list(&PODS, &meta.namespace, &selector)?;
    let (subsets, is_cut) = subsets::of(service, &pods);
    let labels = backend::labels(service, &[(MANAGED_BY, MANAGER)]);
    let over_capacity = if is_cut {
        json!("truncated")
    } else {
        Value::Null
    };
    let annotations = json!({
        LAST_CHANGE: backend::last_change(service, &pods).map_or(Value::Null, |time| json!(time)),
        OVER_CAPACITY: over_capacity,
    });
    let present = cluster.get::<Present>(&ENDPOINTS, &meta.namespace, &meta.name)?;
    let Some(present) = present else {
        let endpoints = json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "labels": labels,
                "annotations": without_nulls(annotations),
            },
            "subsets": subsets,
        });
        return match cluster.create::<Value>(&ENDPOINTS, &meta.namespace, &endpoints) {
            // The namespace takes the Service along.
            Err(refusal)
                if refusal.is_forbidden()
                    && refusal.message.contains("because it is being terminated") =>
            {
                Ok(())
            }
            other => Ok(other.map(drop)?),
        };
    };
    let is_marked = present.metadata.annotations.contains_key(OVER_CAPACITY);
    if present.subsets == subsets && present.metadata.labels == labels && is_marked == is_cut {
        return Ok(());
    }
    let patch = json!({
        "metadata": {
            "resourceVersion": present.metadata.resource_version,
            "labels": map_patch(&present.metadata.labels, &labels),
            "annotations": annotations,
        },
        "subsets": if subsets.is_empty() { Value::Null } else { json!(subsets) },
    });
    cluster.merge_patch::<IgnoredAny>(&ENDPOINTS, &meta.namespace, &meta.name, &patch)?;
    Ok(())
}

#[cfg(test)]
mod tests;
