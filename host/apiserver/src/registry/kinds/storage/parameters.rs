//! What classes of storage share: who provides it, and what is passed on to them.

use std::collections::BTreeMap;

use pilothouse_api::field::{ErrorList, FieldError, Path};

use crate::registry::kinds::checks;

const MAX_PARAMETERS: usize = 512;
const MAX_BYTES: usize = 256 * 1024;

/// A qualified name, whatever its case.
pub(super) fn validate_provider(errors: &mut ErrorList, path: &Path, name: &str) {
    match name {
        "" => errors.push(FieldError::required(path, "")),
        name => checks::qualified_name(errors, path, &name.to_lowercase()),
    }
}

/// Keys are not empty, and there are not too many of them.
pub(super) fn validate(
    errors: &mut ErrorList,
    path: &Path,
    parameters: Option<&BTreeMap<String, String>>,
) {
    let count = parameters.map_or(0, BTreeMap::len);
    if count > MAX_PARAMETERS {
        errors.push(FieldError::too_long(path, MAX_PARAMETERS));
        return;
    }
    let mut bytes = 0;
    for (key, value) in parameters.into_iter().flatten() {
        if key.is_empty() {
            errors.push(FieldError::invalid(path, "", "field can not be empty."));
        }
        bytes += key.len() + value.len();
    }
    if bytes > MAX_BYTES {
        errors.push(FieldError::too_long(path, MAX_BYTES));
    }
}

/// A field of a class that may not be updated.
pub(super) fn forbid_update(errors: &mut ErrorList, field: &str, same: bool) {
    if !same {
        let why = format!("updates to {field} are forbidden.");
        errors.push(FieldError::forbidden(&Path::new(field), &why));
    }
}
