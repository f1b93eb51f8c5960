//! Where a webhook is (at a URL or behind a Service), and how it is asked.

use std::collections::BTreeSet;

use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation,
};

use crate::registry::kinds::checks;

/// Versions in which a webhook can be asked.
pub(in crate::registry::kinds) const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

const FORM: &str = "; desired format: https://host[/path]";

/// A Service as webhooks name it.
#[derive(Clone, Copy, Debug)]
pub(in crate::registry::kinds) struct Service<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub path: Option<&'a str>,
    pub port: i32,
}

/// Exactly one of the two.
pub(in crate::registry::kinds) fn validate(
    errors: &mut ErrorList,
    path: &Path,
    url: Option<&str>,
    service: Option<Service<'_>>,
) {
    match (url, service) {
        (Some(url), None) => validate_url(errors, &path.child("url"), url),
        (None, Some(service)) => validate_service(errors, &path.child("service"), service),
        _ => {
            let why = "exactly one of url or service is required";
            errors.push(FieldError::required(path, why));
        }
    }
}

fn validate_url(errors: &mut ErrorList, path: &Path, url: &str) {
    let mut refuse = |part: &str, why: &str| {
        errors.push(FieldError::invalid(path, part, why));
    };
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        refuse(
            scheme,
            &format!("'https' is the only allowed URL scheme{FORM}"),
        );
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = match scheme {
        "" => "",
        _ => rest.split('/').next().unwrap_or_default(),
    };
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if host.is_empty() {
        refuse("", &format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        refuse(user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        refuse(fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        refuse(query, "query parameters are not permitted in the URL");
    }
}

fn validate_service(errors: &mut ErrorList, path: &Path, service: Service<'_>) {
    for (field, value) in [("name", service.name), ("namespace", service.namespace)] {
        if value.is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    for why in validation::is_port_number(service.port.into()) {
        let why = format!("port is not valid: {why}");
        errors.push(FieldError::invalid(&path.child("port"), service.port, &why));
    }
    let mut refuse = |value: &str, why: &str| {
        errors.push(FieldError::invalid(&path.child("path"), value, why));
    };
    match service.path {
        None | Some("" | "/") => {}
        Some("//") => refuse("//", "segment[0] may not be empty"),
        Some(value) => {
            if !value.starts_with('/') {
                refuse(value, "must start with a '/'");
            }
            let steps = value.strip_prefix('/').unwrap_or(value);
            let steps = steps.strip_suffix('/').unwrap_or(steps);
            for (i, step) in steps.split('/').enumerate() {
                if step.is_empty() {
                    refuse(value, &format!("segment[{i}] may not be empty"));
                    continue;
                }
                for why in validation::is_dns1123_subdomain(step) {
                    refuse(value, &format!("segment[{i}]: {why}"));
                }
            }
        }
    }
}

/// Versions of the question that the webhook understands, at least one: each once, one of ours among them.
pub(in crate::registry::kinds) fn validate_review_versions(
    errors: &mut ErrorList,
    path: &Path,
    versions: &[String],
) {
    let mut seen = BTreeSet::new();
    for (i, version) in versions.iter().enumerate() {
        let path = path.index(i);
        if !seen.insert(version.as_str()) {
            let why = "duplicate version";
            errors.push(FieldError::invalid(&path, version.as_str(), why));
            continue;
        }
        let complaints = validation::is_dns1035_label(version);
        checks::invalid_each(errors, &path, version, complaints);
    }
    if !REVIEW_VERSIONS.iter().any(|ours| seen.contains(ours)) {
        let ours = REVIEW_VERSIONS.join(", ");
        let why = format!("must include at least one of {ours}");
        errors.push(FieldError::invalid(path, versions.to_vec(), &why));
    }
}
