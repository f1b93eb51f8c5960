//! Keeps the pools in step with the Services that other API servers write.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use pilothouse_api::{Kind, Revision, SharedObject, Status};
use pilothouse_storage::{CacheError, CacheEvent, EventType, WatchCache};

use tokio::task::AbortHandle;

use super::{Allocators, Held};
use crate::registry::errors;

/// Marks what is stored now, and returns the revision of that.
pub(super) fn adopt(services: &WatchCache, allocators: &Allocators) -> Result<Revision, Status> {
    let stored = services.list(None).map_err(errors::from_cache)?;
    for service in stored.iter() {
        allocators.adopt(&Service::decode(&service.bytes)?);
    }
    Ok(stored.revision)
}

/// Marks what is stored, then follows every change until it is aborted. Returns once the first part is done.
pub(crate) fn follow(
    services: Arc<WatchCache>,
    allocators: Arc<Allocators>,
) -> Result<AbortHandle, Status> {
    let start = adopt(&services, &allocators)?;
    let following = tokio::spawn(async move {
        let mut after = start;
        loop {
            match changes(&services, &allocators, after).await {
                CacheError::Closed => return,
                error => tracing::debug!(%error, "allocators: reading all Services again"),
            }
            match adopt(&services, &allocators) {
                Ok(revision) => after = revision,
                Err(error) => return tracing::error!(%error, "allocators: unreadable Services"),
            }
        }
    });
    Ok(following.abort_handle())
}

async fn changes(services: &WatchCache, allocators: &Allocators, after: Revision) -> CacheError {
    let mut watch = match services.subscribe(None, Some(after)) {
        Ok(watch) => watch,
        Err(error) => return error,
    };
    loop {
        match watch.next().await {
            Ok(batch) => {
                for event in batch.events {
                    change(allocators, &event);
                }
            }
            Err(error) => return error,
        }
    }
}

fn change(allocators: &Allocators, event: &CacheEvent) {
    let before = event.previous.as_ref().map(held).unwrap_or_default();
    let now = match event.kind {
        EventType::Deleted => Held::default(),
        _ => held(&event.object),
    };
    allocators.give_back(&before.without(&now));
    allocators.mark(&now);
}

fn held(service: &SharedObject) -> Held {
    match Service::decode(&service.bytes) {
        Ok(service) => Held::of(&service),
        Err(_) => Held::default(),
    }
}
