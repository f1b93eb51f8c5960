//! Filling in defaults. A field counts as unset if it is absent or has the zero value that Kubernetes leaves out of JSON.

/// A text.
pub(super) fn text(field: &mut Option<String>, default: &str) {
    if field.as_deref().unwrap_or_default().is_empty() {
        *field = Some(default.to_owned());
    }
}

/// A number whose zero means unset.
pub(super) fn number<N: Default + PartialEq + Copy>(field: &mut Option<N>, default: N) {
    if field.unwrap_or_default() == N::default() {
        *field = Some(default);
    }
}

/// A value whose zero is a value too.
pub(super) fn pointer<T>(field: &mut Option<T>, default: T) {
    field.get_or_insert(default);
}
