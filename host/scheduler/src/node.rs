//! A node as the scheduler sees it, and which part of it a change concerns.

use bytes::Bytes;
use k8s_openapi::api::core::v1 as k8s;
use pilothouse_api::{Kind, Revision, Status};
use pilothouse_plugin::scheduler::{ClusterEvent, EventSet, Need, Needs, types};

use crate::{
    pod::{PodInfo, effect},
    requests::{amounts, quantities},
};

/// A node. Its `record` is whole; projections are made for each component.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    pub name: String,
    pub revision: Revision,
    pub(crate) record: types::Node,
    json: Bytes,
}

impl NodeInfo {
    /// From an object's JSON.
    pub fn parse(revision: Revision, json: Bytes) -> Result<Self, Status> {
        let node = k8s::Node::decode(&json)?;
        let spec = node.spec.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        let name = node.metadata.name.unwrap_or_default();
        let taints = spec.taints.unwrap_or_default().into_iter();
        let images = status.images.unwrap_or_default().into_iter();
        Ok(Self {
            record: types::Node {
                index: 0,
                name: name.clone(),
                unschedulable: spec.unschedulable.unwrap_or_default(),
                labels: node
                    .metadata
                    .labels
                    .unwrap_or_default()
                    .into_iter()
                    .collect(),
                taints: taints
                    .filter_map(|taint| {
                        Some(types::Taint {
                            effect: effect(&taint.effect)?,
                            key: taint.key,
                            value: taint.value.unwrap_or_default(),
                        })
                    })
                    .collect(),
                allocatable: quantities(&amounts(status.allocatable.as_ref())),
                images: images
                    .map(|image| types::Image {
                        names: image.names.unwrap_or_default(),
                        size_bytes: image.size_bytes.unwrap_or_default(),
                    })
                    .collect(),
                json: None,
            },
            name,
            revision,
            json,
        })
    }

    /// What has changed.
    pub(crate) fn changes(&self, new: &Self) -> EventSet {
        let (a, b) = (&self.record, &new.record);
        let parts = [
            (
                a.allocatable != b.allocatable,
                ClusterEvent::NodeUpdateAllocatable,
            ),
            (a.labels != b.labels, ClusterEvent::NodeUpdateLabels),
            (a.taints != b.taints, ClusterEvent::NodeUpdateTaints),
            (
                a.unschedulable != b.unschedulable,
                ClusterEvent::NodeUpdateUnschedulable,
            ),
            (a.images != b.images, ClusterEvent::NodeUpdateOther),
        ];
        parts
            .into_iter()
            .filter_map(|(changed, event)| changed.then_some(event))
            .collect()
    }

    /// Under its index, with what a component needs.
    pub(crate) fn project(&self, index: u32, needs: Needs) -> types::Node {
        let r = &self.record;
        types::Node {
            index,
            name: r.name.clone(),
            unschedulable: r.unschedulable,
            labels: wanted(needs, Need::Labels, &r.labels),
            taints: wanted(needs, Need::Taints, &r.taints),
            allocatable: wanted(needs, Need::Allocatable, &r.allocatable),
            images: wanted(needs, Need::Images, &r.images),
            json: needs.has(Need::NodeJson).then(|| self.json.to_vec()),
        }
    }
}

/// The pod for `begin`.
pub(crate) fn project_pod(pod: &PodInfo, needs: Needs) -> types::Pod {
    let mut record = pod.record.clone();
    record.json = needs.has(Need::PodJson).then(|| pod.json.to_vec());
    record
}

/// The pod for the mirror.
pub(crate) fn project_assigned(pod: &PodInfo, needs: Needs) -> types::AssignedPod {
    let a = &pod.assigned;
    types::AssignedPod {
        uid: a.uid.clone(),
        namespace: a.namespace.clone(),
        name: a.name.clone(),
        labels: wanted(needs, Need::PodLabels, &a.labels),
        priority: a.priority,
        requests: a.requests.clone(),
        nonzero_requests: a.nonzero_requests.clone(),
        host_ports: a.host_ports.clone(),
        deleting: a.deleting,
        json: needs.has(Need::PodJson).then(|| pod.json.to_vec()),
    }
}

fn wanted<T: Clone>(needs: Needs, need: Need, list: &[T]) -> Vec<T> {
    match needs.has(need) {
        true => list.to_vec(),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(node: &Value) -> NodeInfo {
        NodeInfo::parse(Revision(1), node.to_string().into()).unwrap()
    }

    fn node() -> Value {
        json!({
            "metadata": { "name": "n", "labels": { "zone": "a" } },
            "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }, { "key": "l", "effect": "Odd" }] },
            "status": {
                "allocatable": { "cpu": "4", "memory": "1Gi", "pods": "110" },
                "images": [{ "names": ["nginx"], "sizeBytes": 7 }],
            },
        })
    }

    #[test]
    fn changes_name_their_part() {
        let set = |events: &[ClusterEvent]| events.iter().copied().collect::<EventSet>();
        let cases: [(&str, Value, &[ClusterEvent]); 6] = [
            (
                "/status/allocatable/cpu",
                json!("8"),
                &[ClusterEvent::NodeUpdateAllocatable],
            ),
            (
                "/metadata/labels/zone",
                json!("b"),
                &[ClusterEvent::NodeUpdateLabels],
            ),
            ("/spec/taints", json!([]), &[ClusterEvent::NodeUpdateTaints]),
            (
                "/spec/unschedulable",
                json!(true),
                &[ClusterEvent::NodeUpdateUnschedulable],
            ),
            (
                "/status/images",
                json!([]),
                &[ClusterEvent::NodeUpdateOther],
            ),
            ("/metadata/resourceVersion", json!("9"), &[]),
        ];
        for (path, value, expected) in cases {
            let mut changed = node();
            let (parent, field) = path.rsplit_once('/').unwrap();
            changed.pointer_mut(parent).unwrap()[field] = value;
            assert_eq!(
                parse(&node()).changes(&parse(&changed)),
                set(expected),
                "{path}"
            );
        }
    }

    #[test]
    fn a_component_sees_what_it_asked_for() {
        let node = parse(&node());
        let nothing = node.project(3, Needs::default());
        assert_eq!((nothing.index, nothing.name.as_str()), (3, "n"));
        assert!(nothing.labels.is_empty() && nothing.taints.is_empty());
        assert!(
            nothing.allocatable.is_empty() && nothing.images.is_empty() && nothing.json.is_none()
        );
        let needs = [
            Need::Labels,
            Need::Taints,
            Need::Allocatable,
            Need::Images,
            Need::NodeJson,
        ];
        let all = node.project(3, needs.into_iter().collect());
        assert_eq!((all.labels.len(), all.taints.len()), (1, 1));
        assert_eq!((all.allocatable.len(), all.images.len()), (3, 1));
        assert!(all.json.is_some());
    }
}
