//! The scale subresource: `autoscaling/v1` Scale over a kind's replicas.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/> (the `scale` operations)

use std::sync::Arc;

use http::Response;
use pilothouse_api::Status;
use pilothouse_client::Body;

use super::Request;
use crate::{
    body::{RequestBody, expect_type, to_json},
    negotiation::Negotiated,
    query::WriteOptions,
    registry::{
        Call, Current, Resource, Subresource, erased::AnyObject, read_scale, scale_document,
    },
    response,
    state::State,
};

/// GET.
pub(crate) async fn get(
    state: &Arc<State>,
    resource: &Resource,
    request: &Request<'_>,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let (namespace, name) = request.key(resource);
    let current = state.registry.current(resource, namespace, name).await?;
    let current =
        current.ok_or_else(|| Status::not_found(&resource.info.group_resource(), name))?;
    answer(resource, &current.object, negotiated, request)
}

/// PUT.
pub(crate) async fn update(
    state: &Arc<State>,
    resource: &Resource,
    request: &Request<'_>,
    body: RequestBody,
    negotiated: Negotiated,
) -> Result<Response<Body>, Status> {
    let options = WriteOptions::parse(request.query, "UpdateOptions")?;
    let json = to_json(request.headers(), body.read().await?)?;
    expect_type(&json, "autoscaling/v1", "Scale")?;
    let call = request.call(state, options.dry_run);
    replace(state, resource, &call, request, negotiated, &|_| {
        Ok(json.to_vec())
    })
    .await
}

/// Writes the replicas of the Scale that `make` builds from the stored one.
pub(crate) async fn replace(
    state: &Arc<State>,
    resource: &Resource,
    call: &Call,
    request: &Request<'_>,
    negotiated: Negotiated,
    make: &(dyn Fn(&[u8]) -> Result<Vec<u8>, Status> + Send + Sync),
) -> Result<Response<Body>, Status> {
    let transform = |current: &Current| {
        let scale = read_scale(&make(&scale_document(resource, &current.object))?)?;
        let mut object = current.object.clone();
        let metadata = object.metadata_mut();
        metadata.resource_version = scale.metadata.resource_version;
        if let Some(uid) = scale.metadata.uid {
            metadata.uid = Some(uid);
        }
        let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
        resource.strategy.set_replicas(&mut object, replicas);
        Ok(object)
    };
    let key = request.key(resource);
    let updated = state
        .registry
        .update(resource, call, key, Subresource::Scale, &transform, None)
        .await?;
    answer(resource, &updated.object, negotiated, request)
}

/// Answers with the Scale of an object.
pub(super) fn answer(
    resource: &Resource,
    object: &AnyObject,
    negotiated: Negotiated,
    request: &Request<'_>,
) -> Result<Response<Body>, Status> {
    let json = scale_document(resource, object);
    Ok(response::document(200, json, negotiated, request.headers()))
}
