//! Informers: one reflector and cache per resource, shared by all users in the process, stopped when the last one leaves.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use pilothouse_api::{GroupVersionResource, ResourceInfo};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    cache::{Cache, Index},
    client::Client,
    clock::Clock,
    reflector::{Reflector, Source, Step},
    watch::WatchEvent,
};

/// A running reflector and its cache. It runs as long as somebody holds the informer.
pub struct Informer {
    cache: Arc<Cache>,
    _running: DropGuard,
}

impl Informer {
    /// The cache; reading it is safe also after the informer is gone, but it then stands still.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }
}

/// The informers of a process. A cheap clone.
#[derive(Clone)]
pub struct InformerSet {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    clock: Arc<dyn Clock>,
    informers: Mutex<HashMap<GroupVersionResource, Weak<Informer>>>,
}

/// The selectable fields that caches keep, and the labels and fields they index. Everything else is found by looking through
/// a namespace.
fn kept(resource: &GroupVersionResource) -> (&'static [&'static str], &'static [&'static str]) {
    match (&*resource.group, &*resource.resource) {
        ("", "pods") => (&["spec.nodeName", "status.phase"], &[]),
        ("", "nodes") => (&["spec.unschedulable"], &[]),
        ("", "namespaces") => (&["status.phase"], &[]),
        ("discovery.k8s.io", "endpointslices") => (&[], &["kubernetes.io/service-name"]),
        _ => (&[], &[]),
    }
}

impl InformerSet {
    /// All informers list and watch as the user of `client`. Must be used within a tokio runtime.
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self {
            inner: Arc::new(Inner {
                client,
                clock,
                informers: Mutex::default(),
            }),
        }
    }

    /// The informer of a resource, started if it is not running.
    pub fn get(&self, resource: &GroupVersionResource) -> Arc<Informer> {
        let mut informers = self.inner.informers.lock();
        informers.retain(|_, informer| informer.strong_count() > 0);
        if let Some(informer) = informers.get(resource).and_then(Weak::upgrade) {
            return informer;
        }
        let informer = Arc::new(self.start(resource));
        informers.insert(resource.clone(), Arc::downgrade(&informer));
        informer
    }

    /// The informer of a resource if it is running.
    pub fn running(&self, resource: &GroupVersionResource) -> Option<Arc<Informer>> {
        self.inner.informers.lock().get(resource)?.upgrade()
    }

    fn start(&self, resource: &GroupVersionResource) -> Informer {
        let (fields, labels) = kept(resource);
        let fields: Vec<String> = fields.iter().map(|f| (*f).to_owned()).collect();
        let mut indexes: Vec<Index> = labels.iter().map(|l| Index::Label((*l).into())).collect();
        if let Some(at) = fields.iter().position(|f| f == "spec.nodeName") {
            indexes.push(Index::Field(at, "spec.nodeName".to_owned()));
        }
        let info = ResourceInfo {
            gvr: resource.clone(),
            kind: Cow::Borrowed(""),
            singular: Cow::Borrowed(""),
            namespaced: true,
            short_names: Vec::new(),
            categories: Vec::new(),
            selectable_fields: fields.clone(),
            storage_prefix: Cow::Borrowed(""),
        };
        let cache = Arc::new(Cache::new(info, indexes));
        let source = Source {
            client: self.inner.client.clone(),
            resource: resource.clone(),
            namespace: String::new(),
            label_selector: String::new(),
            field_selector: String::new(),
            fields: fields.into(),
        };
        let reflector = Reflector::new(source, self.inner.clock.clone());
        let cancel = CancellationToken::new();
        tokio::spawn(
            cancel
                .clone()
                .run_until_cancelled_owned(fill(reflector, cache.clone())),
        );
        Informer {
            cache,
            _running: cancel.drop_guard(),
        }
    }
}

/// Carries the reflector's steps into the cache, for ever.
async fn fill(mut reflector: Reflector, cache: Arc<Cache>) {
    loop {
        match reflector.step().await {
            Step::Replace(objects, revision) => cache.replace(objects, revision),
            Step::Event(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                cache.upsert(object);
            }
            Step::Event(WatchEvent::Deleted(object)) => cache.remove(&object),
            Step::Event(WatchEvent::Bookmark { revision, .. }) => cache.reached(revision),
            Step::Failed(status) if status.is_not_found() => {
                tracing::debug!(resource = %cache.resource(), "not served (yet)");
            }
            Step::Failed(status) => {
                tracing::warn!(resource = %cache.resource(), reason = status.reason, "list or watch failed: {status}");
            }
            Step::Moved => {}
        }
    }
}

#[cfg(test)]
mod tests;
