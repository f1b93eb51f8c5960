//! The Deployment controller: rolls a Deployment's pods from one template to the next by way of ReplicaSets.
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/>
//!
//! [`bounds`] is the arithmetic, [`revision`] the annotations that `kubectl rollout` reads, [`status`] the conditions that
//! `kubectl rollout status` waits for; [`rollout`] is the order of steps.

mod bounds;
mod objects;
mod revision;
mod rollout;
mod status;
mod template;

use rollout::Deployments;

pilothouse_sdk::export! {
    controller(reconcile): [Deployments],
}
