//! Roles and who has them. They are kept and served; nothing is decided by them yet.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/rbac/>

mod binding;
mod role;
#[cfg(test)]
mod tests;

pub(super) use binding::{ClusterRoleBindingStrategy, RoleBindingStrategy};
pub(super) use role::{ClusterRoleStrategy, RoleStrategy};

const GROUP: &str = "rbac.authorization.k8s.io";
