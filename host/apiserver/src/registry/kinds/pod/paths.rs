//! Paths inside volumes and on nodes.

use pilothouse_api::field::{ErrorList, FieldError, Path};

/// No element is `..`.
pub(in crate::registry::kinds) fn no_backsteps(errors: &mut ErrorList, path: &Path, target: &str) {
    if has_backsteps(target) {
        errors.push(FieldError::invalid(path, target, "must not contain '..'"));
    }
}

/// Whether an element is `..`.
pub(super) fn has_backsteps(target: &str) -> bool {
    target.split('/').any(|item| item == "..")
}

/// Relative, and below where it starts.
pub(super) fn descending(errors: &mut ErrorList, path: &Path, target: &str) {
    if target.starts_with('/') {
        errors.push(FieldError::invalid(path, target, "must be a relative path"));
    }
    no_backsteps(errors, path, target);
}

/// The same, and not one of the names that begin with `..`, which are for the kubelet.
pub(super) fn local(errors: &mut ErrorList, path: &Path, target: &str) {
    descending(errors, path, target);
    if target.starts_with("..") && !has_backsteps(target) {
        errors.push(FieldError::invalid(
            path,
            target,
            "must not start with '..'",
        ));
    }
}
