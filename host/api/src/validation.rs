//! What is peculiar to no kind: names, labels, annotations, metadata, request options.
//! Source: <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/> and
//! <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/>
//!
//! The `is_…` functions return what is wrong with a text, in the words that clients see; nothing means valid. The
//! `validate_…` functions return [`crate::field::ErrorList`]s.

mod formats;
mod metadata;
mod options;
mod selector;
#[cfg(test)]
mod tests;

pub use formats::{
    NameFormat, is_config_map_key, is_dns1035_label, is_dns1123_label, is_dns1123_subdomain,
    is_env_var_name, is_in_range, is_label_key, is_label_value, is_percent, is_port_name,
    is_port_number, is_wildcard_dns1123_subdomain,
};
pub use metadata::{
    validate_annotations, validate_finalizers, validate_immutable, validate_labels,
    validate_object_meta, validate_object_meta_update, validate_owner_references,
};
pub use options::{
    validate_dry_run, validate_field_manager, validate_field_validation, validate_propagation,
};
pub use selector::validate_label_selector;

/// What `field.Invalid` says of a field that may not change.
pub const FIELD_IS_IMMUTABLE: &str = "field is immutable";

/// The bound of all annotations' keys and values together, in bytes.
pub const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;
