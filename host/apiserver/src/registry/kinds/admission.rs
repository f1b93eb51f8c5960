//! The kinds of `admissionregistration.k8s.io`: who is asked before a write, and by which rules. They are kept and served;
//! nobody is asked yet, and expressions are not compiled.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/>

mod binding;
mod policy;
mod rules;
#[cfg(test)]
mod tests;
mod webhook;
pub(super) mod webhook_client;

pub(super) use binding::{MutatingBindingStrategy, ValidatingBindingStrategy};
pub(super) use policy::{MutatingPolicyStrategy, ValidatingPolicyStrategy};
pub(super) use webhook::{MutatingWebhooksStrategy, ValidatingWebhooksStrategy};

use pilothouse_api::ResourceInfo;

use super::describe;

const GROUP: &str = "admissionregistration.k8s.io";

fn info(plural: &'static str, kind: &'static str) -> ResourceInfo {
    ResourceInfo {
        categories: describe::texts(&["api-extensions"]),
        ..describe::cluster_scoped(GROUP, "v1", plural, kind)
    }
}
