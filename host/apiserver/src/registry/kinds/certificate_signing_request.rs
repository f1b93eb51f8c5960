//! CertificateSigningRequests: who asks is noted at creation and never changes; approval and certificate come by subresources.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/>

#[cfg(test)]
mod tests;
mod validation;

use k8s_openapi::{
    api::certificates::v1::{
        CertificateSigningRequest, CertificateSigningRequestCondition,
        CertificateSigningRequestStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use pilothouse_api::{ResourceInfo, field::ErrorList};
use serde_json::{Value, json};

use super::{cells, describe};
use crate::registry::{
    printing::{Column, human_duration},
    strategy::{Context, Keep, NameFormat, Part, Strategy},
};

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

pub(super) struct CertificateSigningRequestStrategy;

type Request = CertificateSigningRequest;

impl Strategy for CertificateSigningRequestStrategy {
    type Object = Request;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["csr"]),
            selectable_fields: describe::texts(&["spec.signerName"]),
            ..describe::cluster_scoped(
                "certificates.k8s.io",
                "v1",
                "certificatesigningrequests",
                "CertificateSigningRequest",
            )
        }
    }

    /// The signer must be able to trust what is said about the user.
    fn prepare_for_create(&self, context: &Context, request: &mut Request) {
        let user = &context.user;
        let spec = &mut request.spec;
        spec.username = Some(user.name.clone());
        spec.uid = (!user.uid.is_empty()).then(|| user.uid.clone());
        spec.groups = (!user.groups.is_empty()).then(|| user.groups.clone());
        spec.extra = (!user.extra.is_empty()).then(|| user.extra.clone());
        request.status = Some(CertificateSigningRequestStatus::default());
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut Request, old: &Request) {
        new.spec.clone_from(&old.spec);
        new.status.clone_from(&old.status);
    }

    /// A signer writes the certificate or why there is none; what was said about approval stays.
    fn prepare_for_status_update(&self) -> Option<Keep<Request>> {
        Some(|new, old| {
            new.spec.clone_from(&old.spec);
            for kind in [APPROVED, DENIED] {
                keep_conditions(new, old, kind);
            }
        })
    }

    fn settle_status(&self, context: &Context, new: &mut Request, old: &Request) {
        fill_times(new, old, context.now);
    }

    fn parts(&self) -> Vec<Part<Request>> {
        vec![Part {
            name: "approval",
            keep: |context, new, old| {
                new.spec.clone_from(&old.spec);
                let conditions = new.status.take().and_then(|s| s.conditions);
                new.status.clone_from(&old.status);
                new.status.get_or_insert_default().conditions = conditions;
                fill_times(new, old, context.now);
            },
            validate: |new, old| validation::validate_update(new, old, validation::By::Approval),
        }]
    }

    fn validate_create(&self, request: &Request) -> ErrorList {
        validation::validate(request, None)
    }

    fn validate_update(&self, new: &Request, old: &Request) -> ErrorList {
        validation::validate_update(new, old, validation::By::Main)
    }

    fn validate_status_update(&self, new: &Request, old: &Request) -> ErrorList {
        validation::validate_update(new, old, validation::By::Status)
    }

    fn name_format(&self) -> NameFormat {
        NameFormat::PathSegment
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::AGE,
            Column::string("SignerName", "Who is asked to sign."),
            Column::string("Requestor", "Who asks."),
            Column::string(
                "RequestedDuration",
                "How long the certificate should be good.",
            ),
            Column::string("Condition", "Whether it was approved, and what came of it."),
        ]
    }

    fn row(&self, request: &Request, now: jiff::Timestamp) -> Vec<Value> {
        let spec = &request.spec;
        let duration = spec
            .expiration_seconds
            .map(|seconds| human_duration(seconds.into()));
        vec![
            json!(request.metadata.name),
            json!(cells::since(
                request.metadata.creation_timestamp.as_ref(),
                now
            )),
            json!(cells::or_none(&spec.signer_name)),
            json!(spec.username.as_deref().unwrap_or_default()),
            json!(duration.as_deref().unwrap_or(cells::NONE)),
            json!(state(request)),
        ]
    }
}

fn conditions(request: &Request) -> &[CertificateSigningRequestCondition] {
    let status = request.status.as_ref();
    status
        .and_then(|s| s.conditions.as_deref())
        .unwrap_or_default()
}

fn of_kind<'a>(request: &'a Request, kind: &str) -> Vec<&'a CertificateSigningRequestCondition> {
    conditions(request)
        .iter()
        .filter(|c| c.type_ == kind)
        .collect()
}

/// Puts back the old conditions of a kind, if there are as many of them as there were.
fn keep_conditions(new: &mut Request, old: &Request, kind: &str) {
    let before: Vec<_> = of_kind(old, kind).into_iter().cloned().collect();
    if of_kind(new, kind).len() != before.len() {
        return; // which validation will not let pass
    }
    let all = new.status.as_mut().and_then(|s| s.conditions.as_mut());
    let of_it = all.into_iter().flatten().filter(|c| c.type_ == kind);
    for (condition, before) in of_it.zip(before) {
        *condition = before;
    }
}

/// Times that nobody gave: of the update, now; of the transition, the old one if the status is the same.
fn fill_times(new: &mut Request, old: &Request, now: jiff::Timestamp) {
    let all = new.status.as_mut().and_then(|s| s.conditions.as_mut());
    for condition in all.into_iter().flatten() {
        condition.last_update_time.get_or_insert(Time(now));
        if condition.last_transition_time.is_none() {
            let before = conditions(old).iter().find(|before| {
                before.type_ == condition.type_ && before.status == condition.status
            });
            let since = before.and_then(|before| before.last_transition_time.clone());
            condition.last_transition_time = Some(since.unwrap_or(Time(now)));
        }
    }
}

fn state(request: &Request) -> String {
    let has = |kind| !of_kind(request, kind).is_empty();
    let mut state = match (has(DENIED), has(APPROVED)) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has(FAILED) {
        state.push_str(",Failed");
    }
    let certificate = request.status.as_ref().and_then(|s| s.certificate.as_ref());
    if certificate.is_some_and(|certificate| !certificate.0.is_empty()) {
        state.push_str(",Issued");
    }
    state
}
