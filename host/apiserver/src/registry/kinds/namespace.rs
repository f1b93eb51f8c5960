//! Namespaces. Source: <https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/>

use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus};
use pilothouse_api::{
    ResourceInfo, Status,
    apply::Scope,
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::{Value, json};

use super::{cells, describe, fill};
use crate::registry::{
    printing::Column,
    strategy::{Context, NameFormat, Strategy},
};

const FINALIZER: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const ACTIVE: &str = "Active";
const TERMINATING: &str = "Terminating";
/// Namespaces that the system needs.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) struct NamespaceStrategy;

impl Strategy for NamespaceStrategy {
    type Object = Namespace;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["ns"]),
            selectable_fields: describe::texts(&["status.phase"]),
            ..describe::cluster_scoped("", "v1", "namespaces", "Namespace")
        }
    }

    fn allow_delete_collection(&self) -> bool {
        false
    }

    fn default(&self, namespace: &mut Namespace) {
        label_with_name(namespace);
        let status = namespace.status.get_or_insert_default();
        fill::text(&mut status.phase, ACTIVE);
    }

    fn prepare_for_create(&self, _context: &Context, namespace: &mut Namespace) {
        label_with_name(namespace); // a generated name was not known when defaults were filled in
        namespace.status = Some(NamespaceStatus {
            phase: Some(ACTIVE.to_owned()),
            ..NamespaceStatus::default()
        });
        let spec = namespace.spec.get_or_insert_default();
        let finalizers = spec.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|f| f == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut Namespace, old: &Namespace) {
        new.spec = old.spec.clone();
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(&self) -> Option<fn(&mut Namespace, &Namespace)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn owned_scope(&self, subresource: &str) -> Option<Scope> {
        // the object itself keeps its finalizers, whatever is sent
        const MAIN: Scope = Scope::Without(&[&["status"], &["spec", "finalizers"]]);
        subresource.is_empty().then_some(MAIN)
    }

    fn prepare_for_finalize(&self) -> Option<fn(&mut Namespace, &Namespace)> {
        Some(|new, old| new.status = old.status.clone())
    }

    fn prepare_for_deletion(&self, namespace: &mut Namespace) {
        namespace.status.get_or_insert_default().phase = Some(TERMINATING.to_owned());
    }

    fn has_own_finalizers(&self, namespace: &Namespace) -> bool {
        !finalizers(namespace).is_empty()
    }

    fn validate(&self, namespace: &Namespace) -> ErrorList {
        let path = Path::new("spec").child("finalizers");
        validation::validate_finalizers(finalizers(namespace), &path)
    }

    fn validate_status_update(&self, new: &Namespace, _old: &Namespace) -> ErrorList {
        let path = Path::new("status").child("Phase");
        let phase = new.status.as_ref().and_then(|s| s.phase.as_deref());
        let phase = phase.unwrap_or_default();
        let (right, why) = match new.metadata.deletion_timestamp {
            None => (
                ACTIVE,
                "may only be 'Active' if `deletionTimestamp` is empty",
            ),
            Some(_) => (
                TERMINATING,
                "may only be 'Terminating' if `deletionTimestamp` is not empty",
            ),
        };
        match phase == right {
            true => ErrorList::new(),
            false => vec![FieldError::invalid(&path, phase, why)],
        }
    }

    fn name_format(&self) -> NameFormat {
        NameFormat::DnsLabel
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn validate_delete(&self, namespace: &Namespace) -> Result<(), Status> {
        let name = namespace.metadata.name.as_deref().unwrap_or_default();
        match IMMORTAL.contains(&name) {
            true => Err(Status::forbidden(
                &self.resource().group_resource(),
                name,
                "this namespace may not be deleted",
            )),
            false => Ok(()),
        }
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Status", "The status of the namespace"),
            Column::AGE,
        ]
    }

    fn row(&self, namespace: &Namespace, now: jiff::Timestamp) -> Vec<Value> {
        let phase = namespace.status.as_ref().and_then(|s| s.phase.as_deref());
        vec![
            json!(namespace.metadata.name),
            json!(phase.unwrap_or_default()),
            json!(cells::since(
                namespace.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

fn finalizers(namespace: &Namespace) -> &[String] {
    let spec = namespace.spec.as_ref();
    spec.and_then(|s| s.finalizers.as_deref())
        .unwrap_or_default()
}

fn label_with_name(namespace: &mut Namespace) {
    let metadata = &mut namespace.metadata;
    if let Some(name) = metadata.name.as_deref().filter(|name| !name.is_empty()) {
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(NAME_LABEL.to_owned(), name.to_owned());
    }
}

#[cfg(test)]
mod tests;
