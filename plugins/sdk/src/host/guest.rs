//! The real imports.

use super::{DeleteOptions, EventSubject, Level, PatchType, RawResource, Resource, Status};
use crate::bindings::host::pilothouse::host as wit;

type Object = Vec<u8>;

pub(super) fn log(level: Level, message: &str) {
    wit::log::log(level, message);
}

pub(super) fn config() -> String {
    wit::config::get()
}

pub(super) fn now_ms() -> u64 {
    wit::clock::now_ms()
}

pub(super) fn count(counter: &str, by: u64) {
    wit::metrics::add(counter, by);
}

pub(super) fn get(of: Resource, namespace: &str, name: &str) -> Result<Object, Status> {
    wit::cluster::get(&raw(of), namespace, name)
}

pub(super) fn get_live(of: Resource, namespace: &str, name: &str) -> Result<Object, Status> {
    wit::cluster::get_live(&raw(of), namespace, name)
}

pub(super) fn list(
    of: Resource,
    namespace: &str,
    label_selector: &str,
    field_selector: &str,
) -> Result<Vec<Object>, Status> {
    wit::cluster::list(&raw(of), namespace, label_selector, field_selector)
}

pub(super) fn list_owned(
    of: Resource,
    namespace: &str,
    owner_uid: &str,
) -> Result<Vec<Object>, Status> {
    wit::cluster::list_owned(&raw(of), namespace, owner_uid)
}

pub(super) fn create(of: Resource, namespace: &str, object: &[u8]) -> Result<Object, Status> {
    wit::cluster::create(&raw(of), namespace, object)
}

pub(super) fn update(
    of: Resource,
    namespace: &str,
    name: &str,
    object: &[u8],
) -> Result<Object, Status> {
    wit::cluster::update(&raw(of), namespace, name, object)
}

pub(super) fn update_status(
    of: Resource,
    namespace: &str,
    name: &str,
    object: &[u8],
) -> Result<Object, Status> {
    wit::cluster::update_status(&raw(of), namespace, name, object)
}

pub(super) fn patch(
    of: Resource,
    namespace: &str,
    name: &str,
    subresource: &str,
    patch_type: PatchType,
    patch: &[u8],
) -> Result<Object, Status> {
    wit::cluster::patch(&raw(of), namespace, name, subresource, patch_type, patch)
}

pub(super) fn delete(
    of: Resource,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<(), Status> {
    wit::cluster::delete(&raw(of), namespace, name, options)
}

pub(super) fn delete_collection(
    of: Resource,
    namespace: &str,
    label_selector: &str,
    field_selector: &str,
    options: &DeleteOptions,
) -> Result<(), Status> {
    wit::cluster::delete_collection(&raw(of), namespace, label_selector, field_selector, options)
}

pub(super) fn create_subresource(
    of: Resource,
    namespace: &str,
    name: &str,
    subresource: &str,
    object: &[u8],
) -> Result<Object, Status> {
    wit::cluster::create_subresource(&raw(of), namespace, name, subresource, object)
}

pub(super) fn record_event(
    regarding: &EventSubject,
    event_type: &str,
    reason: &str,
    action: &str,
    note: &str,
) {
    wit::cluster::record_event(regarding, event_type, reason, action, note);
}

fn raw(of: Resource) -> RawResource {
    RawResource {
        group: of.group.to_owned(),
        version: of.version.to_owned(),
        resource: of.name.to_owned(),
    }
}
