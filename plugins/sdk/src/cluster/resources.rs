//! The resources that built-in controllers work on.

use super::Resource;

pub static CONFIG_MAPS: Resource = Resource::of("", "v1", "configmaps");
pub static ENDPOINTS: Resource = Resource::of("", "v1", "endpoints");
pub static EVENTS: Resource = Resource::of("", "v1", "events");
pub static NAMESPACES: Resource = Resource::of("", "v1", "namespaces");
pub static NODES: Resource = Resource::of("", "v1", "nodes");
pub static PODS: Resource = Resource::of("", "v1", "pods");
pub static REPLICATION_CONTROLLERS: Resource = Resource::of("", "v1", "replicationcontrollers");
pub static SECRETS: Resource = Resource::of("", "v1", "secrets");
pub static SERVICES: Resource = Resource::of("", "v1", "services");
pub static SERVICE_ACCOUNTS: Resource = Resource::of("", "v1", "serviceaccounts");
pub static CONTROLLER_REVISIONS: Resource = Resource::of("apps", "v1", "controllerrevisions");
pub static DEPLOYMENTS: Resource = Resource::of("apps", "v1", "deployments");
pub static REPLICA_SETS: Resource = Resource::of("apps", "v1", "replicasets");
pub static LEASES: Resource = Resource::of("coordination.k8s.io", "v1", "leases");
pub static ENDPOINT_SLICES: Resource = Resource::of("discovery.k8s.io", "v1", "endpointslices");
pub static PRIORITY_CLASSES: Resource = Resource::of("scheduling.k8s.io", "v1", "priorityclasses");
