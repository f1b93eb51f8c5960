//! `serviceaccounts/token`: a token for an account, a time, an audience, and as long as an object lives.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/>

use std::sync::Arc;

use http::Response;
use k8s_openapi::{
    api::{
        authentication::v1::{
            BoundObjectReference, TokenRequest, TokenRequestSpec, TokenRequestStatus,
        },
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use pilothouse_api::{
    Cause, GroupResource, GroupVersionKind, SharedObject, Status,
    field::{ErrorList, FieldError, Path},
};
use pilothouse_client::Body;

use super::{
    Request,
    write::{check_fields, options_json, with_warnings},
};
use crate::{
    body::{RequestBody, expect_type, to_json},
    environment::whole_seconds,
    negotiation::Negotiated,
    query::WriteOptions,
    registry::{Call, Resource},
    response,
    service_account_tokens::claims::{Bound, Claims, Ref, user_name},
    state::State,
};

/// Without `expirationSeconds`.
const DEFAULT_SECONDS: i64 = 60 * 60;
const LEAST_SECONDS: i64 = 10 * 60;
const MOST_SECONDS: i64 = 1 << 32;
/// What kubelets ask for on behalf of pods that may never read their token again ...
const EXTENDED_SECONDS: i64 = 60 * 60 + 7;
/// ... and what such a token gets.
const EXTENSION_SECONDS: i64 = 365 * 24 * 60 * 60;

/// POST.
pub(super) async fn create(
    state: &Arc<State>,
    accounts: &Arc<Resource>,
    request: &Request<'_>,
    body: RequestBody,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(request.query, "CreateOptions")?;
    let mut call = request.call(state, options.dry_run);
    call.options = options_json("CreateOptions", options.dry_run);
    let gvk = GroupVersionKind::of("authentication.k8s.io", "v1", "TokenRequest");
    let json = to_json(request.headers(), body.read().await?)?;
    expect_type(&json, &gvk.api_version(), &gvk.kind)?;
    check_fields(&gvk, &json, options.field_validation, &call)?;
    let mut asked = decode(&json)?;
    let (namespace, name) = request.key(accounts);
    same_place(&asked, namespace, name)?;
    let account = state.registry.get(accounts, namespace, name, "").await?;

    let now = whole_seconds(state.environment.now());
    let ours = state.tokens.options.audiences();
    let spec = asked.spec.get_or_insert_default();
    let named = spec.audiences.take().filter(|named| !named.is_empty());
    spec.audiences = Some(named.unwrap_or_else(|| ours.to_vec()));
    spec.expiration_seconds.get_or_insert(DEFAULT_SECONDS);
    asked.metadata.name = Some(name.to_owned());
    asked.metadata.namespace = Some(namespace.to_owned());
    asked.metadata.creation_timestamp = Some(Time(now));
    asked.status = None;
    invalid_unless(validate(asked.spec.as_ref()))?;
    let shown = serde_json::to_vec(&asked).map_err(Status::internal)?;
    let place = (&**accounts, "token", namespace, name);
    let admitted = state.registry.admit(&call, place, &gvk, shown).await?;
    asked = decode(&admitted)?;
    invalid_unless(validate(asked.spec.as_ref()))?;

    let spec = asked.spec.get_or_insert_default();
    let bound = match &spec.bound_object_ref {
        None => Bound::default(),
        Some(to) => bind(state, to, namespace, name).await?,
    };
    shorten(spec, state.tokens.options.max_token_seconds, &call);
    let seconds = spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS);
    let audiences = spec.audiences.clone().unwrap_or_default();
    let extended = state.tokens.options.extend_expiration
        && bound.pod.is_some()
        && seconds == EXTENDED_SECONDS
        && audiences.iter().all(|audience| ours.contains(audience));
    let second = now.as_second();
    let claims = Claims {
        aud: audiences,
        exp: Some(second + if extended { EXTENSION_SECONDS } else { seconds }),
        iat: Some(second),
        nbf: Some(second),
        jti: state.environment.uuid(),
        sub: user_name(namespace, name),
        kubernetes: Bound {
            namespace: namespace.to_owned(),
            serviceaccount: reference(&account),
            warnafter: extended.then_some(second + seconds),
            ..bound
        },
        ..Claims::default()
    };
    let token = state.tokens.issue(claims).map_err(Status::internal)?;
    let expires = jiff::Timestamp::from_second(second + seconds).map_err(Status::internal)?;
    asked.status = Some(TokenRequestStatus {
        token: Some(token),
        expiration_timestamp: Some(Time(expires)),
    });
    let body = serde_json::to_vec(&asked).map_err(Status::internal)?;
    let answer = response::document(201, body.into(), negotiated, request.headers());
    Ok(with_warnings(answer, &call))
}

fn decode(json: &[u8]) -> Result<TokenRequest, Status> {
    serde_json::from_slice(json).map_err(|error| {
        Status::bad_request(format!(
            "TokenRequest in version \"v1\" cannot be handled as a TokenRequest: {error}"
        ))
    })
}

fn invalid_unless(errors: ErrorList) -> Result<(), Status> {
    match errors.is_empty() {
        true => Ok(()),
        false => {
            let causes = errors.into_iter().map(Cause::from).collect();
            Err(Status::invalid(
                "authentication.k8s.io",
                "TokenRequest",
                "",
                causes,
            ))
        }
    }
}

/// What the request says about its account must be what the URL says.
fn same_place(asked: &TokenRequest, namespace: &str, name: &str) -> Result<(), Status> {
    for (field, said, expected, what) in [
        ("name", &asked.metadata.name, name, "service account name"),
        (
            "namespace",
            &asked.metadata.namespace,
            namespace,
            "service account namespace",
        ),
    ] {
        let said = said.as_deref().unwrap_or_default();
        if !said.is_empty() && said != expected {
            let path = Path::new("metadata").child(field);
            let why = format!("must match the {what} if specified");
            return invalid_unless(vec![FieldError::invalid(&path, said, &why)]);
        }
    }
    Ok(())
}

fn validate(spec: Option<&TokenRequestSpec>) -> ErrorList {
    let seconds = spec
        .and_then(|spec| spec.expiration_seconds)
        .unwrap_or_default();
    let path = Path::new("spec").child("expirationSeconds");
    let mut errors = ErrorList::new();
    if seconds < LEAST_SECONDS {
        let why = "may not specify a duration less than 10 minutes";
        errors.push(FieldError::invalid(&path, seconds, why));
    }
    if seconds > MOST_SECONDS {
        let why = "may not specify a duration larger than 2^32 seconds";
        errors.push(FieldError::invalid(&path, seconds, why));
    }
    errors
}

/// No token lives longer than the server allows.
fn shorten(spec: &mut TokenRequestSpec, most: Option<i64>, call: &Call) {
    let seconds = spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS);
    if let Some(most) = most.filter(|most| seconds > *most) {
        call.warn([format!(
            "requested expiration of {seconds} seconds shortened to {most} seconds"
        )]);
        spec.expiration_seconds = Some(most);
    }
}

/// The object that the token is to live no longer than.
async fn bind(
    state: &State,
    to: &BoundObjectReference,
    namespace: &str,
    account: &str,
) -> Result<Bound, Status> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (api_version, kind) = (text(&to.api_version), text(&to.kind));
    let (name, uid) = (text(&to.name), text(&to.uid));
    let gvk = GroupVersionKind::parse(&api_version, &kind);
    let mut bound = Bound::default();
    let found = match (&*gvk.group, kind.as_str()) {
        ("", "Pod") => {
            let pod = read(state, "pods", namespace, &name).await?;
            let typed: Pod = serde_json::from_slice(&pod.bytes).map_err(Status::internal)?;
            let spec = typed.spec.unwrap_or_default();
            if spec.service_account_name.as_deref() != Some(account) {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
                )));
            }
            if let Some(node) = spec.node_name.filter(|node| !node.is_empty()) {
                bound.node = Some(node_of_pod(state, node).await?);
            }
            bound.pod.insert(reference(&pod)).clone()
        }
        ("", "Node") => {
            let node = read(state, "nodes", "", &name).await?;
            bound.node.insert(reference(&node)).clone()
        }
        ("", "Secret") => {
            let secret = read(state, "secrets", namespace, &name).await?;
            bound.secret.insert(reference(&secret)).clone()
        }
        (group, kind) => {
            let (slash, version) = (if group.is_empty() { "" } else { "/" }, &gvk.version);
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {group}{slash}{version}, Kind={kind}"
            )));
        }
    };
    match uid.is_empty() || uid == found.uid {
        true => Ok(bound),
        false => {
            let of = GroupResource {
                group: gvk.group,
                resource: kind.into(),
            };
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            Err(Status::conflict(&of, &name, why))
        }
    }
}

/// Where a pod runs; a node that is not there is named all the same.
async fn node_of_pod(state: &State, name: String) -> Result<Ref, Status> {
    match read(state, "nodes", "", &name).await {
        Ok(node) => Ok(reference(&node)),
        Err(status) if status.is_not_found() => Ok(Ref {
            name,
            uid: String::new(),
        }),
        Err(status) => Err(status),
    }
}

async fn read(
    state: &State,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<SharedObject, Status> {
    let resource = state.registry.resource("", "v1", resource);
    let resource = resource.ok_or_else(|| Status::internal("a kind is not served"))?;
    state.registry.get(resource, namespace, name, "").await
}

fn reference(object: &SharedObject) -> Ref {
    Ref {
        name: object.header.name.clone(),
        uid: object.header.uid.clone(),
    }
}
