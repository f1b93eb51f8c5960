//! One admission request, as `admission.k8s.io/v1` AdmissionRequest has it.

use bytes::Bytes;
use pilothouse_api::{GroupVersionKind, GroupVersionResource, SharedObject};
use tokio::time::Instant;

use super::bindings::types;
use crate::manifest::{ObjectNeed, OperationType, WebhookRule};

/// What is done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    pub uid: String,
    pub kind: GroupVersionKind,
    pub resource: GroupVersionResource,
    /// Empty for the main resource.
    pub subresource: String,
    /// Empty while a name is still to be generated.
    pub name: String,
    /// Empty for cluster-scoped resources; for a Namespace its own name.
    pub namespace: String,
    /// The scope of the resource; false for Namespace.
    pub namespaced: bool,
    pub operation: Operation,
    pub user: User,
    pub dry_run: bool,
    /// JSON; `None` on delete.
    pub object: Option<Bytes>,
    /// JSON; on update and delete.
    pub old_object: Option<Bytes>,
    /// The request's options as JSON; empty if there are none.
    pub options: Bytes,
    /// Leases, events and plugins: only what ships with the server may look, so that a bad plugin cannot lock its owner out.
    pub built_in_only: bool,
    /// The request's namespace, for selectors; `None` for cluster-scoped resources, and while there is none.
    pub namespace_object: Option<SharedObject>,
    /// When the request's time is up.
    pub deadline: Option<Instant>,
}

impl Operation {
    /// As rules name it.
    pub fn in_rules(self) -> OperationType {
        match self {
            Self::Create => OperationType::Create,
            Self::Update => OperationType::Update,
            Self::Delete => OperationType::Delete,
            Self::Connect => OperationType::Connect,
        }
    }

    fn outward(self) -> types::Operation {
        match self {
            Self::Create => types::Operation::Create,
            Self::Update => types::Operation::Update,
            Self::Delete => types::Operation::Delete,
            Self::Connect => types::Operation::Connect,
        }
    }
}

/// The parts of a user's extra that the outward form borrows.
pub(super) struct Extra<'a>(Vec<(&'a str, Vec<&'a str>)>);

impl<'a> Extra<'a> {
    pub(super) fn of(user: &'a User) -> Self {
        let entries = user.extra.iter();
        Self(
            entries
                .map(|(key, values)| (key.as_str(), values.iter().map(String::as_str).collect()))
                .collect(),
        )
    }

    pub(super) fn borrowed(&'a self) -> Vec<(&'a str, &'a [&'a str])> {
        self.0
            .iter()
            .map(|(key, values)| (*key, values.as_slice()))
            .collect()
    }
}

impl Request {
    pub(super) fn is_covered_by(&self, rule: &WebhookRule) -> bool {
        rule.matches(
            self.operation.in_rules(),
            &self.resource.group,
            &self.resource.version,
            &self.resource.resource,
            &self.subresource,
            self.namespaced,
        )
    }

    /// As the guest gets it.
    pub(super) fn outward<'a>(
        &'a self,
        need: ObjectNeed,
        groups: &'a [&'a str],
        extra: &'a [(&'a str, &'a [&'a str])],
    ) -> types::Request<'a> {
        types::Request {
            uid: &self.uid,
            kind: types::GroupVersionKind {
                group: &self.kind.group,
                version: &self.kind.version,
                kind: &self.kind.kind,
            },
            resource: types::GroupVersionResource {
                group: &self.resource.group,
                version: &self.resource.version,
                resource: &self.resource.resource,
            },
            subresource: &self.subresource,
            name: &self.name,
            namespace: &self.namespace,
            operation: self.operation.outward(),
            user: types::User {
                name: &self.user.name,
                uid: &self.user.uid,
                groups,
                extra,
            },
            dry_run: self.dry_run,
            object: super::shown(self.object.as_ref(), need),
            old_object: super::shown(self.old_object.as_ref(), need),
            options: &self.options,
        }
    }
}
