//! Environment variables and the downward API.
//! Source: <https://kubernetes.io/docs/concepts/workloads/pods/downward-api/>

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, ObjectFieldSelector,
    ResourceFieldSelector,
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    quantity::Quantity,
    validation,
};

use super::paths;
use crate::registry::kinds::checks;

/// Fields of a pod that a variable can show.
const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields of a pod that a file can show.
pub(super) const FILE_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
/// Resources of a container that both can show.
const CONTAINER_RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const ONE_SOURCE: &str = "may not have more than one field specified at a time";

pub(super) fn validate(errors: &mut ErrorList, path: &Path, container: &Container) {
    for (i, variable) in container.env.iter().flatten().enumerate() {
        validate_variable(errors, &path.child("env").index(i), variable);
    }
    let path = path.child("envFrom");
    for (i, source) in container.env_from.iter().flatten().enumerate() {
        validate_env_from(errors, &path, i, source);
    }
}

fn validate_variable(errors: &mut ErrorList, path: &Path, variable: &EnvVar) {
    let name = variable.name.as_str();
    match name {
        "" => errors.push(FieldError::required(&path.child("name"), "")),
        name => {
            let complaints = validation::is_env_var_name(name);
            checks::invalid_each(errors, &path.child("name"), name, complaints);
        }
    }
    if let Some(source) = &variable.value_from {
        let value = variable.value.as_deref().unwrap_or_default();
        validate_value_from(errors, &path.child("valueFrom"), source, value);
    }
}

fn validate_value_from(errors: &mut ErrorList, path: &Path, source: &EnvVarSource, value: &str) {
    let mut sources = 0;
    if let Some(field) = &source.field_ref {
        sources += 1;
        validate_field_ref(errors, &path.child("fieldRef"), field, &VARIABLE_FIELDS);
    }
    if let Some(resource) = &source.resource_field_ref {
        sources += 1;
        validate_resource_ref(errors, &path.child("resourceFieldRef"), resource, false);
    }
    if let Some(key) = &source.config_map_key_ref {
        sources += 1;
        validate_key(errors, &path.child("configMapKeyRef"), &key.name, &key.key);
    }
    if let Some(key) = &source.secret_key_ref {
        sources += 1;
        validate_key(errors, &path.child("secretKeyRef"), &key.name, &key.key);
    }
    if let Some(file) = &source.file_key_ref {
        sources += 1;
        validate_file_key(errors, &path.child("fileKeyRef"), file);
    }
    let why = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !value.is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => ONE_SOURCE,
    };
    errors.push(FieldError::invalid(path, "", why));
}

fn validate_env_from(errors: &mut ErrorList, list: &Path, i: usize, source: &EnvFromSource) {
    let path = list.index(i);
    let prefix = source.prefix.as_deref().unwrap_or_default();
    if !prefix.is_empty() {
        let complaints = validation::is_env_var_name(prefix);
        checks::invalid_each(errors, &path.child("prefix"), prefix, complaints);
    }
    if let Some(map) = &source.config_map_ref {
        let path = path.child("configMapRef").child("name");
        checks::required_subdomain(errors, &path, &map.name);
    }
    if let Some(secret) = &source.secret_ref {
        let path = path.child("secretRef").child("name");
        checks::required_subdomain(errors, &path, &secret.name);
    }
    let why = match (&source.config_map_ref, &source.secret_ref) {
        (None, None) => "must specify one of: `configMapRef` or `secretRef`",
        (Some(_), Some(_)) => ONE_SOURCE,
        _ => return,
    };
    errors.push(FieldError::invalid(list, "", why));
}

fn validate_key(errors: &mut ErrorList, path: &Path, name: &str, key: &str) {
    checks::dns_subdomain(errors, &path.child("name"), name);
    match key {
        "" => errors.push(FieldError::required(&path.child("key"), "")),
        key => {
            let complaints = validation::is_config_map_key(key);
            checks::invalid_each(errors, &path.child("key"), key, complaints);
        }
    }
}

fn validate_file_key(errors: &mut ErrorList, path: &Path, file: &FileKeySelector) {
    match file.key.as_str() {
        "" => errors.push(FieldError::required(&path.child("key"), "")),
        key => {
            let complaints = validation::is_env_var_name(key);
            checks::invalid_each(errors, &path.child("key"), key, complaints);
        }
    }
    checks::required(errors, &path.child("volumeName"), &file.volume_name);
    checks::required(errors, &path.child("path"), &file.path);
    paths::local(errors, &path.child("path"), &file.path);
}

/// A reference to a field of the pod, such as `metadata.labels['app']`.
pub(super) fn validate_field_ref(
    errors: &mut ErrorList,
    path: &Path,
    selector: &ObjectFieldSelector,
    fields: &[&str],
) {
    let version = selector.api_version.as_deref().unwrap_or_default();
    let field_path = path.child("fieldPath");
    let field = selector.field_path.as_str();
    if version.is_empty() {
        errors.push(FieldError::required(&path.child("apiVersion"), ""));
    } else if field.is_empty() {
        errors.push(FieldError::required(&field_path, ""));
    } else if version != "v1" {
        let why = format!("error converting fieldPath: unsupported pod version: {version}");
        errors.push(FieldError::invalid(&field_path, field, &why));
    } else if let Some((head, key)) = subscript(field) {
        match head {
            "metadata.labels" => checks::qualified_name(errors, path, key),
            "metadata.annotations" => checks::qualified_name(errors, path, &key.to_lowercase()),
            head => errors.push(FieldError::invalid(
                path,
                head,
                "does not support subscript",
            )),
        }
    } else if !(VARIABLE_FIELDS.contains(&field) || FILE_FIELDS.contains(&field)) {
        let why = format!("error converting fieldPath: field label not supported: {field}");
        errors.push(FieldError::invalid(&field_path, field, &why));
    } else {
        checks::one_of(errors, &field_path, field, fields);
    }
}

/// `metadata.labels['app']` as `metadata.labels` and `app`.
fn subscript(field: &str) -> Option<(&str, &str)> {
    field.strip_suffix("']")?.split_once("['")
}

/// A reference to a request or limit of a container; `named`: the container must be named.
pub(super) fn validate_resource_ref(
    errors: &mut ErrorList,
    path: &Path,
    selector: &ResourceFieldSelector,
    named: bool,
) {
    let container = selector.container_name.as_deref().unwrap_or_default();
    let resource = selector.resource.as_str();
    let huge_pages =
        resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if named && container.is_empty() {
        errors.push(FieldError::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(&path.child("resource"), ""));
    } else if !huge_pages {
        let path = path.child("resource");
        checks::one_of(errors, &path, resource, &CONTAINER_RESOURCES);
    }
    let divisor = selector.divisor.as_ref().map_or("", |q| q.0.as_str());
    validate_divisor(errors, &path.child("divisor"), resource, divisor);
}

fn validate_divisor(errors: &mut ErrorList, path: &Path, resource: &str, divisor: &str) {
    const BYTES: [&str; 13] = [
        "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
    ];
    if divisor.is_empty() {
        return;
    }
    let parsed = match Quantity::parse(divisor) {
        Ok(parsed) if parsed.is_zero() => return,
        Ok(parsed) => parsed.to_string(),
        Err(error) => {
            errors.push(FieldError::invalid(path, divisor, &error.to_string()));
            return;
        }
    };
    let (supported, what) = match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" => (&["1m", "1"][..], "cpu"),
        "memory" => (&BYTES[..], "memory"),
        "ephemeral-storage" => (&BYTES[..], "local ephemeral storage"),
        name if name.starts_with("hugepages-") => (&BYTES[..], "hugepages"),
        _ => return,
    };
    if !supported.contains(&parsed.as_str()) {
        let values = match what {
            "cpu" => "1m and 1".to_owned(),
            _ => supported.join(", "),
        };
        let why = format!("only divisor's values {values} are supported with the {what} resource");
        errors.push(FieldError::invalid(path, resource, &why));
    }
}
