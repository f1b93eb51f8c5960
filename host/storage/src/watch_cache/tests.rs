//! The cache on a scripted storage, which can lose its history, fall silent and go backwards, and on the embedded engine.

mod lists;
mod relists;
mod scripted;
mod watches;

use std::{sync::Arc, time::Duration};

use pilothouse_api::{GroupVersionResource, ResourceInfo, Revision};
use scripted::Scripted;

use super::*;

const SOON: Duration = Duration::from_secs(20);

fn pods() -> ResourceInfo {
    ResourceInfo {
        gvr: GroupVersionResource::of("", "v1", "pods"),
        kind: "Pod".into(),
        singular: "pod".into(),
        namespaced: true,
        short_names: vec![],
        categories: vec![],
        selectable_fields: vec!["spec.nodeName".to_owned()],
        storage_prefix: "pods".into(),
    }
}

fn key(name: &str) -> String {
    format!("/registry/pods/{name}")
}

/// A stored pod, `namespace/name`, with a uid and the node it is on.
fn pod(name: &str, uid: &str, node: &str) -> String {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}"}},"spec":{{"nodeName":"{node}"}}}}"#
    )
}

async fn ready(storage: &Arc<Scripted>, options: CacheOptions) -> WatchCache {
    let cache = WatchCache::with_options(storage.clone(), pods(), options);
    cache.ready(SOON).await.expect("ready");
    cache
}

/// `namespace/name@revision node` of each object.
fn names(list: &CacheList) -> Vec<String> {
    list.iter().map(|o| describe(o)).collect()
}

fn describe(object: &Object) -> String {
    let header = &object.header;
    format!(
        "{}/{}@{} {}",
        header.namespace, header.name, object.revision, header.fields[0]
    )
}

/// `ADDED namespace/name@revision node` of the next events, at least so many.
async fn told(watch: &mut CacheWatch, at_least: usize) -> Vec<String> {
    let mut told = Vec::new();
    while told.len() < at_least {
        let batch = watch.next().await.expect("watch");
        for event in batch.events {
            told.push(format!(
                "{} {}",
                event.kind.as_str(),
                describe(&event.object)
            ));
        }
    }
    told
}
