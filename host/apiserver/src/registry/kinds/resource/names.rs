//! Names, selectors and settings of devices, as several kinds have them.

use std::collections::BTreeSet;

use k8s_openapi::api::resource::v1::{
    DeviceSelector, DeviceTaint, DeviceToleration, OpaqueDeviceConfiguration,
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::Value;

use crate::registry::kinds::checks;

const POOL_NAME_MAX: usize = 253;
const ID_MAX: usize = 32;
pub(super) const MAX_SELECTORS: usize = 32;
const EXPRESSION_MAX_BYTES: usize = 10 * 1024;
pub(super) const PARAMETERS_MAX_BYTES: usize = 10 * 1024;
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Subdomains, joined by slashes.
pub(super) fn pool(errors: &mut ErrorList, path: &Path, name: &str) {
    if name.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    if name.len() > POOL_NAME_MAX {
        errors.push(FieldError::too_long(path, POOL_NAME_MAX));
    }
    for part in name.split('/') {
        checks::dns_subdomain(errors, path, part);
    }
}

/// `name` or `domain/name`.
pub(super) fn qualified(errors: &mut ErrorList, path: &Path, name: &str) {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [""] => errors.push(FieldError::required(path, "name required")),
        [id] => identifier(errors, path, id),
        [domain, id] => {
            match *domain {
                "" => errors.push(FieldError::required(path, "the domain must not be empty")),
                domain => checks::csi_driver_name(errors, path, domain),
            }
            match *id {
                "" => errors.push(FieldError::required(path, "the name must not be empty")),
                id => identifier(errors, path, id),
            }
        }
        _ => {}
    }
}

/// `domain/name`.
pub(super) fn fully_qualified(errors: &mut ErrorList, path: &Path, name: &str) {
    qualified(errors, path, name);
    if !name.is_empty() && !name.contains('/') {
        errors.push(FieldError::invalid(path, name, "must include a domain"));
    }
}

/// An identifier as C has them.
pub(super) fn identifier(errors: &mut ErrorList, path: &Path, id: &str) {
    if id.len() > ID_MAX {
        errors.push(FieldError::too_long(path, ID_MAX));
    }
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let fine = id.bytes().next().is_some_and(letter)
        && id.bytes().all(|b| letter(b) || b.is_ascii_digit());
    if !fine {
        let why = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
        errors.push(FieldError::type_invalid(path, id, why));
    }
}

/// No more than `max` items.
pub(super) fn at_most(errors: &mut ErrorList, path: &Path, count: usize, max: usize) {
    if count > max {
        errors.push(FieldError::too_many(path, count, max));
    }
}

/// No item twice.
pub(super) fn no_duplicates<'a>(
    errors: &mut ErrorList,
    path: &Path,
    field: &str,
    keys: impl Iterator<Item = &'a str>,
) {
    let mut seen = BTreeSet::new();
    for (i, key) in keys.enumerate() {
        if !seen.insert(key) {
            let path = match field {
                "" => path.index(i),
                field => path.index(i).child(field),
            };
            errors.push(FieldError::duplicate(&path, key));
        }
    }
}

pub(super) fn selectors(errors: &mut ErrorList, path: &Path, selectors: Option<&[DeviceSelector]>) {
    let selectors = selectors.unwrap_or_default();
    for (i, selector) in selectors.iter().enumerate() {
        let path = path.index(i).child("cel");
        match &selector.cel {
            None => errors.push(FieldError::required(&path, "")),
            Some(cel) if cel.expression.len() > EXPRESSION_MAX_BYTES => {
                let path = path.child("expression");
                errors.push(FieldError::too_long(&path, EXPRESSION_MAX_BYTES));
            }
            Some(_) => {}
        }
    }
    at_most(errors, path, selectors.len(), MAX_SELECTORS);
}

/// Settings that only their driver understands.
pub(super) fn opaque(
    errors: &mut ErrorList,
    path: &Path,
    configuration: Option<&OpaqueDeviceConfiguration>,
) {
    let path = path.child("opaque");
    let Some(configuration) = configuration else {
        errors.push(FieldError::required(&path, ""));
        return;
    };
    checks::csi_driver_name(errors, &path.child("driver"), &configuration.driver);
    raw_object(
        errors,
        &path.child("parameters"),
        &configuration.parameters.0,
    );
}

/// Any JSON object that is not too long.
pub(super) fn raw_object(errors: &mut ErrorList, path: &Path, value: &Value) {
    if value.is_null() {
        errors.push(FieldError::required(path, ""));
    } else if value.to_string().len() > PARAMETERS_MAX_BYTES {
        errors.push(FieldError::too_long(path, PARAMETERS_MAX_BYTES));
    } else if !value.is_object() {
        let why = "parameters must be a valid JSON object";
        errors.push(FieldError::invalid(path, "<value omitted>", why));
    }
}

pub(super) fn taint(errors: &mut ErrorList, path: &Path, taint: &DeviceTaint) {
    checks::qualified_name(errors, &path.child("key"), &taint.key);
    if let Some(value) = taint.value.as_deref().filter(|value| !value.is_empty()) {
        checks::label_value(errors, &path.child("value"), value);
    }
    let effect = Some(taint.effect.as_str());
    checks::required_one_of(errors, &path.child("effect"), effect, &EFFECTS);
}

pub(super) fn tolerations(
    errors: &mut ErrorList,
    path: &Path,
    tolerations: Option<&[DeviceToleration]>,
) {
    for (i, toleration) in tolerations.unwrap_or_default().iter().enumerate() {
        let path = path.index(i);
        if let Some(key) = toleration.key.as_deref().filter(|key| !key.is_empty()) {
            checks::qualified_name(errors, &path.child("key"), key);
        }
        let value = toleration.value.as_deref().unwrap_or_default();
        let value_path = path.child("value");
        match toleration.operator.as_deref().unwrap_or_default() {
            "Exists" if !value.is_empty() => {
                let why = "must be empty for operator `Exists`";
                errors.push(FieldError::invalid(&value_path, value, why));
            }
            "Exists" => {}
            "Equal" => {
                let complaints = validation::is_label_value(value);
                checks::invalid_each(errors, &value_path, value, complaints);
            }
            other => {
                let path = path.child("operator");
                checks::required_one_of(errors, &path, Some(other), &["Equal", "Exists"]);
            }
        }
        if let Some(effect) = toleration
            .effect
            .as_deref()
            .filter(|effect| !effect.is_empty())
        {
            checks::one_of(errors, &path.child("effect"), effect, &EFFECTS);
        }
    }
}
