//! What makes a CertificateSigningRequest valid, and who may change what.

use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose::STANDARD};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation::{is_dns1123_label, is_dns1123_subdomain},
};
use x509_parser::prelude::{FromDer, X509Certificate, X509CertificationRequest};

use super::{APPROVED, DENIED, FAILED, Request, conditions, of_kind};
use crate::registry::kinds::checks;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const SHORTEST_SECONDS: i32 = 600;

/// Through which door an update comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Main,
    Status,
    Approval,
}

/// A certificate that was there before is not looked at again.
pub(super) fn validate(request: &Request, old: Option<&Request>) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let spec = &request.spec;
    if let Err(why) = check_request(&spec.request.0) {
        let shown = STANDARD.encode(&spec.request.0);
        errors.push(FieldError::invalid(&path.child("request"), shown, &why));
    }
    let usages = spec.usages.as_deref().unwrap_or_default();
    validate_usages(&mut errors, &path.child("usages"), usages);
    let signer_path = path.child("signerName");
    if spec.signer_name == LEGACY_SIGNER {
        let why = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid(&signer_path, LEGACY_SIGNER, why));
    } else {
        validate_signer(&mut errors, &signer_path, &spec.signer_name);
    }
    if let Some(seconds) = spec.expiration_seconds.filter(|s| *s < SHORTEST_SECONDS) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(
            &path.child("expirationSeconds"),
            seconds,
            why,
        ));
    }
    validate_conditions(&mut errors, request);
    let certificate = certificate(request);
    if old.is_none_or(|old| self::certificate(old) != certificate)
        && let Err(why) = check_certificate(certificate)
    {
        let path = Path::new("status").child("certificate");
        errors.push(FieldError::invalid(&path, "<certificate data>", &why));
    }
    errors
}

fn certificate(request: &Request) -> &[u8] {
    let certificate = request.status.as_ref().and_then(|s| s.certificate.as_ref());
    certificate.map(|c| c.0.as_slice()).unwrap_or_default()
}

fn validate_usages(errors: &mut ErrorList, path: &Path, usages: &[String]) {
    if usages.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let mut seen = BTreeSet::new();
    for (i, usage) in usages.iter().enumerate() {
        let path = path.index(i);
        checks::one_of(errors, &path, usage, &USAGES);
        if !seen.insert(usage) {
            errors.push(FieldError::duplicate(&path, usage.as_str()));
        }
    }
}

/// `example.com/signer-name`.
fn validate_signer(errors: &mut ErrorList, path: &Path, name: &str) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let segments: Vec<&str> = name.split('/').collect();
    let [domain, rest] = segments.as_slice() else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid(path, name, why));
        return;
    };
    let mut each = |segment: &str, check: fn(&str) -> Vec<String>| {
        let labels = segment.split('.').map(|label| (label, check(label)));
        let Some((label, complaints)) = labels.into_iter().find(|(_, c)| !c.is_empty()) else {
            return;
        };
        for complaint in complaints {
            let why = format!("validating label {label:?}: {complaint}");
            errors.push(FieldError::invalid(path, segment, &why));
        }
    };
    each(domain, is_dns1123_label);
    each(rest, is_dns1123_subdomain);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(path, *domain, why));
    }
}

/// Approved, Denied and Failed can only be true; Approved and Denied exclude each other.
fn validate_conditions(errors: &mut ErrorList, request: &Request) {
    let path = Path::new("status").child("conditions");
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (i, condition) in conditions(request).iter().enumerate() {
        let path = path.index(i);
        let kind = condition.type_.as_str();
        checks::required(errors, &path.child("type"), kind);
        let allowed: &[&str] = match kind {
            APPROVED | DENIED | FAILED => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        let status = Some(condition.status.as_str());
        checks::required_one_of(errors, &path.child("status"), status, allowed);
        let other = match kind {
            APPROVED => DENIED,
            DENIED => APPROVED,
            _ => "",
        };
        if !other.is_empty() && seen.contains(other) {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid(&path.child("type"), kind, why));
        }
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(&path.child("type"), kind));
        }
    }
}

/// What was decided stays decided, only an approver decides, only a signer issues, and that once.
pub(super) fn validate_update(new: &Request, old: &Request, by: By) -> ErrorList {
    let mut errors = validate(new, Some(old));
    let status = Path::new("status");
    let path = status.child("conditions");
    let mut forbid = |what: &str, kind: &str| {
        let why = format!("updates may not {what} a condition of type {kind:?}");
        errors.push(FieldError::forbidden(&path, &why));
    };
    for kind in [APPROVED, DENIED, FAILED] {
        if of_kind(new, kind).len() < of_kind(old, kind).len() {
            forbid("remove", kind);
        }
    }
    if by != By::Approval {
        for kind in [APPROVED, DENIED] {
            let (now, before) = (of_kind(new, kind), of_kind(old, kind));
            if now.len() > before.len() {
                forbid("add", kind);
            } else if now.len() == before.len() && now != before {
                forbid("modify", kind);
            }
        }
    }
    let before = certificate(old);
    if certificate(new) != before {
        let why = match by {
            By::Status if before.is_empty() => return errors,
            By::Status => "updates may not modify existing certificate content",
            By::Main | By::Approval => "updates may not set certificate content",
        };
        errors.push(FieldError::forbidden(&status.child("certificate"), why));
    }
    errors
}

/// PEM of one request, signed by the key that it names.
fn check_request(pem: &[u8]) -> Result<(), String> {
    const NOT_ONE: &str = "PEM block type must be CERTIFICATE REQUEST";
    let (_, block) = x509_parser::pem::parse_x509_pem(pem).map_err(|_| NOT_ONE)?;
    if block.label != "CERTIFICATE REQUEST" {
        return Err(NOT_ONE.to_owned());
    }
    let (_, request) =
        X509CertificationRequest::from_der(&block.contents).map_err(|error| error.to_string())?;
    request
        .verify_signature()
        .map_err(|error| error.to_string())
}

/// PEM of certificates, at least one if there is anything at all.
fn check_certificate(pem: &[u8]) -> Result<(), String> {
    if pem.is_empty() {
        return Ok(());
    }
    let mut found = 0;
    for block in x509_parser::pem::Pem::iter_from_buffer(pem) {
        let Ok(block) = block else { break };
        if block.label != "CERTIFICATE" {
            return Err(format!(
                "only CERTIFICATE PEM blocks are allowed, found {:?}",
                block.label
            ));
        }
        found += 1;
        X509Certificate::from_der(&block.contents).map_err(|error| error.to_string())?;
    }
    match found {
        0 => Err("must contain at least one CERTIFICATE PEM block".to_owned()),
        _ => Ok(()),
    }
}
