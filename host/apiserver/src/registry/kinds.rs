//! The table of built-in kinds: a kind is a [`Strategy`](super::strategy::Strategy) and a line here.

mod addresses;
mod admission;
mod api_service;
mod cells;
mod certificate_signing_request;
mod checks;
mod conditions;
mod config_map;
mod controller_revision;
mod cron_job;
mod custom_resource_definition;
mod daemon_set;
mod deployment;
mod describe;
mod endpoint_slice;
mod endpoints;
mod event;
mod fill;
pub(crate) mod flow_control;
mod horizontal_pod_autoscaler;
mod int_or_percent;
mod job;
mod lease;
mod limit_range;
mod namespace;
mod networking;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod plugin;
pub(crate) mod pod;
pub(crate) mod pod_disruption_budget;
mod pod_template;
mod priority_class;
mod rbac;
mod replica_set;
mod replicas;
mod replication_controller;
mod resource;
mod resource_quota;
mod runtime_class;
mod secret;
mod semantic;
mod service;
mod service_account;
mod stateful_set;
mod storage;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pilothouse_api::{GroupResource, GroupVersionKind, ResourceInfo};

use super::{
    allocation::{Allocators, DEFAULT_NODE_PORTS},
    erased::{ErasedStrategy, erase},
};

/// Where every built-in resource is kept: the path below `/registry/`, and the resource as encryption at rest names it.
pub fn storage_places() -> Vec<(String, GroupResource)> {
    let kinds = built_in(&Allocators::new(&[], DEFAULT_NODE_PORTS));
    let kept = kinds.iter().filter(|kind| kind.conversion().is_none());
    kept.map(|kind| {
        let info = kind.resource();
        (info.storage_prefix.to_string(), info.group_resource())
    })
    .collect()
}

/// The resource of a built-in kind.
pub fn resource_of(kind: &GroupVersionKind) -> Option<ResourceInfo> {
    let kinds = built_in(&Allocators::new(&[], DEFAULT_NODE_PORTS));
    let mut resources = kinds.iter().map(|kind| kind.resource());
    resources.find(|info| info.gvk() == *kind).cloned()
}

/// Every built-in kind. Services take their numbers from `allocators`, which must have adopted the stored ones.
pub fn built_in(allocators: &Arc<Allocators>) -> Vec<Arc<dyn ErasedStrategy>> {
    let services = service::ServiceStrategy {
        allocators: Arc::clone(allocators),
    };
    vec![
        erase(namespace::NamespaceStrategy),
        erase(config_map::ConfigMapStrategy),
        erase(secret::SecretStrategy),
        erase(service_account::ServiceAccountStrategy),
        erase(pod::PodStrategy),
        erase(node::NodeStrategy),
        erase(services),
        erase(endpoints::EndpointsStrategy),
        erase(persistent_volume::PersistentVolumeStrategy),
        erase(limit_range::LimitRangeStrategy),
        erase(resource_quota::ResourceQuotaStrategy),
        erase(pod_template::PodTemplateStrategy),
        erase(persistent_volume_claim::PersistentVolumeClaimStrategy),
        erase(event::EventStrategy),
        erase(replication_controller::ReplicationControllerStrategy),
        erase(event::EventsEventStrategy),
        erase(deployment::DeploymentStrategy),
        erase(replica_set::ReplicaSetStrategy),
        erase(stateful_set::StatefulSetStrategy),
        erase(daemon_set::DaemonSetStrategy),
        erase(controller_revision::ControllerRevisionStrategy),
        erase(job::JobStrategy),
        erase(cron_job::CronJobStrategy),
        erase(pod_disruption_budget::PodDisruptionBudgetStrategy),
        erase(horizontal_pod_autoscaler::HorizontalPodAutoscalerStrategy),
        erase(horizontal_pod_autoscaler::HorizontalPodAutoscalerV1Strategy),
        erase(lease::LeaseStrategy),
        erase(endpoint_slice::EndpointSliceStrategy),
        erase(priority_class::PriorityClassStrategy),
        erase(rbac::RoleStrategy),
        erase(rbac::ClusterRoleStrategy),
        erase(rbac::RoleBindingStrategy),
        erase(rbac::ClusterRoleBindingStrategy),
        erase(networking::IngressStrategy),
        erase(networking::IngressClassStrategy),
        erase(networking::NetworkPolicyStrategy),
        erase(networking::IpAddressStrategy),
        erase(networking::ServiceCidrStrategy),
        erase(storage::StorageClassStrategy),
        erase(storage::VolumeAttributesClassStrategy),
        erase(storage::VolumeAttachmentStrategy),
        erase(storage::CsiDriverStrategy),
        erase(storage::CsiNodeStrategy),
        erase(storage::CsiStorageCapacityStrategy),
        erase(certificate_signing_request::CertificateSigningRequestStrategy),
        erase(runtime_class::RuntimeClassStrategy),
        erase(api_service::ApiServiceStrategy),
        erase(admission::ValidatingWebhooksStrategy),
        erase(admission::MutatingWebhooksStrategy),
        erase(admission::ValidatingPolicyStrategy),
        erase(admission::ValidatingBindingStrategy),
        erase(admission::MutatingPolicyStrategy),
        erase(admission::MutatingBindingStrategy),
        erase(custom_resource_definition::CustomResourceDefinitionStrategy),
        erase(resource::DeviceClassStrategy),
        erase(resource::ResourceClaimStrategy),
        erase(resource::ResourceClaimTemplateStrategy),
        erase(resource::ResourceSliceStrategy),
        erase(flow_control::FlowSchemaStrategy),
        erase(flow_control::PriorityLevelStrategy),
        erase(plugin::PluginStrategy),
    ]
}
