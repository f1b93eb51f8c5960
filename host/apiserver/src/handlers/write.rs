//! Writes: decoding what was sent, handing it to the registry, answering with what was written.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use k8s_openapi::api::{core::v1::Binding, policy::v1::Eviction};
use pilothouse_api::{GroupVersionKind, Status, facts, patch::PatchType, strict};
use pilothouse_client::Body;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Request, apply, patch::Patch, scale, view};
use crate::{
    body::{RequestBody, expect_type, to_json},
    filters::authorization,
    negotiation::Negotiated,
    query::{self, FieldValidation, WriteOptions},
    registry::{
        self, Call, Current, DeleteOptions, Deleted, Resource, Subresource, erased::AnyObject,
        success,
    },
    response::{self, add_warnings},
    state::State,
};

/// POST.
pub(crate) async fn create(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    request: &Request<'_>,
    body: RequestBody,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(request.query, "CreateOptions")?;
    let mut call = request.call(state, options.dry_run);
    call.options = options_json("CreateOptions", options.dry_run);
    let object = decode(
        resource,
        request,
        body.read().await?,
        options.field_validation,
        &call,
    )?;
    let namespace = namespace(resource, request);
    let outcome = state
        .registry
        .create(resource, &call, namespace, object)
        .await;
    answer(
        resource,
        request,
        negotiated,
        &call,
        outcome.map(|object| (201, object)),
    )
}

/// PUT.
pub(crate) async fn update(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    subresource: Subresource,
    request: &Request<'_>,
    body: RequestBody,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(request.query, "UpdateOptions")?;
    let mut call = request.call(state, options.dry_run);
    call.options = options_json("UpdateOptions", options.dry_run);
    let mut object = decode(
        resource,
        request,
        body.read().await?,
        options.field_validation,
        &call,
    )?;
    let key = request.key(resource);
    registry::settle_name(&mut object, key.1)?;
    registry::settle_namespace(&mut object, resource.info.namespaced, key.0)?;
    let creates = subresource == Subresource::Main && resource.strategy.allow_create_on_update();
    let create = || {
        authorization::may_create(&request.user, request.info)?;
        Ok(object.clone())
    };
    let or_create = creates.then_some(&create as &registry::Create<'_>);
    let transform = |_: &Current| Ok(object.clone());
    let outcome = state
        .registry
        .update(resource, &call, key, subresource, &transform, or_create)
        .await;
    let outcome = outcome.map(|updated| (if updated.created { 201 } else { 200 }, updated.object));
    answer(resource, request, negotiated, &call, outcome)
}

/// PATCH.
pub(crate) async fn patch(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    subresource: Subresource,
    request: &Request<'_>,
    body: RequestBody,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let media = Patch::media(request.headers())?;
    if media == PatchType::Apply {
        return apply::apply(state, resource, subresource, request, body, negotiated).await;
    }
    let options = WriteOptions::parse(request.query, "PatchOptions")?;
    query::forbid_force(request.query)?;
    let mut call = request.call(state, options.dry_run);
    call.options = options_json("PatchOptions", options.dry_run);
    let patch = Patch::parse(media, body.read().await?)?;
    if subresource == Subresource::Scale {
        let gvk = GroupVersionKind::of("autoscaling", "v1", "Scale");
        let make = |scale: &[u8]| patch.apply(scale, &gvk);
        return scale::replace(state, resource, &call, request, negotiated, &make).await;
    }
    let gvk = resource.info.gvk();
    let transform = |current: &Current| {
        let patched = patch.apply(&current.object.encode(), &gvk)?;
        expect_type(&patched, &gvk.api_version(), &gvk.kind)?;
        check_fields(&gvk, &patched, options.field_validation, &call).map_err(|status| {
            Patch::unreadable_result(&resource.info, current.object.name(), &patched, status)
        })?;
        resource.strategy.decode(&patched).map_err(|status| {
            Patch::unreadable_result(&resource.info, current.object.name(), &patched, status)
        })
    };
    let key = request.key(resource);
    let outcome = state
        .registry
        .update(resource, &call, key, subresource, &transform, None)
        .await;
    answer(
        resource,
        request,
        negotiated,
        &call,
        outcome.map(|updated| (200, updated.object)),
    )
}

/// DELETE of one object.
pub(crate) async fn delete(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    request: &Request<'_>,
    body: RequestBody,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let (options, call) = delete_options(state, request, body).await?;
    let key = request.key(resource);
    let deleted = state.registry.delete(resource, &call, key, &options).await;
    match deleted {
        Ok(Deleted::Gone(object)) if !resource.strategy.returns_deleted_object() => {
            let body = success(resource, &object);
            Ok(with_warnings(
                response::document(200, body.into(), negotiated, request.headers()),
                &call,
            ))
        }
        Ok(Deleted::Gone(object) | Deleted::Pending(object)) => {
            answer(resource, request, negotiated, &call, Ok((200, object)))
        }
        Err(status) => Err(status),
    }
}

/// DELETE of a collection: each selected object in turn. The answer is the list of them.
pub(crate) async fn delete_collection(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    request: &Request<'_>,
    body: RequestBody,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let (options, call) = delete_options(state, request, body).await?;
    let selected = super::read::select(state, resource, request).await?;
    for header in &selected.items {
        let key = (
            header.header.namespace.as_str(),
            header.header.name.as_str(),
        );
        match state.registry.delete(resource, &call, key, &options).await {
            Err(status) if !status.is_not_found() => return Err(status),
            _ => {}
        }
    }
    let response = super::read::answer_list(state, resource, request, negotiated, selected)?;
    Ok(with_warnings(response, &call))
}

/// POST to `pods/binding` or `bindings`.
pub(crate) async fn bind(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    request: &Request<'_>,
    body: RequestBody,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(request.query, "CreateOptions")?;
    let call = request.call(state, options.dry_run);
    let binding: Binding = typed(request, body, "v1", "Binding").await?;
    let named = binding.metadata.name.as_deref().unwrap_or_default();
    let name = match request.info.named {
        true if !named.is_empty() && named != request.info.name => {
            return Err(Status::bad_request(format!(
                "name in URL does not match name in Binding object: {} != {named}",
                request.info.name
            )));
        }
        true => request.info.name.as_str(),
        false => named,
    };
    let key = (request.info.namespace.as_str(), name);
    registry::bind(&state.registry, resource, &call, key, &binding).await?;
    created(&call, request, negotiated)
}

/// POST to `pods/eviction`.
pub(crate) async fn evict(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    request: &Request<'_>,
    body: RequestBody,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(request.query, "CreateOptions")?;
    let call = request.call(state, options.dry_run);
    let eviction: Eviction = typed(request, body, "policy/v1", "Eviction").await?;
    registry::evict(
        &state.registry,
        resource,
        &call,
        request.key(resource),
        &eviction,
    )
    .await?;
    created(&call, request, negotiated)
}

/// The answer of a subresource that has nothing to show.
fn created(
    call: &Call,
    request: &Request<'_>,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    let body = Bytes::from(status.to_string());
    Ok(with_warnings(
        response::document(201, body, negotiated, request.headers()),
        call,
    ))
}

/// A body of one of the few kinds that are not stored.
async fn typed<T: DeserializeOwned>(
    request: &Request<'_>,
    body: RequestBody,
    api_version: &str,
    kind: &str,
) -> Result<T, Status> {
    let json = to_json(request.headers(), body.read().await?)?;
    expect_type(&json, api_version, kind)?;
    serde_json::from_slice(&json).map_err(|error| {
        Status::bad_request(format!(
            "{kind} in version {api_version:?} cannot be handled as a {kind}: {error}"
        ))
    })
}

/// The object that was sent.
fn decode(
    resource: &Resource,
    request: &Request<'_>,
    body: Bytes,
    fields: FieldValidation,
    call: &Call,
) -> Result<AnyObject, Status> {
    let json = to_json(request.headers(), body)?;
    let gvk = resource.info.gvk();
    expect_type(&json, &gvk.api_version(), &gvk.kind)?;
    check_fields(&gvk, &json, fields, call)?;
    resource.strategy.decode(&json)
}

/// What the document says that nobody will read: ignored, warned of, or refused.
pub(super) fn check_fields(
    gvk: &GroupVersionKind,
    json: &[u8],
    wanted: FieldValidation,
    call: &Call,
) -> Result<(), Status> {
    let findings = strict::check(json, facts::by_kind(gvk));
    match findings.refusal(&gvk.kind, &gvk.version) {
        Some(refusal) if findings.invalid.is_some() || wanted == FieldValidation::Strict => {
            Err(refusal)
        }
        Some(_) if wanted == FieldValidation::Warn => {
            call.warnings.lock().extend(findings.strict);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The namespace that a creation goes to.
fn namespace<'a>(resource: &Resource, request: &'a Request<'_>) -> &'a str {
    match resource.info.namespaced {
        true => &request.info.namespace,
        false => "",
    }
}

async fn delete_options(
    state: &Arc<State>,
    request: &Request<'_>,
    body: RequestBody,
) -> Result<(DeleteOptions, Call), Status> {
    let body = body.read().await?;
    let json = match body.is_empty() {
        true => body,
        false => to_json(request.headers(), body)?,
    };
    let options = DeleteOptions::parse(&json, request.query)?;
    let mut call = request.call(state, options.dry_run);
    call.options = match json.is_empty() {
        true => options_json("DeleteOptions", options.dry_run),
        false => json,
    };
    Ok((options, call))
}

/// The options as admission plugins see them.
pub(super) fn options_json(kind: &str, dry_run: bool) -> Bytes {
    let mut options = json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
    if dry_run {
        options["dryRun"] = json!(["All"]);
    }
    options.to_string().into()
}

/// Answers with what was written, or why it was not.
pub(super) fn answer(
    resource: &Resource,
    request: &Request<'_>,
    negotiated: Negotiated,
    call: &Call,
    outcome: Result<(u16, AnyObject), Status>,
) -> Result<Response<Body>, Status> {
    let (code, object) = match outcome {
        Ok(written) => written,
        Err(status) => {
            let refusal = response::status_response(&status, negotiated, request.headers());
            return Ok(with_warnings(refusal, call));
        }
    };
    let now = call.context.now;
    let response = view::object(
        code,
        resource,
        &object,
        negotiated,
        request.query,
        request.headers(),
        now,
    )?;
    Ok(with_warnings(response, call))
}

pub(super) fn with_warnings(mut response: Response<Body>, call: &Call) -> Response<Body> {
    add_warnings(response.headers_mut(), &call.warnings.lock());
    response
}
