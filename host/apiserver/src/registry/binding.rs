//! `pods/binding`: gives a pod its node, as one compare-and-swap on what the scheduler saw.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/binding-v1/>

use k8s_openapi::api::core::v1::{Binding, Pod};
use pilothouse_api::{Cause, Status};

use super::{
    Call, Current, Registry, Resource,
    kinds::pod::binding::{bind as assign, validate_binding},
    update::Subresource,
};

/// Binds a pod. A uid or resourceVersion in the binding must still hold.
pub(crate) async fn bind(
    registry: &Registry,
    pods: &Resource,
    call: &Call,
    (namespace, name): (&str, &str),
    binding: &Binding,
) -> Result<(), Status> {
    let errors = validate_binding(binding);
    if !errors.is_empty() {
        let causes = errors.into_iter().map(Cause::from).collect();
        return Err(Status::invalid("", "Binding", name, causes));
    }
    let transform = |current: &Current| {
        let mut object = current.object.clone();
        match object.downcast_mut::<Pod>() {
            Some(pod) => assign(pod, binding, call.context.now)?,
            None => return Err(Status::internal("only pods can be bound")),
        }
        Ok(object)
    };
    registry
        .update(
            pods,
            call,
            (namespace, name),
            Subresource::Binding,
            &transform,
            None,
        )
        .await?;
    Ok(())
}
