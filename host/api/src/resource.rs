//! What the API server and its clients know about a resource: names, scope, verbs, selectable fields.

use crate::gvk::{GroupResource, GroupVersionKind, GroupVersionResource};

/// One served resource of one version. Built-in ones are constants; those of custom resources are made at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceInfo {
    pub gvr: GroupVersionResource,
    pub kind: std::borrow::Cow<'static, str>,
    pub singular: std::borrow::Cow<'static, str>,
    pub namespaced: bool,
    pub short_names: Vec<String>,
    /// For `kubectl get all`: `["all"]`.
    pub categories: Vec<String>,
    /// What `fieldSelector` may name besides `metadata.name` and `metadata.namespace`, each a [`SelectableField`] as text.
    pub selectable_fields: Vec<String>,
    /// The path below `/registry/` without slashes at its ends, as Kubernetes lays it out in etcd: `services/specs`.
    pub storage_prefix: std::borrow::Cow<'static, str>,
}

/// A field to select by, written `label[=path][?absent]`: `spec.nodeName`, `spec.unschedulable?false`,
/// `status.successful=status.succeeded?0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectableField<'a> {
    /// What selectors call it.
    pub label: &'a str,
    /// Where it is, a dotted path; the label unless said otherwise.
    pub path: &'a str,
    /// What an object has that leaves it out: nothing, or the zero that Kubernetes does not write into JSON.
    pub absent: &'a str,
}

impl<'a> SelectableField<'a> {
    /// Reads the text form.
    pub fn parse(text: &'a str) -> Self {
        let (name, absent) = text.split_once('?').unwrap_or((text, ""));
        let (label, path) = name.split_once('=').unwrap_or((name, name));
        Self {
            label,
            path,
            absent,
        }
    }
}

impl ResourceInfo {
    /// The group and plural, for error messages.
    pub fn group_resource(&self) -> GroupResource {
        self.gvr.group_resource()
    }

    /// The group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind {
            group: self.gvr.group.clone(),
            version: self.gvr.version.clone(),
            kind: self.kind.clone(),
        }
    }

    /// The storage key: `/registry/pods/default/web-0`, `/registry/minions/node-0`.
    pub fn storage_key(&self, namespace: &str, name: &str) -> String {
        match namespace {
            "" => format!("/registry/{}/{name}", self.storage_prefix),
            namespace => format!("/registry/{}/{namespace}/{name}", self.storage_prefix),
        }
    }

    /// The prefix of all keys, or of one namespace's.
    pub fn storage_key_prefix(&self, namespace: &str) -> String {
        match namespace {
            "" => format!("/registry/{}/", self.storage_prefix),
            namespace => format!("/registry/{}/{namespace}/", self.storage_prefix),
        }
    }
}
