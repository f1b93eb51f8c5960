//! How the built-in resources describe themselves.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
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

/// Puts back what an update of a status may not touch, for those kinds whose metadata is theirs alone.
pub(super) fn keep_metadata_for_status(new: &mut ObjectMeta, old: &ObjectMeta) {
    new.labels.clone_from(&old.labels);
    new.annotations.clone_from(&old.annotations);
    new.finalizers.clone_from(&old.finalizers);
    new.owner_references.clone_from(&old.owner_references);
}

/// Owned texts.
pub(super) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().copied().map(str::to_owned).collect()
}

/// The category of `kubectl get all`.
pub(super) fn all() -> Vec<String> {
    texts(&["all"])
}
