//! A kubelet for nodes that exist only as objects: it registers them, keeps their heartbeats, and plays the life of the pods
//! bound to them. For development, tests and simulation.
//!
//! A node is simulated if it carries the label `pilothouse.dev/simulated=true`; no other node, and no pod of another node, is
//! touched. Nodes of the configuration are created with the label; any other node joins by getting it.
//!
//! What can be asked of it, besides the [configuration](config::Config):
//!
//! | annotation | on | effect |
//! |---|---|---|
//! | `pilothouse.dev/silent: "true"` | node | no heartbeats and no pod moves, as if the machine were lost |
//! | `pilothouse.dev/run-seconds` | pod | its containers end with exit code 0 so long after they started, unless `restartPolicy` is `Always` |
//! | `pilothouse.dev/termination-seconds` | pod | its containers take so long to stop, at most the grace period |
//!
//! Keys are node names, so that all pods of a node are handled one after the other and never get the same address; the
//! singleton key registers the configured nodes.

mod addresses;
mod config;
mod kubelet;
mod node;
mod pod;
mod pod_status;

use kubelet::Kubelet;

pilothouse_sdk::export! {
    controller(reconcile): [Kubelet],
}
