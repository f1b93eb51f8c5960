//! The resources that built-in controllers work on.

use super::Resource;

pub const CONFIG_MAPS: Resource = Resource::of("", "v1", "configmaps");
pub const ENDPOINTS: Resource = Resource::of("", "v1", "endpoints");
pub const EVENTS: Resource = Resource::of("", "v1", "events");
pub const NAMESPACES: Resource = Resource::of("", "v1", "namespaces");
pub const NODES: Resource = Resource::of("", "v1", "nodes");
pub const PODS: Resource = Resource::of("", "v1", "pods");
pub const REPLICATION_CONTROLLERS: Resource = Resource::of("", "v1", "replicationcontrollers");
pub const SECRETS: Resource = Resource::of("", "v1", "secrets");
pub const SERVICES: Resource = Resource::of("", "v1", "services");
pub const SERVICE_ACCOUNTS: Resource = Resource::of("", "v1", "serviceaccounts");
pub const CONTROLLER_REVISIONS: Resource = Resource::of("apps", "v1", "controllerrevisions");
pub const DEPLOYMENTS: Resource = Resource::of("apps", "v1", "deployments");
pub const REPLICA_SETS: Resource = Resource::of("apps", "v1", "replicasets");
pub const LEASES: Resource = Resource::of("coordination.k8s.io", "v1", "leases");
pub const ENDPOINT_SLICES: Resource = Resource::of("discovery.k8s.io", "v1", "endpointslices");
pub const PRIORITY_CLASSES: Resource = Resource::of("scheduling.k8s.io", "v1", "priorityclasses");
