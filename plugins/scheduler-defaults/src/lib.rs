//! The default profile's plugins in one component: they share one mirror of the nodes, and a pod crosses into it once.
//!
//! Order is the order of filtering: the cheap and decisive first, as in Kubernetes' default profile.

use scheduler_default_binder::DefaultBinder;
use scheduler_node_affinity::NodeAffinity;
use scheduler_node_name::NodeName;
use scheduler_node_ports::NodePorts;
use scheduler_node_resources_balanced_allocation::NodeResourcesBalancedAllocation;
use scheduler_node_resources_fit::NodeResourcesFit;
use scheduler_node_unschedulable::NodeUnschedulable;
use scheduler_taint_toleration::TaintToleration;

pilothouse_sdk::export! {
    scheduler(nodes, cycle, filter, score, bind): [
        NodeUnschedulable,
        NodeName,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit::default(),
        NodeResourcesBalancedAllocation::default(),
        DefaultBinder,
    ],
}
