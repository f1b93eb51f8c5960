//! What users' plugins do not see, so that a bad one cannot lock its owner out: what the API server says of a kind, and what the
//! operator says.

use std::collections::BTreeSet;

use super::Request;

/// Namespaces with all that is in them, and resources.
#[derive(Clone, Debug, Default)]
pub struct Exempt {
    pub namespaces: BTreeSet<String>,
    /// `pods`, `deployments.apps`.
    pub resources: BTreeSet<String>,
}

impl Exempt {
    pub(super) fn covers(&self, request: &Request) -> bool {
        request.built_in_only
            || (!request.namespace.is_empty() && self.namespaces.contains(&request.namespace))
            || (!self.resources.is_empty() && self.names(request))
    }

    fn names(&self, request: &Request) -> bool {
        let of = &request.resource;
        match of.group.is_empty() {
            true => self.resources.contains(&*of.resource),
            false => self
                .resources
                .contains(&format!("{}.{}", of.resource, of.group)),
        }
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_api::GroupVersionResource;
    use serde_json::json;

    use super::*;
    use crate::{admission::Operation, contract::sample};

    #[test]
    fn namespaces_and_resources_are_exempt() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let exempt = Exempt {
            namespaces: set(&["kube-system"]),
            resources: set(&["nodes", "deployments.apps"]),
        };
        for (group, resource, namespace, expected) in [
            ("", "pods", "kube-system", true),
            ("", "pods", "default", false),
            ("", "namespaces", "kube-system", true),
            ("", "nodes", "", true),
            ("metrics.example", "nodes", "", false),
            ("apps", "deployments", "default", true),
            ("apps", "daemonsets", "default", false),
        ] {
            let resource = GroupVersionResource::of(group, "v1", resource);
            let mut request = sample::request(&resource, Operation::Create, &json!({}));
            request.namespace = namespace.to_owned();
            assert_eq!(exempt.covers(&request), expected, "{resource} {namespace}");
        }
    }
}
