//! `pods/eviction`: a deletion that asks first.
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/>

use bytes::Bytes;
use k8s_openapi::api::policy::v1::Eviction;
use pilothouse_api::Status;

use super::{Call, DeleteOptions, Registry, Resource};
use crate::query::Query;

/// Evicts the pod that the URL names. No kind of disruption budget is served yet, so nothing stands against it.
pub(crate) async fn evict(
    registry: &Registry,
    pods: &Resource,
    call: &Call,
    (namespace, name): (&str, &str),
    eviction: &Eviction,
) -> Result<(), Status> {
    let named = eviction.metadata.name.as_deref().unwrap_or_default();
    if !named.is_empty() && named != name {
        return Err(Status::bad_request(format!(
            "name in URL does not match name in Eviction object: {name} != {named}"
        )));
    }
    let options = match &eviction.delete_options {
        None => DeleteOptions::default(),
        Some(options) => {
            let body = serde_json::to_vec(options).map_err(Status::internal)?;
            DeleteOptions::parse(&Bytes::from(body), &Query::default())?
        }
    };
    registry
        .delete(pods, call, (namespace, name), &options)
        .await?;
    Ok(())
}
