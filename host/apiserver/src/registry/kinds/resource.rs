//! The kinds of `resource.k8s.io`: devices, and who wants them. Expressions that select devices are not compiled, and the
//! namespaces of claims for administrators are not looked at, yet.
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/>

mod claim;
mod claims;
mod device_class;
mod names;
mod slice;
mod status;
#[cfg(test)]
mod tests;

pub(super) use claim::{ResourceClaimStrategy, ResourceClaimTemplateStrategy};
pub(super) use device_class::DeviceClassStrategy;
pub(super) use slice::ResourceSliceStrategy;

const GROUP: &str = "resource.k8s.io";
