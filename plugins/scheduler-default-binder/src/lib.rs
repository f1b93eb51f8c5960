//! `DefaultBinder`: binds a pod through the API.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/binding-v1/>

use pilothouse_sdk::{
    cluster::{Cluster, Host, resources::PODS},
    json,
    manifest::Capability,
    scheduler::{
        Begin, BindFailure, BindOutcome, Binding, Nodes, Pod, Point, Refusal, SchedulerPlugin,
    },
};

/// The plugin.
pub struct DefaultBinder;

impl SchedulerPlugin for DefaultBinder {
    const NAME: &'static str = "DefaultBinder";
    const ORDER: i32 = -10;
    const POINTS: &'static [Point] = &[Point::Bind];
    type Cycle = ();

    fn capabilities() -> Vec<Capability> {
        vec![Capability::new(&["create"], "", &["pods/binding"])]
    }

    fn begin(&self, _nodes: &Nodes, _pod: &Pod) -> Result<Begin<()>, Refusal> {
        Ok(Begin::skip())
    }

    /// The uid and resourceVersion make it a compare-and-swap: a pod that has changed since the decision is not bound.
    fn bind(&self, binding: &Binding) -> Result<BindOutcome, BindFailure> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "namespace": binding.namespace,
                "name": binding.name,
                "uid": binding.uid,
                "resourceVersion": binding.resource_version,
            },
            "target": { "apiVersion": "v1", "kind": "Node", "name": binding.node_name },
        });
        let body = body.to_string();
        let (namespace, name) = (&binding.namespace, &binding.name);
        Host.create_subresource_raw(&PODS, namespace, name, "binding", body.as_bytes())
            .map(|_| BindOutcome::Bound)
            .map_err(|status| BindFailure {
                code: status.code,
                reason: status.reason,
                message: status.message,
            })
    }
}
