//! The controller of EndpointSlices. A slice is one of ours if it has our `managed-by` label; others of the Service are left alone.

use std::collections::BTreeMap;

use pilothouse_sdk::{
    Value,
    cluster::{
        Cluster, ClusterExt, DeleteOptions, ListOptions,
        resources::{ENDPOINT_SLICES, NODES, PODS, SERVICES},
    },
    controller::{Context, Entry, Error, Key, Outcome, Reconciler, Watch},
    json,
    objects::{ObjectMeta, OwnerReference},
};
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    backend::{self, LAST_CHANGE},
    objects::{Endpoint, Family, Pod, Port, Service, Slice, map_patch, without_nulls},
    slicing::{self, Content, Existing},
};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
const ZONE: &str = "topology.kubernetes.io/zone";

/// The controller. Keys are Services.
pub(crate) struct EndpointSlices;

#[derive(Deserialize)]
struct Node {
    metadata: ObjectMeta,
}

impl Reconciler for EndpointSlices {
    fn entry(&self) -> Entry {
        let ours = format!("{MANAGED_BY}={MANAGER}");
        Entry::new("endpointslice-controller")
            .watch(Watch::own(&SERVICES))
            .watch(Watch::selected_by(&PODS, "spec.selector"))
            .watch(Watch::by_label(&ENDPOINT_SLICES, SERVICE_NAME).labels(&ours))
            .watch(Watch::cached(&NODES))
            .may(
                &["get", "list", "watch"],
                "",
                &["services", "pods", "nodes"],
            )
            .may(
                &["get", "list", "watch", "create", "patch", "delete"],
                "discovery.k8s.io",
                &["endpointslices"],
            )
    }

    fn reconcile(&self, context: &Context<'_>, key: &Key) -> Result<Outcome, Error> {
        let cluster = context.cluster;
        let service = cluster.get::<Service>(&SERVICES, &key.namespace, &key.name)?;
        // The slices of a Service that is gone go with it, by their owner reference.
        let service =
            service.filter(|service| service.is_selecting() && !service.metadata.is_deleting());
        let Some(service) = service else {
            return Ok(Outcome::Done);
        };
        Run {
            cluster,
            service: &service,
        }
        .run()
    }
}

struct Run<'a> {
    cluster: &'a dyn Cluster,
    service: &'a Service,
}

impl Run<'_> {
    fn run(&self) -> Result<Outcome, Error> {
        let meta = &self.service.metadata;
        let selector = ListOptions::labels(self.service.selector().to_string());
        let mut pods: Vec<Pod> = self.cluster.list(&PODS, &meta.namespace, &selector)?;
        pods.retain(|pod| backend::counts(pod, true));
        let query = format!("{SERVICE_NAME}={},{MANAGED_BY}={MANAGER}", meta.name);
        let slices: Vec<Slice> = self.cluster.list(
            &ENDPOINT_SLICES,
            &meta.namespace,
            &ListOptions::labels(query),
        )?;
        let zones = self.zones(&pods)?;
        let families = self.service.families();
        for family in &families {
            self.spread(*family, &pods, &zones, &slices)?;
        }
        for slice in &slices {
            if !families
                .iter()
                .any(|family| family.name() == slice.address_type)
            {
                self.delete(slice)?;
            }
        }
        self.wait_for_nodes(&pods, &zones)
    }

    /// The zone of each pod's node; a node that does not exist is not among them.
    fn zones(&self, pods: &[Pod]) -> Result<BTreeMap<String, String>, Error> {
        let mut zones = BTreeMap::new();
        for name in pods.iter().map(|pod| &pod.spec.node_name) {
            if name.is_empty() || zones.contains_key(name) {
                continue;
            }
            if let Some(mut node) = self.cluster.get::<Node>(&NODES, "", name)? {
                zones.insert(
                    name.clone(),
                    node.metadata.labels.remove(ZONE).unwrap_or_default(),
                );
            }
        }
        Ok(zones)
    }

    /// A pod on a node that does not exist gets no traffic, unless the Service publishes even pods that are not ready.
    fn is_placed(&self, pod: &Pod, zones: &BTreeMap<String, String>) -> bool {
        self.service.spec.publish_not_ready_addresses || zones.contains_key(&pod.spec.node_name)
    }

    /// The missing node may only be missing in the cache: the error brings the Service back.
    fn wait_for_nodes(
        &self,
        pods: &[Pod],
        zones: &BTreeMap<String, String>,
    ) -> Result<Outcome, Error> {
        match pods.iter().find(|pod| !self.is_placed(pod, zones)) {
            None => Ok(Outcome::Done),
            Some(pod) => Err(Error::other(format!(
                "pod {} is left out: its node {:?} does not exist",
                pod.metadata.name, pod.spec.node_name
            ))),
        }
    }

    fn spread(
        &self,
        family: Family,
        pods: &[Pod],
        zones: &BTreeMap<String, String>,
        slices: &[Slice],
    ) -> Result<(), Error> {
        let labels = self.labels();
        let of_family = slices
            .iter()
            .filter(|slice| slice.address_type == family.name());
        let (ours, foreign): (Vec<&Slice>, Vec<&Slice>) =
            of_family.partition(|slice| self.owns(slice) && !slice.metadata.is_deleting());
        let existing = ours.iter().map(|slice| Existing {
            endpoints: slice.endpoints.clone(),
            ports: slice.ports.clone(),
            is_outdated: slice.metadata.labels != labels,
        });
        let existing: Vec<Existing> = existing.collect();
        let wanted = pods
            .iter()
            .filter(|pod| self.is_placed(pod, zones))
            .filter_map(|pod| {
                let zone = zones.get(&pod.spec.node_name).map(String::as_str);
                let endpoint = backend::endpoint(self.service, pod, zone, family)?;
                Some((backend::ports(self.service, pod), endpoint))
            });
        let wanted: Vec<(Vec<Port>, Endpoint)> = wanted.collect();
        let plan = slicing::plan(&existing, wanted);
        for (at, content) in &plan.update {
            self.update(ours[*at], &labels, content, pods)?;
        }
        for content in &plan.create {
            self.create(family, &labels, content, pods)?;
        }
        for slice in plan.delete.iter().map(|at| ours[*at]).chain(foreign) {
            self.delete(slice)?;
        }
        Ok(())
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let name = self.service.metadata.name.as_str();
        backend::labels(self.service, &[(SERVICE_NAME, name), (MANAGED_BY, MANAGER)])
    }

    /// A slice of an earlier Service of the same name is not this one's.
    fn owns(&self, slice: &Slice) -> bool {
        slice.metadata.is_controlled_by(&self.service.metadata.uid)
    }

    fn last_change(&self, pods: &[Pod]) -> Value {
        backend::last_change(self.service, pods).map_or(Value::Null, |time| json!(time))
    }

    fn create(
        &self,
        family: Family,
        labels: &BTreeMap<String, String>,
        content: &Content,
        pods: &[Pod],
    ) -> Result<(), Error> {
        let meta = &self.service.metadata;
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "generateName": format!("{}-", meta.name),
                "namespace": meta.namespace,
                "labels": labels,
                "annotations": without_nulls(json!({LAST_CHANGE: self.last_change(pods)})),
                "ownerReferences": [OwnerReference::controller_to("v1", "Service", meta)],
            },
            "addressType": family.name(),
            "endpoints": content.endpoints,
            "ports": content.ports,
        });
        match self
            .cluster
            .create::<Value>(&ENDPOINT_SLICES, &meta.namespace, &slice)
        {
            // The namespace takes the Service along.
            Err(refusal)
                if refusal.is_forbidden()
                    && refusal.message.contains("because it is being terminated") =>
            {
                Ok(())
            }
            other => Ok(other.map(drop)?),
        }
    }

    fn update(
        &self,
        slice: &Slice,
        labels: &BTreeMap<String, String>,
        content: &Content,
        pods: &[Pod],
    ) -> Result<(), Error> {
        let meta = &slice.metadata;
        let patch = json!({
            "metadata": {
                "resourceVersion": meta.resource_version,
                "labels": map_patch(&meta.labels, labels),
                "annotations": {LAST_CHANGE: self.last_change(pods)},
            },
            "endpoints": content.endpoints,
            "ports": content.ports,
        });
        self.cluster.merge_patch::<IgnoredAny>(
            &ENDPOINT_SLICES,
            &meta.namespace,
            &meta.name,
            &patch,
        )?;
        Ok(())
    }

    fn delete(&self, slice: &Slice) -> Result<(), Error> {
        let meta = &slice.metadata;
        let options = DeleteOptions::uid(&meta.uid);
        match self
            .cluster
            .delete(&ENDPOINT_SLICES, &meta.namespace, &meta.name, &options)
        {
            Err(refusal) if !refusal.is_not_found() => Err(refusal.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
