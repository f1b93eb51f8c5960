//! Checks that many kinds share. Each adds what it finds to a list and says nothing otherwise; formats and their texts are
//! [`pilothouse_api::validation`]'s.

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use pilothouse_api::{
    field::{ErrorList, ErrorType, FieldError, Path},
    selector, validation,
};
use serde_json::Value;

/// What is said of a number below zero.
pub(super) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
/// What is said of a number that is not above zero.
pub(super) const POSITIVE: &str = "must be greater than zero";

/// One `Invalid` for each complaint about `value`.
pub(super) fn invalid_each(
    errors: &mut ErrorList,
    path: &Path,
    value: &str,
    complaints: Vec<String>,
) {
    errors.extend(
        complaints
            .iter()
            .map(|why| FieldError::invalid(path, value, why)),
    );
}

/// A field that may not be empty.
pub(super) fn required(errors: &mut ErrorList, path: &Path, value: &str) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
}

/// RFC 1123 label.
pub(super) fn dns_label(errors: &mut ErrorList, path: &Path, value: &str) {
    invalid_each(errors, path, value, validation::is_dns1123_label(value));
}

/// RFC 1123 subdomain.
pub(super) fn dns_subdomain(errors: &mut ErrorList, path: &Path, value: &str) {
    invalid_each(errors, path, value, validation::is_dns1123_subdomain(value));
}

/// A name that must be there and be an RFC 1123 subdomain.
pub(super) fn required_subdomain(errors: &mut ErrorList, path: &Path, value: &str) {
    match value {
        "" => errors.push(FieldError::required(path, "")),
        value => dns_subdomain(errors, path, value),
    }
}

/// A name that must be there and be an RFC 1123 label.
pub(super) fn required_label(errors: &mut ErrorList, path: &Path, value: &str) {
    match value {
        "" => errors.push(FieldError::required(path, "")),
        value => dns_label(errors, path, value),
    }
}

/// A name that must be there and fit into one segment of a path.
pub(super) fn required_path_segment(errors: &mut ErrorList, path: &Path, value: &str) {
    match value {
        "" => errors.push(FieldError::required(path, "")),
        value => path_segment(errors, path, value),
    }
}

/// A name that fits into one segment of a path.
pub(super) fn path_segment(errors: &mut ErrorList, path: &Path, value: &str) {
    let complaints = validation::NameFormat::PathSegment.check(value, false);
    invalid_each(errors, path, value, complaints);
}

/// A domain of at least three segments: `hook.example.com`.
pub(super) fn fully_qualified_name(errors: &mut ErrorList, path: &Path, value: &str) {
    if value.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let complaints = validation::is_dns1123_subdomain(value);
    if !complaints.is_empty() {
        errors.push(FieldError::invalid(path, value, &complaints.join(",")));
    } else if value.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, value, why));
    }
}

/// The name of a driver of storage or devices: a domain, in any case, of at most 63 characters.
pub(super) fn csi_driver_name(errors: &mut ErrorList, path: &Path, value: &str) {
    const MAX: usize = 63;
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if value.len() > MAX {
        errors.push(FieldError::too_long(path, MAX));
    }
    let complaints = validation::is_dns1123_subdomain(&value.to_lowercase());
    invalid_each(errors, path, &value.to_lowercase(), complaints);
}

/// Qualified name: the format of label keys, conditions, gates, resource names.
pub(super) fn qualified_name(errors: &mut ErrorList, path: &Path, value: &str) {
    invalid_each(errors, path, value, validation::is_label_key(value));
}

/// Label value.
pub(super) fn label_value(errors: &mut ErrorList, path: &Path, value: &str) {
    invalid_each(errors, path, value, validation::is_label_value(value));
}

/// A map of labels, such as a node selector.
pub(super) fn labels(
    errors: &mut ErrorList,
    path: &Path,
    labels: Option<&BTreeMap<String, String>>,
) {
    errors.extend(validation::validate_labels(labels, path));
}

/// A label selector; none is fine.
pub(super) fn label_selector(
    errors: &mut ErrorList,
    path: &Path,
    selector: Option<&LabelSelector>,
) {
    if let Some(selector) = selector {
        errors.extend(validation::validate_label_selector(selector, path));
    }
}

/// Whether a selector in API form selects an object with these labels; a malformed one selects nothing.
pub(super) fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let empty = BTreeMap::new();
    selector::LabelSelector::from_meta(Some(selector))
        .is_ok_and(|selector| selector.matches(labels.unwrap_or(&empty)))
}

/// A port number.
pub(super) fn port_number(errors: &mut ErrorList, path: &Path, port: i32) {
    errors.extend(
        validation::is_port_number(port.into())
            .iter()
            .map(|why| FieldError::invalid(path, port, why)),
    );
}

/// A port number or the name of one.
pub(super) fn port_number_or_name(errors: &mut ErrorList, path: &Path, port: &IntOrString) {
    match port {
        IntOrString::Int(port) => port_number(errors, path, *port),
        IntOrString::String(name) => {
            invalid_each(errors, path, name, validation::is_port_name(name))
        }
    }
}

/// `TCP`, `UDP` or `SCTP`.
pub(super) fn protocol(errors: &mut ErrorList, path: &Path, protocol: Option<&str>) {
    required_one_of(errors, path, protocol, &["SCTP", "TCP", "UDP"]);
}

/// A value out of a closed set, which must be there.
pub(super) fn required_one_of(
    errors: &mut ErrorList,
    path: &Path,
    value: Option<&str>,
    supported: &[&str],
) {
    match value.unwrap_or_default() {
        "" => errors.push(FieldError::required(path, "")),
        value => one_of(errors, path, value, supported),
    }
}

/// A value out of a closed set.
pub(super) fn one_of(errors: &mut ErrorList, path: &Path, value: &str, supported: &[&str]) {
    if !supported.contains(&value) {
        errors.push(FieldError::not_supported(path, value, supported));
    }
}

/// A number of at least zero; none is fine.
pub(super) fn not_negative(errors: &mut ErrorList, path: &Path, value: Option<i64>) {
    if let Some(value) = value.filter(|v| *v < 0) {
        errors.push(FieldError::invalid(path, value, NOT_NEGATIVE));
    }
}

/// A user or group id; none is fine.
pub(super) fn id(errors: &mut ErrorList, path: &Path, value: Option<i64>) {
    let Some(value) = value else { return };
    errors.extend(
        validation::is_in_range(value, 0, i32::MAX.into())
            .iter()
            .map(|why| FieldError::invalid(path, value, why)),
    );
}

/// An IP address of either family.
pub(super) fn ip(errors: &mut ErrorList, path: &Path, value: &str) -> Option<IpAddr> {
    let parsed = value.parse().ok();
    if parsed.is_none() {
        errors.push(FieldError::invalid(
            path,
            value,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ));
    }
    parsed
}

/// An IP address that traffic for a service may be sent to.
pub(super) fn endpoint_ip(errors: &mut ErrorList, path: &Path, value: &str) {
    let Some(parsed) = ip(errors, path, value) else {
        return;
    };
    let (link_local, link_local_multicast) = match parsed {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (
            ip.segments()[0] & 0xffc0 == 0xfe80,
            ip.segments()[0] & 0xff0f == 0xff02,
        ),
    };
    let mut refuse = |bad: bool, why: &str| {
        if bad {
            errors.push(FieldError::invalid(path, value, why));
        }
    };
    refuse(
        parsed.is_unspecified(),
        &format!("may not be unspecified ({value})"),
    );
    refuse(
        parsed.is_loopback(),
        "may not be in the loopback range (127.0.0.0/8, ::1/128)",
    );
    refuse(
        link_local,
        "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
    );
    refuse(
        link_local_multicast,
        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
    );
}

/// A range of addresses in CIDR notation.
pub(super) fn cidr(errors: &mut ErrorList, path: &Path, value: &str) -> Option<IpAddr> {
    let parsed = value.split_once('/').and_then(|(address, bits)| {
        let address: IpAddr = address.parse().ok()?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        bits.parse::<u8>().ok().filter(|b| *b <= max)?;
        Some(address)
    });
    if parsed.is_none() {
        errors.push(FieldError::invalid(
            path,
            value,
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ));
    }
    parsed
}

/// A field that an update may not change.
pub(super) fn immutable(errors: &mut ErrorList, path: &Path, same: bool, new: impl Into<Value>) {
    if !same {
        errors.push(FieldError::invalid(
            path,
            new,
            validation::FIELD_IS_IMMUTABLE,
        ));
    }
}

/// What a `Duplicate value` error says, with a reason after it.
pub(super) fn duplicate_because(path: &Path, value: impl Into<Value>, why: &str) -> FieldError {
    let mut error = FieldError::duplicate(path, value);
    error.message = format!("{}: {why}", error.message);
    error
}

/// `Invalid value: <why>`, for what has no value that could be shown.
pub(super) fn invalid(path: &Path, why: &str) -> FieldError {
    FieldError {
        error_type: ErrorType::Invalid,
        path: path.clone(),
        message: format!("Invalid value: {why}"),
    }
}

/// A path below a domain, such as `acme.io/foo`.
pub(super) fn domain_prefixed_path(errors: &mut ErrorList, path: &Path, value: &str) {
    const PATH_RE: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";
    let is_path_character = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    match value.split_once('/') {
        _ if value.is_empty() => errors.push(FieldError::required(path, "")),
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            dns_subdomain(errors, path, domain);
            if !rest.bytes().all(is_path_character) {
                let why = format!("Invalid path (regex used for validation is '{PATH_RE}')");
                errors.push(FieldError::invalid(path, rest, &why));
            }
        }
        _ => errors.push(FieldError::invalid(
            path,
            value,
            "must be a domain-prefixed path (such as \"acme.io/foo\")",
        )),
    }
}
