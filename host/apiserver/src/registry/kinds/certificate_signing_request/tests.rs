use base64::{Engine, engine::general_purpose::STANDARD};
use pilothouse_client::UserInfo;
use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    context, create_errors, created, json, object, row, status_errors, texts, with,
};

fn request_pem() -> String {
    let key = rcgen::KeyPair::generate().expect("a key");
    let parameters = rcgen::CertificateParams::new(vec!["example.com".to_owned()]).expect("names");
    let request = parameters.serialize_request(&key).expect("a request");
    request.pem().expect("PEM")
}

fn base() -> Value {
    json!({
        "metadata": {"name": "alice:1"},
        "spec": {
            "request": STANDARD.encode(request_pem()),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    })
}

fn with_conditions(base: &Value, conditions: Value) -> Value {
    with(base, &[("/status/conditions", conditions)])
}

#[test]
fn the_server_says_who_asks() {
    let sent = with(
        &base(),
        &[
            ("/spec/username", json!("system:admin")),
            ("/spec/groups", json!(["system:masters"])),
            (
                "/status",
                json!({"conditions": [{"type": "Approved", "status": "True"}]}),
            ),
        ],
    );
    let made = json(&created(&CertificateSigningRequestStrategy, &sent));
    assert_eq!(made["spec"]["username"], "alice");
    assert_eq!(made["spec"]["groups"], json!(["system:authenticated"]));
    assert_eq!(made["status"], json!({}));
    let mut context = context();
    context.user = UserInfo {
        uid: "u".to_owned(),
        extra: [("k".to_owned(), vec!["v".to_owned()])].into(),
        ..context.user
    };
    let mut request: Request = object(&base());
    CertificateSigningRequestStrategy.prepare_for_create(&context, &mut request);
    let made = json(&request);
    assert_eq!(
        (&made["spec"]["uid"], &made["spec"]["extra"]),
        (&json!("u"), &json!({"k": ["v"]}))
    );
}

#[test]
fn fields() {
    let spoiled = {
        let pem = request_pem();
        let (_, block) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap();
        let mut der = block.contents.clone();
        let last = der.len() - 1;
        der[last] ^= 1;
        let body = STANDARD.encode(der);
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n")
    };
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/spec/request", json!(STANDARD.encode("x")))],
            vec![
                "spec.request: Invalid value: \"eA==\": PEM block type must be CERTIFICATE REQUEST",
            ],
        ),
        (
            vec![("/spec/usages", json!([]))],
            vec!["spec.usages: Required value"],
        ),
        (
            vec![("/spec/usages", json!(["client auth", "client auth"]))],
            vec!["spec.usages[1]: Duplicate value: \"client auth\""],
        ),
        (
            vec![("/spec/signerName", json!("kubernetes.io/legacy-unknown"))],
            vec![
                "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this API version",
            ],
        ),
        (
            vec![("/spec/signerName", json!(""))],
            vec![
                "spec.signerName: Required value",
                "spec.signerName: Invalid value: \"\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
            ],
        ),
        (
            vec![("/spec/signerName", json!("local/x"))],
            vec![
                "spec.signerName: Invalid value: \"local\": should be a domain with at least two segments separated by dots",
            ],
        ),
        (
            vec![("/spec/expirationSeconds", json!(599))],
            vec![
                "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
            ],
        ),
    ] {
        let request = with(&base(), &changes);
        assert_eq!(
            create_errors(&CertificateSigningRequestStrategy, &request),
            expected
        );
    }
    let unsupported = with(&base(), &[("/spec/usages", json!(["juggling"]))]);
    let errors = create_errors(&CertificateSigningRequestStrategy, &unsupported);
    assert!(errors[0].starts_with("spec.usages[0]: Unsupported value: \"juggling\": supported values: \"any\", \"cert sign\""), "{errors:?}");
    let forged = with(
        &base(),
        &[("/spec/request", json!(STANDARD.encode(spoiled)))],
    );
    assert_eq!(
        create_errors(&CertificateSigningRequestStrategy, &forged).len(),
        1
    );
}

fn approval_errors(old: &Value, new: &Value) -> (Value, Vec<String>) {
    let parts = CertificateSigningRequestStrategy.parts();
    let (old, mut new): (Request, Request) = (object(old), object(new));
    (parts[0].keep)(&context(), &mut new, &old);
    let errors = texts(&(parts[0].validate)(&new, &old));
    (json(&new), errors)
}

#[test]
fn approvers_decide_once() {
    let base = base();
    let approved = with_conditions(&base, json!([{"type": "Approved", "status": "True"}]));
    let (made, errors) = approval_errors(&base, &with(&approved, &[("/spec/usages", json!([]))]));
    assert_eq!(errors, [""; 0]);
    assert_eq!(made["spec"], base["spec"]);
    let condition = &made["status"]["conditions"][0];
    assert_eq!(condition["lastUpdateTime"], "2026-01-02T03:04:05Z");
    assert_eq!(condition["lastTransitionTime"], "2026-01-02T03:04:05Z");
    for (conditions, expected) in [
        (
            json!([]),
            vec![
                "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"",
            ],
        ),
        (
            json!([{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]),
            vec![
                "status.conditions[1].type: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
            ],
        ),
        (
            json!([{"type": "Approved", "status": "False"}]),
            vec![
                "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
            ],
        ),
        (
            json!([{"type": "Approved", "status": "True"}, {"type": "", "status": ""}]),
            vec![
                "status.conditions[1].type: Required value",
                "status.conditions[1].status: Required value",
            ],
        ),
    ] {
        let new = with_conditions(&base, conditions);
        assert_eq!(approval_errors(&made, &new).1, expected);
    }
}

#[test]
fn signers_issue_once_and_do_not_approve() {
    let base = base();
    let approve = json!([{"type": "Approved", "status": "True", "reason": "x"}]);
    let approved = with_conditions(&base, approve.clone());
    assert_eq!(
        status_errors(&CertificateSigningRequestStrategy, &base, &approved),
        ["status.conditions: Forbidden: updates may not add a condition of type \"Approved\""]
    );
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["example.com".to_owned()]).unwrap();
    let issued = |seed: &str| {
        let certificate = parameters.self_signed(&key).unwrap().pem();
        let text = format!("{certificate}{seed}");
        with(
            &approved,
            &[("/status/certificate", json!(STANDARD.encode(text)))],
        )
    };
    let first = issued("");
    assert_eq!(
        status_errors(&CertificateSigningRequestStrategy, &approved, &first),
        [""; 0]
    );
    assert_eq!(
        status_errors(&CertificateSigningRequestStrategy, &first, &issued("\n")),
        ["status.certificate: Forbidden: updates may not modify existing certificate content"]
    );
    let junk = with(
        &approved,
        &[("/status/certificate", json!(STANDARD.encode("junk")))],
    );
    assert_eq!(
        status_errors(&CertificateSigningRequestStrategy, &approved, &junk),
        [
            "status.certificate: Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block"
        ]
    );
    // what was said about approval is put back, if only its words differ
    let reworded = with_conditions(
        &base,
        json!([{"type": "Approved", "status": "True", "reason": "y"}]),
    );
    assert_eq!(
        status_errors(&CertificateSigningRequestStrategy, &approved, &reworded),
        [""; 0]
    );
}

#[test]
fn rows() {
    let base = with(
        &base(),
        &[
            ("/spec/username", json!("alice")),
            ("/spec/expirationSeconds", json!(3600)),
        ],
    );
    for (conditions, certificate, state) in [
        (json!([]), json!(null), "Pending"),
        (
            json!([{"type": "Approved", "status": "True"}]),
            json!(null),
            "Approved",
        ),
        (
            json!([{"type": "Approved", "status": "True"}]),
            json!("eA=="),
            "Approved,Issued",
        ),
        (
            json!([{"type": "Denied", "status": "True"}, {"type": "Failed", "status": "True"}]),
            json!(null),
            "Denied,Failed",
        ),
    ] {
        let request = with(
            &base,
            &[
                ("/status/conditions", conditions),
                ("/status/certificate", certificate),
            ],
        );
        let cells: Vec<Value> = row(&CertificateSigningRequestStrategy, &request)
            .into_iter()
            .map(|(_, v)| v)
            .collect();
        assert_eq!(
            cells,
            [
                "alice:1",
                "<unknown>",
                "kubernetes.io/kube-apiserver-client",
                "alice",
                "60m",
                state
            ]
        );
    }
}
