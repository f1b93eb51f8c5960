//! `NamespaceLifecycle`: nothing is created in a namespace that is missing or being terminated, and some are never deleted.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#namespacelifecycle>

use pilothouse_sdk::{
    admission::{Admission, Denial, Entry, Mutation, Operation, Request},
    cluster::{Cluster, ClusterExt, resources::NAMESPACES},
};
use serde::Deserialize;

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The plugin.
pub struct NamespaceLifecycle;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Namespace {
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: String,
}

impl Admission for NamespaceLifecycle {
    /// In the mutating phase, before all others: what cannot be created is not worth their time.
    fn entry(&self) -> Entry {
        Entry::new("NamespaceLifecycle")
            .on(&["CREATE"], "*", &["*/*"])
            .on(&["DELETE"], "", &["namespaces"])
            .without_object()
            .order(-1000)
            .mutate_only()
            .may(&["get"], "", &["namespaces"])
    }

    fn mutate(&self, cluster: &dyn Cluster, request: &Request) -> Result<Mutation, Denial> {
        match request.operation {
            Operation::Delete => may_be_deleted(request)?,
            _ => accepts_content(cluster, request)?,
        }
        Ok(Mutation::default())
    }
}

fn may_be_deleted(request: &Request) -> Result<(), Denial> {
    match IMMORTAL.contains(&request.name.as_str()) {
        true => Err(request.forbidden("this namespace may not be deleted")),
        false => Ok(()),
    }
}

fn accepts_content(cluster: &dyn Cluster, request: &Request) -> Result<(), Denial> {
    let name = request.namespace.as_str();
    if name.is_empty() || is_namespace(request) || is_access_review(request) {
        return Ok(());
    }
    // A cache may not have heard of it yet.
    let namespace: Option<Namespace> = match cluster.get(&NAMESPACES, "", name)? {
        Some(namespace) => Some(namespace),
        None => cluster.get_live(&NAMESPACES, "", name)?,
    };
    let namespace = namespace.ok_or_else(|| Denial::not_found("", "namespaces", name))?;
    if namespace.status.phase != "Terminating" {
        return Ok(());
    }
    let why =
        format!("unable to create new content in namespace {name} because it is being terminated");
    let cause = format!("namespace {name} is being terminated");
    Err(request
        .forbidden(why)
        .cause("NamespaceTerminating", &cause, "metadata.namespace"))
}

/// Creating one is not creating something in it. Its subresources count as part of it.
fn is_namespace(request: &Request) -> bool {
    request.resource.group.is_empty() && request.resource.resource == "namespaces"
}

/// Whether a namespace exists is no business of somebody who asks what he may do in it.
fn is_access_review(request: &Request) -> bool {
    request.resource.group == "authorization.k8s.io"
        && request.resource.resource == "localsubjectaccessreviews"
}

pilothouse_sdk::export! {
    admission(mutate): [NamespaceLifecycle],
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::{
        Value,
        cluster::{Resource, resources::PODS},
        json,
        testing::{FakeCluster, admission_request},
    };

    use super::*;

    fn namespace(name: &str, phase: &str) -> Value {
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name }, "status": { "phase": phase } })
    }

    fn answer(request: &Request) -> Result<(), Denial> {
        let cluster = FakeCluster::new();
        cluster.add(&NAMESPACES, namespace("open", "Active"));
        cluster.add(&NAMESPACES, namespace("closing", "Terminating"));
        NamespaceLifecycle.mutate(&cluster, request).map(|_| ())
    }

    fn pod_in(namespace: &str) -> Value {
        json!({ "kind": "Pod", "metadata": { "name": "web", "namespace": namespace } })
    }

    #[test]
    fn content_needs_a_namespace_that_is_there_and_stays() {
        let create = |namespace| {
            answer(&admission_request(
                &PODS,
                Operation::Create,
                &pod_in(namespace),
            ))
        };
        assert_eq!(create("open"), Ok(()));
        let missing = create("missing").unwrap_err();
        assert_eq!((missing.code, missing.reason.as_str()), (404, "NotFound"));
        assert_eq!(missing.message, "namespaces \"missing\" not found");
        let closing = create("closing").unwrap_err();
        assert_eq!((closing.code, closing.reason.as_str()), (403, "Forbidden"));
        assert_eq!(
            closing.message,
            "pods \"web\" is forbidden: unable to create new content in namespace closing because it is being terminated"
        );
        assert_eq!(closing.causes[0].reason, "NamespaceTerminating");
        assert_eq!(closing.causes[0].field, "metadata.namespace");
    }

    #[test]
    fn subresources_are_content_and_access_reviews_are_not() {
        let mut binding = admission_request(&PODS, Operation::Create, &pod_in("closing"));
        binding.subresource = "binding".to_owned();
        assert!(answer(&binding).is_err());
        let reviews = Resource::of("authorization.k8s.io", "v1", "localsubjectaccessreviews");
        let review = json!({ "metadata": { "namespace": "missing" } });
        assert_eq!(
            answer(&admission_request(&reviews, Operation::Create, &review)),
            Ok(())
        );
        let mut finalize = admission_request(&NAMESPACES, Operation::Create, &namespace("new", ""));
        finalize.namespace = "new".to_owned();
        assert_eq!(answer(&finalize), Ok(()));
    }

    #[test]
    fn some_namespaces_are_never_deleted() {
        let delete = |name| {
            answer(&admission_request(
                &NAMESPACES,
                Operation::Delete,
                &namespace(name, "Active"),
            ))
        };
        for name in IMMORTAL {
            let refused = delete(name).unwrap_err();
            assert_eq!(refused.code, 403);
            let expected =
                format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
            assert_eq!(refused.message, expected);
        }
        assert_eq!(delete("open"), Ok(()));
    }
}
