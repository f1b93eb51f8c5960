//! What is claimed: requests, constraints between them, settings. Claims and their templates share it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::resource::v1::{
    DeviceClaim, DeviceConstraint, DeviceRequest, DeviceSelector, DeviceSubRequest,
    DeviceToleration, ExactDeviceRequest, ResourceClaimSpec,
};
use pilothouse_api::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::{device_class::MAX_CONFIG, names};
use crate::registry::kinds::{checks, fill};

const MAX_REQUESTS: usize = 32;
const MAX_CONSTRAINTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const ALL: &str = "All";
const EXACT_COUNT: &str = "ExactCount";
const ONE_OF: &str = "exactly one of `exactly` or `firstAvailable` is required";
const NO_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

pub(super) fn fill_defaults(spec: &mut ResourceClaimSpec) {
    let requests = spec.devices.as_mut().and_then(|d| d.requests.as_mut());
    for request in requests.into_iter().flatten() {
        if let Some(exactly) = &mut request.exactly {
            fill_mode(&mut exactly.allocation_mode, &mut exactly.count);
            fill_tolerations(&mut exactly.tolerations);
        }
        for alternative in request.first_available.iter_mut().flatten() {
            fill_mode(&mut alternative.allocation_mode, &mut alternative.count);
            fill_tolerations(&mut alternative.tolerations);
        }
    }
}

fn fill_mode(mode: &mut Option<String>, count: &mut Option<i64>) {
    fill::text(mode, EXACT_COUNT);
    if mode.as_deref() == Some(EXACT_COUNT) {
        fill::number(count, 1);
    }
}

fn fill_tolerations(tolerations: &mut Option<Vec<DeviceToleration>>) {
    for toleration in tolerations.iter_mut().flatten() {
        fill::text(&mut toleration.operator, "Equal");
    }
}

/// The names of requests, each with those of its alternatives.
pub(super) struct RequestNames<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> RequestNames<'a> {
    pub(super) fn of(claim: Option<&'a DeviceClaim>) -> Self {
        let requests = claim
            .and_then(|c| c.requests.as_deref())
            .unwrap_or_default();
        let alternatives = |request: &'a DeviceRequest| {
            let all = request.first_available.as_deref().unwrap_or_default();
            all.iter()
                .map(|alternative| alternative.name.as_str())
                .collect()
        };
        Self(
            requests
                .iter()
                .map(|r| (r.name.as_str(), alternatives(r)))
                .collect(),
        )
    }

    /// `request` or `request/alternative`.
    pub(super) fn validate_reference(&self, errors: &mut ErrorList, path: &Path, name: &str) {
        let segments: Vec<&str> = name.split('/').collect();
        if segments.len() > 2 {
            errors.push(FieldError::invalid(path, name, NO_REQUEST));
            return;
        }
        for segment in &segments {
            checks::dns_label(errors, path, segment);
        }
        let known = match segments.as_slice() {
            [request] => self.0.contains_key(request),
            [request, alternative] => self
                .0
                .get(request)
                .is_some_and(|names| names.contains(alternative)),
            _ => false,
        };
        if !known {
            errors.push(FieldError::invalid(path, name, NO_REQUEST));
        }
    }

    pub(super) fn validate_references(
        &self,
        errors: &mut ErrorList,
        path: &Path,
        references: Option<&[String]>,
    ) {
        let references = references.unwrap_or_default();
        for (i, name) in references.iter().enumerate() {
            self.validate_reference(errors, &path.index(i), name);
        }
        names::at_most(errors, path, references.len(), MAX_REQUESTS);
        names::no_duplicates(errors, path, "", references.iter().map(String::as_str));
    }
}

pub(super) fn validate(errors: &mut ErrorList, path: &Path, spec: &ResourceClaimSpec) {
    let Some(claim) = &spec.devices else { return };
    let path = path.child("devices");
    let known = RequestNames::of(Some(claim));
    let requests = claim.requests.as_deref().unwrap_or_default();
    let requests_path = path.child("requests");
    for (i, request) in requests.iter().enumerate() {
        validate_request(errors, &requests_path.index(i), request);
    }
    names::at_most(errors, &requests_path, requests.len(), MAX_REQUESTS);
    let of_requests = requests.iter().map(|request| request.name.as_str());
    names::no_duplicates(errors, &requests_path, "name", of_requests);

    let constraints = claim.constraints.as_deref().unwrap_or_default();
    let constraints_path = path.child("constraints");
    for (i, constraint) in constraints.iter().enumerate() {
        validate_constraint(errors, &constraints_path.index(i), constraint, &known);
    }
    names::at_most(
        errors,
        &constraints_path,
        constraints.len(),
        MAX_CONSTRAINTS,
    );

    let config = claim.config.as_deref().unwrap_or_default();
    let config_path = path.child("config");
    for (i, config) in config.iter().enumerate() {
        let path = config_path.index(i);
        let requests = config.requests.as_deref();
        known.validate_references(errors, &path.child("requests"), requests);
        names::opaque(errors, &path, config.opaque.as_ref());
    }
    names::at_most(errors, &config_path, config.len(), MAX_CONFIG);
}

fn validate_request(errors: &mut ErrorList, path: &Path, request: &DeviceRequest) {
    checks::dns_label(errors, &path.child("name"), &request.name);
    let alternatives = request.first_available.as_deref().unwrap_or_default();
    let alternatives_path = path.child("firstAvailable");
    for (i, alternative) in alternatives.iter().enumerate() {
        validate_alternative(errors, &alternatives_path.index(i), alternative);
    }
    names::at_most(
        errors,
        &alternatives_path,
        alternatives.len(),
        MAX_ALTERNATIVES,
    );
    let of_alternatives = alternatives.iter().map(|a| a.name.as_str());
    names::no_duplicates(errors, &alternatives_path, "name", of_alternatives);
    if let Some(exactly) = &request.exactly {
        validate_exactly(errors, &path.child("exactly"), exactly);
    }
    match (request.exactly.is_some(), !alternatives.is_empty()) {
        (false, false) => errors.push(FieldError::required(path, ONE_OF)),
        (true, true) => {
            let why = format!("{ONE_OF}, but multiple fields are set");
            errors.push(FieldError::invalid(path, Value::Null, &why));
        }
        _ => {}
    }
}

fn validate_exactly(errors: &mut ErrorList, path: &Path, request: &ExactDeviceRequest) {
    validate_wish(
        errors,
        path,
        &request.device_class_name,
        request.selectors.as_deref(),
        (request.allocation_mode.as_deref(), request.count),
        request.tolerations.as_deref(),
    );
}

fn validate_alternative(errors: &mut ErrorList, path: &Path, request: &DeviceSubRequest) {
    checks::dns_label(errors, &path.child("name"), &request.name);
    validate_wish(
        errors,
        path,
        &request.device_class_name,
        request.selectors.as_deref(),
        (request.allocation_mode.as_deref(), request.count),
        request.tolerations.as_deref(),
    );
}

/// What a request and an alternative of one have in common.
fn validate_wish(
    errors: &mut ErrorList,
    path: &Path,
    class: &str,
    selectors: Option<&[DeviceSelector]>,
    (mode, count): (Option<&str>, Option<i64>),
    tolerations: Option<&[DeviceToleration]>,
) {
    checks::required_subdomain(errors, &path.child("deviceClassName"), class);
    names::selectors(errors, &path.child("selectors"), selectors);
    validate_mode(errors, path, mode, count);
    names::tolerations(errors, &path.child("tolerations"), tolerations);
}

/// All that there are, or so many.
fn validate_mode(errors: &mut ErrorList, path: &Path, mode: Option<&str>, count: Option<i64>) {
    let count = count.unwrap_or_default();
    let count_path = path.child("count");
    match mode.unwrap_or_default() {
        ALL if count != 0 => {
            let why = format!("must not be specified when allocationMode is '{ALL}'");
            errors.push(FieldError::invalid(&count_path, count, &why));
        }
        ALL => {}
        EXACT_COUNT if count <= 0 => {
            errors.push(FieldError::invalid(&count_path, count, checks::POSITIVE));
        }
        EXACT_COUNT => {}
        other => errors.push(FieldError::not_supported(
            &path.child("allocationMode"),
            other,
            &[ALL, EXACT_COUNT],
        )),
    }
}

fn validate_constraint(
    errors: &mut ErrorList,
    path: &Path,
    constraint: &DeviceConstraint,
    known: &RequestNames<'_>,
) {
    let requests = constraint.requests.as_deref();
    known.validate_references(errors, &path.child("requests"), requests);
    match (&constraint.match_attribute, &constraint.distinct_attribute) {
        (Some(name), _) => names::fully_qualified(errors, &path.child("matchAttribute"), name),
        (None, Some(name)) => {
            names::fully_qualified(errors, &path.child("distinctAttribute"), name);
        }
        (None, None) => errors.push(FieldError::required(&path.child("matchAttribute"), "")),
    }
}
