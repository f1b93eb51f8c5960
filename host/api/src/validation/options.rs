//! Options of requests, as query parameters and `DeleteOptions` carry them.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/common-parameters/common-parameters/>

use crate::field::{ErrorList, FieldError, Path};

const FIELD_MANAGER_MAX_BYTES: usize = 128;

/// `fieldManager`: at most 128 bytes, printable.
pub fn validate_field_manager(manager: &str, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if manager.len() > FIELD_MANAGER_MAX_BYTES {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_MAX_BYTES));
    }
    for (position, c) in manager.char_indices() {
        let printable = c == ' ' || !(c.is_control() || c.is_whitespace());
        if !printable {
            let code = u32::from(c);
            let why = format!("invalid character U+{code:04X} (at position {position})");
            errors.push(FieldError::invalid(path, manager, &why));
        }
    }
    errors
}

/// `dryRun`: nothing or `All`.
pub fn validate_dry_run<S: AsRef<str>>(dry_run: &[S], path: &Path) -> ErrorList {
    match dry_run.iter().all(|value| value.as_ref() == "All") {
        true => ErrorList::new(),
        false => {
            let values: Vec<&str> = dry_run.iter().map(AsRef::as_ref).collect();
            vec![FieldError::not_supported(path, values, &["All"])]
        }
    }
}

/// `fieldValidation`: nothing, `Ignore`, `Warn` or `Strict`.
pub fn validate_field_validation(value: &str, path: &Path) -> ErrorList {
    const ALLOWED: [&str; 4] = ["", "Ignore", "Strict", "Warn"];
    match ALLOWED.contains(&value) {
        true => ErrorList::new(),
        false => vec![FieldError::not_supported(path, value, &ALLOWED)],
    }
}

/// `propagationPolicy` and the deprecated `orphanDependents`, which exclude each other.
pub fn validate_propagation(policy: Option<&str>, orphan_dependents: Option<bool>) -> ErrorList {
    const ALLOWED: [&str; 4] = ["Foreground", "Background", "Orphan", "nil"];
    let path = Path::new("propagationPolicy");
    let mut errors = ErrorList::new();
    let Some(policy) = policy else {
        return errors;
    };
    if orphan_dependents.is_some() {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(&path, policy, why));
    }
    if !ALLOWED[..3].contains(&policy) {
        errors.push(FieldError::not_supported(&path, policy, &ALLOWED));
    }
    errors
}
