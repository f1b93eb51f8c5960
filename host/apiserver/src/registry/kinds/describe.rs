//! How the built-in resources describe themselves.

use std::borrow::Cow;

use pilothouse_api::{GroupVersionResource, ResourceInfo};

/// A namespaced resource without short names, kept under its plural name.
pub(super) fn namespaced(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
) -> ResourceInfo {
    ResourceInfo {
        gvr: GroupVersionResource::of(group, version, plural),
        kind: Cow::Borrowed(kind),
        singular: Cow::Owned(kind.to_lowercase()),
        namespaced: true,
        short_names: Vec::new(),
        categories: Vec::new(),
        selectable_fields: Vec::new(),
        storage_prefix: Cow::Borrowed(plural),
    }
}

/// The same, cluster-scoped.
pub(super) fn cluster_scoped(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
) -> ResourceInfo {
    ResourceInfo {
        namespaced: false,
        ..namespaced(group, version, plural, kind)
    }
}

/// Owned texts.
pub(super) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().copied().map(str::to_owned).collect()
}

/// The category of `kubectl get all`.
pub(super) fn all() -> Vec<String> {
    texts(&["all"])
}
